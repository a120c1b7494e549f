"""The scenario format: one JSON file with a cluster, a tree, workloads and events (scenario-format.md).

Reading is strict: a key that is not known, a reference to nothing or a value out of bounds is a `ScenarioError` that
names the key path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from scheduler.engine import NO_CELLS, BudgetNode, CellCounts, Node, Packing, Policy, cassini, locality, value

from .before import Before, read_before
from .fields import (
    Fields,
    ScenarioError,
    count,
    duration,
    elements,
    flag,
    instant,
    memory,
    parse_json,
    positive,
    shown,
    size_milli,
    text,
    whole,
)
from .references import check

SCHEDULERS = ("contracts", "fifo", "fifo-skip", "sjf", "srtf", "easy", "priority", "partition", "themis")
LEVELS = {"LOW": 0, "NORMAL": 1, "HIGH": 2}
"""Names for levels of the priority baseline, which may be any whole number."""
ROOT = ""
"""The root of every scenario's tree."""
MOST_WEIGHT = 1_000
"""What shares may count times, in the order "fair"."""
PASS_EVERY_S = 60
"""`pass_every_s` of a simulation that says nothing else; the engine also runs at every event."""


@value(frozen=True, slots=True)
class Job:
    """A workload of a scenario. Durations and instants in seconds, sizes in thousandths.

    `submit_s` is None for a workload that is submitted `think_s` after the one named in `after` has ended, and for one
    that was submitted before the start: then `before` says how it stands.
    `exit_delay_s` is None for one that never leaves by itself or when killed. `cpu_milli` and `memory_mib` are asked
    for on each node. `communication` is what it sends in each iteration; None is unsaid. `gpu_classes` are those that
    it can run on, and `is_high` says that it needs the fast ones, as the engine's `Workload` has them. `locality` is
    how far its owner lets it be spread, where the policy relaxes by wait.
    """

    id: str
    leaf: str
    size_milli: int
    min_runtime_s: int
    duration_s: int
    submit_s: int | None = 0
    after: str | None = None
    think_s: int = 0
    is_resumable: bool = True
    priority: int = 0
    node: str | None = None
    exit_delay_s: int | None = 0
    restart_cost_s: int = 0
    startup_s: int = 0
    estimate_s: int | None = None
    is_protected: bool = False
    level: int = LEVELS["NORMAL"]
    user: str = ""
    group: str = ""
    before: Before | None = None
    cpu_milli: int = 0
    memory_mib: int = 0
    communication: cassini.Profile | None = None
    gpu_classes: tuple[str, ...] = ()
    is_high: bool = False
    locality: int = locality.ANY_RACK


@value(frozen=True, slots=True)
class PastUse:
    """Use of before the start, by runs that had ended by then."""

    leaf: str
    size_milli: int
    from_s: int
    until_s: int
    is_funded: bool = True


@value(frozen=True, slots=True)
class Happening:
    """Something from outside at an instant. `kind` says which of the other fields count."""

    at_s: int
    kind: str  # "shares", "cells", "health", "close", "cancel" or "maintenance"
    subject: str = ""  # node, budget node or workload
    health: str = ""
    length_s: int = 0
    shares: Mapping[str, int] = field(default_factory=dict)
    cells: Mapping[str, CellCounts] = field(default_factory=dict)


@value(frozen=True, slots=True)
class Scenario:
    """A whole file, checked. `unit` is what one of the cluster's devices is called in sentences.

    `spreading_cost` says whether what is spread over more nodes than it needs takes longer (locality.py). `packing` is
    on which of the nodes with room a workload goes that needs no more than one.
    """

    name: str
    nodes: Sequence[Node]
    tree: Sequence[BudgetNode]
    policy: Policy
    scheduler: str = "contracts"
    history: Sequence[PastUse] = ()
    jobs: Sequence[Job] = ()
    events: Sequence[Happening] = ()
    until_s: int | None = None
    caps_milli: Mapping[str, int] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "GPU"
    spreading_cost: bool = True
    packing: Packing = Packing.BEST_FIT

    def with_until(self, until_s: int | None) -> Scenario:
        """The same, ending at another instant."""
        return replace(self, until_s=until_s)


