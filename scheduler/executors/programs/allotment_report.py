#!/usr/bin/env python3
"""Report how many tokens a training run has processed on all its devices; its page then shows MFU. One rank reports."""

import argparse
import json
import math
import os
import sys

MOST = 10**15


def whole(least):
    """A whole number from `least` on, also written as 7e9."""

    def read(text):
        value = float(text)
        if not (value.is_integer() and least <= value <= MOST):
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} to {MOST}")
        return int(value)

    read.__name__ = "whole number"
    return read


def span(text):
    """Seconds above 0."""
    value = float(text)
    if not (math.isfinite(value) and 0.001 <= value <= 366 * 86400):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def main():
    """Write the note that the rank's minder reads."""
    parser = argparse.ArgumentParser(prog="allotment-report", description=__doc__)
    parser.add_argument("--tokens", type=whole(0), required=True, help="in these seconds")
    parser.add_argument("--seconds", type=span, required=True, help="until now")
    parser.add_argument("--parameters", type=whole(1), required=True, help="of the model, such as 7e9")
    options = parser.parse_args()
    directory = os.environ.get("ALLOTMENT_DIRECTORY")
    if not directory:
        print("allotment-report: is for workloads: ALLOTMENT_DIRECTORY is not set", file=sys.stderr)
        return 2
    note = os.path.join(directory, ".allotment-report")
    said = {"tokens": options.tokens, "span_ms": round(options.seconds * 1000), "parameters": options.parameters}
    with open(f"{note}.{os.getpid()}", "w", encoding="utf-8") as file:
        json.dump(said, file)
    os.replace(file.name, note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
