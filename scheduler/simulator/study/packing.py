"""The study of packing: how much of a cluster of fractional GPUs can be given out before what is left fits nobody.

Pods of a trace come in any order, drawn with replacement, and none ever ends, until more has been asked for than there
is: so each rule of placement is seen at its limits, as Weng et al. do in "Beware of Fragmentation" (USENIX ATC'23).
Theirs is the measure too: of a node's free devices, those are stranded for a pod that it could not use, as its cores or
memory do not suffice for the pod, or as too little of a device is free; over all nodes, and over the pods of the mix as
often as they come, that is the fragmentation. The last rule here puts a pod where it adds least to that (their gradient
descent). The others are those of the engine's knob, and what the engine does (placing.py): a fraction first fills a
device that is shared already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, NamedTuple

from scheduler.engine import DEVICE_MILLI, Packing

DEMANDED = 1.2
"""Pods come until so many times the cluster's devices were asked for."""
EARLY = 0.8
"""What is stranded is also looked at when so much was asked for: later, there is hardly anything left to strand."""
PUBLISHED_SAVED = 0.5
"""Of the GPUs that Alibaba's sharing saves on average (Weng et al., NSDI'22)."""


class Pod(NamedTuple):
    """What one asks for: thousandths of a core, MiB, thousandths of a device (whole ones beyond one), and its times."""

    cpu_milli: int
    memory_mib: int
    size_milli: int
    created_s: int = 0
    runs_s: int = 0

    @property
    def kind(self) -> Kind:
        """Without its times."""
        return Kind(self.cpu_milli, self.memory_mib, self.size_milli)


class Kind(NamedTuple):
    """What pods that are alike ask for."""

    cpu_milli: int
    memory_mib: int
    size_milli: int


class Left(NamedTuple):
    """What of a node is free: cores, memory, whole devices, and of each device that is begun, in order of amounts."""

    cpu_milli: int
    memory_mib: int
    whole: int
    begun: tuple[int, ...] = ()

    @property
    def free_milli(self) -> int:
        """Of all its devices."""
        return self.whole * DEVICE_MILLI + sum(self.begun)

    def fits(self, kind: Kind) -> bool:
        """Whether a pod could be put there."""
        if kind.cpu_milli > self.cpu_milli or kind.memory_mib > self.memory_mib:
            return False
        size_milli = kind.size_milli
        if size_milli >= DEVICE_MILLI:
            return self.whole * DEVICE_MILLI >= size_milli
        return self.whole > 0 or not size_milli or bool(self.begun and self.begun[-1] >= size_milli)

    def after(self, kind: Kind) -> Left:
        """What is left when a pod that fits is there: a fraction is on the begun device that it fills best."""
        whole, begun = self.whole, self.begun
        if kind.size_milli >= DEVICE_MILLI:
            whole -= kind.size_milli // DEVICE_MILLI
        elif kind.size_milli:
            parts = list(begun)
            part_milli = next((each for each in parts if each >= kind.size_milli), DEVICE_MILLI)
            if part_milli == DEVICE_MILLI:
                whole -= 1
            else:
                parts.remove(part_milli)
            if part_milli > kind.size_milli:
                parts.append(part_milli - kind.size_milli)
            begun = tuple(sorted(parts))
        return Left(self.cpu_milli - kind.cpu_milli, self.memory_mib - kind.memory_mib, whole, begun)

    def beside_milli(self, kind: Kind) -> int | None:
        """What a fraction would leave of a device that is begun already; None if it would begin one."""
        if not 0 < kind.size_milli < DEVICE_MILLI:
            return None
        return next((each - kind.size_milli for each in self.begun if each >= kind.size_milli), None)


class Mix:
    """What pods of a trace ask for, and how often: by which it is measured what is stranded."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        """Only pods that ask for devices could use one."""
        asking = [pod.kind for pod in pods if pod.size_milli]
        self._by_size: dict[int, list[tuple[int, int, float]]] = {}
        for kind, number in sorted(Counter(asking).items()):
            row = (kind.cpu_milli, kind.memory_mib, number / len(asking))
            self._by_size.setdefault(kind.size_milli, []).append(row)
        self._allowed: dict[tuple[int, int], list[tuple[int, float]]] = {}
        self.stranded_milli = lru_cache(maxsize=1 << 18)(self._stranded_milli)

    def _sizes(self, cpu_milli: int, memory_mib: int) -> list[tuple[int, float]]:
        """The sizes of pods for which so many cores and so much memory suffice, each with how often they come."""
        key = cpu_milli, memory_mib
        if key not in self._allowed:
            found = (
                (size, sum(part for cpu, memory, part in rows if cpu <= cpu_milli and memory <= memory_mib))
                for size, rows in self._by_size.items()
            )
            self._allowed[key] = [each for each in found if each[1]]
        return self._allowed[key]

    def _stranded_milli(self, left: Left) -> float:
        """Of a node's free devices, what a pod of the mix could not use, on average."""
        free_milli = left.free_milli
        usable_milli = 0.0
        for size_milli, part in self._sizes(left.cpu_milli, left.memory_mib):
            if size_milli > DEVICE_MILLI:
                found_milli = left.whole * DEVICE_MILLI if left.whole * DEVICE_MILLI >= size_milli else 0
            else:
                found_milli = left.whole * DEVICE_MILLI + sum(each for each in left.begun if each >= size_milli)
            usable_milli += part * found_milli
        return free_milli - usable_milli


