"""What waits in a leaf, in the leaf's own order (semantics.md section 3, rule 3), and in groups that fare alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .policies.locality import ANY_RACK, ONE_RACK, TWICE
from .values import Workload

QueueEntry = tuple[tuple[int, int], int, str, Workload]
"""Place inside a leaf: urgency (negated) and turn, first submission, id (section 3, rule 3)."""
FOR_EVER = -1
GroupKey = tuple[int, bool, int, str | None, int, int, tuple[str, ...], bool, int]
"""What workloads of a leaf have in common that fare alike: size, whether funded, urgency, pin, cores, memory, classes,
whether they need the fast ones, and how far they may be spread."""


def _key_of(workload: Workload) -> GroupKey:
    return (
        workload.size_milli,
        workload.min_runtime_s > 0,
        workload.urgency,
        workload.node,
        workload.cpu_milli,
        workload.memory_mib,
        workload.gpu_classes,
        workload.is_high,
        _binding(workload),
    )


def _binding(workload: Workload) -> int:
    """How far it may be spread as things stand; of those bound to one rack, those that stay so are told apart."""
    return FOR_EVER if workload.spread == ONE_RACK and workload.relaxes_s is None else workload.spread


def entry_of(workload: Workload) -> QueueEntry:
    """Its place among those that wait in its leaf."""
    return (-workload.urgency, workload.turn), workload.submitted_s, workload.id, workload


class Group:
    """Workloads of one leaf that ask for the same, but for the length of their contracts.

    Those whose devices are chosen already (a claim, or a start inside a pass) are not in it. Of one that is
    `is_particular` (pinned, with cores, memory or a class, or bound to one rack) size alone does not say why it waits,
    nor of one that `may_spread` over nodes.
    """

    __slots__ = (
        "_any",
        "_codes",
        "_shortest",
        "_stirred",
        "calm",
        "failure",
        "is_funded",
        "is_particular",
        "joined",
        "key",
        "may_spread",
        "members",
        "reach",
        "size_milli",
    )

    def __init__(self, key: GroupKey, stirred: Stirred) -> None:
        """Nobody waits. What makes a closer look at the group necessary is noted in `stirred`."""
        self.key = key
        self.size_milli, self.is_funded, _, node, cpu_milli, memory_mib, classes, _, spread = key
        self.may_spread = spread >= TWICE
        asks_more = node is not None or cpu_milli > 0 or memory_mib > 0 or bool(classes)
        self.is_particular = asks_more or spread != ANY_RACK
        self.members: dict[str, Workload] = {}
        self._stirred = stirred
        self.joined = 0  # when somebody joined last, as `Stirred.joined` counts
        self._any: Workload | None = None
        self._shortest: Workload | None = None  # where it is known
        self.failure: object = None  # what passes remember of why none of them could start (quiet.py)
        self.calm: object = None  # likewise, with which reach none of them could
        self.reach: Any = None  # likewise, what the group may take over (reach.py)
        self._codes: dict[str | None, int] = {}  # members by what they were told last

    def add(self, workload: Workload, code: str | None) -> None:
        """One more waits, who was told that code last."""
        self.members[workload.id] = workload
        self._codes[code] = self._codes.get(code, 0) + 1
        self._shortest = self.failure = None
        self._stirred.moves += 1
        if self.is_funded:
            self._stirred.joined += 1
            self.joined = self._stirred.joined
        else:
            self._stirred.unallocated[self] = None

    def remove(self, workload: Workload, code: str | None) -> None:
        """One waits no longer."""
        del self.members[workload.id]
        self._stirred.moves += 1
        self._codes[code] -= 1
        if workload is self._any:
            self._any = None
        if workload is self._shortest:
            self._shortest = None
        if not self.members:
            self._stirred.unallocated.pop(self, None)

    def retell(self, before: str | None, code: str | None) -> None:
        """One who was told `before` last is told `code`; None is nothing."""
        self._codes[before] -= 1
        self._codes[code] = self._codes.get(code, 0) + 1
        self._stirred.moves += 1
        if not self.is_funded:
            self._stirred.unallocated[self] = None

    def number_told(self, code: str) -> int:
        """How many were told that code last."""
        return self._codes.get(code, 0)

    def any(self) -> Workload:
        """One of them."""
        if self._any is None:
            self._any = next(iter(self.members.values()))
        return self._any

    def last(self) -> Workload:
        """The one that the leaf's order puts last."""
        return max(self.members.values(), key=lambda each: (each.turn, each.submitted_s, each.id))

    def shortest(self) -> Workload:
        """One with the shortest contract: where it cannot start, nobody of the group can."""
        if self._shortest is None:
            self._shortest = min(self.members.values(), key=lambda each: each.min_runtime_s)
        return self._shortest


