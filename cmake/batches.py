"""Which sources of a target are compiled together: writes the units, prints `unit source` for PosencCompiler.cmake.

    batches.py SIZE PREFIX ROOT SOURCE...      units PREFIX_batch_0.cc, ...; sources are below ROOT/src or ROOT/tests

Files that define a helper of the same name fit into one unit if the helper can be renamed there: it gets a number.
"""

import collections
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
_CONDITIONAL = re.compile(r"^#if[\s\S]*^#include", re.MULTILINE)  # headers that are not there everywhere
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


def can_be_renamed(name, text):
    """Whether a macro may replace a helper's name: no member, test or macro has it, headers come before.

    >>> can_be_renamed("add", "add(x)"), can_be_renamed("add", "x.add(1)"), can_be_renamed("Add", "TEST(Add, Two)")
    (True, False, False)
    """
    other = rf"(?:::|\.|->){name}\b|\bTEST\w*\([^)]*\b{name}\b|#define {name}\b"
    return name != "main" and not _CONDITIONAL.search(text) and not re.search(other, text)


def batches(sources, size):
    """Lists of sources; each source goes to the first batch with room where its names mean the same.

    >>> code = "namespace {\\nint %s() {\\n}\\n}  // namespace\\nx.f();"
    >>> a, b, c = ("a.cc", code % "f"), ("b.cc", code % "f"), ("c.cc", code % "g")
    >>> batches([a, b, c], 8)
    [['a.cc', 'c.cc']]
    """
    found = []
    for source, text in sources:
        if _ALONE.search(text):
            continue
        names = {n: meaning for n, meaning in helpers(source, text).items() if not can_be_renamed(n, text)}
        for members, taken in found:
            if len(members) < size and all(taken.get(n, meaning) == meaning for n, meaning in names.items()):
                members.append(source)
                taken |= names
                break
        else:
            found.append(([source], names))
    return [members for members, _ in found if len(members) > 1]


def unit_text(sources, shown=str):
    """Sources as one unit: all their headers, then each with names of its own for what others define, too.

    >>> text = '#include "h"\\nnamespace {\\nconstexpr int kX = 1;\\n}  // namespace\\n'
    >>> print(unit_text([("a.cc", text), ("b.cc", text)]), end="")
    #include "h"
    #define kX kX0  // NOLINT
    #include "a.cc"
    #undef kX
    #define kX kX1  // NOLINT
    #include "b.cc"
    #undef kX
    """
    found = [helpers(source, text) for source, text in sources]
    counts = collections.Counter(name for names in found for name in names)  # a local constant may shadow another's
    names = [[n for n, meaning in names.items() if meaning == source and can_be_renamed(n, text)]
             for (source, text), names in zip(sources, found)]
    plain = [text.split("\nnamespace ")[0] for _, text in sources if not _CONDITIONAL.search(text)]
    lines = [f"{h}\n" for h in dict.fromkeys(h for t in plain for h in re.findall(r"^#include .*$", t, re.MULTILINE))]
    for number, ((source, _), own) in enumerate(zip(sources, names)):
        shared = [name for name in own if counts[name] > 1]
        lines += [f"#define {name} {name}{number}  // NOLINT\n" for name in shared]
        lines += [f'#include "{shown(source)}"\n', *(f"#undef {name}\n" for name in shared)]
    return "".join(lines)


def main():
    size, prefix, root = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    texts = {source: Path(source).read_text(encoding="utf-8") for source in sys.argv[4:]}

    # As the include folders see it: a second clone then finds what the first one compiled.
    def shown(source):
        return Path(*Path(source).relative_to(root).parts[1:])

    for number, members in enumerate(batches(texts.items(), size)):
        unit = Path(f"{prefix}_batch_{number}.cc")
        text = unit_text([(source, texts[source]) for source in members], shown)
        if not unit.exists() or unit.read_text(encoding="utf-8") != text:
            unit.write_text(text, encoding="utf-8")
        print("\n".join(f"{unit} {source}" for source in members))


if __name__ == "__main__":
    main()