Rule = Callable[[Left, Kind], Any]
"""How good a node is for a pod, by what is left there: the lower the better; of equals the first by name."""
SHARED_FIRST, LEAST_STRANDED = "best fit, sharing first", "least stranded"
RULES = (*(packing.value.replace("_", " ") for packing in Packing), SHARED_FIRST, LEAST_STRANDED)


def rule_of(name: str, mix: Mix) -> Rule:
    """The rule of that name."""
    if name == SHARED_FIRST:
        return _shared_first
    if name == LEAST_STRANDED:
        known: dict[Kind, dict[Left, float]] = {}

        def adds(left: Left, kind: Kind) -> float:
            of_kind = known.setdefault(kind, {})
            if left not in of_kind:
                of_kind[left] = mix.stranded_milli(left.after(kind)) - mix.stranded_milli(left)
            return of_kind[left]

        return adds
    return {
        "first fit": lambda left, kind: 0,
        "best fit": lambda left, kind: left.free_milli,
        "worst fit": lambda left, kind: -left.free_milli,
    }[name]


def _shared_first(left: Left, kind: Kind) -> tuple[bool, int]:
    beside_milli = left.beside_milli(kind)
    return (True, left.free_milli) if beside_milli is None else (False, beside_milli)


class Hosts:
    """Nodes, of which those that have the same left are looked at once."""

    def __init__(self, nodes: Sequence[Left]) -> None:
        """Nothing is there yet; of equals the first goes first."""
        self.lefts = list(nodes)
        self._alike: dict[Left, list[int]] = {}
        for number, left in enumerate(nodes):
            heappush(self._alike.setdefault(left, []), number)

    def place(self, kind: Kind, rule: Rule) -> int | None:
        """Put a pod where the rule says; None if it fits nowhere."""
        best: tuple[Any, int] | None = None
        for left, numbers in self._alike.items():
            if kind.cpu_milli <= left.cpu_milli and left.fits(kind):
                key = rule(left, kind), numbers[0]
                if best is None or key < best:
                    best = key
        if best is None:
            return None
        number = best[1]
        heappop(self._alike[self.lefts[number]])
        self._move(number, self.lefts[number].after(kind))
        return number

    def _move(self, number: int, left: Left) -> None:
        if not self._alike[self.lefts[number]]:
            del self._alike[self.lefts[number]]
        self.lefts[number] = left
        heappush(self._alike.setdefault(left, []), number)


