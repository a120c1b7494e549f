"""What could start where, hour by hour of a simulation: how much is free, and how large a gang could have it.

What is *interruptible* is held by unallocated runs and by runs whose contract is over: a funded gang of a team that was
served less than theirs may have it (semantics.md section 4). What is held inside contracts nobody may have.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.engine import Snapshot

from .scenario import Scenario
from .world import Progress, World

HOUR_S = 3_600
SAMPLE_EVERY_S = HOUR_S


class Sample(NamedTuple):
    """The cluster at one instant, in thousandths of a device, on nodes where something may start.

    `largest_free_milli` is the largest gang that fits what is free; `largest_milli` the largest that fits what is free
    and interruptible together: whole nodes, or, where no node would be whole, what one node has. `pieces_milli` is
    what is free beside something that is held or planned; `held_milli` is held, and `touched_milli` is all that the
    nodes have on which something is.
    """

    at_s: int
    fit_milli: int
    free_milli: int
    interruptible_milli: int
    largest_free_milli: int
    largest_milli: int
    pieces_milli: int
    held_milli: int
    touched_milli: int


def sample(snapshot: Snapshot) -> Sample:
    """What could start where at the snapshot's instant."""
    fit_milli = free_milli = interruptible_milli = 0
    whole_free_milli = whole_milli = most_free_milli = most_milli = 0
    held_milli = touched_milli = 0
    for node in snapshot.nodes.by_name.values():
        if not node.may_start(snapshot.now_s):
            continue
        could_milli = node.free_milli + node.soft_milli
        fit_milli += node.capacity_milli
        free_milli += node.free_milli
        interruptible_milli += node.soft_milli
        held_milli += node.held_milli
        if node.held_milli:
            touched_milli += node.capacity_milli
        most_free_milli, most_milli = max(most_free_milli, node.free_milli), max(most_milli, could_milli)
        if node.free_milli == node.capacity_milli:
            whole_free_milli += node.capacity_milli
        if could_milli == node.capacity_milli:
            whole_milli += node.capacity_milli
    return Sample(
        snapshot.now_s,
        fit_milli,
        free_milli,
        interruptible_milli,
        max(whole_free_milli, most_free_milli),
        max(whole_milli, most_milli),
        free_milli - whole_free_milli,
        held_milli,
        touched_milli,
    )


class SampledWorld(World):
    """A world that is looked at every hour, after everything that happened before it."""

    def __init__(self, scenario: Scenario, on_progress: Progress | None = None) -> None:
        """Look from the start. Nobody reads why something was decided."""
        super().__init__(scenario, on_progress, is_explained=False)
        self.samples: list[Sample] = []
        self._next_sample_s = SAMPLE_EVERY_S

    def _move_to(self, now_s: int) -> None:
        while self._next_sample_s <= now_s:
            super()._move_to(self._next_sample_s)
            self.samples.append(sample(self.snapshot))
            self._next_sample_s += SAMPLE_EVERY_S
        super()._move_to(now_s)
