"""The network: what time shifts are worth to gangs that share links, on CASSINI's testbed as a fluid.

The same gangs are placed by two hosts, schedulers that know nothing of what gangs send: one keeps gangs together, one
takes the first servers that are free. CASSINI chooses among the placements that a host could make, and shifts what
shares links. Beside it the very same placements without shifts, the host's own, random ones, and, as the ideal, every
gang alone on the network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import combinations, combinations_with_replacement
from math import inf
from typing import Any, NamedTuple

from scheduler.engine import cassini

from ..fluid import Fabric, Fluid
from ..lab.chance import Chance
from ..report import percentile
from .network_models import MODELS, Model, with_own_batch
from .spread import least_middle_most

FABRIC = Fabric(leaves=12, servers=2, nic_mbps=50_000, oversubscription=2)
"""24 servers of one GPU; two below each leaf, which reaches the spine with what one of them could send."""
GANGS = (2, 3, 4, 5, 6)
MINUTES = (2.0, 8.0)
"""So long a gang would train alone."""
LOAD = 0.95
"""What is asked of the servers' time, where gangs train alone."""
CANDIDATES = 10
SLACK, JITTER = 0.01, 0.005
"""A piece of computing takes so much less than its profile says, whose period is rounded up, and deviates by so much
(means and deviations of logarithms)."""
KEPT_SCORE = 1.0
"""Those that hang together keep their places where the worst of their links scores as much: beside others there is no
place in which an iteration takes no longer, and whoever waits for it waits in vain."""
MINUTE_MS = 60_000


class Way(NamedTuple):
    """How gangs are placed.

    Attributes:
        host: whose placements these are: "together", "first free" or "random".
        network: "own" as the host places; "scored" by CASSINI's score alone; "shifted" with its shifts as well;
            "ideal" as the host places, and every gang alone on the network.
    """

    host: str
    network: str

    @property
    def name(self) -> str:
        """In words."""
        if self.network == "ideal":
            return "ideal"
        return self.host + {"own": "", "scored": ", CASSINI's places", "shifted": ", CASSINI"}[self.network]


MIXES = IN_STEP, OWN_BATCHES = ("in step", "own batches")
HOSTS = ("together", "first free")
WAYS = (
    Way("together", "ideal"),
    *(Way(host, network) for host in HOSTS for network in ("own", "shifted", "scored")),
    Way("random", "own"),
)
PUBLISHED = {"mean": 1.6, "tail": 2.5, "excess": 33.0}
"""Up to so many times better than the schedulers that CASSINI was compared with (NSDI 2024): completion, ECN marks."""


class Gang(NamedTuple):
    """One training."""

    name: str
    model: Model
    servers: int
    iterations: int
    submitted_ms: float


def gangs(chance: Chance, minutes: int, mix: str) -> list[Gang]:
    """What is submitted within so many minutes, one or more, as if by people who know nothing of each other."""
    mean_ms = sum(MINUTES) / 2 * MINUTE_MS
    mean_servers = sum(GANGS) / len(GANGS)
    per_ms = LOAD * FABRIC.leaves * FABRIC.servers / (mean_servers * mean_ms)
    found: list[Gang] = []
    at_ms = 0.0
    while (at_ms := at_ms + chance.expovariate(per_ms)) < minutes * MINUTE_MS or not found:
        model = chance.choice(MODELS)
        if mix == OWN_BATCHES:
            model = with_own_batch(model, chance)
        iterations = round(chance.uniform(*MINUTES) * MINUTE_MS / model.profile.period_ms)
        found.append(Gang(f"{model.name}/{len(found) + 1}", model, chance.choice(GANGS), iterations, at_ms))
    return found


