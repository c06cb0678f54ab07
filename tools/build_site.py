#!/usr/bin/env python3
"""Builds the documentation as a site that reads offline: tools/build_site.py --posenc PROGRAM --python FOLDER [--out FOLDER]

Pages of docs/ by Sphinx, the API of C++ and C by doxygen and breathe, of Python by autodoc (from FOLDER, where the
built package is), a sample report, and the explorer where build/web/dist has it. Warnings are errors, and so are
links that lead nowhere.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
# What pages link to. Other folders of the tree are not part of the site.
STAGED = ["docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "packaging", "configs", "examples", "include", "src"]
# The explorer links its documentation where the root of its page says where that is.
DOCS_OF_EXPLORER = 'data-docs=""'
SAMPLE_RUNS = "docs/evidence/copy-small/main"
LAYERS = {"core": "core", "encodings": "encodings", "kernels": "kernels", "reference": "kernels/ref",
          "weights": "weights", "torch": "torch"}
TITLES = {"core": "Core", "encodings": "Encodings and specs", "kernels": "Kernels", "reference": "Reference kernels",
          "weights": "Checkpoints", "torch": "PyTorch operators and modules"}
SECTIONS = "detaileddescription define typedef enum func var"


def header_pages(xml):
    """Doxygen's page of each header, by its path, with the functions, enums and constants of its namespaces added:
    Doxygen keeps those on the page of the namespace, which breathe would show once for each header."""
    pages = {tree.find("*/location").get("file"): tree for tree in map(ElementTree.parse, sorted(xml.glob("*_8h.xml")))}
    for path in sorted(xml.glob("namespace*.xml")):
        namespace = ElementTree.parse(path).find("compounddef")
        for section in namespace.findall("sectiondef"):
            for member in section.findall("memberdef"):
                name = member.find("name")
                name.text = f"{namespace.findtext('compoundname')}::{name.text}"
                compound = pages[member.find("location").get("file")].find("compounddef")
                own = compound.find(f"sectiondef[@kind='{section.get('kind')}']")
                if own is None:
                    own = ElementTree.SubElement(compound, "sectiondef", kind=section.get("kind"))
                own.append(member)
    return pages


def types_of(page):
    """The classes and structs of a header outside others, as pairs of kind and name."""
    inner = page.findall("compounddef/innerclass")
    types = {ref.text: re.match("class|struct|union", ref.get("refid"))[0] for ref in inner}
    return [(kind, name) for name, kind in types.items() if name.rpartition("::")[0] not in types]


def layer_page(layer, pages):
    """The page of a layer: every public header in its folder."""
    lines = [f"# C++: {TITLES[layer]}", ""]
    for path, page in pages.items():
        if Path(path).parent == Path("posenc") / LAYERS[layer]:
            lines += [f"## {path}", "", f":::{{doxygenfile}} {path}", f":sections: {SECTIONS}", ":::", ""]
            for kind, name in types_of(page):
                lines += [f":::{{doxygen{kind}}} {name}", ":::", ""]
    return "\n".join(lines)


def stage(work):
    """Links the sources into one folder, next to the pages that are made here."""
    source = work / "source"
    shutil.rmtree(source, ignore_errors=True)
    (source / "api").mkdir(parents=True)
    for name in STAGED:
        (source / name).symlink_to(ROOT / name)
    (source / "index.md").symlink_to(ROOT / "docs/site/index.md")
    for page in (ROOT / "docs/site/api").glob("*.md"):
        (source / "api" / page.name).symlink_to(page)
    xml = work / "doxygen/xml"
    pages = header_pages(xml)
    for page in pages.values():
        page.write(xml / f"{page.find('compounddef').get('id')}.xml", encoding="utf-8")
    for layer in LAYERS:
        (source / "api" / f"cpp_{layer}.md").write_text(layer_page(layer, pages), encoding="utf-8")
    return source


class Links(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.add(value)


def broken_links(site):
    """(links checked, those inside the site that lead nowhere).

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> site = Path(folder.name)
    >>> _ = (site / "a.html").write_text('<a id="x" href="b.html#y">b</a> <a href="#x">a</a> <a href="c.html">c</a>')
    >>> _ = (site / "b.html").write_text('<img src="a.html#x"><a href="https://example.org/none">web</a>')
    >>> broken_links(site)
    (4, ['a.html: b.html#y: no such anchor', 'a.html: c.html: no such file'])
    """
    pages = {path: Links(path) for path in site.rglob("*.html") if "explorer" not in path.relative_to(site).parts}
    count, problems = 0, []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                problems.append(f"{path.relative_to(site)}: {link}: no such file")
            elif anchor and target in pages and anchor not in pages[target].ids:
                problems.append(f"{path.relative_to(site)}: {link}: no such anchor")
    return count, problems


def add_explorer(explorer, site):
    """Copies the explorer next to the pages and tells it where they are.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> explorer, site = Path(folder.name) / "dist", Path(folder.name) / "site"
    >>> explorer.mkdir(), site.mkdir()
    (None, None)
    >>> _ = (explorer / "index.html").write_text('<html lang="en" data-docs="">')
    >>> add_explorer(explorer, site)
    >>> (site / "explorer/index.html").read_text()
    '<html lang="en" data-docs="../docs/">'
    >>> _ = (explorer / "index.html").write_text('<html lang="en">')
    >>> add_explorer(explorer, site)
    Traceback (most recent call last):
    SystemExit: site: the explorer's index.html has no data-docs=""
    """
    shutil.copytree(explorer, site / "explorer", dirs_exist_ok=True)
    page = site / "explorer/index.html"
    text = page.read_text(encoding="utf-8")
    if DOCS_OF_EXPLORER not in text:
        sys.exit(f"site: the explorer's index.html has no {DOCS_OF_EXPLORER}")
    page.write_text(text.replace(DOCS_OF_EXPLORER, 'data-docs="../docs/"'), encoding="utf-8")


def explorer_links(site):
    """Pages that the explorer links (web/src/page_links.ts) and the site does not have."""
    names = [page.stem for page in (ROOT / "docs/encodings").glob("*.md") if page.stem != "README"]
    wanted = [site / "docs/README.html", *(site / f"docs/encodings/{name}.html" for name in sorted(names))]
    return [f"explorer: {page.relative_to(site)}: no such file" for page in wanted if not page.exists()]


def run(command, **options):
    """Runs a command; what it printed is shown if it failed."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"site: {command[0]} failed\n{done.stdout}")


