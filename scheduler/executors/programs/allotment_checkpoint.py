#!/usr/bin/env python3
"""Say that a checkpoint has been written, and perhaps in how many seconds the next one will be."""

import argparse
import json
import os
import sys


def main() -> int:
    """Write the note that the rank's minder reads."""
    parser = argparse.ArgumentParser(prog="allotment-checkpoint", description=__doc__)
    parser.add_argument("--next-in", type=float, metavar="SECONDS")
    options = parser.parse_args()
    directory = os.environ.get("ALLOTMENT_DIRECTORY")
    if not directory:
        print("allotment-checkpoint: is for workloads: ALLOTMENT_DIRECTORY is not set", file=sys.stderr)
        return 2
    note = os.path.join(directory, ".allotment-checkpoint")
    with open(f"{note}.{os.getpid()}", "w", encoding="utf-8") as file:
        json.dump({} if options.next_in is None else {"next_in_s": options.next_in}, file)
    os.replace(file.name, note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
