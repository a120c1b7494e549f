"""What waits, in order and by shape: workloads of one shape fare alike, so that a pass asks once for all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from scheduler.engine import Workload

from .records import JobRecord

Key = tuple[Any, ...]
"""A place in an order: lower goes first. It ends with the workload's id, so that no two are equal."""
Entry = tuple[Key, JobRecord]
START: Key = ()
"""Before every key."""


class Kind(NamedTuple):
    """What decides how a workload fares at its turn, beside what is free and whose it is.

    Attributes:
        size_milli, node: what it asks for, and the node that it is pinned to.
        level: whom it may stop, where a scheduler knows levels.
    """

    size_milli: int
    node: str | None
    level: int = 0


class Shape(NamedTuple):
    """All that decides it. `teams` are those whose bounds it falls under, where a scheduler knows any."""

    kind: Kind
    teams: tuple[str, ...] = ()


class Group:
    """All of one shape that wait, in order, apart by the reason code that they were told last."""

    __slots__ = ("by_code",)

    def __init__(self) -> None:
        """Nothing waits."""
        self.by_code: dict[str | None, list[Entry]] = {}

    def first_after(self, key: Key) -> Entry | None:
        """The first that comes after a place."""
        found: Entry | None = None
        for entries in self.by_code.values():
            index = bisect_right(entries, key, key=_key) if key else 0
            if index < len(entries) and (found is None or entries[index][0] < found[0]):
                found = entries[index]
        return found

    def is_told(self, code: str) -> bool:
        """Whether all were told that last."""
        return len(self.by_code) == 1 and code in self.by_code

    def tell(self, code: str, after: Key, to: Key | None) -> list[tuple[str | None, list[Entry]]]:
        """All between two places (None: to the end) have been told that; those to whom it is news, by the old code."""
        news: list[tuple[str | None, list[Entry]]] = []
        for told, entries in list(self.by_code.items()):
            if told == code:
                continue
            first = bisect_right(entries, after, key=_key) if after else 0
            last = len(entries) if to is None else bisect_left(entries, to, key=_key)
            if first < last:
                news.append((told, entries[first:last]))
                del entries[first:last]
                if not entries:
                    del self.by_code[told]
        if news:
            them = [entry for _, entries in news for entry in entries]
            self.by_code[code] = sorted([*self.by_code.get(code, ()), *them], key=_key)
        return news

    def holder_of(self, key: Key) -> str | None:
        """What the one at that place was told last.

        Raises:
            KeyError: nobody is at that place.
        """
        for code, entries in self.by_code.items():
            index = bisect_left(entries, key, key=_key)
            if index < len(entries) and entries[index][0] == key:
                return code
        raise KeyError(key)

    def take_out(self, key: Key) -> str | None:
        """The one at that place waits no longer; what it was told last."""
        code = self.holder_of(key)
        entries = self.by_code[code]
        del entries[bisect_left(entries, key, key=_key)]
        if not entries:
            del self.by_code[code]
        return code


class Family:
    """All of one kind that wait, in a group for each shape; and how many of them were told what last."""

    __slots__ = ("groups", "told")

    def __init__(self) -> None:
        """Nothing waits."""
        self.groups: dict[tuple[str, ...], Group] = {}
        self.told: Counter[str | None] = Counter()

    def is_told(self, code: str) -> bool:
        """Whether all were told that last."""
        return len(self.told) == 1 and code in self.told

    def count(self, code: str | None, change: int) -> None:
        """So many more, or fewer, were told that last."""
        self.told[code] += change
        if not self.told[code]:
            del self.told[code]


