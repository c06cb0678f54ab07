"""The site that `make site` builds has every page, and every link of a page leads to a file that the site has.

Sphinx treats these mistakes as errors, but CI does not have it: this reads the pages with the standard library alone.
"""

import argparse
import ast
import importlib.util
import os
import re
from pathlib import Path

from rules_lib import finish

_FENCED = re.compile(r"^(```|:::).*?^\1\s*$|`[^`\n]*`|<!--.*?-->", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!\\)\]\(([^()\s]+)\)")
_TOCTREE = re.compile(r"^:::\{toctree\}\n(.*?)^:::$", re.DOTALL | re.MULTILINE)


def site_script(root):
    """tools/build_site.py as a module; it needs no package to be imported."""
    spec = importlib.util.spec_from_file_location("build_site", root / "tools/build_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def setting(root, name):
    """A list in docs/site/conf.py."""
    tree = ast.parse((root / "docs/site/conf.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise SystemExit(f"docs/site/conf.py sets no {name}")


def sources(root, layers):
    """{page of the site without suffix: its file in the tree}; pages that the script writes have none."""
    pages = {"index": root / "docs/site/index.md"}
    pages |= {f"api/{page.stem}": page for page in (root / "docs/site/api").glob("*.md")}
    pages |= {f"api/cpp_{layer}": None for layer in layers}
    for pattern in setting(root, "include_patterns"):
        for page in root.glob(pattern.replace("**", "**/*.md")):
            if not page.is_relative_to(root / "docs/site"):
                pages[str(page.relative_to(root).with_suffix(""))] = page
    return pages


def toctree_entries(text):
    """What the toctrees of a page name, patterns among them."""
    lines = [line.strip() for body in _TOCTREE.findall(text) for line in body.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def matching(pages, entry):
    pattern = re.escape(entry).replace(r"\*", "[^/]*").replace(r"\[", "[").replace(r"\]", "]")
    return {page for page in pages if re.fullmatch(pattern, page)}


def check_toctrees(root, pages):
    """Every page is in a toctree. A README below docs has one of its folder's pages (docs/site/conf.py)."""
    reached = {"index"}
    for page, path in pages.items():
        if path is None:
            continue
        if re.fullmatch(r"docs/\w+/README", page):
            reached |= matching(pages, page.replace("README", "*"))
        for entry in toctree_entries(path.read_text(encoding="utf-8")):
            found = matching(pages, entry) or matching(pages, f"{page.rpartition('/')[0]}/{entry}")
            if not found:
                yield f"{path.relative_to(root)}:1: the toctree names {entry}, which is no page"
            reached |= found
    for page in sorted(set(pages) - reached):
        yield f"{page}.md:1: is in no toctree; add it to docs/site/index.md"


def slugs(text):
    """The anchors of a page's headings, as GitHub and myst make them."""
    found = []
    for heading in re.findall(r"^#{1,4} +(.*?)\s*$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.M), re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def links(path):
    """(line, target) of the links of a page to files and headings."""
    text = path.read_text(encoding="utf-8")
    shown = _FENCED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in _LINK.finditer(shown):
        if not re.match(r"[a-z]+:", match[1]):
            yield text.count("\n", 0, match.start()) + 1, match[1]


def check_links(root, path, pages, staged):
    for line, link in links(path):
        name, _, anchor = link.partition("#")
        page = path if not name else root / name[1:] if name.startswith("/") else path.parent / name
        target = Path(os.path.normpath(page))
        where = f"{path.relative_to(root)}:{line}"
        relative = str(target.relative_to(root)) if target.is_relative_to(root) else link
        if relative.removesuffix(".md") in pages:
            if anchor and pages[relative.removesuffix(".md")] and anchor not in slugs(target.read_text(encoding="utf-8")):
                yield f"{where}: {link}: no such heading"
        elif not target.exists():
            yield f"{where}: {link}: no such file"
        elif target != path and not any(target == root / name or target.is_relative_to(root / name) for name in staged):
            yield f"{where}: {link}: not in STAGED of tools/build_site.py, so the site does not have it"


def check_index(root):
    """docs/README.md calls itself the list of all pages."""
    index = root / "docs/README.md"
    listed = {os.path.normpath(index.parent / link.partition("#")[0]) for _, link in links(index)}
    for page in sorted([*root.glob("docs/*.md"), *root.glob("docs/tutorials/*.md")]):
        if page.name != "README.md" and str(page) not in listed:
            yield f"{page.relative_to(root)}:1: docs/README.md, which lists all pages, does not link it"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    root = parser.parse_args().root.resolve()
    script = site_script(root)
    pages = sources(root, script.LAYERS)
    problems = [*check_toctrees(root, pages), *check_index(root)]
    for path in filter(None, pages.values()):
        problems += check_links(root, path, pages, script.STAGED)
    explorer = (root / "web/src/index.html").read_text(encoding="utf-8")
    if explorer.count(script.DOCS_OF_EXPLORER) != 1:
        problems.append(f"web/src/index.html:1: must have {script.DOCS_OF_EXPLORER} once: the site sets it")
    finish("site", sorted(problems), len(pages))


if __name__ == "__main__":
    main()
