"""Fifty thousand requests inside what was granted, by the matching that the engine decides by: not one fails."""

from __future__ import annotations

from functools import cache
from random import Random

from scheduler.engine import CellCounts
from scheduler.engine.matching import Matching, Standing, match

RACKS = {"r1": ["h1", "h2"], "r2": ["h3", "h4"], "r3": ["h5", "h6"]}
NODES = {name: rack for rack, names in RACKS.items() for name in names} | {"h7": "", "h8": ""}
GRANTS = (
    {"t": CellCounts(1, 1), "u": CellCounts(1, 1)},
    {"t": CellCounts(1, 1), "u": CellCounts(1, 0), "v": CellCounts(1, 0)},
    {"t": CellCounts(2, 1), "u": CellCounts(0, 2)},
)
"""By tenant; the last is all that there is."""
Held = tuple[tuple[str, str | None, bool], ...]
"""Nodes, by whom they are held, and whether by a request of a rack."""


@cache
def matched(grants: int, held: Held) -> Matching:
    """What is matched to what was granted."""
    on = {name: (frozenset([whose]), is_gang) for name, whose, is_gang in held}
    nodes = []
    for name, rack in NODES.items():
        bound, is_gang = on.get(name, (frozenset(), False))
        nodes.append(Standing(name, rack, bound=bound, gangs=bound if is_gang else frozenset()))
    found = match(GRANTS[grants], nodes, tuple(RACKS))
    assert not found.missing
    return found


class House:
    """Who is where: nodes are held by tenants' requests, and by others, who go wherever they are not kept from."""

    def __init__(self, draw: Random) -> None:
        """Nobody is anywhere."""
        self.draw = draw
        self.number = draw.randrange(len(GRANTS))
        self.granted = GRANTS[self.number]
        self.held: list[tuple[str | None, list[str]]] = []

    def matching(self) -> Matching:
        """What is matched as things stand."""
        held = sorted((name, whose, len(names) > 1) for whose, names in self.held for name in names)
        return matched(self.number, tuple(held))

    def in_use(self, tenant: str, level: str) -> int:
        """How many of a tenant's requests of a level are served."""
        return sum(whose == tenant and (len(names) > 1) == (level == "rack") for whose, names in self.held)

    def serve(self, tenant: str, level: str) -> None:
        """Serve a request inside what was granted: of a node off rack cells, of a rack in a whole one."""
        found, taken = self.matching(), {name for _, names in self.held for name in names}
        mine = [name for name, owner in found.clean.items() if owner == tenant and name not in taken]
        if level == "node":
            off_racks = [name for name in mine if NODES[name] not in found.racks]
            self.held.append((tenant, [self.draw.choice(off_racks)]))
        else:
            whole = [rack for rack, owner in found.racks.items() if owner == tenant and taken.isdisjoint(RACKS[rack])]
            self.held.append((tenant, RACKS[self.draw.choice(whole)]))

    def let_others_in(self) -> None:
        """Somebody without cells takes a node that they are not kept from, if there is one."""
        found, taken = self.matching(), {name for _, names in self.held for name in names}
        free = [name for name in NODES if name not in taken and not found.keeps_from(name, None)]
        if free:
            self.held.append((None, [self.draw.choice(free)]))


def test_fifty_thousand_requests_inside_grants_and_not_one_fails() -> None:
    draw = Random(7)
    served = 0
    while served < 50_000:
        house = House(draw)
        for _ in range(500):
            legal = [
                (tenant, level)
                for tenant, counts in house.granted.items()
                for level in ("node", "rack")
                if house.in_use(tenant, level) < getattr(counts, level)
            ]
            kind = draw.random()
            if legal and kind < 0.5:
                house.serve(*draw.choice(legal))  # fails where there is nothing to choose from
                served += 1
            elif kind < 0.6:
                house.let_others_in()
            elif house.held:
                house.held.pop(draw.randrange(len(house.held)))
    assert matched.cache_info().misses > 1_000