def parse(content: str) -> Scenario:
    """Read a scenario from a file's text.

    Raises:
        ScenarioError: names the key path and what is wrong with it.
    """
    file = Fields(parse_json(content), "")
    nodes = file.need("cluster", _cluster)
    caps_milli: dict[str, int] = {}
    tree = file.need("tree", lambda value, path: _tree(value, path, caps_milli))
    policy, scheduler = file.take("policy", _policy, (Policy(pass_every_s=PASS_EVERY_S), "contracts"))
    scenario = Scenario(
        name=file.take("name", text, ""),
        nodes=nodes,
        tree=tree,
        policy=policy,
        scheduler=scheduler,
        history=file.take("history", _history, []),
        jobs=file.take("workloads", read_jobs, []),
        events=file.take("events", read_events, []),
        until_s=file.take("until", duration, None),
        caps_milli=caps_milli,
        spreading_cost=file.take("spreading_cost", flag, True),
        packing=file.take("packing", read_packing, Packing.BEST_FIT),
        expect=file.take("expect", lambda value, path: dict(Fields(value, path).items()), {}),
    )
    file.finish()
    check(scenario)
    return scenario


def _cluster(value: object, path: str) -> list[Node]:
    cluster = Fields(value, path)
    if cluster.has("gpus_per_node"):
        number = cluster.need("nodes", positive)
        if number > 100_000:
            raise ScenarioError(f"{path}.nodes", f"must be at most 100,000, but is {number}")
        capacity = cluster.need("gpus_per_node", positive)
        width = max(3, len(str(number)))
        sizes = {f"n{index:0{width}d}": capacity for index in range(1, number + 1)}
    else:
        sizes = cluster.need("nodes", _named_nodes)
    racks, rails, leaves, classes = (_domains(cluster, level, sizes) for level in ("rack", "rail", "leaf", "class"))
    for named, level in ((racks, "rack"), (rails, "rail"), (leaves, "leaf")):
        if not named and cluster.has(f"nodes_per_{level}"):
            named.update(in_turn(list(sizes), level, cluster.need(f"nodes_per_{level}", positive)))
    nothing: dict[str, int] = {}
    cores = cluster.take("cpus", lambda each, where: _of_nodes(each, where, sizes, positive), nothing)
    cpu_milli = {name: number * 1_000 for name, number in cores.items()}
    memory_mib = cluster.take("memory_gib", lambda each, where: _of_nodes(each, where, sizes, memory), nothing)
    cluster.finish()
    return [
        Node(
            name,
            capacity * 1_000,
            rack=racks.get(name, ""),
            rail=rails.get(name, ""),
            leaf=leaves.get(name, ""),
            cpu_milli=cpu_milli.get(name),
            memory_mib=memory_mib.get(name),
            gpu_class=classes.get(name, ""),
        )
        for name, capacity in sizes.items()
    ]


def in_turn(names: Sequence[str], level: str, each: int) -> dict[str, str]:
    """By node, its rack, rail or leaf, where so many nodes that follow each other are in one."""
    letter = {"rack": "r", "rail": "q", "leaf": "l"}[level]
    return {name: f"{letter}{index // each + 1:03d}" for index, name in enumerate(names)}


def _named_nodes(value: object, path: str) -> dict[str, int]:
    if isinstance(value, int):
        raise ScenarioError(f"{path.rpartition('.')[0]}.gpus_per_node", "is missing, with a number of nodes")
    named = Fields(value, path)
    sizes = {text(name, path): positive(each, named.at(name)) for name, each in named.items()}
    if not sizes:
        raise ScenarioError(path, "must name at least one node")
    return sizes


