"""The same stretch of work with its arrivals drawn anew, to see how far one history speaks for others like it.

A block bootstrap (Künsch 1989): time is cut into blocks of some hours, and each is filled with what arrived in a block
of the same time of day, drawn with replacement. Bursts inside a block and the shape of the day stay; what a block holds
of heavy and light work varies as it does from day to day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from .counted import CountedJob
from .scenario import Happening, Job, Scenario

BLOCK_S = 6 * 3_600
BLOCKS_A_DAY = 4
LEAST_BLOCKS = 2 * BLOCKS_A_DAY
"""Two days: with less, each time of day has a single block to draw from."""


class Chance(Protocol):
    """The part of `random.Random` that is used; the caller seeds it."""

    def randrange(self, start: int, stop: int, step: int) -> int:
        """One of range(start, stop, step)."""


class Drawn(NamedTuple):
    """One arrival: its place among those there were, how much later it comes, and the block that it comes in."""

    place: int
    later_s: int
    block: int


def can_be_resampled(scenario: Scenario) -> bool:
    """Whether arrivals come by the clock alone, over two days at least.

    Who submits when something else has ended, as people in closed loops do, does not arrive by the clock.
    """
    return all(job.after is None for job in scenario.jobs) and _are_enough(_submissions(scenario.jobs))


def can_be_resampled_counted(jobs: Sequence[CountedJob]) -> bool:
    """Whether a trace's arrivals span two days at least."""
    return _are_enough([job.submit_s for job in jobs])


def resampled(scenario: Scenario, chance: Chance) -> Scenario:
    """A scenario that `can_be_resampled`, with its arrivals drawn anew.

    What waits or runs at the start stays. A workload that comes several times is another one each time, and is
    cancelled as often as it was.
    """
    arriving = [job for job in scenario.jobs if job.submit_s is not None]
    jobs = [job for job in scenario.jobs if job.submit_s is None]
    cancels: dict[str, list[Happening]] = {}
    events: list[Happening] = []
    names = {job.id for job in arriving}
    for event in scenario.events:
        (cancels.setdefault(event.subject, []) if event.kind == "cancel" and event.subject in names else events).append(
            event
        )
    for drawn in _draw(_submissions(arriving), chance):
        job = arriving[drawn.place]
        name = _name(job.id, drawn)
        jobs.append(replace(job, id=name, submit_s=(job.submit_s or 0) + drawn.later_s))
        for event in cancels.get(job.id, ()):
            events.append(replace(event, subject=name, at_s=event.at_s + drawn.later_s))
    return replace(scenario, jobs=jobs, events=sorted(events, key=lambda event: event.at_s))


def resampled_counted(jobs: Sequence[CountedJob], chance: Chance) -> list[CountedJob]:
    """A trace that `can_be_resampled_counted`, likewise."""
    return [
        jobs[drawn.place]._replace(
            id=_name(jobs[drawn.place].id, drawn), submit_s=jobs[drawn.place].submit_s + drawn.later_s
        )
        for drawn in _draw([job.submit_s for job in jobs], chance)
    ]


def _name(name: str, drawn: Drawn) -> str:
    return name if not drawn.later_s else f"{name}~{drawn.block}"


def _submissions(jobs: Sequence[Job]) -> list[int]:
    return [job.submit_s for job in jobs if job.submit_s is not None]


def _are_enough(submissions_s: Sequence[int]) -> bool:
    if not submissions_s:
        return False
    return max(submissions_s) // BLOCK_S - min(submissions_s) // BLOCK_S + 1 >= LEAST_BLOCKS


def _draw(submissions_s: Sequence[int], chance: Chance) -> Iterator[Drawn]:
    """Block by block, and in each in the order in which they came."""
    in_block: dict[int, list[int]] = {}
    for place in sorted(range(len(submissions_s)), key=lambda place: submissions_s[place]):
        in_block.setdefault(submissions_s[place] // BLOCK_S, []).append(place)
    first, last = min(in_block), max(in_block)
    for block in range(first, last + 1):
        earliest = first + (block - first) % BLOCKS_A_DAY
        source = chance.randrange(earliest, last + 1, BLOCKS_A_DAY)
        for place in in_block.get(source, ()):
            yield Drawn(place, (block - source) * BLOCK_S, block)
