"""Tiresias: two-dimensional attained service, discretised (Gu et al., NSDI 2019).

What a workload has attained is what it has executed, devices times time. Workloads stand in queues by that; those that
have attained least are in the first, which is served first. In a queue whoever started first goes first, those that
never did come last; where it is known how much service workloads need in all, the Gittins index decides instead. So
that nobody starves, one that has waited for a number of times as long as it had executed is in the first queue again,
and what it has attained until then is forgiven.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil

from ..values import Service, Workload
from .crowds import NOBODY, Crowd
from .leaf import LeafOrder, Standing
from .locality import TOGETHER_MILLI

NEVER_STARTED = 1 << 62
"""The turn of those that never started."""
INDEX_SCALE = 1_000_000_000
"""Gittins indices as whole numbers."""


class Tiresias(LeafOrder):
    """The order.

    `samples_milli_s` are total services of workloads like these, where they are known. `promote_knob` is how many times
    as long as it has executed one waits until it is promoted; with 0 nobody is.
    """

    def __init__(
        self, limits_milli_s: Sequence[int], samples_milli_s: Sequence[int] = (), promote_knob: Fraction = Fraction(0)
    ) -> None:
        """Queues that end at these amounts of attained service; the last has no end.

        Raises:
            ValueError: limits that do not rise from above 0, or a sample below 0.
        """
        if list(limits_milli_s) != sorted({each for each in limits_milli_s if each > 0}):
            raise ValueError("limits of attained service must rise, from above 0")
        if any(each < 0 for each in samples_milli_s):
            raise ValueError("no workload needs less than no service")
        self.why = "has attained less service"
        self._limits_milli_s = tuple(limits_milli_s)
        self._known = Distribution(samples_milli_s)
        self._promote_knob = promote_knob

    def queue(self, attained_milli_s: int) -> int:
        """The queue, from 0, of one that has attained so much: whoever has reached a limit is in the next."""
        return bisect_right(self._limits_milli_s, attained_milli_s)

    def waiting(self, workload: Workload, now_s: int, crowd: Crowd = NOBODY) -> Standing:
        """As it was when it was preempted, as whoever waits attains nothing; in the first queue once it is promoted."""
        service = workload.service
        promoted_at_s = self._promoted_at_s(service)
        if promoted_at_s is not None and promoted_at_s <= now_s:
            return Standing(len(self._limits_milli_s), self._turn(service, 0, 0))
        queue = self.queue(service.attained_milli_s)
        turn = self._turn(service, service.attained_milli_s, queue)
        return Standing(len(self._limits_milli_s) - queue, turn, promoted_at_s)

    def running(
        self,
        size_milli: int,
        service: Service,
        running_s: int | None,
        now_s: int,
        crowd: Crowd = NOBODY,
        slowdown_milli: int = TOGETHER_MILLI,
    ) -> Standing:
        """It goes down a queue in the second in which it reaches the limit."""
        attained_milli_s = service.attained_milli_s
        if running_s is not None:
            attained_milli_s += size_milli * (now_s - running_s)
        queue = self.queue(attained_milli_s)
        changes_at_s = None
        if running_s is not None and queue < len(self._limits_milli_s):
            changes_at_s = now_s - (attained_milli_s - self._limits_milli_s[queue]) // size_milli
        return Standing(len(self._limits_milli_s) - queue, 0, changes_at_s)

    def forgives(self, service: Service, now_s: int) -> bool:
        """Whoever starts after it was promoted begins anew."""
        promoted_at_s = self._promoted_at_s(service)
        return promoted_at_s is not None and promoted_at_s <= now_s

    def _promoted_at_s(self, service: Service) -> int | None:
        """When one that waits goes, or went, back to the first queue; None for those that are in it, or stay."""
        if not self._promote_knob or service.waits_since_s is None or not self.queue(service.attained_milli_s):
            return None
        return service.waits_since_s + ceil(self._promote_knob * (service.executed_s - service.forgiven_s))

    def _turn(self, service: Service, attained_milli_s: int, queue: int) -> int:
        if not self._known:
            return NEVER_STARTED if service.first_started_s is None else service.first_started_s
        last = queue == len(self._limits_milli_s)
        quantum_milli_s = self._known.most + 1 if last else self._limits_milli_s[queue]
        index = self._known.gittins_index(attained_milli_s, quantum_milli_s)
        return -int(index * INDEX_SCALE * 1_000)


class Distribution:
    """How much service workloads like these need in all, in any one unit."""

    def __init__(self, samples: Sequence[int]) -> None:
        """From the total services of some that have ended."""
        self._samples = sorted(samples)
        self._sums = [0, *accumulate(self._samples)]

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self._samples)

    @property
    def most(self) -> int:
        """The largest."""
        return self._samples[-1]

    def gittins_index(self, attained: int, quantum: int) -> Fraction:
        """How likely one is to end within a quantum of service, by the service that it is expected to take for it.

        Args:
            attained: what it has attained.
            quantum: the service that it would be given.

        Returns:
            P(S - a <= quantum | S > a) / E[min(S - a, quantum) | S > a]; 0 where no sample is larger than what it has.
        """
        first = bisect_right(self._samples, attained)
        behind = bisect_right(self._samples, attained + quantum)
        ending = behind - first
        expected = self._sums[behind] - self._sums[first] - attained * ending + quantum * (len(self._samples) - behind)
        return Fraction(ending, expected) if first < len(self._samples) else Fraction(0)
