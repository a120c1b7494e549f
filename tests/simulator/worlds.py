"""Random small worlds for property tests, and a world that looks over its own shoulder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from scheduler.engine import (
    LEAF_ORDERS,
    NO_CELLS,
    TREE_ORDERS,
    Action,
    CellCounts,
    Decision,
    Explains,
    LeafUse,
    Node,
    Plan,
    Reservation,
    Run,
    Snapshot,
    Workload,
    classes_of,
    decayed_milli_s,
    decide,
    layout_of,
    unmatched,
)
from scheduler.engine.classes import leaves_reserve, without_reserved
from scheduler.engine.cluster import NodeState
from scheduler.engine.host import fits_now
from scheduler.engine.matching import is_worse
from scheduler.engine.maxima import excess_of
from scheduler.engine.policies.locality import ONE_RACK
from scheduler.engine.private import keeps_from, matching_of
from scheduler.simulator import Scenario, World

MINUTES = st.sampled_from([5, 6, 10, 15, 20, 30, 45, 60, 90])
TREES = st.sampled_from(
    [
        {"A": 1, "B": 1},
        {"A": 3, "B": 1, "C": 2, "D": 0},
        {"A": {"shares": 2, "children": {"A1": 1, "A2": 1}}, "B": 1},
        {
            "A": {"shares": 1, "children": {"A1": 3, "A2": 1, "A3": 0}},
            "B": {"shares": 2, "children": {"B1": 1, "B2": 2}},
        },
    ]
)
CLUSTERS = st.sampled_from(
    [
        {"nodes": {"h1": 4}},
        {"nodes": {"h1": 8, "h2": 8}},
        {"nodes": {"h1": 2, "h2": 4, "h3": 4}},
        {"nodes": {"h1": 4, "h2": 4, "h3": 4, "h4": 4}, "racks": {"r1": ["h1", "h3"], "r2": ["h2", "h4"]}},
        {
            "nodes": dict.fromkeys(("h1", "h2", "h3", "h4", "h5"), 2),
            "leaves": {"L1": ["h1"], "L2": ["h2", "h3"], "L3": ["h4"]},
        },
    ]
)
SENDS = [
    {"period_ms": 100, "phases": [{"from_ms": 50, "until_ms": 100, "gbps": 45}]},
    {"period_ms": 60, "phases": [{"from_ms": 10, "until_ms": 20, "gbps": 30}]},
]


def leaves_of(tree: dict[str, Any]) -> list[str]:
    """The leaves of a tree as a scenario file has it."""
    found: list[str] = []
    for name, value in tree.items():
        children = value.get("children") if isinstance(value, dict) else None
        found += leaves_of(children) if children else [name]
    return found


@st.composite
def workloads(draw: st.DrawFn, leaves: list[str], sizes: list[int], index: int, *, has_classes: bool) -> dict[str, Any]:
    """One workload that a scenario may hold."""
    contract = draw(st.sampled_from([0, 0, 5, 10, 20, 60]))
    row: dict[str, Any] = {
        "id": f"w{index:02d}",
        "leaf": draw(st.sampled_from(leaves)),
        "submit": draw(st.integers(0, 40)) * 60 + draw(st.sampled_from([0, 0, 0, 17])),
        "gpus": draw(st.sampled_from(sizes)),
        "min_runtime": contract * 60,
        "duration": draw(MINUTES) * 60,
        "priority": draw(st.sampled_from([0, 0, 1])),
        "exit_delay": draw(st.sampled_from([0, 0, 10, 45])),
        "startup": draw(st.sampled_from([0, 0, 0, 30])),
        "restart_cost": draw(st.sampled_from([0, 0, 120])),
        "user": draw(st.sampled_from(["ada", "ben"])),
    }
    if draw(st.booleans()) and draw(st.booleans()):
        row["resumable"] = False
    if (cpus := draw(st.sampled_from([0, 0, 0, 4, 8]))) > 0:
        row["cpus"] = cpus
    if draw(st.sampled_from([False, False, True])):
        row["memory_gib"] = draw(st.sampled_from([8, 24]))
    if (locality := draw(st.sampled_from([1, 1, 0, 2, 3]))) != 1:
        row["locality"] = locality
    if (sends := draw(st.sampled_from([None, *SENDS]))) is not None:
        row["communication"] = sends
    if has_classes:
        row["high"] = draw(st.booleans())
        if (names := draw(st.sampled_from([None, None, "V100", ["T4", "V100"]]))) is not None:
            row["gpu_class"] = names
    return row


@st.composite
def limits(draw: st.DrawFn, tree: dict[str, Any]) -> dict[str, Any]:
    """The same tree, of which some nodes have a minimum, a maximum or a weight."""
    found: dict[str, Any] = {}
    for name, each in tree.items():
        node = dict(each) if isinstance(each, dict) else {"shares": each}
        if "children" in node:
            node["children"] = draw(limits(node["children"]))
        if (most := draw(st.sampled_from([None, None, None, 2, 4, 8]))) is not None:
            node["max_gpus"] = most
        if name in ("A", "B1") and draw(st.booleans()):
            node["min_gpus"] = 2
        if draw(st.booleans()):
            node["weight"] = draw(st.sampled_from([0.5, 2]))
        found[name] = node
    return found


@st.composite
def cells(draw: st.DrawFn, tree: dict[str, Any], cluster: dict[str, Any]) -> dict[str, Any]:
    """Cells for some budget nodes, at any level, that the cluster has together."""
    racks = {name: rack for rack, members in cluster.get("racks", {}).items() for name in members}
    layout = layout_of([Node(name, size, racks.get(name, "")) for name, size in cluster["nodes"].items()])
    found: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(names_of(tree))), min_size=1, max_size=3, unique=True)):
        counts = {"node": draw(st.sampled_from([0, 1, 1, 2])), "rack": draw(st.sampled_from([0, 0, 1]))}
        granted = [CellCounts(**each) for each in (*found.values(), counts)]
        if unmatched(layout, granted) == NO_CELLS:
            found[name] = counts
    return found


def names_of(tree: dict[str, Any]) -> list[str]:
    """All budget nodes of a tree as a scenario file has it."""
    found: list[str] = []
    for name, value in tree.items():
        found += [name, *(names_of(value.get("children", {})) if isinstance(value, dict) else [])]
    return found


def with_cells(tree: dict[str, Any], granted: dict[str, Any]) -> dict[str, Any]:
    """The same tree, of which these nodes have cells."""
    found: dict[str, Any] = {}
    for name, each in tree.items():
        node = dict(each) if isinstance(each, dict) else {"shares": each}
        if "children" in node:
            node["children"] = with_cells(node["children"], granted)
        if name in granted:
            node["cells"] = granted[name]
        found[name] = node
    return found


@st.composite
def calm_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Scenarios in which nothing happens but workloads."""
    cluster = draw(CLUSTERS)
    tree = draw(TREES)
    sizes = [0.5, 0.25, 1, 2, 2, 4, *([8] if len(cluster["nodes"]) > 1 else [])]
    leaves = leaves_of(tree)
    if draw(st.sampled_from([False, False, True])):
        tree = draw(limits(tree))
    if draw(st.sampled_from([False, False, True])):
        tree = with_cells(tree, draw(cells(tree, cluster)))
    if draw(st.sampled_from([False, False, True])):
        cluster = {**cluster, "cpus": 16, "memory_gib": {"h1": 32}}
    classed: dict[str, Any] = {}
    if draw(st.sampled_from([False, False, True])):
        fast, *slow = sorted(cluster["nodes"])
        cluster = {**cluster, "classes": {"V100": [fast, *slow[1:2]], "T4": [*slow[:1], *slow[2:3]]}}
        classed = {"class_order": ["V100", "T4"], "high_end_classes": ["V100"]}
        classed["high_end_reserve"] = draw(st.sampled_from([0, 1, 3]))
    number = draw(st.integers(4, 16))
    return {
        "cluster": cluster,
        "tree": tree,
        "policy": {
            "grace_s": draw(st.sampled_from([0, 60])),
            "reservations": draw(st.sampled_from([0, 1, 2])),
            "lookback_s": draw(st.sampled_from(["1h", "7d"])),
            "swap_margin": draw(st.sampled_from([0, 0, 0.5, 1])),
            "tree_order": draw(st.sampled_from(["lookback", *TREE_ORDERS])),
            "half_life_s": "1h",
            "leaf_order": draw(st.sampled_from(["priority", *LEAF_ORDERS])),
            "attained_limits": [600, 4_800],
            "promote_knob": draw(st.sampled_from([0, 0.5, 2])),
            "round_s": draw(st.sampled_from(["5m", "20m"])),
            "placement_score": draw(st.sampled_from(["none", "cassini"])),
            "leaf_uplink_gbps": 50,
            **classed,
            "locality_waits_s": draw(st.sampled_from([[], [], [], [300, 600, 900], [0, 0, 0], [120, 420, 420]])),
        },
        "history": [
            {"leaf": leaf, "gpus": draw(st.integers(1, 9)), "from": "-2h", "to": -60 * draw(st.integers(0, 110))}
            for leaf in draw(st.lists(st.sampled_from(leaves), max_size=2))
        ],
        "workloads": [draw(workloads(leaves, sizes, index, has_classes=bool(classed))) for index in range(number)],
    }


