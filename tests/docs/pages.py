"""The code blocks of the project's pages, and what the pages say about running them.

A comment on the lines directly above a block speaks for it:

    <!-- not run: REASON -->      the block is shown, not run
    <!-- file: NAME -->           the block is the content of a file that later blocks of the page use
    <!-- setup: SCRIPT -->        tests/docs/setup/SCRIPT runs first, in the folder of the page; in the same process
                                  where the block is Python

and a comment of several lines, wherever it stands, writes a file that the page does not show:

    <!-- file: NAME
    content
    -->
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

# Languages of blocks that must run, or say why not.
CODE = {"c", "cpp", "cmake", "console", "python", "bash", "sh"}

_BLOCK = re.compile(
    r"^<!-- file: (?P<hidden>\S+)\n(?P<content>.*?)^-->$"
    r"|(?P<notes>(?:^<!-- (?:not run|file|setup): [^\n]*-->\n)*)"
    r"^```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_NOTE = re.compile(r"<!-- (not run|file|setup): (.*?) -->")


@dataclass
class Block:
    page: str
    line: int  # of the first line of the body
    language: str  # `file` for a file that is not shown
    body: str
    notes: dict = field(default_factory=dict)

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def runs(self):
        return "not run" not in self.notes


def page_paths(root):
    """README, CONTRIBUTING and everything below docs."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def blocks_of(root, path):
    """The blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    page = str(path.relative_to(root))
    found = []
    for match in _BLOCK.finditer(text):
        part = "content" if match["hidden"] else "body"
        line = text.count("\n", 0, match.start(part)) + 1
        if match["hidden"]:
            found.append(Block(page, line, "file", match["content"], {"file": match["hidden"]}))
        else:
            notes = dict(_NOTE.findall(match["notes"]))
            found.append(Block(page, line, match["language"], match["body"], notes))
    return found


def prepare(block, folder, run_setup):
    """Writes the file that a block is, and runs the setup that it asks for."""
    if "setup" in block.notes:
        run_setup(Path(__file__).parent / "setup" / block.notes["setup"], folder)
    if "file" in block.notes:
        (folder / block.notes["file"]).write_text(block.body, encoding="utf-8")


def matches(shown, printed):
    """Whether text has the lines that a page shows: a line `...` stands for any number of lines,
    and `...` in a line for any characters.

    >>> matches("a\\n...\\nd\\n", "a\\nb\\nc\\nd\\n")
    True
    >>> matches("a\\n...\\nd\\n", "a\\nb\\nc\\n")
    False
    >>> matches("x = ... m\\n", "x = 3 m\\n")
    True
    >>> matches("a\\n", "a\\nb\\n")
    False
    """
    pattern = ""
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ ]*\n"
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None
