#!/usr/bin/env python3
"""A debug run: says where it is and what it sees, and ends; with --fail, as one does that has a mistake in it."""

import argparse
import os
import sys
import time

SHOWN = ("RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT")


def natural(text: str) -> int:
    """A whole number, 1 or more."""
    return max(1, int(text))


def main() -> int:
    """Print, wait a little, end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=natural, default=5)
    parser.add_argument("--fail", action="store_true")
    options = parser.parse_args()
    print(f"user {os.getuid()} in {os.getcwd()} on {os.environ.get('ALLOTMENT_NODE', 'this machine')}")
    for name in SHOWN:
        print(f"{name}={os.environ.get(name, '')}", flush=True)
    time.sleep(options.seconds)
    if options.fail:
        print("IndexError: list index out of range", file=sys.stderr)
        return 1
    print("shapes agree", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