def candidates(host: str, free: Collection[int], servers: int) -> list[tuple[int, ...]]:
    """Up to `CANDIDATES` placements that are alike to a host, the one that it would take first.

    "together": over fewest leaves, and those of them that this fills best; "first free": servers that follow each
    other among the free ones.
    """
    in_order = sorted(free)
    if len(in_order) < servers:
        return []
    if host == "first free":
        return [tuple(in_order[first : first + servers]) for first in range(len(in_order) - servers + 1)][:CANDIDATES]
    by_leaf: defaultdict[int, list[int]] = defaultdict(list)
    for server in in_order:
        by_leaf[FABRIC.leaf_of(server)].append(server)
    fullest = sorted((len(members) for members in by_leaf.values()), reverse=True)
    number = next(number for number in range(1, len(fullest) + 1) if sum(fullest[:number]) >= servers)
    enough = [
        leaves for leaves in combinations(by_leaf, number) if sum(len(by_leaf[leaf]) for leaf in leaves) >= servers
    ]
    enough.sort(key=lambda leaves: sum(len(by_leaf[leaf]) for leaf in leaves))
    return [
        tuple(server for leaf in sorted(leaves, key=lambda leaf: len(by_leaf[leaf])) for server in by_leaf[leaf])[
            :servers
        ]
        for leaves in enough[:CANDIDATES]
    ]


class Place(NamedTuple):
    """Where and from when a gang trained."""

    servers: tuple[int, ...]
    start_ms: float


class Trained(NamedTuple):
    """What became of all gangs in one way of placing them.

    Attributes:
        slowdowns: of each iteration, how many times longer it took than alone.
        completions_s: of each gang, from its submission on.
        overload: of the links' time while anything ran, how much they were asked for more than they carry.
        excess_gbit: how much more, in all.
        places: of each gang.
    """

    slowdowns: Sequence[float]
    completions_s: Sequence[float]
    overload: float
    excess_gbit: float
    places: Mapping[str, Place]


class _Running(NamedTuple):
    gang: Gang
    servers: tuple[int, ...]


class _Shift(NamedTuple):
    shift_ms: int
    keeps: bool


class _Testbed:
    """Gangs on servers, first come first served; whoever does not fit lets others pass."""

    def __init__(self, way: Way, jitter: Callable[[], float], chance: Chance) -> None:
        """Everything is free. `chance` scatters."""
        self._way = way
        self._chance = chance
        self._fluid = Fluid(FABRIC.capacities(), jitter)
        self._free = set(range(FABRIC.leaves * FABRIC.servers))
        self._running: dict[str, _Running] = {}
        self._shifts: dict[str, _Shift] = {}
        self._places: dict[str, Place] = {}

    def train(self, submitted: Sequence[Gang], places: Mapping[str, Place]) -> Trained:
        """All of them, to the end. `places` are given where they are those of another way."""
        coming = sorted(submitted, key=lambda gang: places[gang.name].start_ms if places else gang.submitted_ms)
        at_ms = {gang.name: places[gang.name].start_ms if places else gang.submitted_ms for gang in coming}
        waiting: list[Gang] = []
        slowdowns: list[float] = []
        completions_s: list[float] = []
        while coming or waiting or self._running:
            ended = self._fluid.run(at_ms[coming[0].name]) if coming else self._fluid.run()
            if ended is None:
                waiting.append(coming.pop(0))
            else:
                gang, servers = self._running.pop(ended.name)
                self._free.update(servers)
                self._shifts.pop(ended.name, None)
                slowdowns += [took_ms / gang.model.profile.period_ms for took_ms in ended.took_ms]
                completions_s.append((self._fluid.now_ms - gang.submitted_ms) / 1_000)
                if self._way.network == "shifted":
                    self._shift(cassini.choose([self._links()], self._profiles()))
            waiting = [gang for gang in waiting if not self._start(gang, places)]
        links_ms = self._fluid.now_ms * FABRIC.leaves
        overload = sum(self._fluid.overload_ms.values()) / links_ms
        excess_gbit = sum(self._fluid.excess_kbit.values()) / 1e6
        return Trained(slowdowns, completions_s, overload, excess_gbit, self._places)

    def _start(self, gang: Gang, places: Mapping[str, Place]) -> bool:
        """Whether it found room."""
        choice = None
        shifts = self._way.network == "shifted"
        if places:
            servers = places[gang.name].servers
            if not self._free.issuperset(servers):
                return False
        elif len(self._free) < gang.servers:
            return False
        elif self._way.host == "random":
            servers = tuple(self._chance.sample(sorted(self._free), gang.servers))
        else:
            found = candidates(self._way.host, self._free, gang.servers)
            servers = found[0]
            if shifts:
                profiles = self._profiles() | {gang.name: gang.model.profile}
                choice = cassini.choose([self._links(gang.name, each) for each in found], profiles)
                servers = found[choice.number] if choice else servers
        self._free.difference_update(servers)
        self._running[gang.name] = _Running(gang, servers)
        self._places[gang.name] = Place(servers, self._fluid.now_ms)
        links = () if self._way.network == "ideal" else FABRIC.links_of(servers)
        self._fluid.start(gang.name, gang.model.profile, links, gang.iterations)
        if shifts:
            self._shift(choice)
        return True

    def _profiles(self) -> dict[str, cassini.Profile]:
        return {name: gang.model.profile for name, (gang, _) in self._running.items()}

    def _links(self, name: str = "", servers: Collection[int] = ()) -> dict[str, cassini.Shared]:
        """Who uses what, with one more."""
        users: defaultdict[str, list[str]] = defaultdict(list)
        for each, members in [*((each, held) for each, (_, held) in self._running.items()), (name, servers)]:
            for link in FABRIC.links_of(members):
                users[link].append(each)
        return {link: cassini.Shared(FABRIC.uplink_mbps, names) for link, names in users.items()}

    def _shift(self, choice: cassini.Choice | None) -> None:
        """Hand shifts to those that are not where they should be.

        What hangs together may be shifted in common. So the one that has stood longest stays, and with it all that
        stand rightly beside it.
        """
        before, self._shifts = self._shifts, {}
        since = list(self._running)
        groups, shifts_ms = ((), {}) if choice is None else (choice.groups, choice.shifts_ms)
        for group in groups:
            first = min(group.workloads, key=lambda name: (name not in before, since.index(name)))
            here_ms = before[first].shift_ms if first in before else round(self._fluid.now_ms)
            for name in group.workloads:
                period_ms = self._running[name].gang.model.profile.period_ms
                shift_ms = (shifts_ms[name] - shifts_ms[first] + here_ms) % period_ms
                self._shifts[name] = shift = _Shift(shift_ms, group.score >= KEPT_SCORE)
                if before.get(name) != shift:
                    self._fluid.shift(name, shift_ms, keeps=shift.keeps)
        for name in before.keys() - self._shifts.keys():
            self._fluid.release(name)


