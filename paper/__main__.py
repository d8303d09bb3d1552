"""``python -m paper table1``: reproduce a table or a figure of the paper, next to the published values."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from paper.replications import DEFAULT_OUT, Options


def main() -> int:
    """Parse the options, run, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument("experiment", choices=["table1", "table2", "figure1", "figure2", "figure3"])
    parser.add_argument("--replications", type=int, help="how many (users for table2); default: as the paper")
    parser.add_argument("--jobs", type=int, help="processes (threads for table2); default: all cores")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="output folder; also to resume a run")
    parser.add_argument("--quick", action="store_true", help="run a smaller version, in under a minute")
    parser.add_argument("--movielens", type=Path, help="folder of ml-25m for table2; default: a stand-in")
    parser.add_argument("--write", type=Path, help="Markdown file in which the marked part is replaced")
    given = vars(parser.parse_args())
    name, write = given.pop("experiment"), given.pop("write")
    try:
        result = import_module(f"paper.{name}").reproduce(Options(**given))
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(result.markdown)
    if write is not None:
        write_between(write, f"<!-- {name}: written by python -m paper -->", result.markdown)
    print("Files written:", *result.files, sep="\n  ", file=sys.stderr)
    return 0


def write_between(path: Path, marker: str, markdown: str) -> None:
    """Replace what is between the two markers of a file by a report without its title."""
    before, _, after = path.read_text("utf-8").split(marker)
    report = markdown.partition("\n")[2].strip()
    path.write_text(f"{before}{marker}\n\n{report}\n\n{marker}{after}", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
