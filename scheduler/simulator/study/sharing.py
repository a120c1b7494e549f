"""The study of sharing: what a tenant waits for gangs of whole nodes, beside one that runs small work.

Zhao et al. (HiveD, OSDI'20) saw tenants wait for up to 1,000 minutes longer in a shared cluster with quotas than in a
cluster of their own: a quota counts GPUs, and says nothing of where they are. Four ways of sharing run the very
same jobs: quotas over all nodes, small work spread over them or packed; cells (engine/policies/cells.py), where each
tenant has as many whole nodes as its quota; and two clusters apart. In each, a tenant's jobs start first in, first out,
and nothing is preempted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from math import exp
from typing import Any, NamedTuple, Protocol

from scheduler.engine import cells

from ..lab.chance import Chance
from ..report import percentile
from .spread import least_middle_most

NODE_GPUS = 8
NODES = 16
"""Half of them for each tenant."""
SMALL, GANGS = "small work", "gangs"
"""The tenants: one's jobs fit into parts of nodes, the other's are whole nodes."""
TENANTS = (SMALL, GANGS)
SPREAD, PACKED, CELLS, APART = WAYS = ("quotas, spread", "quotas, packed", "cells", "clusters apart")
NODE_LEVEL = 4
CHAIN_FANS = (2, 2, 2)
"""Two GPUs on a switch, two switches on a socket, two sockets in a node."""
HOUR_S = 3_600
LOAD = {SMALL: 0.8, GANGS: 0.6}
"""How much of its half a tenant asks for, over time."""
SIZES: Mapping[str, Mapping[int, float]] = {SMALL: {1: 0.7, 2: 0.2, 4: 0.1}, GANGS: {8: 0.6, 16: 0.3, 32: 0.1}}
"""GPUs of its jobs, and how often each."""
MEDIAN_S = {SMALL: 2 * HOUR_S, GANGS: HOUR_S // 2}
SIGMA = {SMALL: 2.0, GANGS: 1.0}
"""Of durations, which are lognormal: small work lasts minutes, or days."""
PUBLISHED_MIN = 1_000
"""Minutes of additional queueing, at most, that the paper reports of quotas."""


class Job(NamedTuple):
    """A job: whose, its GPUs, when it comes, and how long it runs, in seconds."""

    tenant: str
    gpus: int
    arrives_s: float
    runs_s: float


class Room(Protocol):
    """Where jobs run."""

    def start(self, number: int, job: Job) -> bool:
        """Give a job all that it needs, or nothing; whether it has it."""

    def end(self, number: int, job: Job) -> None:
        """It needs it no longer."""


class Nodes:
    """Nodes that jobs are put on, a larger one than a node on whole nodes. Which these are is up to who gives them."""

    def __init__(self, give: Callable[[], Any], take_back: Callable[[Any], None], *, spread: bool = False) -> None:
        """Nothing runs there.

        Args:
            give: hands out a whole node, by any name.
            take_back: gets it back when it is free again.
            spread: small jobs go on a whole node while there is one, and then where most is free; else where they
                leave least of what is begun.
        """
        self._give, self._take_back, self._spread = give, take_back, spread
        self._begun: dict[Any, int] = {}
        self._held: dict[int, list[tuple[Any, int]]] = {}

    def fits(self, gpus: int, whole: int) -> bool:
        """Whether there is room, if so many whole nodes can be had."""
        return any(free >= gpus for free in self._begun.values()) or whole >= -(-gpus // NODE_GPUS)

    def start(self, number: int, gpus: int, whole: int) -> None:
        """Put a job there for which there is room, where so many whole nodes can be had."""
        begun = [node for node, free in self._begun.items() if free >= gpus]
        if begun and not (self._spread and whole):  # of several that are as good, the one begun first
            nodes = [(max if self._spread else min)(begun, key=lambda node: self._begun[node])]
        else:
            nodes = [self._give() for _ in range(-(-gpus // NODE_GPUS))]
            self._begun |= dict.fromkeys(nodes, NODE_GPUS)
        self._held[number] = [(node, min(gpus, NODE_GPUS)) for node in nodes]
        for node, part in self._held[number]:
            self._begun[node] -= part

    def end(self, number: int) -> None:
        """It needs it no longer."""
        for node, part in self._held.pop(number):
            self._begun[node] += part
            if self._begun[node] == NODE_GPUS:
                del self._begun[node]
                self._take_back(node)


class Quotas:
    """All nodes are everybody's; who holds its quota waits."""

    def __init__(self, nodes: int, quotas: Mapping[str, int], *, spread: bool = False) -> None:
        """`quotas` are GPUs by tenant."""
        self._whole = list(range(nodes))
        self._nodes = Nodes(self._whole.pop, self._whole.append, spread=spread)
        self._left = dict(quotas)

    def start(self, number: int, job: Job) -> bool:
        """As `Room` says."""
        if self._left[job.tenant] < job.gpus or not self._nodes.fits(job.gpus, len(self._whole)):
            return False
        self._nodes.start(number, job.gpus, len(self._whole))
        self._left[job.tenant] -= job.gpus
        return True

    def end(self, number: int, job: Job) -> None:
        """As `Room` says."""
        self._nodes.end(number)
        self._left[job.tenant] += job.gpus


class Apart:
    """A cluster for each tenant."""

    def __init__(self, nodes: Mapping[str, int]) -> None:
        """`nodes` by tenant."""
        self._rooms = {tenant: Quotas(count, {tenant: count * NODE_GPUS}) for tenant, count in nodes.items()}

    def start(self, number: int, job: Job) -> bool:
        """As `Room` says."""
        return self._rooms[job.tenant].start(number, job)

    def end(self, number: int, job: Job) -> None:
        """As `Room` says."""
        self._rooms[job.tenant].end(number, job)