def _of_nodes(value: object, path: str, sizes: Mapping[str, int], read: Callable[[object, str], int]) -> dict[str, int]:
    """What nodes have beside their devices: one number for every node, or by node's name for those that say it."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(sizes, read(value, path))
    named = Fields(value, path)
    found = {name: read(each, named.at(name)) for name, each in named.items()}
    for name in found:
        if name not in sizes:
            raise ScenarioError(named.at(name), f"there is no node {shown(name)}")
    return found


def _domains(cluster: Fields, level: str, sizes: Mapping[str, int]) -> dict[str, str]:
    """By node, the rack, rail or leaf that it is in, or its class; those of no node stay away."""
    plural = {"rack": "racks", "rail": "rails", "leaf": "leaves", "class": "classes"}[level]
    if not cluster.has(plural):
        return {}
    return cluster.need(plural, lambda each, where: _named_domains(each, where, level, sizes))


def _named_domains(value: object, path: str, level: str, sizes: Mapping[str, int]) -> dict[str, str]:
    found: dict[str, str] = {}
    for domain, members in Fields(value, path).items():
        for member, where in elements(members, f"{path}.{domain}"):
            name = text(member, where)
            if name not in sizes:
                raise ScenarioError(where, f"there is no node {shown(name)}")
            if name in found:
                raise ScenarioError(where, f"node {shown(name)} is in {level} {shown(found[name])} already")
            found[name] = domain
    return found


def _tree(value: object, path: str, caps_milli: dict[str, int]) -> list[BudgetNode]:
    found: dict[str, BudgetNode] = {ROOT: BudgetNode(ROOT, None, 1, 1)}

    def read_children(children: object, where: str, parent: str) -> None:
        rows: list[tuple[str, int, dict[str, Any], object]] = []
        for name, each in Fields(children, where).items():
            here = f"{where}.{name}"
            if not name:
                raise ScenarioError(where, "a budget node needs a name")
            below: object = None
            limits: dict[str, Any] = {}
            if isinstance(each, Mapping):
                node = Fields(each, here)
                shares = node.need("shares", count)
                below = node.take("children", lambda value, _path: value, None)
                if node.has("cap_gpus"):
                    caps_milli[name] = node.need("cap_gpus", count) * 1_000
                limits = {
                    "minimum_milli": node.take("min_gpus", count, 0) * 1_000,
                    "maximum_milli": node.need("max_gpus", count) * 1_000 if node.has("max_gpus") else None,
                    "factor_milli": node.take("weight", _weight_milli, 1_000),
                    "cells": node.take("cells", _cells, NO_CELLS),
                }
                node.finish()
            else:
                shares = count(each, here)
            rows.append((name, shares, limits, below))
        total = sum(shares for _, shares, _, _ in rows)
        for name, shares, limits, below in rows:
            here = f"{where}.{name}"
            if name in found:
                raise ScenarioError(here, "this name is in the tree twice")
            found[name] = BudgetNode(name, parent, shares, total, **limits)
            if below is not None:
                read_children(below, f"{here}.children", name)

    read_children(value, path, ROOT)
    if len(found) == 1:
        raise ScenarioError(path, "must name at least one budget node")
    return list(found.values())


def _cells(value: object, path: str) -> CellCounts:
    """How many cells of each level; a level that is not named has none."""
    given = Fields(value, path)
    counts = CellCounts(given.take("node", count, 0), given.take("rack", count, 0))
    given.finish()
    return counts


def _weight_milli(value: object, path: str) -> int:
    """A factor in thousandths."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 < value <= MOST_WEIGHT:
        raise ScenarioError(path, f"must be a number above 0 and of at most {MOST_WEIGHT:,}, not {shown(value)}")
    milli = value * 1_000
    if milli != int(milli):
        raise ScenarioError(path, f"must have at most three decimals, not {shown(value)}")
    return int(milli)