@st.composite
def stormy_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Scenarios with broken nodes, changed shares, closings, cancels, maintenance and stuck exits besides."""
    world = draw(calm_worlds())
    nodes = st.sampled_from(sorted(world["cluster"]["nodes"]))
    at = st.integers(0, 120).map(lambda minute: minute * 60)
    events: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["health", "health", "shares", "cells", "close", "cancel", "maintenance"]))
        if kind == "health":
            health = draw(st.sampled_from(["unhealthy", "healthy", "down", "healthy"]))
            events.append({"at": draw(at), "node": draw(nodes), "health": health})
        elif kind == "shares":
            name = draw(st.sampled_from(sorted(world["tree"])))
            events.append({"at": draw(at), "shares": {name: draw(st.integers(0, 9))}})
        elif kind == "cells":  # those of the start are given back, so that all fit whenever this comes
            before: dict[str, Any] = {name: {} for name in names_of(world["tree"])}
            events.append({"at": draw(at), "cells": before | draw(cells(world["tree"], world["cluster"]))})
        elif kind == "close":
            events.append({"at": draw(at), "close": draw(st.sampled_from(leaves_of(world["tree"])))})
        elif kind == "cancel":
            number = draw(st.integers(0, len(world["workloads"]) - 1))
            events.append({"at": draw(at), "cancel": world["workloads"][number]["id"]})
        else:
            events.append({"at": draw(at), "node": draw(nodes), "maintenance": draw(MINUTES) * 60})
    world["events"] = events
    if draw(st.booleans()):
        world["workloads"][0]["exit_delay"] = "never"
    world["until"] = "12h"
    return world


class WatchedWorld(World):
    """A world that notes what it decided, and compares its kept state with one built anew from frozen values."""

    def __init__(self, scenario: Scenario) -> None:
        """Watch from the start."""
        super().__init__(scenario)
        self.promises: list[tuple[int, str, Decision]] = []
        self.idle_faults: list[str] = []
        self.rebuilt_differs: list[str] = []
        self._missing_before = NO_CELLS

    def _carry_out(self, decision: Decision, *, is_kept: bool) -> None:
        if decision.action in (Action.RESERVE, Action.END_RESERVATION, Action.START):
            self.promises.append((self.now_s, decision.action.value, decision))
        super()._carry_out(decision, is_kept=is_kept)

    def _decide(self) -> Plan:
        self._missing_before = matching_of(self.snapshot).missing_in_all()
        again = decide(rebuilt(self), self.policy)
        whole = decide(self.snapshot, self.policy)
        if again != whole:
            self.rebuilt_differs.append(f"at {self.now_s}: {_first_difference(again, whole)}")
        plan = super()._decide()
        if (missed := _news(whole, self.snapshot.told)) != _news(plan, {}):
            self.rebuilt_differs.append(f"at {self.now_s}: of news only, {_news(plan, {})} instead of {missed}")
        return plan

    def _apply(self, plan: Plan) -> bool:
        has_changed = super()._apply(plan)
        self._look_for_overfull_devices()
        self._look_for_exceeded_limits()
        now_missing = matching_of(self.snapshot).missing_in_all()
        missing = self._missing_before
        assert not is_worse(now_missing, missing), f"at {self.now_s} {now_missing} cells are missing, not {missing}"
        if not has_changed:
            self._look_for_idle()
        return has_changed

    def _is_settled(self, plan: Plan) -> bool:
        """What is taken for settled is: another pass decides nothing and tells nobody anything."""
        is_settled = super()._is_settled(plan)
        if is_settled:
            told = self.snapshot.told
            news = [
                each
                for each in decide(self.snapshot, self.policy, Explains.NEWS).decisions
                if each.action is not Action.WAIT or told.get(each.workload) != each.reason.code
            ]
            assert news == [], f"at {self.now_s}: not settled, {news}"
            self._look_for_idle()
        return is_settled

    def _look_for_overfull_devices(self) -> None:
        """A device that is given out in fractions holds no more than itself, and no whole run."""
        for node in self.snapshot.nodes.by_name.values():
            whole = sum(run.holdings[node.name] for run in node.runs.values() if run.size_milli >= 1_000)
            assert whole + 1_000 * len(node.shared) <= node.capacity_milli
            assert all(sum(run.size_milli for run in runs) <= 1_000 for runs in node.shared.values())

    def _look_for_exceeded_limits(self) -> None:
        """Funded runs hold no more than their budgets may, and no node gives more cores or memory than it has."""
        tree = self.snapshot.tree
        for node in tree.nodes.values():
            runs = [run for run in self.snapshot.runs.values() if node in run.leaf.path and run.funded]
            if node.maximum_milli is not None:
                assert sum(run.size_milli for run in runs) <= node.maximum_milli, f"{node.id} at {self.now_s}"
        for host in self.snapshot.nodes.by_name.values():
            cpu_milli = sum(run.cpu_milli for run in host.runs.values())
            memory_mib = sum(run.memory_mib for run in host.runs.values())
            assert host.cpu_milli is None or cpu_milli <= host.cpu_milli, f"cores of {host.name} at {self.now_s}"
            assert host.memory_mib is None or memory_mib <= host.memory_mib, f"memory of {host.name} at {self.now_s}"
            for run in host.runs.values():
                classes = self.jobs[run.workload].job.gpu_classes
                assert not classes or host.gpu_class in classes, f"{run.id} on {host.name} at {self.now_s}"

    def _look_for_locked_out(self) -> None:
        """A tenant with all its cells matched waits for nobody's funded work while its own leaves it enough of them."""
        snapshot = self.snapshot
        if not snapshot.tree.tenants or (matching := matching_of(snapshot)).missing:
            return
        nodes = snapshot.nodes.by_name
        for workload in snapshot.queued.values():
            leaf = snapshot.tree.nodes[workload.leaf]
            is_bound = workload.node is not None or workload.asks_host or excess_of(snapshot, workload) is not None
            if leaf.tenant is None or not workload.min_runtime_s or workload.id in snapshot.claims or is_bound:
                continue
            unused = [
                name
                for name, tenant in matching.clean.items()
                if tenant == leaf.tenant and not self._is_used(nodes[name]) and not nodes[name].windows
            ]
            unused = [name for name in unused if leaves_reserve(snapshot, workload, [nodes[name]])]
            if workload.spread == ONE_RACK:
                racks = {nodes[name].rack for name in unused}
                of_rack = [[name for name in unused if nodes[name].rack == rack] for rack in racks]
                unused = max(of_rack, key=lambda names: sum(nodes[name].capacity_milli for name in names), default=[])
            is_whole = workload.size_milli > snapshot.nodes.largest_milli
            if is_whole and not leaves_reserve(snapshot, workload, [nodes[name] for name in unused]):
                unused = sorted(without_reserved(snapshot, [nodes[name] for name in unused]))  # each alone leaves it
            room_milli = sum(nodes[name].capacity_milli for name in unused)
            largest_milli = max([nodes[name].capacity_milli for name in unused], default=0)
            assert (room_milli if is_whole else largest_milli) < workload.size_milli, (
                f"{workload.id} waits at {self.now_s}, and {unused} are its own"
            )

    def _is_used(self, node: NodeState) -> bool:
        """Whether a tenant's clean cell is in use, or promised inside the tenant."""
        runs = [run for run in node.runs.values() if run.funded and run.leave_by_s is None]
        own = [run for run in runs if run.leaf.tenant == matching_of(self.snapshot).clean[node.name]]
        return bool(own or node.claims or node.reservations)

    def _look_for_idle(self) -> None:
        """Nothing waits while a node has room for it that nobody was promised, and that is no cell of others."""
        self._look_for_locked_out()
        for workload in self.snapshot.queued.values():
            if workload.id in self.snapshot.claims:
                continue
            for node in self.snapshot.nodes.by_name.values():
                is_bound = node.windows or node.reservations or not leaves_reserve(self.snapshot, workload, [node])
                is_bound = is_bound or keeps_from(self.snapshot, node, workload)
                fits = workload.size_milli <= self.snapshot.nodes.largest_milli
                if excess_of(self.snapshot, workload) is not None or not fits_now(self.snapshot, node, workload):
                    continue
                if not is_bound and fits and node.may_start(self.now_s) and node.fits(workload.size_milli):
                    self.idle_faults.append(f"{workload.id} waits at {self.now_s} with room on {node.name}")


