"""Measures everything in this package and keeps the tables in docs/benchmarks.md.

    python -m benchmarks                    all of them, one after the other
    python -m benchmarks --only NAME        one; the tables of the others stay as they are
    python -m benchmarks --list             their names

Each benchmark runs in a process of its own. One that fails, or whose data is not here, is said so loudly and keeps its
old table; the exit status is then 1 or, where nothing but data was missing, 0. A name that is not one is status 2.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import Missing, Row
from benchmarks.machine import described
from benchmarks.table import as_section, as_text, with_section

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "benchmarks.md"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure how fast it is.")
    parser.add_argument("--only", metavar="NAME", help="one benchmark")
    parser.add_argument("--list", action="store_true", help="print their names")
    parser.add_argument("--rows", metavar="NAME", help="measure one in this process and print its rows as JSON")
    arguments = parser.parse_args(argv)
    names = found()
    for name in filter(None, (arguments.only, arguments.rows)):
        if name not in names:
            print(f"benchmarks: there is no {name!r}; there are {', '.join(names)}", file=sys.stderr)
            return 2
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.rows:
        return print_rows(arguments.rows)
    results = [run(name) for name in ([arguments.only] if arguments.only else names)]
    return max(results)


def found() -> list[str]:
    """The benchmarks: modules of this package with a function `measure`. They are not imported for this."""
    modules = sorted(HERE.glob("*.py"))
    return [each.stem for each in modules if "\ndef measure(" in each.read_text(encoding="utf-8")]


def print_rows(name: str) -> int:
    """Measure in this process."""
    try:
        said: object = importlib.import_module(f"benchmarks.{name}").measure()
    except Missing as missing:
        said = {"missing": str(missing)}
    print(json.dumps(said))
    return 0


def run(name: str) -> int:
    """Measure one in a process of its own, print its table and keep it. 0 if it ran, or could not for want of data."""
    print(f"== {name}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--rows", name], check=False, cwd=HERE.parent, stdout=subprocess.PIPE
    )
    if done.returncode:
        print(f"*** {name} FAILED with status {done.returncode}: see above ***\n", file=sys.stderr)
        return 1
    said = json.loads(done.stdout.splitlines()[-1])
    if isinstance(said, dict):
        print(f"*** {name} SKIPPED: {said['missing']} ***\n", file=sys.stderr)
        return 0
    rows = [Row(*each) for each in said]
    print(as_text(rows), flush=True)
    DOCUMENT.write_text(
        with_section(DOCUMENT.read_text(encoding="utf-8"), name, as_section(name, rows, described())), encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
