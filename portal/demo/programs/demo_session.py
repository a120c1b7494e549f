#!/usr/bin/env python3
"""An interactive session that waits for somebody: keeps its cells, saves them when told to stop, and restores them."""

import argparse
import json
import os
import signal
import sys
import time

SAVED = "session.json"
LOOK_EVERY_S = 0.5


def natural(text: str) -> int:
    """A whole number, 1 or more."""
    return max(1, int(text))


def restore() -> list[str]:
    """The cells of the session before; none at the first start."""
    try:
        with open(SAVED, encoding="utf-8") as file:
            return [str(cell) for cell in json.load(file)]
    except (OSError, ValueError, TypeError):
        return []


def main() -> int:
    """Wait; a cell is run now and then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=natural, default=60)
    parser.add_argument("--cell-s", type=natural, default=30)
    options = parser.parse_args()
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    cells = restore()
    print(f"session {'restored with' if cells else 'ready,'} {len(cells)} cells", flush=True)
    ends = time.monotonic() + options.minutes * 60
    while not told and time.monotonic() < ends:
        cell_ends = time.monotonic() + options.cell_s
        while not told and time.monotonic() < cell_ends:
            time.sleep(LOOK_EVERY_S)
        if not told:
            cells.append(f"cell {len(cells) + 1}")
            print(f"[{len(cells)}] ran", flush=True)
    with open(SAVED + ".new", "w", encoding="utf-8") as file:
        json.dump(cells[-1_000:], file)
    os.replace(SAVED + ".new", SAVED)
    print(f"session saved with {len(cells)} cells", flush=True)
    return 128 + told[0] if told else 0


if __name__ == "__main__":
    sys.exit(main())
