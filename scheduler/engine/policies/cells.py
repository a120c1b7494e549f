"""Cells: whole pieces of a cluster's hierarchy (a GPU, a pair on a switch, a node, a rack), granted to tenants.

Zhao et al., HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees, OSDI'20. A tenant that is granted so many
cells of each level has a virtual private cluster. Cells are bound to real ones only while they are used, and by buddy
allocation: so whatever others do, and whatever happened before, a tenant's own cell of a level is there when it asks
for one, as long as the grants together fit the cluster (`left_over`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

Grant = Mapping[int, int]
"""How many cells of each level a tenant has, by level."""


class Cell(NamedTuple):
    """A cell: its level, 1 being the smallest, and its place among the cells of that level."""

    level: int
    place: int


class InfeasibleError(ValueError):
    """Cells that cannot all be granted.

    Attributes:
        level: the highest level at which they are not enough.
        short: how many cells of that level are missing.
    """

    def __init__(self, chain: Chain, level: int, short: int) -> None:
        """Say at which level, and by how much."""
        self.level, self.short = level, short
        plural = "cell is" if short == 1 else "cells are"
        super().__init__(f"{chain.name_of(level)}: {short:,} {plural} missing")


class NotGrantedError(LookupError):
    """A tenant asks for a cell that it was not granted, or that it uses already."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A uniform hierarchy of cells.

    Attributes:
        fans: how many cells of one level make one of the next: from level 1 upwards, so one fewer than there are
            levels.
        tops: how many cells of the highest level there are.
        names: what cells are called, from level 1 upwards; without them they are "level 1" and so on.
    """

    fans: tuple[int, ...]
    tops: int
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no hierarchy.

        Raises:
            ValueError: names the attribute.
        """
        if any(type(fan) is not int or fan < 1 for fan in self.fans):
            raise ValueError("fans: must be whole numbers of at least 1")
        if type(self.tops) is not int or self.tops < 0:
            raise ValueError("tops: must be a whole number of at least 0")
        if self.names and len(self.names) != self.levels:
            raise ValueError(f"names: there are {self.levels} levels, and {len(self.names)} names")

    @property
    def levels(self) -> int:
        """How many there are."""
        return len(self.fans) + 1

    def size(self, level: int, below: int = 1) -> int:
        """How many cells of the level `below` are in one of `level`."""
        return prod(self.fans[below - 1 : level - 1])

    def name_of(self, level: int) -> str:
        """What a cell of that level is called."""
        return self.names[level - 1] if self.names else f"level {level}"

    def check(self, level: int) -> None:
        """Nothing, if there is such a level.

        Raises:
            ValueError: there is none.
        """
        if type(level) is not int or not 1 <= level <= self.levels:
            raise ValueError(f"level {level}: there are levels 1 to {self.levels}")


def left_over(chain: Chain, grants: Sequence[Grant]) -> list[int]:
    """How many cells of each level, from level 1 upwards, are in nobody's grant, where larger ones are broken up.

    That none is missing is all that the guarantee needs.

    Raises:
        InfeasibleError: there are not so many cells.
        ValueError: a grant names a level that there is not, or no whole number of cells.
    """
    wanted = [0] * (chain.levels + 1)
    for grant in grants:
        for level, count in grant.items():
            chain.check(level)
            if type(count) is not int or count < 0:
                raise ValueError(f"{chain.name_of(level)}: must be a whole number of at least 0 cells, not {count!r}")
            wanted[level] += count
    left = [0] * chain.levels
    above = chain.tops
    for level in range(chain.levels, 0, -1):
        above -= wanted[level]
        if above < 0:
            raise InfeasibleError(chain, level, -above)
        left[level - 1] = above
        above *= chain.fans[level - 2] if level > 1 else 1
    return left