def run(seed: int, minutes: int, mix: str, chance_of: Callable[[str], Chance]) -> dict[str, Any]:
    """The same gangs in each way.

    Args:
        seed: which gangs; `chance_of` is asked for a source of chance of that seed for each purpose.
        minutes: for how long gangs come.
        mix: one of `MIXES`.
        chance_of: gives a source of chance by what it is for, always the same for the same words.
    """
    submitted = gangs(chance_of(f"{seed}: gangs"), minutes, mix)
    found: dict[str, Any] = {}
    places: Mapping[str, Place] = {}
    for way in WAYS:
        jitter = chance_of(f"{seed}: jitter")
        testbed = _Testbed(way, partial(jitter.lognormvariate, -SLACK, JITTER), chance_of(f"{seed}: places"))
        trained = testbed.train(submitted, places if way.network == "scored" else {})
        places = trained.places
        found[way.name] = figures(trained)
    return {"seed": seed, "mix": mix, "gangs": len(submitted), "ways": found}


def _percentile(values: Sequence[float], percent: int) -> float:
    """Of one value or more."""
    found = percentile(values, percent)
    assert found is not None
    return found


def figures(trained: Trained) -> dict[str, float]:
    """What is told of one way."""
    slowdowns, completions_s = sorted(trained.slowdowns), sorted(trained.completions_s)
    return {
        "iteration_mean": sum(slowdowns) / len(slowdowns),
        "iteration_p99": _percentile(slowdowns, 99),
        "completion_mean_s": sum(completions_s) / len(completions_s),
        "completion_p95_s": _percentile(completions_s, 95),
        "overload": trained.overload,
        "excess_gbit": trained.excess_gbit,
    }


# --- two gangs on one link --------------------------------------------------------------------------------------------

PAIR_MINUTES = 3
"""So long two share a link, if gangs come for as long."""
CLASSES = (("1", 1.0), ("0.95 to 1", 0.95), ("0.9 to 0.95", 0.9), ("below 0.9", -inf))
"""Scores of pairs, each class with its least."""


