"""What waits in a leaf, in the leaf's own order (semantics.md section 3, rule 3), and in groups that fare alike."""

from __future__ import annotations

from collections.abc import Mapping

from .values import Workload

QueueEntry = tuple[int, int, str, Workload]
"""Place inside a leaf: priority (negated), first submission, id (section 3, rule 3)."""
GroupKey = tuple[int, bool, int, str | None]
"""What workloads of a leaf have in common that fare alike: size, whether funded, priority, pin."""


class Group:
    """Workloads of one leaf that ask for the same, but for the length of their contracts.

    Those whose devices are chosen already (a claim, or a start inside a pass) are not in it.
    """

    __slots__ = ("_codes", "_shortest_s", "failure", "is_funded", "members")

    def __init__(self, *, is_funded: bool) -> None:
        """Nobody waits."""
        self.is_funded = is_funded
        self.members: dict[str, Workload] = {}
        self._shortest_s: int | None = None  # where it is known
        self.failure: object = None  # what passes remember of why none of them could start (quiet.py)
        self._codes: dict[str | None, int] = {}  # members by what they were told last

    def add(self, workload: Workload, code: str | None) -> None:
        """One more waits, who was told that code last."""
        self.members[workload.id] = workload
        self._codes[code] = self._codes.get(code, 0) + 1
        self._shortest_s = self.failure = None

    def remove(self, workload: Workload, code: str | None) -> None:
        """One waits no longer."""
        del self.members[workload.id]
        self._codes[code] -= 1
        if workload.min_runtime_s == self._shortest_s:
            self._shortest_s = None

    def retell(self, before: str | None, code: str | None) -> None:
        """One who was told `before` last is told `code`; None is nothing."""
        self._codes[before] -= 1
        self._codes[code] = self._codes.get(code, 0) + 1

    def number_told(self, code: str) -> int:
        """How many were told that code last."""
        return self._codes.get(code, 0)

    def any(self) -> Workload:
        """One of them."""
        return next(iter(self.members.values()))

    def last(self) -> Workload:
        """The one that the leaf's order puts last."""
        return max(self.members.values(), key=lambda each: (each.submitted_s, each.id))

    def shortest_contract_s(self) -> int:
        """Where one with that contract cannot start, nobody of the group can."""
        if self._shortest_s is None:
            self._shortest_s = min(workload.min_runtime_s for workload in self.members.values())
        return self._shortest_s


class LeafQueue:
    """What waits in one leaf: the funded and the unallocated in the leaf's order, and all of it by group."""

    __slots__ = ("funded", "groups", "unallocated")

    def __init__(self) -> None:
        """Nothing waits."""
        self.funded: list[QueueEntry] = []
        self.unallocated: list[QueueEntry] = []
        self.groups: dict[GroupKey, Group] = {}

    def of(self, workload: Workload) -> list[QueueEntry]:
        """The one of the two queues that a workload belongs to."""
        return self.funded if workload.min_runtime_s else self.unallocated

    def group(self, workload: Workload) -> Group:
        """The group that a workload belongs to, made if there is none."""
        key = workload.size_milli, workload.min_runtime_s > 0, workload.priority, workload.node
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = Group(is_funded=key[1])
        return found

    def join_group(self, workload: Workload, told: Mapping[str, str]) -> None:
        """It waits for devices."""
        self.group(workload).add(workload, told.get(workload.id))

    def leave_group(self, workload: Workload, told: Mapping[str, str]) -> None:
        """It waits for devices no longer."""
        key = workload.size_milli, workload.min_runtime_s > 0, workload.priority, workload.node
        group = self.groups[key]
        group.remove(workload, told.get(workload.id))
        if not group.members:
            del self.groups[key]