def fill(nodes: Sequence[Left], pods: Sequence[Pod], name: str, draw: Callable[[], Pod]) -> dict[str, Any]:
    """Pods come until more is asked for than there is; the figures when the first finds no place, at 80 and at 100 %.

    At 80 %: what of the free is stranded, and which devices and nodes are still whole. At 100 %: what is given out, how
    many found no place, and what sharing saves of the devices that all who were placed, or of them the fractions, would
    need each for itself. `draw` says which of the pods comes next.
    """
    mix = Mix(pods)
    rule, hosts = rule_of(name, mix), Hosts(nodes)
    total_milli = sum(left.free_milli for left in nodes)
    asked_milli = placed_milli = alone = fractions = refused = 0
    first: float | None = None
    early: dict[str, Any] = {}
    full: dict[str, Any] = {}
    while asked_milli < DEMANDED * total_milli:
        kind = draw().kind
        asked_milli += kind.size_milli
        if hosts.place(kind, rule) is None:
            refused += 1
            first = placed_milli / total_milli if first is None else first
        else:
            placed_milli += kind.size_milli
            alone += -(-kind.size_milli // DEVICE_MILLI)
            fractions += 0 < kind.size_milli < DEVICE_MILLI
        if not early and asked_milli >= EARLY * total_milli:
            early = {
                "stranded": _stranded(hosts.lefts, mix),
                "whole_gpus": sum(left.whole for left in hosts.lefts),
                "whole_nodes": sum(now == before for now, before in zip(hosts.lefts, nodes, strict=True)),
            }
        if not full and asked_milli >= total_milli:
            begun = sum(-(-left.free_milli // DEVICE_MILLI) for left in nodes) - sum(left.whole for left in hosts.lefts)
            of_fractions = begun - (alone - fractions)
            full = {
                "allocated": placed_milli / total_milli,
                "refused": refused,
                "saved": 1 - begun / alone,
                "saved_of_fractions": 1 - of_fractions / fractions if fractions else 0.0,
            }
    return {"rule": name, **early, "first_refused": first, **full, "most_allocated": placed_milli / total_milli}


def _stranded(lefts: Sequence[Left], mix: Mix) -> float:
    """Of all free devices, the part that a pod of the mix could not use."""
    free_milli = sum(left.free_milli for left in lefts)
    return sum(mix.stranded_milli(left) for left in lefts) / free_milli if free_milli else 0.0


def replay(nodes: Sequence[Left], pods: Sequence[Pod]) -> dict[str, Any]:
    """The trace as it was: pods come when they came, and end. How full the cluster was, and how many found no place."""
    hosts = _Ending(nodes)
    total_milli = sum(left.free_milli for left in nodes)
    ends: list[tuple[int, int, int]] = []
    used_milli = most_milli = refused = 0
    area = 0
    at_s = last_s = 0
    for number, pod in enumerate(sorted(pods, key=lambda pod: pod.created_s)):
        while ends and ends[0][0] <= pod.created_s:
            at_s, _, size_milli = ends[0]
            area, last_s = area + used_milli * (at_s - last_s), at_s
            used_milli -= size_milli
            hosts.end(heappop(ends)[1])
        area, last_s = area + used_milli * (pod.created_s - last_s), pod.created_s
        if not hosts.start(number, pod.kind):
            refused += 1
            continue
        used_milli += pod.size_milli
        most_milli = max(most_milli, used_milli)
        heappush(ends, (pod.created_s + pod.runs_s, number, pod.size_milli))
    while ends:
        at_s, _, size_milli = heappop(ends)
        area, last_s = area + used_milli * (at_s - last_s), at_s
        used_milli -= size_milli
    mean = area / last_s / total_milli if last_s else 0.0
    return {"mean": mean, "most": most_milli / total_milli, "refused": refused}


class _Ending:
    """Nodes on which pods also end: each device by itself, so that what leaves is given back where it was."""

    def __init__(self, nodes: Sequence[Left]) -> None:
        self._hosts = [[left.cpu_milli, left.memory_mib, *[DEVICE_MILLI] * left.whole] for left in nodes]
        self._lefts = list(nodes)
        self._held: dict[int, tuple[int, dict[int, int]]] = {}

    def start(self, number: int, kind: Kind) -> bool:
        """Put a pod on the node with least free that has room, a fraction beside others first."""
        fitting = (index for index, left in enumerate(self._lefts) if left.fits(kind))
        index = min(fitting, key=lambda each: (_shared_first(self._lefts[each], kind), each), default=None)
        if index is None:
            return False
        takes = {0: kind.cpu_milli, 1: kind.memory_mib, **self._devices(self._hosts[index], kind.size_milli)}
        self._held[number] = index, takes
        self._change(index, takes, -1)
        return True

    def _change(self, index: int, amounts: Mapping[int, int], sign: int) -> None:
        host = self._hosts[index]
        for place, amount in amounts.items():
            host[place] += sign * amount
        self._lefts[index] = self._left(host)

    @staticmethod
    def _left(host: Sequence[int]) -> Left:
        devices = host[2:]
        begun = sorted(each for each in devices if 0 < each < DEVICE_MILLI)
        return Left(host[0], host[1], devices.count(DEVICE_MILLI), tuple(begun))

    @staticmethod
    def _devices(host: Sequence[int], size_milli: int) -> dict[int, int]:
        if size_milli < DEVICE_MILLI:
            fitting = [(free, place) for place, free in enumerate(host) if place > 1 and free >= size_milli]
            return {min(fitting)[1]: size_milli} if size_milli else {}
        whole = [place for place, free in enumerate(host) if place > 1 and free == DEVICE_MILLI]
        return dict.fromkeys(whole[: size_milli // DEVICE_MILLI], DEVICE_MILLI)

    def end(self, number: int) -> None:
        """A pod has left."""
        index, takes = self._held.pop(number)
        self._change(index, takes, +1)


def table(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line for each rule: of each figure the mean over the seeds."""
    lines: list[dict[str, Any]] = []
    for name in RULES:
        found = [each for each in results if each["rule"] == name]
        if found:
            keys = [key for key in found[0] if key not in ("rule", "seed")]
            lines.append({"rule": name} | {key: sum(each[key] or 0 for each in found) / len(found) for key in keys})
    return lines