def _news(plan: Plan, told: Mapping[str, str]) -> tuple[list[object], list[tuple[str, str, int | None]]]:
    """What a plan does, and whom it tells something new; without figures, and whatever the order of those who wait.

    A pass that is asked for news only decides by what earlier ones have left on the snapshot; one that explains
    everything does not.
    """
    done: list[object] = []
    waits = []
    for each in plan.decisions:
        reason = each.reason
        if each.action is not Action.WAIT:
            done.append((each.workload, each.action, reason.code, reason.text, each.run, each.by, dict(each.holdings)))
        elif told.get(each.workload) != reason.code and reason.code != "waiting_victims":
            waits.append((each.workload, reason.code, reason.earliest_start_s))
    return done, sorted(waits)


def _first_difference(one: Plan, other: Plan) -> str:
    for left, right in zip(one.decisions, other.decisions, strict=False):
        if left != right:
            return f"{left} is not {right}"
    if one.figures != other.figures:
        return f"figures {one.figures} are not {other.figures}"
    return f"{one} is not {other}"


def rebuilt(world: WatchedWorld) -> Snapshot:
    """The world's present state, through the values that the live loop would read from its rows."""
    snapshot = _rebuilt(world)
    snapshot.network = world.snapshot.network
    snapshot.classes = classes_of(world.policy, snapshot.nodes)
    return snapshot


