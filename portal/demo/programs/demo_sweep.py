#!/usr/bin/env python3
"""One task of a CPU sweep: counts primes in its part of the numbers, with a rest after each piece of work."""

import argparse
import os
import sys
import time

WORK_S = 0.01


def natural(text: str) -> int:
    """A whole number, 1 or more."""
    return max(1, int(text))


def is_prime(number: int) -> bool:
    """By trial division."""
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def main() -> int:
    """Count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pieces", type=natural, default=60)
    parser.add_argument("--rest-ms", type=natural, default=990)
    options = parser.parse_args()
    task = int(os.environ.get("ALLOTMENT_ARRAY_INDEX", "0"))
    number, found = task * 10_000_000, 0
    for piece in range(1, options.pieces + 1):
        until = time.monotonic() + WORK_S
        while time.monotonic() < until:
            number += 1
            found += is_prime(number)
        if piece % 20 == 0 or piece == options.pieces:
            print(f"task {task}: {found} primes up to {number}", flush=True)
        time.sleep(options.rest_ms / 1_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
