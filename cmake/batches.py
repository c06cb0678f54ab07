"""Which sources of a target are compiled together: prints `batch source` lines for PosencCompiler.cmake.

    batches.py SIZE SOURCE...

Files that define a helper of the same name do not fit into one unit, so they go to different batches.
"""

import re
import sys
from pathlib import Path

_ANONYMOUS = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
# Definitions at the left margin; a name too many only keeps two files apart.
_DEFINITIONS = re.compile(
    r"^(?:(?:struct|class|union|enum class|enum|concept)\s+(?P<type>\w+)|using\s+(?P<alias>\w+) ="
    r"|#define\s+(?P<macro>\w+)"
    r"|(?!TEST|INSTANTIATE|namespace|template|using)[A-Za-z\[][^;=(]*?[\s*&](?P<function>\w+)\("
    r"|(?!namespace|using)[A-Za-z][^(=;{]*?[\s*&](?P<variable>\w+)(?:\[\w*\])?\s*(?:=|\{|;))",
    re.MULTILINE,
)
_ENUMERATORS = re.compile(r"^enum (?!class)[^{;]*\{([^}]*)\}", re.MULTILINE)
_LOCAL_CONSTANTS = re.compile(r"^ +(?:static )?const(?:expr)? [^=(;{]*\b(k[A-Z]\w*)", re.MULTILINE)  # may shadow
_USING = re.compile(r"^using ((?:\w+::)+(\w+));", re.MULTILINE)
_MAIN = re.compile(r"^int main\(", re.MULTILINE)
# Such files are compiled once per target of Highway, by including themselves.
_ALONE = re.compile(r"foreach_target\.h|^#undef HWY_TARGET_INCLUDE", re.MULTILINE)


def helpers(source, text):
    """Names that a source has for itself, each with what it means; two files may share an equal meaning.

    >>> code = "constexpr int kA = 1;\\nstruct B {\\n};\\nint c(int x) {\\n  d();\\n}\\nusing E = int;\\n"
    >>> code += "enum F { kG, kH = 2 };\\nusing other::I;\\n"
    >>> found = helpers("x.cc", "int f() {}\\nnamespace {\\n" + code + "}  // namespace\\nint g() {}\\n")
    >>> sorted(found), found["c"], found["I"]
    (['B', 'E', 'F', 'I', 'c', 'kA', 'kG', 'kH'], 'x.cc', 'other::I')
    """
    own = "\n".join(_ANONYMOUS.findall(text) + _MAIN.findall(text))
    names = {m[m.lastgroup]: source for m in _DEFINITIONS.finditer(own)}
    for listed in _ENUMERATORS.findall(own):
        names |= {name: source for name in re.findall(r"(?:^|,)\s*(\w+)", listed)}
    inside = {name: "a constant of a function" for name in _LOCAL_CONSTANTS.findall(text)}
    return inside | {name: meaning for meaning, name in _USING.findall(own)} | names


def batches(sources, size, ignored=lambda name, text: False):
    """Lists of sources; each source goes to the first batch with room where its names mean the same.

    >>> a, b, c = (("%s.cc" % n, "namespace {\\nint %s() {\\n}\\n}  // namespace\\n" % f) for n, f in ("af", "bf", "cg"))
    >>> batches([a, b, c], 8)
    [['a.cc', 'c.cc']]
    """
    found = []
    for source, text in sources:
        if _ALONE.search(text):
            continue
        names = {n: meaning for n, meaning in helpers(source, text).items() if not ignored(n, text)}
        for members, taken in found:
            if len(members) < size and all(taken.get(n, meaning) == meaning for n, meaning in names.items()):
                members.append(source)
                taken |= names
                break
        else:
            found.append(([source], names))
    return [members for members, _ in found if len(members) > 1]


def main():
    size, sources = int(sys.argv[1]), sys.argv[2:]
    texts = [(source, Path(source).read_text(encoding="utf-8")) for source in sources]
    for number, members in enumerate(batches(texts, size)):
        for source in members:
            print(number, source)


if __name__ == "__main__":
    main()
