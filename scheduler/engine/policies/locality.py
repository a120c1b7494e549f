"""Levels of locality that relax with wait, and what spreading costs (Philly, ATC'19; policies.md section 6).

A gang looks for the fewest nodes first, in one rack; having waited for so long, in any rack; then, as far as its owner
allows, over up to twice as many nodes, and at last over any number, with equal parts on each. Only free devices are
spread over: promises, plans and preemption stay on the fewest nodes. Without thresholds nothing of this is so, and
everybody looks for the fewest nodes in as few racks as possible (semantics.md section 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import NamedTuple

from ..values import DEVICE_MILLI

ONE_RACK, ANY_RACK, TWICE, ANYWHERE = range(4)
"""The levels: the fewest nodes in one rack; in any rack; up to twice as many nodes; any number of them."""
LEVELS_OF_LOCALITY = (ONE_RACK, ANY_RACK, TWICE, ANYWHERE)
UTILIZATION = ((2, 0.4366), (4, 0.4094), (8, 0.2856))
"""Mean GPU utilization of 16-GPU workloads by servers, as published (Jeon et al., ATC 2019; the one in the middle from
memory)."""
TOGETHER_MILLI = 1_000
"""How many times the time its work takes, in thousandths, of one that is spread over no more nodes than it needs."""


class Part(NamedTuple):
    """An equal part on each of so many nodes."""

    nodes: int
    milli: int


def level_at(waits_s: Sequence[int], most: int, waited_s: int) -> int:
    """At which level a workload looks that has waited for so long.

    Args:
        waits_s: after what wait it relaxes by a level, three rising thresholds; none is always any rack.
        most: how far its owner allows.
        waited_s: for how long it has waited.
    """
    if not waits_s:
        return ANY_RACK
    return min(most, sum(waited_s >= each for each in waits_s))


def fewest_nodes(size_milli: int, node_milli: int) -> int:
    """The least number of the largest nodes that hold a gang."""
    return -(-size_milli // node_milli)


def most_nodes(level: int, size_milli: int, node_milli: int) -> int:
    """Over how many nodes a gang may be at a level."""
    fewest = fewest_nodes(size_milli, node_milli)
    if level < TWICE:
        return fewest
    devices = max(1, size_milli // DEVICE_MILLI)
    return max(fewest, min(devices, 2 * fewest if level == TWICE else devices))


def parts(level: int, size_milli: int, node_milli: int) -> list[Part]:
    """The equal parts, of whole devices, that a gang may be in on nodes that it shares; those on fewest nodes first."""
    if level < TWICE or size_milli % DEVICE_MILLI:
        return []
    devices = size_milli // DEVICE_MILLI
    numbers = range(max(2, fewest_nodes(size_milli, node_milli)), most_nodes(level, size_milli, node_milli) + 1)
    return [Part(number, size_milli // number) for number in numbers if devices % number == 0]


# --- what it costs ----------------------------------------------------------------------------------------------------


def utilization(servers: int, alone: float | None = None) -> float:
    """The part of its GPUs that a gang uses on so many servers: straight lines through `UTILIZATION`, by log2.

    Nothing was published for more than 8 servers: they count as 8. One server counts as two, unless `alone` says what
    is used on it.
    """
    if servers == 1 and alone is not None:
        return alone
    for (few, at_few), (many, at_many) in pairwise(UTILIZATION):
        if servers < many:
            return at_few + log2(max(servers, few) / few) / log2(many / few) * (at_many - at_few)
    return UTILIZATION[-1][1]


def price(fewest: int, servers: int, alone: float | None = None) -> float:
    """How many times the GPU-hours the same work takes on `servers` in place of `fewest`."""
    return utilization(fewest, alone) / utilization(servers, alone)


def price_milli(fewest: int, servers: int) -> int:
    """The same in whole thousandths, by which simulations stretch what is spread."""
    return round(TOGETHER_MILLI * price(fewest, servers))


def slowdown_milli(size_milli: int, servers: int, node_milli: int) -> int:
    """How many times the time its work takes on so many nodes, in thousandths: more only where it is spread.

    Args:
        size_milli: what is asked for.
        servers: over how many nodes it is.
        node_milli: the largest node.
    """
    fewest = fewest_nodes(size_milli, node_milli)
    return price_milli(fewest, servers) if servers > fewest else TOGETHER_MILLI


def wait_worth_s(fewest: int, servers: int, runtime_s: int) -> int:
    """How long to wait for `fewest` servers, and still finish earlier than from now on `servers`.

    Spreading is worth its price only if the wait is expected to be longer than that.
    """
    return int((price(fewest, servers) - 1) * runtime_s)


class Outlook(NamedTuple):
    """What a level may come to, at the most.

    Attributes:
        level: how far it is relaxed.
        fewest: servers that it needs.
        servers: over how many it may be then.
        price: how many times the GPU-hours it takes there.
        worth_s: how long it could wait for the fewest and still finish earlier; None where nobody knows how long it
            runs.
    """

    level: int
    fewest: int
    servers: int
    price: float
    worth_s: int | None


def widest(level: int, size_milli: int, node_milli: int) -> int:
    """The most nodes over which a gang can really be at a level, in equal parts."""
    found = parts(level, size_milli, node_milli)
    return found[-1].nodes if found else fewest_nodes(size_milli, node_milli)


def outlook(level: int, size_milli: int, node_milli: int, runtime_s: int | None, nodes: int | None = None) -> Outlook:
    """What an owner should know who allows a level, before it is paid.

    It is spread as wide as the level allows, and no wider than there are `nodes`, if that is known.
    """
    fewest, servers = fewest_nodes(size_milli, node_milli), widest(level, size_milli, node_milli)
    if nodes is not None:
        servers = max(fewest, min(servers, nodes))
    return outlook_on(level, fewest, servers, runtime_s)


def outlook_on(level: int, fewest: int, servers: int, runtime_s: int | None) -> Outlook:
    """The same on a known number of servers."""
    worth_s = None if runtime_s is None else wait_worth_s(fewest, servers, runtime_s)
    return Outlook(level, fewest, servers, price(fewest, servers), worth_s)


# --- who relaxes, and when --------------------------------------------------------------------------------------------


class Asks(NamedTuple):
    """At which level one that waits looks now, and the instant from which it looks further; None if it never does."""

    level: int
    relaxes_s: int | None


@dataclass(frozen=True, slots=True)
class Gang:
    """What of a workload and its cluster decides how far it looks after a wait.

    Attributes:
        waits_s: the thresholds.
        most: how far its owner allows.
        size_milli: its size.
        node_milli: the largest node.
        fits_rack: whether some one rack could hold it: if none could, it looks in any rack from the beginning.
        is_pinned: whether it asks for one node by name, and so is never spread.
    """

    waits_s: Sequence[int]
    most: int
    size_milli: int
    node_milli: int
    fits_rack: bool
    is_pinned: bool

    def level_after(self, waited_s: int) -> int:
        """At which level it really looks: one at which nothing is different for it counts as that below."""
        if self.is_pinned:
            return ANY_RACK
        level = level_at(self.waits_s, self.most, waited_s)
        while level >= TWICE and not parts(level, self.size_milli, self.node_milli):
            level -= 1
        if level == ONE_RACK and not (self.size_milli > self.node_milli and self.fits_rack):
            return ANY_RACK
        return level

    def asks(self, since_s: int, now_s: int) -> Asks:
        """The same at an instant, of one that has been waiting since another."""
        level = self.level_after(max(0, now_s - since_s))
        later = [since_s + each for each in self.waits_s if since_s + each > now_s and self.level_after(each) != level]
        return Asks(level, min(later, default=None))


class Looks(NamedTuple):
    """How far one that waits looks, and will look later (None: no further), in words and numbers."""

    level: int
    later_level: int | None
    size_milli: int
    node_milli: int

    @property
    def fewest(self) -> int:
        """The nodes that it needs at least."""
        return fewest_nodes(self.size_milli, self.node_milli)

    @property
    def now(self) -> int:
        """Over how many nodes it may be now."""
        return widest(self.level, self.size_milli, self.node_milli)

    @property
    def later(self) -> int | None:
        """Over how many later."""
        return None if self.later_level is None else widest(self.later_level, self.size_milli, self.node_milli)

    def sentence(self) -> str:
        """In one sentence, without instants."""
        now, later = self.now, self.later
        nodes = "one node" if self.fewest == 1 else f"{self.fewest:,} nodes"
        if self.level == ONE_RACK:
            if self.later_level is None:
                return f"It asks for {nodes} of one rack, and for no others."
            if self.later_level == ANY_RACK:
                return f"It asks for {nodes} of one rack, later of any rack."
            return f"It asks for {nodes} of one rack, later for up to {later:,}."
        if self.level == ANY_RACK:
            return f"It asks for {nodes}, later for up to {later:,}."
        if self.later_level is None:
            return f"It may be spread over up to {now:,} nodes."
        return f"It may be spread over up to {now:,} nodes, later over up to {later:,}."