class Stirred:
    """What has moved in the queue, so that passes need not look at all of it.

    Attributes:
        funded: all funded groups.
        joined: how often somebody has joined one of them.
        moves: how often somebody has joined or left any group, or was told why it waits.
        unallocated: the unallocated groups whose members may not all know why they wait.
        sizes: by amount, the number of unallocated groups that ask for it.
        spreading: likewise, of those that may be spread over nodes.
        group_of: the group of everybody who is in one, by id.
    """

    __slots__ = ("funded", "group_of", "joined", "moves", "sizes", "spreading", "unallocated")

    def __init__(self) -> None:
        """Nobody waits."""
        self.funded: dict[Group, None] = {}
        self.joined = 0
        self.moves = 0
        self.unallocated: dict[Group, None] = {}
        self.sizes: dict[int, int] = {}
        self.spreading: dict[int, int] = {}
        self.group_of: dict[str, Group] = {}

    def count(self, group: Group, number: int) -> None:
        """So many more unallocated groups like this one wait; where `number` is negative, fewer."""
        for sizes in (self.sizes, self.spreading) if group.may_spread else (self.sizes,):
            sizes[group.size_milli] = sizes.get(group.size_milli, 0) + number
            if not sizes[group.size_milli]:
                del sizes[group.size_milli]


class LeafQueue:
    """What waits in one leaf: the funded and the unallocated in the leaf's order, and all of it by group."""

    __slots__ = ("_stirred", "funded", "funded_groups", "unallocated", "unallocated_groups")

    def __init__(self, stirred: Stirred) -> None:
        """Nothing waits."""
        self.funded: list[QueueEntry] = []
        self.unallocated: list[QueueEntry] = []
        self.funded_groups: dict[GroupKey, Group] = {}
        self.unallocated_groups: dict[GroupKey, Group] = {}
        self._stirred = stirred

    def of(self, workload: Workload) -> list[QueueEntry]:
        """The one of the two queues that a workload belongs to."""
        return self.funded if workload.min_runtime_s else self.unallocated

    def group(self, workload: Workload) -> Group:
        """The group that a workload belongs to, made if there is none."""
        joined = self._stirred.group_of.get(workload.id)
        if joined is not None:
            return joined
        key = _key_of(workload)
        is_funded = key[1]
        groups = self.funded_groups if is_funded else self.unallocated_groups
        found = groups.get(key)
        if found is None:
            found = groups[key] = Group(key, self._stirred)
            if is_funded:
                self._stirred.funded[found] = None
            else:
                self._stirred.count(found, +1)
        return found

    def join_group(self, workload: Workload, told: Mapping[str, str]) -> None:
        """It waits for devices."""
        group = self._stirred.group_of[workload.id] = self.group(workload)
        group.add(workload, told.get(workload.id))

    def leave_group(self, workload: Workload, told: Mapping[str, str]) -> None:
        """It waits for devices no longer."""
        group = self._stirred.group_of.pop(workload.id)
        group.remove(workload, told.get(workload.id))
        if not group.members:
            groups = self.funded_groups if group.is_funded else self.unallocated_groups
            del groups[group.key]
            if group.is_funded:
                del self._stirred.funded[group]
            else:
                self._stirred.count(group, -1)
