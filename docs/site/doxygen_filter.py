"""Makes the plain comments of a header comments of Doxygen: doxygen_filter.py HEADER

A comment before a declaration becomes `///`, one after code on its line `///<`. Comments that are laid out by
hand (formulas, tables) keep their layout.

>>> print(converted("// Of the file.\\n\\nint a;  // first\\n        // and more\\n// Of b.\\nint b;"), end="")
/** @file
@verbatim
Of the file.
@endverbatim */
<BLANKLINE>
int a;  ///< first
        ///< and more
/// Of b.
int b;
>>> print(converted("int a;\\n\\n// SPDX-License-Identifier: MIT\\n").strip())
int a;
"""

import re
import sys

_LICENCE = "// SPDX-License-Identifier:"  # the last line of a header, which describes no declaration
_TRAILING = re.compile(r"^(?P<code>.*\S\s+)// (?P<text>.*)$")
_COMMENT = re.compile(r"^(?P<indent>\s*)//(?: (?P<text>.*))?$")


def escaped(text):
    """Text in which Doxygen sees neither commands nor HTML."""
    return re.sub(r"([\\@<>#&$%\"])", r"\\\1", text)


def of_lines(block, of_file):
    """A run of comment lines as a comment of Doxygen."""
    indent, lines = block[0]["indent"], [match["text"] or "" for match in block]
    if of_file or any(line.startswith("  ") for line in lines):
        head = "/** @file\n" if of_file else f"{indent}/**\n"
        return [head + "@verbatim\n" + "\n".join(lines) + "\n@endverbatim */"]
    return [f"{indent}/// {escaped(line)}" for line in lines]


def converted(text):
    done, block, column = [], [], None
    for line in [*text.split("\n"), ""]:
        if line.startswith(_LICENCE):
            continue
        comment, trailing = _COMMENT.match(line), _TRAILING.match(line)
        if comment and column == len(comment["indent"]):
            done.append(f"{comment['indent']}///< {escaped(comment['text'] or '')}")
            continue
        if comment:
            block.append(comment)
            continue
        if block:
            done += of_lines(block, of_file=not done)
            block = []
        column = len(trailing["code"]) if trailing and "//" not in trailing["code"] else None
        done.append(f"{trailing['code']}///< {escaped(trailing['text'])}" if column else line)
    return "\n".join(done)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        sys.stdout.write(converted(header.read()))
