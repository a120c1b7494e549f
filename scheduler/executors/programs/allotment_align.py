#!/usr/bin/env python3
"""Begin iterations where the network has room for them: sleep until this run's place, and keep it.

As a program it sleeps until the next place, once. A training loop has it as a class:

    import runpy, shutil
    pace = runpy.run_path(shutil.which("allotment-align"))["Pace"]()
    for batch in batches:
        pace.wait()
        ...

A place is a whole number of periods since 1970, and the shift that the run was given when it started. Where it was
given none, nobody waits.
"""

import argparse
import os
import sys
import time

DRIFT_PART = 0.05
"""Whoever is off by more than this part of the period waits for the next place ..."""
REST = 50
"""... but no more often than once in so many iterations, since one that can't keep it would wait in each ..."""
AT_ONCE = 5
"""... except for as many times at first, while others are still on their way to theirs."""


class Pace:
    """The place of one run's iterations. `wait` is called where each begins."""

    def __init__(self, environ=os.environ, clock=time.time, sleep=time.sleep):
        """As the environment says it; clock (seconds since 1970) and sleep are those of this machine.

        Raises:
            ValueError: the environment has no whole numbers.
        """
        shift, period = environ.get("ALLOTMENT_TIME_SHIFT_MS"), environ.get("ALLOTMENT_PERIOD_MS")
        self.period_s = int(period) / 1_000 if shift and period else None
        self._shift_s = int(shift) / 1_000 if shift and period else 0.0
        self._keeps = bool(environ.get("ALLOTMENT_TIME_SHIFT_KEEPS"))
        self._clock, self._sleep = clock, sleep
        self._is_first = True
        self._rested = AT_ONCE * REST

    def wait(self):
        """Sleep until this iteration should begin, and say for how many seconds.

        The first waits for its place. Later ones, where the place is to be kept, wait for the little that they are
        early, go on at once where they are a little late, and wait for the next place where they have drifted.
        """
        delay_s = self._delay_s()
        if delay_s > 0:
            self._sleep(delay_s)
        return delay_s

    def _delay_s(self):
        if self.period_s is None:
            return 0.0
        late_s = (self._clock() - self._shift_s) % self.period_s
        early_s = self.period_s - late_s
        may_drift_s = DRIFT_PART * self.period_s
        was_first, self._is_first = self._is_first, False
        self._rested = min(self._rested + 1, AT_ONCE * REST)
        if was_first or (self._keeps and early_s <= may_drift_s):
            return early_s
        if self._keeps and late_s > may_drift_s and self._rested >= REST:
            self._rested -= REST
            return early_s
        return 0.0


def main():
    """Sleep until the next place."""
    argparse.ArgumentParser(
        prog="allotment-align",
        description="Sleep until this run's next place on the network; at once where it has none.",
    ).parse_args()
    try:
        Pace().wait()
    except ValueError:
        print("allotment-align: ALLOTMENT_TIME_SHIFT_MS and ALLOTMENT_PERIOD_MS must be whole numbers", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
