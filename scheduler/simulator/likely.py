"""What is likely, from what was: how long work takes, and what will be submitted.

A duration is drawn from what its like took: of the same owner, else of the same leaf, else of the same class on the
whole cluster, the closest first; of those only that took longer than this one has run already. What comes in is drawn,
leaf by leaf and day by day, as one of the leaf's own past days: so the hours, the bursts and what belongs together stay
as they are in life. Workdays are drawn from workdays, where enough are known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Protocol

DAY_S = 86_400
WEEK = 7
WORKDAYS = 5
ENOUGH = 8
"""Workloads that a history must hold to speak for itself; with fewer the next wider one is asked."""
SHORTEST_S = 60
"""What a workload takes about which nothing at all is known."""


class Chance(Protocol):
    """The part of `random.Random` that is used; the caller seeds it."""

    def randint(self, a: int, b: int) -> int:
        """A whole number in [a, b]."""

    def expovariate(self, lambd: float) -> float:
        """Exponentially distributed, with mean 1 / lambd."""


@dataclass(frozen=True, slots=True)
class Like:
    """What one workload has in common with others. `kind` is its class; an unknown owner is empty."""

    owner: str
    leaf: str
    kind: str
    size_milli: int
    min_runtime_s: int

    def circles(self) -> Iterator[tuple[Any, ...]]:
        """Whom to ask how long it takes, the closest first."""
        shape = (self.kind, round(log2(max(self.size_milli, 1))), self.min_runtime_s)
        for who in (("owner", self.owner), ("leaf", self.leaf)) if self.owner else (("leaf", self.leaf),):
            yield (*who, *shape)
            yield (*who, self.kind, self.min_runtime_s)
            yield (*who, self.kind)
        yield ("all", self.kind, self.min_runtime_s)
        yield ("all", self.kind)
        yield ("all",)


class Durations:
    """How long workloads took, over all their runs."""

    def __init__(self, ended: Iterable[tuple[Like, int]] = ()) -> None:
        """Take those that ended by themselves, with the seconds that they ran."""
        self._known: dict[tuple[Any, ...], list[int]] = {}
        for like, work_s in ended:
            for circle in like.circles():
                self._known.setdefault(circle, []).append(work_s)
        for known in self._known.values():
            known.sort()

    def draw(self, like: Like, done_s: int, chance: Chance) -> int:
        """How long such a workload runs in all that has run `done_s` already; more than that."""
        last: tuple[list[int], int] | None = None
        for circle in like.circles():
            known = self._known.get(circle)
            if not known:
                continue
            first = bisect_right(known, done_s)
            number = len(known) - first
            if number:
                last = known, first
            if number >= ENOUGH:
                break
        if last is not None:
            known, first = last
            return known[chance.randint(first, len(known) - 1)]
        # It has run longer than anything before it: as long again, as such work has no age at which it ends.
        return done_s + max(1, round(chance.expovariate(1 / max(done_s, like.min_runtime_s, SHORTEST_S))))


@dataclass(frozen=True, slots=True)
class Arrival:
    """A submission of the past. `at_s` is negative: seconds before now. `work_s` is None where it has not ended.

    `predicted_s` is how long it was thought to execute when it came; the rest is what it asked for beside devices, as
    the engine's `Workload` has it.
    """

    at_s: int
    like: Like
    priority: int
    is_resumable: bool
    work_s: int | None
    done_s: int = 0
    locality: int = 1
    predicted_s: int | None = None
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_classes: tuple[str, ...] = ()
    is_high: bool = False


class Arrivals:
    """What was submitted to each leaf in the last weeks."""

    def __init__(self, known: Sequence[Arrival], known_for_s: int, weekday: int | None) -> None:
        """Take them in any order.

        Args:
            known: the submissions.
            known_for_s: how far back they are complete.
            weekday: of now, 0 for Monday; None where days have none.
        """
        self.days = max(1, known_for_s // DAY_S)
        self._weekday = weekday
        self._by_leaf: dict[str, dict[int, list[Arrival]]] = {}
        for each in sorted(known, key=lambda arrival: (arrival.at_s, arrival.like.leaf)):
            day = each.at_s // DAY_S  # -1 is the last 24 hours
            if day >= -self.days:
                self._by_leaf.setdefault(each.like.leaf, {}).setdefault(day, []).append(each)

    def draw(self, horizon_s: int, chance: Chance) -> Iterator[tuple[int, Arrival]]:
        """Submissions of the time from now to the horizon: the instant, and the like of which it is."""
        for leaf in sorted(self._by_leaf):
            past = self._by_leaf[leaf]
            for ahead in range(-(-horizon_s // DAY_S)):
                choices = self._days_like(ahead)
                day = choices[chance.randint(0, len(choices) - 1)]
                for each in past.get(day, ()):
                    at_s = each.at_s + (ahead - day) * DAY_S
                    if at_s < horizon_s:
                        yield at_s, each

    def _days_like(self, ahead: int) -> range | list[int]:
        """Past days to draw one of so many days ahead from."""
        every = range(-self.days, 0)
        if self._weekday is None or self.days < WEEK:
            return every
        is_workday = (self._weekday + ahead) % WEEK < WORKDAYS
        return [day for day in every if ((self._weekday + day) % WEEK < WORKDAYS) == is_workday]