def grantable(chain: Chain, grants: Sequence[Grant]) -> list[int]:
    """How many cells of each level, from level 1 upwards, could still be granted if all that is left went to it.

    Raises:
        InfeasibleError, ValueError: as `left_over`.
    """
    left = left_over(chain, grants)
    return [
        min(left[below - 1] // chain.size(level, below) for below in range(1, level + 1))
        for level in range(1, chain.levels + 1)
    ]


def nobody(_cell: Cell) -> int:
    """That nobody uses any of a cell."""
    return 0


class Cells:
    """The real cells of a chain, and which of them are bound: buddy allocation."""

    def __init__(self, chain: Chain) -> None:
        """All of them are free."""
        self.chain = chain
        self._free: list[list[int]] = [[] for _ in range(chain.levels)]
        self._free[-1] = list(range(chain.tops))
        self._bound: set[Cell] = set()

    def free(self, level: int) -> Sequence[int]:
        """Free cells of that level which are in no larger free one, by their places."""
        return self._free[level - 1]

    def bind(self, level: int, used: Callable[[Cell], int] = nobody) -> Cell | None:
        """Bind a cell of that level: a free one, or a part of the smallest free one that is large enough.

        Args:
            level: of which.
            used: how many GPUs of a cell others use who must leave it; the one with fewest is taken, then the first.

        Returns:
            the cell, or None if there is none.

        Raises:
            ValueError: there is no such level.
        """
        self.chain.check(level)
        for at in range(level, self.chain.levels + 1):
            if self._free[at - 1]:
                index = min(self._free[at - 1], key=lambda each: used(Cell(at, each)))
                self._take(at, index)
                found = self._broken_up(Cell(at, index), level, used)
                self._bound.add(found)
                return found
        return None

    def _broken_up(self, cell: Cell, level: int, used: Callable[[Cell], int]) -> Cell:
        while cell.level > level:
            fan = self.chain.fans[cell.level - 2]
            parts = [Cell(cell.level - 1, cell.place * fan + part) for part in range(fan)]
            cell = min(parts, key=used)
            for part in parts:
                if part != cell:
                    insort(self._free[part.level - 1], part.place)
        return cell

    def release(self, cell: Cell) -> None:
        """Nobody uses a cell any longer: where its buddies are free, too, they become the larger one again.

        Raises:
            KeyError: it was not bound.
        """
        self._bound.remove(cell)
        level, index = cell
        while level < self.chain.levels:
            fan = self.chain.fans[level - 1]
            first = index - index % fan
            buddies = [each for each in range(first, first + fan) if each != index]
            if not all(self._is_free(level, each) for each in buddies):
                break
            for each in buddies:
                self._take(level, each)
            level, index = level + 1, index // fan
        insort(self._free[level - 1], index)

    def _is_free(self, level: int, index: int) -> bool:
        at = bisect_left(self._free[level - 1], index)
        return at < len(self._free[level - 1]) and self._free[level - 1][at] == index

    def _take(self, level: int, index: int) -> None:
        del self._free[level - 1][bisect_left(self._free[level - 1], index)]


class VirtualClusters:
    """Who was granted which cells, and which of them are in use. A request inside one's own grant always succeeds."""

    def __init__(self, chain: Chain, grants: Mapping[str, Grant]) -> None:
        """Nothing is in use.

        Args:
            chain: the cluster.
            grants: by tenant.

        Raises:
            InfeasibleError, ValueError: as `left_over`.
        """
        left_over(chain, list(grants.values()))
        self.grants = {tenant: dict(grant) for tenant, grant in grants.items()}
        self.cells = Cells(chain)
        self._in_use: dict[Cell, str] = {}
        self._counts: dict[tuple[str, int], int] = {}

    def in_use(self, tenant: str, level: int) -> int:
        """How many of its cells of that level a tenant uses."""
        return self._counts.get((tenant, level), 0)

    def bind(self, tenant: str, level: int, used: Callable[[Cell], int] = nobody) -> Cell:
        """Bind one of a tenant's cells; arguments as for `Cells.bind`.

        Raises:
            NotGrantedError: it uses all of them.
            ValueError: there is no such level.
        """
        self.cells.chain.check(level)
        if self.in_use(tenant, level) >= self.grants.get(tenant, {}).get(level, 0):
            raise NotGrantedError(f"{tenant}: has no more cells of {self.cells.chain.name_of(level)}")
        cell = self.cells.bind(level, used)
        assert cell is not None, "a grant that fits is always there"
        self._in_use[cell] = tenant
        self._counts[tenant, level] = self.in_use(tenant, level) + 1
        return cell

    def release(self, cell: Cell) -> None:
        """A tenant uses a cell no longer.

        Raises:
            KeyError: nobody does.
        """
        tenant = self._in_use.pop(cell)
        self._counts[tenant, cell.level] -= 1
        self.cells.release(cell)