class Virtual:
    """Cells of whole nodes: bound to a real one when the tenant's first job there starts, until its last has ended."""

    def __init__(self, chain: cells.Chain, nodes: Mapping[str, int]) -> None:
        """`nodes` are cells by tenant."""
        self._clusters = cells.VirtualClusters(chain, {tenant: {NODE_LEVEL: count} for tenant, count in nodes.items()})
        self._nodes = {
            tenant: Nodes(partial(self._clusters.bind, tenant, NODE_LEVEL), self._clusters.release) for tenant in nodes
        }
        self._most = nodes

    def start(self, number: int, job: Job) -> bool:
        """As `Room` says."""
        left = self._most[job.tenant] - self._clusters.in_use(job.tenant, NODE_LEVEL)
        if not self._nodes[job.tenant].fits(job.gpus, left):
            return False
        self._nodes[job.tenant].start(number, job.gpus, left)
        return True

    def end(self, number: int, job: Job) -> None:
        """As `Room` says."""
        self._nodes[job.tenant].end(number)


def room_of(way: str) -> Room:
    """The cluster, shared in one of WAYS."""
    half = dict.fromkeys(TENANTS, NODES // 2)
    if way in (SPREAD, PACKED):
        return Quotas(NODES, {tenant: count * NODE_GPUS for tenant, count in half.items()}, spread=way == SPREAD)
    return Apart(half) if way == APART else Virtual(cells.Chain(CHAIN_FANS, NODES), half)


def jobs(rng: Chance, days: int) -> list[Job]:
    """What both tenants submit within so many days, by arrival."""
    found = []
    for tenant in TENANTS:
        sizes, weights = list(SIZES[tenant]), list(SIZES[tenant].values())
        mean_gpus = sum(size * weight for size, weight in SIZES[tenant].items())
        mean_s = MEDIAN_S[tenant] * exp(SIGMA[tenant] ** 2 / 2)
        every_s = mean_gpus * mean_s / (LOAD[tenant] * NODES * NODE_GPUS / len(TENANTS))
        at_s = rng.expovariate(1 / every_s)
        while at_s < days * 24 * HOUR_S:
            runs_s = MEDIAN_S[tenant] * rng.lognormvariate(0, SIGMA[tenant])
            found.append(Job(tenant, rng.choices(sizes, weights)[0], at_s, runs_s))
            at_s += rng.expovariate(1 / every_s)
    return sorted(found, key=lambda job: job.arrives_s)


def delays(work: Sequence[Job], room: Room) -> list[float]:
    """How long each job waits, in seconds. At an instant, what ends makes room for what comes."""
    waiting: dict[str, deque[int]] = {}
    ends: list[tuple[float, int]] = []
    found = [0.0] * len(work)
    coming = 0
    while coming < len(work) or ends:
        now_s = min(work[coming].arrives_s if coming < len(work) else ends[0][0], ends[0][0] if ends else float("inf"))
        while ends and ends[0][0] <= now_s:
            _, number = heappop(ends)
            room.end(number, work[number])
        while coming < len(work) and work[coming].arrives_s <= now_s:
            waiting.setdefault(work[coming].tenant, deque()).append(coming)
            coming += 1
        for queue in waiting.values():
            while queue and room.start(queue[0], work[queue[0]]):
                number = queue.popleft()
                found[number] = now_s - work[number].arrives_s
                heappush(ends, (now_s + work[number].runs_s, number))
    return found


def run(seed: int, days: int, rng_of: Callable[[int], Chance]) -> dict[str, Any]:
    """The same jobs in each way of sharing: figures of each tenant's delays, in seconds."""
    work = jobs(rng_of(seed), days)
    waits = {way: delays(work, room_of(way)) for way in WAYS}
    return {
        "seed": seed,
        "jobs": len(work),
        "ways": {way: figures(work, waits[way], waits[APART]) for way in WAYS},
    }


def figures(work: Sequence[Job], waits: Sequence[float], apart: Sequence[float]) -> dict[str, dict[str, float]]:
    """What each tenant's jobs waited, in seconds.

    `longer` is by how much a job waits longer than in a cluster of its tenant's own: the mean over all, and the most.
    """
    found = {}
    for tenant in TENANTS:
        mine = [number for number, job in enumerate(work) if job.tenant == tenant]
        own = sorted(waits[number] for number in mine)
        longer = [waits[number] - apart[number] for number in mine]
        found[tenant] = {
            "mean_s": sum(own) / len(own) if own else 0.0,
            "p90_s": percentile(own, 90) or 0.0,
            "most_s": max(own, default=0.0),
            "longer_mean_s": sum(longer) / len(longer) if longer else 0.0,
            "longer_most_s": max(longer, default=0.0),
        }
    return found


def table(results: Sequence[Mapping[str, Any]], part: str = "ways") -> list[dict[str, Any]]:
    """A line for each way and tenant: of each figure the least, the median and the most over the seeds.

    `part` is where the ways stand in each result: "ways", or "engine" (sharing_engine.py).
    """
    lines = []
    for tenant in reversed(TENANTS):
        for way, tenants in results[0][part].items():
            line: dict[str, Any] = {"tenant": tenant, "way": way}
            for name in tenants[tenant]:
                line[name] = least_middle_most(each[part][way][tenant][name] for each in results)
            lines.append(line)
    return lines
