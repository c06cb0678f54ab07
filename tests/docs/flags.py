"""Every verb and option of posenc that a page writes down exists.

    flags.py --root SOURCE --posenc PROGRAM

Commands that are not run (indented lines, code within a sentence, blocks that say why) are compared with
the program's help, so that an option that was renamed does not live on in a page.
"""

import argparse
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from pages import page_paths

# A command up to its end: of the line, of the code span, or a comment after two spaces.
_COMMAND = re.compile(r"(?:^ {4,}|`|^\$ |\| |&& )(?P<command>posenc [a-z][^`\n]*?)(?=`|  |$|\|)", re.MULTILINE)
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*|(?<![\w-])-[a-z](?![\w-])")


@lru_cache(maxsize=None)
def help_of(program, *verbs):
    """What `posenc VERB --help` prints, or None where there is no such verb."""
    done = subprocess.run([program, *verbs, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def problem(program, command):
    """What is wrong with a command, or None."""
    verb, *rest = command.split()[1:]
    verbs = [verb.rstrip(",.:;")]
    said = help_of(program, *verbs)
    if said is None:
        return f"posenc has no verb {verb}"
    while rest and rest[0][0] != "-" and "\nSubcommands:" in said and re.search(rf"^  {re.escape(rest[0])} ", said, re.MULTILINE):
        verbs.append(rest.pop(0))
        said = help_of(program, *verbs)
    unquoted = re.sub(r'"[^"]*"|\'[^\']*\'', "", command)
    missing = [flag for flag in _FLAG.findall(unquoted) if not re.search(rf"(?<![\w-]){flag}(?![\w-])", said)]
    return f"posenc {verb} has no option {', '.join(missing)}" if missing else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--posenc", required=True)
    args = parser.parse_args()
    count, problems = 0, []
    for path in page_paths(args.root):
        text = path.read_text(encoding="utf-8")
        for match in _COMMAND.finditer(text):
            count += 1
            wrong = problem(args.posenc, match["command"])
            if wrong:
                line = text.count("\n", 0, match.start("command")) + 1
                problems.append(f"{path.relative_to(args.root)}:{line}: {match['command']}: {wrong}")
    print("\n".join(problems + [f"flags: {count} commands, {len(problems)} problem(s)"]))
    sys.exit(1 if problems or not count else 0)


if __name__ == "__main__":
    main()
