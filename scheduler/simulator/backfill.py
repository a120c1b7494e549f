"""EASY: first come, first served, but others may go ahead where that does not delay the head of the line.

After Lifka, The ANL/IBM SP scheduling system (1995): only the head has a reservation, at the instant at which it could
start if all that run ended as their owners estimated. Where a workload has no estimate, its true duration stands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scheduler.engine import Code, Reason, amount

from .baselines import Baseline
from .records import JobRecord
from .room import Room


class Shadow(NamedTuple):
    """The head's instant, and by node what those may hold then and later who outlast it."""

    at_s: int
    spare_milli: Mapping[str, int]


class Easy(Baseline):
    """FIFO with EASY backfill."""

    def is_settled_by_time(self) -> bool:
        """Estimates pass."""
        return False

    def place(self, room: Room) -> None:
        """The line up to its head; then whoever does not delay the head."""
        waiting = sorted(self.line.waiting(), key=self.key)
        started: list[tuple[int, Mapping[str, int]]] = []  # (estimated end, holdings)
        place = 0
        while place < len(waiting) and (holdings := self.hold(room, waiting[place])) is not None:
            started.append((self.estimated_end_s(waiting[place]), holdings))
            place += 1
        if place == len(waiting):
            return
        head = waiting[place]
        shadow = self._shadow(head, room, started)
        self.wait(head, self.lack(self.shape(head).kind, room), lambda: self._why_the_head_waits(head, room, shadow))
        self._backfill(head, waiting[place + 1 :], room, shadow)

    def estimated_end_s(self, record: JobRecord) -> int:
        """When it would end if it started now and took as long as its owner thinks."""
        job = record.job
        estimate_s = job.duration_s if job.estimate_s is None else job.estimate_s
        return self.snapshot.now_s + job.startup_s + estimate_s

    def _shadow(self, head: JobRecord, room: Room, started: Sequence[tuple[int, Mapping[str, int]]]) -> Shadow | None:
        """When and where the head will start at the latest; None if it could not even on all fit nodes."""
        ends = sorted([*self._estimated_ends(), *started], key=lambda each: each[0])
        low, high = 0, len(ends)
        if self._room_after(room, ends, high).place(head.job.size_milli, head.job.node) is None:
            return None
        while low < high:  # the fewest ends after which it fits; more ends never make less room
            middle = (low + high) // 2
            if self._room_after(room, ends, middle).place(head.job.size_milli, head.job.node) is None:
                low = middle + 1
            else:
                high = middle
        at_s = ends[low - 1][0] if low else self.snapshot.now_s
        while low < len(ends) and ends[low][0] <= at_s:
            low += 1
        then = self._room_after(room, ends, low)
        holdings = then.place(head.job.size_milli, head.job.node)
        assert holdings is not None, "more room can't make it fit less"
        then.take(holdings)
        return Shadow(at_s, then.amounts())

    def _estimated_ends(self) -> list[tuple[int, Mapping[str, int]]]:
        """When each run should give back what; one that overruns its estimate may at any moment."""
        now_s, grace_s = self.snapshot.now_s, self.view.scenario.policy.grace_s
        ends = []
        for run in self.view.runs.values():
            job = run.job.job
            estimate_s = job.duration_s if job.estimate_s is None else job.estimate_s
            end_s = run.start_s + job.startup_s + estimate_s if run.told_s is None else run.told_s + grace_s
            ends.append((max(now_s, end_s), run.holdings))
        return ends

    def _room_after(self, room: Room, ends: Sequence[tuple[int, Mapping[str, int]]], number: int) -> Room:
        """What is free when so many of them have ended, on nodes that are fit."""
        then = room.copy()
        by_name, now_s = self.snapshot.nodes.by_name, self.snapshot.now_s
        for _, holdings in ends[:number]:
            then.give({name: size for name, size in holdings.items() if by_name[name].may_start(now_s)})
        return then

    def _backfill(self, head: JobRecord, others: Sequence[JobRecord], room: Room, shadow: Shadow | None) -> None:
        spare_milli = None if shadow is None else dict(shadow.spare_milli)
        lasting = room if spare_milli is None else self._within(room, spare_milli)
        for record in others:
            if shadow is None or self.estimated_end_s(record) <= shadow.at_s:
                holdings = self.hold(room, record)
                if holdings is not None and spare_milli is not None:
                    lasting = self._within(room, spare_milli)
            else:
                holdings = lasting.place(record.job.size_milli, record.job.node)
                if holdings is not None and spare_milli is not None:
                    room.take(holdings)
                    for name, size in holdings.items():
                        spare_milli[name] -= size
                    lasting = self._within(room, spare_milli)
                    self.start(record, holdings)
            if holdings is None:
                self._does_not_pass(head, record, room)

    def _within(self, room: Room, most_milli: Mapping[str, int]) -> Room:
        """The same room, with at most so much on each node."""
        least = {name: min(free, most_milli.get(name, 0)) for name, free in room.amounts().items()}
        return Room(self.snapshot, least, self.watch)

    def _why_the_head_waits(self, head: JobRecord, room: Room, shadow: Shadow | None) -> Reason:
        reason = self.why_it_waits(self.shape(head).kind, room)
        return Reason(reason.code, reason.text, earliest_start_s=None if shadow is None else shadow.at_s)

    def _does_not_pass(self, head: JobRecord, record: JobRecord, room: Room) -> None:
        if room.place(record.job.size_milli, record.job.node) is None:
            self.wait_for_room(record, room)
            return
        size = amount(self.snapshot, record.job.size_milli)
        text = f"It needs {size}, and enough are free, but it might delay {head.job.id}, which came earlier."
        self.wait(record, Code.WAITING_RESERVATION, lambda: Reason(Code.WAITING_RESERVATION, text))