def require_tools():
    missing = [tool for tool in ("sphinx-build", "doxygen") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"site: {', '.join(missing)} not found; install the packages with: tools/setup.sh site")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posenc", type=Path, required=True, help="the program, for the sample report")
    parser.add_argument("--python", type=Path, required=True, help="the folder with the built Python package")
    parser.add_argument("--out", type=Path, default=ROOT / "build/site")
    args = parser.parse_args()
    require_tools()
    site = args.out.resolve()
    work = site.with_name(site.name + "-work")
    work.mkdir(parents=True, exist_ok=True)
    explorer = ROOT / "build/web/dist"
    environment = dict(os.environ, POSENC_SITE_WORK=str(work), POSENC_SITE_PYTHON=str(args.python.resolve()))

    shutil.rmtree(work / "doxygen", ignore_errors=True)
    run(["doxygen", "docs/site/Doxyfile"], env=environment)
    source = stage(work)
    shutil.rmtree(site, ignore_errors=True)
    tags = ["-t", "explorer"] if explorer.is_dir() else []
    run(["sphinx-build", "-q", "-E", "-W", "--keep-going", "-c", "docs/site", "-d", work / "doctrees", *tags, source, site],
        env=environment)
    if explorer.is_dir():
        add_explorer(explorer, site)
    run([args.posenc.resolve(), "report", SAMPLE_RUNS, "-o", site / "report.html"])
    count, problems = broken_links(site)
    problems += explorer_links(site)
    print("\n".join(problems + [f"site: {site / 'index.html'}: {count} links, {len(problems)} broken"]))
    sys.exit(1 if problems or not count else 0)


if __name__ == "__main__":
    main()
