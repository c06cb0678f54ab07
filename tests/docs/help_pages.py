"""The help of every verb: an example, whose options exist, in lines of at most 80 columns; summaries are imperative.

    help_pages.py --posenc PROGRAM
"""

import argparse
import re
import sys

from flags import help_of, problem

WIDTH = 80
# An example may go on behind a backslash.
_EXAMPLE = re.compile(r"^ +(?:\S+=\S+ )*(posenc [a-z].*(?:\\\n.*)*)", re.MULTILINE)
_VERB = re.compile(r"^  ([a-z]+) +(\S+)", re.MULTILINE)


def verbs_of(help_text):
    """(name, first word of the summary) of the verbs that a help lists."""
    _, _, listed = help_text.partition("\nSubcommands:\n")
    return _VERB.findall(listed.split("\n\n")[0])


def check(program, verbs):
    """(verbs looked at, problems) of a help and those below it."""
    name = " ".join(("posenc", *verbs))
    text = help_of(program, *verbs)
    if text is None:
        return 1, [f"{name} --help fails"]
    count = 1
    problems = [f"{name}: wider than {WIDTH}: {line}" for line in text.splitlines() if len(line) > WIDTH]
    shown = text.partition("\nExample")[2]
    examples = [re.sub(r"\\\n\s*", "", example).split(" | ")[0] for example in _EXAMPLE.findall(shown)]
    if name not in shown:
        problems.append(f"{name}: no example")
    for example in examples:
        wrong = problem(program, example)
        if wrong:
            problems.append(f"{name}: {example}: {wrong}")
    for verb, first in verbs_of(text):
        if not first[0].isupper() or first.endswith("s"):
            problems.append(f"{name} {verb}: the summary is not imperative: {first}")
        below, wrong = check(program, (*verbs, verb)) if verb != "help" else (0, [])
        count += below
        problems += wrong
    return count, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posenc", required=True)
    count, problems = check(parser.parse_args().posenc, ())
    print("\n".join(problems + [f"help: {count} verbs, {len(problems)} problem(s)"]))
    sys.exit(1 if problems or count < 20 else 0)


if __name__ == "__main__":
    main()
