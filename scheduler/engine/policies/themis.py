"""Themis: finish-time fairness (Mahajan et al., NSDI 2020), as an order inside a leaf.

rho is the time from submission to end that a workload is to expect, by the time that it would take with a fair share to
itself: at 1 or less it has nothing to complain of. The largest goes first. Who contends for the share is counted inside
the leaf, where alone this order decides: what other teams do is settled by budgets. rho is worked out anew each round,
and who has twice another's may take over from it.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, log2

from ..values import LEVELS, Service, Workload
from .crowds import NOBODY, Crowd
from .leaf import LeafOrder, Standing
from .locality import TOGETHER_MILLI
from .predicting import DEFAULT_S

TURNS = 16
"""Of those whose rho lies between two powers of two, so many are told apart."""


def shared_s(elapsed_s: int, left_s: Fraction | int, slowdown: Fraction | int = 1) -> Fraction:
    """T_sh: how long it takes in all, from submission to end.

    Args:
        elapsed_s: since its submission.
        left_s: how long it would still execute on its devices if they were together.
        slowdown: how many times longer it does where they are (S of the paper: at least 1, and 1 inside one machine).
    """
    return elapsed_s + left_s * Fraction(slowdown)


def alone_s(executes_s: Fraction | int, contending: Fraction | int) -> Fraction:
    """T_id: how long it would take with its share to itself.

    Args:
        executes_s: how long it executes in all on as many devices as it can use.
        contending: how many have been there while it was, on average over its time; counted as at least 1.
    """
    return executes_s * max(Fraction(1), Fraction(contending))


class Themis(LeafOrder):
    """The order.

    What is not predicted counts as `predicting.DEFAULT_S`, and no device as slower than others. Who waits is thought to
    find its devices together; who runs spread over more nodes than it needs takes the longer for what is left.
    """

    why = "is further behind the time that a fair share would have taken"

    def __init__(self, round_s: int) -> None:
        """rho is that of the last multiple of so many seconds."""
        self.round_s: int = round_s

    def waiting(self, workload: Workload, now_s: int, crowd: Crowd = NOBODY) -> Standing:
        """By rho, if it started at the beginning of the round."""
        level, turn = _place_of(self.rho(workload.service, None, now_s, crowd))
        return Standing(level, turn)

    def running(
        self,
        size_milli: int,
        service: Service,
        running_s: int | None,
        now_s: int,
        crowd: Crowd = NOBODY,
        slowdown_milli: int = TOGETHER_MILLI,
    ) -> Standing:
        """By rho, if it goes on to its end where it is."""
        level, _ = _place_of(self.rho(service, running_s, now_s, crowd, slowdown_milli))
        return Standing(level)

    def rho(
        self,
        service: Service,
        running_s: int | None,
        now_s: int,
        crowd: Crowd,
        slowdown_milli: int = TOGETHER_MILLI,
    ) -> tuple[int, int]:
        """At the beginning of the round, as numerator and denominator; without an arrival it is 1.

        Whoever came since then is counted in with those who were there. What is left when a run begins takes
        `slowdown_milli` thousandths of its time where the run is; what earlier runs executed counts as if together.
        """
        arrival = service.arrival
        if arrival is None:
            return 1, 1
        round_at_s = now_s - now_s % self.round_s
        running_for_s = 0 if running_s is None else max(0, round_at_s - running_s)
        predicted_s = max(1, DEFAULT_S if service.predicted_s is None else service.predicted_s)
        left_milli_s = slowdown_milli * (predicted_s - service.executed_s) - TOGETHER_MILLI * running_for_s
        takes_milli_s = TOGETHER_MILLI * max(0, round_at_s - arrival.at_s) + max(0, left_milli_s)
        alone_milli_s = TOGETHER_MILLI * predicted_s
        counted_s = round_at_s - arrival.since_s
        if counted_s <= 0:
            return takes_milli_s, alone_milli_s * (crowd.number + 1)
        return takes_milli_s * counted_s, alone_milli_s * max(counted_s, crowd.total_s - arrival.crowd_s)


def _place_of(rho: tuple[int, int]) -> tuple[int, int]:
    """Level and turn: up to 1 is level 0, up to 2 is 1, up to 4 is 2, and so on."""
    upper, lower = rho
    level = max(0, -(-upper // lower) - 1).bit_length()
    turn = -floor(TURNS * log2(upper / lower)) if upper else LEVELS
    return min(level, LEVELS - 1), turn
