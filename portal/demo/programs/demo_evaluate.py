#!/usr/bin/env python3
"""An evaluation: goes through some batches and prints a score; begins anew when it was stopped."""

import argparse
import os
import sys
import time


def natural(text: str) -> int:
    """A whole number, 1 or more."""
    return max(1, int(text))


def main() -> int:
    """Evaluate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=natural, default=40)
    parser.add_argument("--batch-ms", type=natural, default=1_000)
    options = parser.parse_args()
    seed = sum(os.environ.get("ALLOTMENT_WORKLOAD", "").encode())
    right = 0
    for batch in range(1, options.batches + 1):
        time.sleep(options.batch_ms / 1_000)
        right += 70 + (seed * 31 + batch * 17) % 25
        if batch % 10 == 0 or batch == options.batches:
            print(f"batch {batch}/{options.batches} accuracy {right / batch:.1f} %", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
