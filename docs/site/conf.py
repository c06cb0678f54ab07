"""Sphinx: the pages of docs/ and the API of C++, C and Python as a site that reads offline. See tools/build_site.py."""

import os
import re
import sys
from pathlib import Path

_BUILD = Path(os.environ["POSENC_SITE_WORK"])
sys.path.insert(0, os.environ["POSENC_SITE_PYTHON"])

project = "posenc"
author = "the posenc contributors"
html_title = "posenc"
root_doc = "index"
language = "en"

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
include_patterns = ["index.md", "api/*.md", "docs/**", "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
                    "packaging/README.md"]
exclude_patterns = ["docs/site"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
highlight_language = "none"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

breathe_projects = {"posenc": str(_BUILD / "doxygen/xml")}
breathe_default_project = "posenc"
breathe_domain_by_file_pattern = {"*/posenc_c.h": "c"}
breathe_default_members = ("members", "undoc-members")

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["posenc.css"]
html_copy_source = False
html_show_copyright = False
# Excerpts are fetched page by page, which browsers refuse for pages opened from disk.
html_show_search_summary = False
html_theme_options = {"navigation_with_keys": True}

_LINK = re.compile(r"\[([^\[\]]*)\]\(((?:\.\./)*[\w./-]+)\)")


def _link_to_pages(app, docname, source):
    """GitHub shows a folder that is linked; here it is the folder's page, or no link."""
    folder = (Path(app.srcdir) / docname).parent

    def page(link):
        target = folder / link[2]
        if not target.is_dir():
            return link[0]
        return f"[{link[1]}]({link[2].rstrip('/')}/README.md)" if (target / "README.md").is_file() else link[1]

    source[0] = _LINK.sub(page, source[0])
    if re.fullmatch(r"docs/\w+/README", docname):
        source[0] += "\n:::{toctree}\n:hidden:\n:glob:\n\n*\n:::\n"


def _escape_bars(app, what, name, object_, options, lines):
    """In docstrings |i - j| is an absolute value, not a substitution."""
    lines[:] = [line.replace("|", "\\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("source-read", _link_to_pages)
