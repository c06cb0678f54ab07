"""What the rules share: finding files, blanking comments and strings, and reporting."""

import re
import sys
from pathlib import Path

SOURCE_SUFFIXES = {".h", ".c", ".cc", ".cu", ".cuh", ".inc"}

# Order matters: a quote inside a comment is no string, and the other way round.
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def strip_code(text):
    """The text with comments and literals blanked, line numbers kept; #include lines survive."""

    def blank(match):
        token = match.group(0)
        line_start = text.rfind("\n", 0, match.start()) + 1
        before = text[line_start : match.start()]
        if token.startswith('"') and re.match(r"\s*#\s*include", before):
            return token
        return re.sub(r"[^\n]", " ", token)

    return _TOKEN.sub(blank, text)


def source_files(folder, suffixes=frozenset(SOURCE_SUFFIXES)):
    """Every source file below a folder, sorted; an absent folder has none. What npm fetched is not ours."""
    if not folder.is_dir():
        return []
    found = (p for p in folder.rglob("*") if p.suffix in suffixes and "node_modules" not in p.parts)
    return sorted(p for p in found if p.is_file())


def code_lines(path):
    """Pairs of (line number, line) of a file with comments and literals blanked."""
    return enumerate(strip_code(path.read_text(encoding="utf-8")).split("\n"), start=1)


def includes(path):
    """Triples (line number, included path, whether it is quoted)."""
    for number, line in code_lines(path):
        match = _INCLUDE.match(line)
        if match:
            yield number, match.group(2), match.group(1) == '"'


def read_rows(path):
    """The rows of cmake/PosencLayers.cmake as (group or "", layer, layers it uses directly)."""
    text = Path(path).read_text(encoding="utf-8")
    rows = re.search(r"set\(POSENC_LAYER_TABLE\s*(.*?)\)", text, re.DOTALL).group(1)
    return [(group, name, uses.split()) for group, name, uses in re.findall(r'"(?:(\w+)/)?(\w+):([^"]*)"', rows)]


def layer_folders(path):
    """{layer: its folder below the root}."""
    return {name: Path("src") / group / name for group, name, _ in read_rows(path)}


def read_table(path):
    """{layer: all that it may use}, which is what it uses directly and what those use, and the torch layers."""
    layers = {}
    for _, name, direct in read_rows(path):
        layers[name] = set(direct).union(*(layers[used] for used in direct))
    text = Path(path).read_text(encoding="utf-8")
    torch = re.search(r"set\(POSENC_TORCH_LAYERS\s+([^)]*)\)", text).group(1).split()
    return layers, set(torch)


def finish(rule, problems, checked):
    """Prints `file:line: what` for each problem and exits as the rule's verdict."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{rule}: {len(problems)} problem(s) in {checked} file(s)")
        sys.exit(1)
    print(f"{rule}: {checked} file(s) fine")
    sys.exit(0)