def pairs(seed: int, minutes: int, chance_of: Callable[[str], Chance]) -> list[dict[str, Any]]:
    """Every two models on one link, for so many minutes without shifts and with them; a row for each pair.

    `slowdown` and `tail` are the mean and the 99th percentile of how many times longer an iteration took than alone,
    `overload` the part of the time in which the link was asked for more than it carries; each without and with shifts.
    """
    rows = []
    for one, other in combinations_with_replacement(MODELS, 2):
        start_ms = chance_of(f"{seed}: {one.name} and {other.name}").uniform(0, other.profile.period_ms)
        fit = cassini.best_fit([one.profile, other.profile], FABRIC.uplink_mbps)
        row: dict[str, Any] = {"models": [one.name, other.name], "score": fit.score}
        for name in ("unshifted", "shifted"):
            jitter = chance_of(f"{seed}: jitter of {one.name} and {other.name}")
            fluid = Fluid({"L1": FABRIC.uplink_mbps}, partial(jitter.lognormvariate, -SLACK, JITTER))
            fluid.start("one", one.profile, ["L1"], minutes * MINUTE_MS // one.profile.period_ms)
            fluid.run(start_ms)
            fluid.start("other", other.profile, ["L1"], minutes * MINUTE_MS // other.profile.period_ms)
            if name == "shifted":
                for who, shift_ms in zip(("one", "other"), fit.shifts_ms, strict=True):
                    fluid.shift(who, shift_ms, keeps=fit.score >= KEPT_SCORE)
            ended = [each for each in (fluid.run(), fluid.run()) if each is not None]
            slowdowns = [
                took_ms / (one if each.name == "one" else other).profile.period_ms
                for each in ended
                for took_ms in each.took_ms
            ]
            row[name] = {
                "slowdown": sum(slowdowns) / len(slowdowns),
                "tail": _percentile(slowdowns, 99),
                "overload": fluid.overload_ms["L1"] / fluid.now_ms,
                "excess_gbit": fluid.excess_kbit["L1"] / 1e6,
            }
        rows.append(row)
    return rows


# --- tables -----------------------------------------------------------------------------------------------------------


def table(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line for each way: of each figure the least, the median (nearest rank) and the most over the seeds."""
    lines = []
    for way in WAYS:
        line: dict[str, Any] = {"way": way.name}
        for name in results[0]["ways"][way.name]:
            line[name] = least_middle_most(each["ways"][way.name][name] for each in results)
        lines.append(line)
    return lines


def pair_table(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line for each class of scores: the means over its pairs, without shifts and with them."""
    lines = []
    most = inf
    for name, least in CLASSES:
        members = [row for row in rows if least <= row["score"] < most]
        most = least
        line: dict[str, Any] = {"score": name, "pairs": len(members)}
        for shifts in ("unshifted", "shifted"):
            line[shifts] = {
                figure: sum(row[shifts][figure] for row in members) / len(members)
                for figure in ("slowdown", "tail", "overload", "excess_gbit")
                if members
            }
        lines.append(line)
    return lines


def beside_published(results: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How many times better CASSINI was than each of the others: least, median and most over hosts and seeds.

    "mean" and "tail" are completion times (the tail the 95th percentile), "excess" what links were asked for more than
    they carry, as nothing here marks packets; against the host's own placements, against the very same placements
    without shifts, and against random ones. For fully compatible pairs on one link, tail and mean are of iterations.
    """
    figures_of = {"mean": "completion_mean_s", "tail": "completion_p95_s", "excess": "excess_gbit"}
    lines = []
    for against in ("own", "scored", "random"):
        line: dict[str, Any] = {"against": against}
        for name, figure in figures_of.items():
            found = sorted(
                _times(
                    each["ways"][(Way("random", "own") if against == "random" else Way(host, against)).name][figure],
                    each["ways"][Way(host, "shifted").name][figure],
                )
                for each in results
                for host in HOSTS
            )
            line[name] = [found[0], _percentile(found, 50), found[-1]]
        lines.append(line)
    compatible = [row for row in rows if row["score"] == 1]
    line = {"against": "pairs"}
    for name, figure in {"mean": "slowdown", "tail": "tail", "excess": "excess_gbit"}.items():
        before, after = (sum(row[shifts][figure] for row in compatible) for shifts in ("unshifted", "shifted"))
        each = sorted(_times(row["unshifted"][figure], row["shifted"][figure]) for row in compatible)
        line[name] = [each[0], _times(before, after), each[-1]]
    return [*lines, line]


def _times(before: float, after: float) -> float:
    """How many times better; 1 where there was nothing to be better than."""
    return before / after if after else (1.0 if not before else inf)