class Line:
    """The queue of a world.

    Attributes:
        families: those who wait and have no plan, by kind; never an empty one, nor one with an empty group.
        version: grows with every change but in what they were told.
    """

    def __init__(self, key: Callable[[JobRecord], Key], shape: Callable[[JobRecord], Shape]) -> None:
        """Nothing waits.

        Args:
            key: a workload's place, which may not change while it waits.
            shape: how it fares.
        """
        self.families: dict[Kind, Family] = {}
        self.version = 0
        self._key = key
        self._shape = shape
        self._known: dict[str, Workload] = {}  # as the world queued it; with plans
        self._waiting: dict[str, tuple[Shape, Entry]] = {}  # without plans

    def __len__(self) -> int:
        """How many wait without a plan."""
        return len(self._waiting)

    def catch_up(self, queued: dict[str, Workload], jobs: Mapping[str, JobRecord], told: Mapping[str, str]) -> None:
        """Look at who joined the world's queue, or left it by itself, since the last look.

        Args:
            queued: the world's queue, by id. Who joins it is its last.
            jobs: every workload, by id.
            told: the reason code that each was told last.
        """
        new = []
        for workload in reversed(queued.values()):
            if self._known.get(workload.id) is workload:
                break
            new.append(workload)
        if len(self._known) + len(new) != len(queued):
            for name in [name for name, workload in self._known.items() if queued.get(name) is not workload]:
                self.leave(name)
        for workload in new:
            self._known[workload.id] = workload
            self.wait(jobs[workload.id], told.get(workload.id))

    def wait(self, record: JobRecord, code: str | None) -> None:
        """It waits, without a plan, and was told that last."""
        shape, entry = self._shape(record), (self._key(record), record)
        self._waiting[record.job.id] = shape, entry
        family = self.families.get(shape.kind)
        if family is None:
            family = self.families[shape.kind] = Family()
        group = family.groups.get(shape.teams)
        if group is None:
            group = family.groups[shape.teams] = Group()
        insort(group.by_code.setdefault(code, []), entry, key=_key)
        family.count(code, +1)
        self.version += 1

    def waiting(self) -> list[JobRecord]:
        """All who wait without a plan, in no order."""
        return [entry[1] for _, entry in self._waiting.values()]

    def first(self) -> JobRecord | None:
        """The head of the line."""
        groups = [group for family in self.families.values() for group in family.groups.values()]
        head = first_of(group.first_after(START) for group in groups)
        return None if head is None else head[1]

    def told(self, record: JobRecord) -> str | None:
        """What one who waits was told last."""
        shape, entry = self._waiting[record.job.id]
        return self.families[shape.kind].groups[shape.teams].holder_of(entry[0])

    def tell(self, shape: Shape, code: str, after: Key, to: Key | None) -> list[Entry]:
        """Let all of a shape between two places (None: to the end) have been told that; those to whom it is news."""
        family = self.families[shape.kind]
        news = family.groups[shape.teams].tell(code, after, to)
        for told, entries in news:
            family.count(told, -len(entries))
            family.count(code, +len(entries))
        return [entry for _, entries in news for entry in entries]

    def tell_one(self, record: JobRecord, code: str) -> None:
        """It waits, and was told something else."""
        shape, entry = self._waiting[record.job.id]
        family = self.families[shape.kind]
        group = family.groups[shape.teams]
        family.count(group.take_out(entry[0]), -1)
        insort(group.by_code.setdefault(code, []), entry, key=_key)
        family.count(code, +1)

    def plan(self, name: str) -> None:
        """It has a plan, and waits for its turn no longer."""
        shape, entry = self._waiting.pop(name)
        family = self.families[shape.kind]
        group = family.groups[shape.teams]
        family.count(group.take_out(entry[0]), -1)
        if not group.by_code:
            del family.groups[shape.teams]
        if not family.groups:
            del self.families[shape.kind]
        self.version += 1

    def leave(self, name: str) -> None:
        """It is in the queue no longer."""
        del self._known[name]
        if name in self._waiting:
            self.plan(name)


def first_of(entries: Iterable[Entry | None]) -> Entry | None:
    """The first in the line of these."""
    return min((each for each in entries if each is not None), key=_key, default=None)


def _key(entry: Entry) -> Key:
    return entry[0]