def _rebuilt(world: WatchedWorld) -> Snapshot:
    now_s, kept, horizon_s = world.now_s, world.snapshot, world.now_s - world.policy.lookback_s
    half_life_s = world.policy.decay_s

    def counts(size_milli: int, from_s: int, until_s: int) -> float:
        if half_life_s is not None:
            return decayed_milli_s(size_milli, from_s, until_s, now_s, half_life_s)
        return size_milli * max(0, until_s - max(from_s, horizon_s))

    use: dict[str, list[float]] = {}
    for run in world.outcome.runs:
        if run.end_s is not None:
            amounts = use.setdefault(run.job.job.leaf, [0, 0])
            amounts[0 if run.is_funded else 1] += counts(run.size_milli, run.start_s, run.end_s)
    for past in world.scenario.history:
        use.setdefault(past.leaf, [0, 0])[0] += counts(past.size_milli, past.from_s, past.until_s)
    return Snapshot.build(
        now_s=now_s,
        tree=[
            replace(
                row,
                shares=kept.tree.nodes[row.id].shares,
                whole=kept.tree.nodes[row.id].whole,
                closed=kept.tree.nodes[row.id].closed,
                cells=kept.tree.nodes[row.id].cells,
            )
            for row in world.scenario.tree
        ],
        use={leaf: LeafUse(*amounts) for leaf, amounts in use.items()},
        nodes=[
            Node(
                node.name,
                node.capacity_milli,
                node.rack,
                node.health,
                node.windows,
                node.usable_from_s,
                rail=node.rail,
                leaf=node.leaf,
                cpu_milli=node.cpu_milli,
                memory_mib=node.memory_mib,
                gpu_class=node.gpu_class,
            )
            for node in kept.nodes.by_name.values()
        ],
        runs=[
            Run(
                id=run.id,
                workload=run.workload,
                leaf=run.leaf.id,
                holdings=run.holdings,
                funded=run.funded,
                min_runtime_s=run.min_runtime_s,
                started_s=run.started_s,
                running_s=run.running_s,
                priority=run.priority,
                leave_by_s=run.leave_by_s,
                device=run.device,
                service=run.service,
                cpu_milli=run.cpu_milli,
                memory_mib=run.memory_mib,
            )
            for run in kept.runs.values()
        ],
        queue=list(kept.queued.values()),
        held=list(kept.held.values()),
        claims=list(kept.claims.values()),
        reservations=list(kept.reservations.values()),
        lookback_s=world.policy.lookback_s,
        leaf_order=kept.leaf_order,
        half_life_s=half_life_s,
        crowds=None if kept.crowds is None else kept.crowds.at_round,
        tree_order=world.policy.tree_order,
        locality_waits_s=world.policy.locality_waits_s,
    )


__all__ = ["Reservation", "WatchedWorld", "Workload", "calm_worlds", "rebuilt", "stormy_worlds"]