def _policy(value: object, path: str) -> tuple[Policy, str]:
    return read_policy(value, path, {"pass_every_s": PASS_EVERY_S}, "contracts")


def read_policy(value: object, path: str, standing: Mapping[str, Any], scheduler: str) -> tuple[Policy, str]:
    """Knobs and scheduler of a file's `policy`; what it does not name stays as it stands.

    Raises:
        ScenarioError: names the knob.
    """
    given = Fields(value, path)
    scheduler = given.take("scheduler", _scheduler, scheduler)
    knobs = dict(standing)
    for knob in fields(Policy):
        if given.has(knob.name):
            knobs[knob.name] = given.need(knob.name, READ_KNOB.get(knob.name, duration))
    given.finish()
    try:
        return Policy(**knobs), scheduler
    except ValueError as error:
        name, _, message = str(error).partition(": ")
        raise ScenarioError(f"{path}.{name}", message) from None


def read_packing(value: object, path: str) -> Packing:
    """On which node small work goes.

    Raises:
        ScenarioError: there is no such way.
    """
    if value not in list(Packing):
        raise ScenarioError(path, f"must be one of {', '.join(Packing)}, not {shown(value)}")
    return Packing(str(value))


def _scheduler(value: object, path: str) -> str:
    if value not in SCHEDULERS:
        raise ScenarioError(path, f"must be one of {', '.join(SCHEDULERS)}, not {shown(value)}")
    return str(value)


def _factor(value: object, path: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
        raise ScenarioError(path, f"must be a number of at least 0, not {shown(value)}")
    return Fraction(value)


def _numbers(value: object, path: str) -> tuple[int, ...]:
    return tuple(count(each, where) for each, where in elements(value, path))


def _texts(value: object, path: str) -> tuple[str, ...]:
    return tuple(text(each, where) for each, where in elements(value, path))


def _classes(value: object, path: str) -> tuple[str, ...]:
    """One class, or several of which each will do, in order of their names."""
    names = [text(value, path)] if isinstance(value, str) else list(_texts(value, path))
    if not names:
        raise ScenarioError(path, "must name at least one class")
    return tuple(sorted(set(names)))


def _durations(value: object, path: str) -> tuple[int, ...]:
    return tuple(duration(each, where) for each, where in elements(value, path))


READ_KNOB: Mapping[str, Any] = {
    "swap_margin": _factor,
    "promote_knob": _factor,
    "reservations": count,
    "leaf_order": text,
    "tree_order": text,
    "placement_score": text,
    "leaf_uplink_gbps": count,
    "class_order": _texts,
    "high_end_classes": _texts,
    "high_end_reserve": count,
    "high_efficiency_percent": count,
    "fraction_min_milli": count,
    "attained_limits": _numbers,
    "service_samples": _numbers,
    "locality_waits_s": _durations,
}
"""What reads a knob that is no duration."""


def _history(value: object, path: str) -> list[PastUse]:
    past = []
    for each, where in elements(value, path):
        row = Fields(each, where)
        use = PastUse(
            row.need("leaf", text),
            row.need("gpus", size_milli),
            row.need("from", instant),
            row.need("to", instant),
            row.take("funded", flag, True),
        )
        row.finish()
        if use.until_s > 0:
            raise ScenarioError(f"{where}.to", "must not be after the start, 0")
        if use.from_s > use.until_s:
            raise ScenarioError(f"{where}.from", "must not be after `to`")
        past.append(use)
    return past


def read_jobs(value: object, path: str) -> list[Job]:
    """The workloads of a file, each id once."""
    jobs: list[Job] = []
    seen: set[str] = set()
    for each, where in elements(value, path):
        job = _job(Fields(each, where), where)
        if job.id in seen:
            raise ScenarioError(f"{where}.id", f"there is a workload {shown(job.id)} already")
        seen.add(job.id)
        jobs.append(job)
    return jobs


def _job(row: Fields, where: str) -> Job:
    said = [key for key in ("submit", "after", "before") if row.has(key)]
    if len(said) > 1:
        raise ScenarioError(f"{where}.{said[1]}", f"a workload has either `{said[0]}` or `{said[1]}`")
    after = row.take("after", text, None)
    before = row.take("before", read_before, None)
    job = Job(
        id=row.need("id", text),
        leaf=row.need("leaf", text),
        submit_s=None if after is not None or before is not None else row.need("submit", duration),
        after=after,
        before=before,
        think_s=row.take("think", duration, 0) if after is not None else 0,
        size_milli=row.need("gpus", size_milli),
        min_runtime_s=row.take("min_runtime", duration, 0),
        duration_s=row.need("duration", duration),
        is_resumable=row.take("resumable", flag, True),
        priority=row.take("priority", whole, 0),
        node=row.take("node", text, None),
        exit_delay_s=row.need("exit_delay", _exit_delay) if row.has("exit_delay") else 0,
        restart_cost_s=row.take("restart_cost", duration, 0),
        startup_s=row.take("startup", duration, 0),
        estimate_s=row.take("estimate", duration, None),
        is_protected=row.take("protected", flag, False),
        level=row.take("level", _level, LEVELS["NORMAL"]),
        user=row.take("user", text, ""),
        group=row.take("group", text, ""),
        cpu_milli=row.take("cpus", count, 0) * 1_000,
        memory_mib=row.take("memory_gib", memory, 0),
        communication=row.take("communication", _communication, None),
        gpu_classes=row.take("gpu_class", _classes, ()),
        is_high=row.take("high", flag, False),
        locality=row.take("locality", _locality, locality.ANY_RACK),
    )
    row.finish()
    return job


def _communication(value: object, path: str) -> cassini.Profile:
    try:
        return cassini.read_profile(value)
    except cassini.ProfileError as error:
        raise ScenarioError(path, str(error)) from None


def _locality(value: object, path: str) -> int:
    most = max(locality.LEVELS_OF_LOCALITY)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ScenarioError(path, f"must be 0 to {most}, not {shown(value)}")
    return value


def _level(value: object, path: str) -> int:
    if isinstance(value, str):
        if value not in LEVELS:
            raise ScenarioError(path, f"must be one of {', '.join(LEVELS)} or a whole number, not {shown(value)}")
        return LEVELS[value]
    return whole(value, path)


def _exit_delay(value: object, path: str) -> int | None:
    return None if value == "never" else duration(value, path)


def read_events(value: object, path: str) -> list[Happening]:
    """The events of a file."""
    return [_event(Fields(each, where), where) for each, where in elements(value, path)]


def _event(row: Fields, where: str) -> Happening:
    at_s = row.need("at", duration)
    if row.has("shares"):
        given = row.need("shares", Fields)
        shares = {name: count(each, given.at(name)) for name, each in given.items()}
        found = Happening(at_s, "shares", shares=shares)
    elif row.has("cells"):
        granted = row.need("cells", Fields)
        found = Happening(at_s, "cells", cells={name: _cells(each, granted.at(name)) for name, each in granted.items()})
    elif row.has("close"):
        found = Happening(at_s, "close", row.need("close", text))
    elif row.has("cancel"):
        found = Happening(at_s, "cancel", row.need("cancel", text))
    elif row.has("maintenance"):
        found = Happening(at_s, "maintenance", row.need("node", text), length_s=row.need("maintenance", duration))
    elif row.has("health"):
        found = Happening(at_s, "health", row.need("node", text), health=row.need("health", _health))
    else:
        raise ScenarioError(where, "needs one of shares, cells, health, close, cancel and maintenance")
    row.finish()
    return found


def _health(value: object, path: str) -> str:
    if value not in ("healthy", "unhealthy", "down"):
        raise ScenarioError(path, f"must be healthy, unhealthy or down, not {shown(value)}")
    return str(value)
