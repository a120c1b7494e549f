"""What a pass sees, as plain rows, and the engine's snapshot of it. The same for the present and for a past pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from budgets.models import Cluster
from scheduler.engine import (
    Arrival,
    Claim,
    Crowd,
    Health,
    LeafUse,
    Node,
    Policy,
    Reservation,
    Run,
    Service,
    Snapshot,
    Workload,
    cassini,
    classes_of,
    leaf_order_of,
    network_of,
)
from scheduler.models import WHOLE_DEVICE_MILLI, PolicyVersion, TreeVersion

from .positions import Positions

UNIT_NAMES = {"gpu": "GPU", "core": "core"}
UNFIT = {"unhealthy": Health.DRAINING, "unreachable": Health.UNREACHABLE, "down": Health.DOWN}


class SeenWorkload(NamedTuple):
    """A workload that waits or is held. From `reason_code` on it is what its row says now, for the loop."""

    pk: int
    code: str
    leaf_id: int
    size_milli: int
    min_runtime_s: int
    submitted_s: int
    priority: int
    node: str | None
    is_held: bool
    progress_s: int
    first_started_s: int | None
    predicted_s: int | None
    cpu_milli: int = 0
    memory_mib: int = 0
    forgiven_s: int = 0
    requeued_s: int | None = None
    gpu_classes: Sequence[str] = ()
    is_high: bool = False
    locality: int = 1
    reason_code: str = ""
    reason_text: str = ""
    place: int | None = None
    earliest_start_s: int | None = None


class SeenRun(NamedTuple):
    """A run that holds devices."""

    pk: int
    workload_id: int
    code: str
    number: int
    path: Sequence[int]
    funded: bool
    min_runtime_s: int
    started_s: int
    running_s: int | None
    leave_by_s: int | None
    priority: int
    submitted_s: int
    progress_s: int
    first_started_s: int | None
    predicted_s: int | None
    cpu_milli: int = 0
    memory_mib: int = 0
    forgiven_s: int = 0

    @property
    def id(self) -> str:
        """The engine's id."""
        return f"{self.code}/{self.number}"


class SeenNode(NamedTuple):
    """A node with the values of `services.events.seen_nodes`."""

    pk: int
    name: str
    values: Mapping[str, Any]


class SeenPlan(NamedTuple):
    """A claim (`at_s` is when it was made) or a reservation (`at_s` is when it is due)."""

    pk: int
    workload_id: int
    holdings: Mapping[str, int]
    run_ids: Sequence[int]
    at_s: int
    made_s: int


UseRow = tuple[Sequence[int], bool, float]
"""Path, whether charged, and what ended runs of it used, in thousandths times seconds, as it counts today."""


@dataclass(slots=True)
class Seen:
    """Everything a pass sees of the rows, at one event mark and instant."""

    cluster: Cluster
    now_s: int
    event_mark: int
    policy: Policy
    tree_nodes: Sequence[Mapping[str, Any]]
    workloads: Sequence[SeenWorkload] = ()
    runs: Sequence[SeenRun] = ()
    holdings: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # by run, then by node's name
    fractions: Mapping[int, int] = field(default_factory=dict)  # the device of each run that has less than one
    nodes: Sequence[SeenNode] = ()
    use: Sequence[UseRow] = ()
    claims: Sequence[SeenPlan] = ()
    reservations: Sequence[SeenPlan] = ()
    arrivals: Mapping[int, Arrival] = field(default_factory=dict)  # by workload, where an order asks (crowds.py)
    crowds: Mapping[int, Crowd] = field(default_factory=dict)  # likewise, by leaf
    profiles: Mapping[str, cassini.Profile] = field(default_factory=dict)  # by workload, where placements are scored


@dataclass(slots=True)
class Loaded:
    """A snapshot with what the loop needs to carry out a plan made on it.

    `workloads` are by code, `runs` (primary keys, with their workload's) by the engine's id, `nodes` (primary keys) by
    name.
    """

    cluster: Cluster
    now: datetime
    now_s: int
    event_mark: int
    policy: Policy
    policy_version: PolicyVersion
    tree_version: TreeVersion
    snapshot: Snapshot
    workloads: Mapping[str, SeenWorkload]
    runs: Mapping[str, SeenRun]
    nodes: Mapping[str, int]


def build(seen: Seen) -> Snapshot:
    """The engine's snapshot.

    Raises:
        ValueError: rows that contradict each other; names which.
    """
    now_s = seen.now_s
    positions = Positions(seen.tree_nodes)
    use = _use(seen, positions)
    workload_codes = {row.pk: row.code for row in seen.workloads}
    run_ids = {row.pk: row.id for row in seen.runs}
    runs = [_run(row, seen, positions) for row in seen.runs]
    waiting = [(row.is_held, _workload(row, seen, positions)) for row in seen.workloads]
    held_milli: dict[str, int] = {}
    for row in seen.runs:
        for name, amount_milli in seen.holdings.get(row.pk, {}).items():
            held_milli[name] = held_milli.get(name, 0) + amount_milli
    snapshot = Snapshot.build(
        now_s=now_s,
        tree=positions.tree(),
        use=use,
        nodes=[
            node_value(row, seen, held_milli.get(row.name, 0))
            for row in seen.nodes
            if row.values["devices"] and (not row.values["retired"] or row.name in held_milli)
        ],
        runs=runs,
        queue=[workload for is_held, workload in waiting if not is_held],
        held=[workload for is_held, workload in waiting if is_held],
        claims=[
            Claim(workload_codes[row.workload_id], row.holdings, _known(row, run_ids), row.made_s)
            for row in seen.claims
            if row.workload_id in workload_codes
        ],
        reservations=[
            Reservation(
                workload_codes[row.workload_id], row.at_s, row.holdings, _known(row, run_ids), made_s=row.made_s
            )
            for row in seen.reservations
            if row.workload_id in workload_codes
        ],
        lookback_s=seen.policy.lookback_s,
        names={row["id"]: row["name"] for row in seen.tree_nodes},
        unit=UNIT_NAMES[seen.cluster.unit],
        leaf_order=leaf_order_of(seen.policy),
        half_life_s=seen.policy.decay_s,
        tree_order=seen.policy.tree_order,
        locality_waits_s=seen.policy.locality_waits_s,
        crowds={positions.of_leaf(leaf_id): crowd for leaf_id, crowd in seen.crowds.items()},
    )
    snapshot.network = network_of(seen.policy, seen.profiles)
    snapshot.classes = classes_of(seen.policy, snapshot.nodes)
    return snapshot


def _known(plan: SeenPlan, run_ids: Mapping[int, str]) -> tuple[str, ...]:
    """The runs of a plan that have not ended, by the engine's ids, in the stored order."""
    return tuple(run_ids[pk] for pk in plan.run_ids if pk in run_ids)


def _use(seen: Seen, positions: Positions) -> dict[str, LeafUse]:
    charged: dict[str, float] = {}
    uncharged: dict[str, float] = {}
    for path, is_charged, amount_milli_s in seen.use:
        leaf = positions.of_path(path)
        totals = charged if is_charged else uncharged
        totals[leaf] = totals.get(leaf, 0) + amount_milli_s
    return {leaf: LeafUse(charged.get(leaf, 0), uncharged.get(leaf, 0)) for leaf in sorted(charged.keys() | uncharged)}


def _run(row: SeenRun, seen: Seen, positions: Positions) -> Run:
    # A clock that runs ahead elsewhere must not let a contract begin in the future.
    running_s = None if row.running_s is None else min(row.running_s, seen.now_s)
    return Run(
        id=row.id,
        workload=row.code,
        leaf=positions.of_path(row.path),
        holdings=seen.holdings[row.pk],
        funded=row.funded,
        min_runtime_s=row.min_runtime_s,
        started_s=min(row.started_s, seen.now_s),
        running_s=running_s,
        priority=row.priority,
        submitted_s=row.submitted_s,
        leave_by_s=row.leave_by_s,
        device=seen.fractions.get(row.pk),
        service=_service(row, sum(seen.holdings[row.pk].values()), seen.arrivals.get(row.workload_id)),
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
    )


def _service(
    row: SeenRun | SeenWorkload, size_milli: int, arrival: Arrival | None, waits_since_s: int | None = None
) -> Service:
    """What a workload has attained in earlier runs, each as large as this one."""
    return Service(
        attained_milli_s=(row.progress_s - row.forgiven_s) * size_milli,
        first_started_s=row.first_started_s,
        predicted_s=row.predicted_s,
        executed_s=row.progress_s,
        forgiven_s=row.forgiven_s,
        waits_since_s=waits_since_s,
        arrival=arrival,
    )


def _workload(row: SeenWorkload, seen: Seen, positions: Positions) -> Workload:
    return Workload(
        id=row.code,
        leaf=positions.of_leaf(row.leaf_id),
        size_milli=row.size_milli,
        min_runtime_s=row.min_runtime_s,
        submitted_s=row.submitted_s,
        priority=row.priority,
        node=row.node,
        service=_service(row, row.size_milli, seen.arrivals.get(row.pk), row.requeued_s),
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        gpu_classes=tuple(row.gpu_classes),
        is_high=row.is_high,
        locality=row.locality,
        since_s=row.requeued_s,
    )


def node_value(row: SeenNode, seen: Seen, held_milli: int = 0) -> Node:
    """A node as the engine sees it. What an operator asks to drain, or retires, drains whatever its health.

    Where others have taken what runs of ours hold by our books (`held_milli`), ours count first.
    """
    values = row.values
    health = UNFIT.get(values["health"], Health.HEALTHY)
    if health is Health.HEALTHY and (values["drains"] or values["retired"]):
        health = Health.DRAINING
    # It is used again when it has been fit for the whole dwell, after trouble as after maintenance.
    returns = [until_s for _, until_s in values["windows"] if until_s <= seen.now_s]
    if values["healthy_since_s"] is not None:
        returns.append(values["healthy_since_s"])
    usable_from_s = max(returns) + seen.policy.healthy_dwell_s if returns and health is Health.HEALTHY else None
    if usable_from_s is not None and usable_from_s <= seen.now_s:
        usable_from_s = None
    capacity_milli = values["devices"] * WHOLE_DEVICE_MILLI
    return Node(
        name=row.name,
        capacity_milli=capacity_milli,
        rack=values["rack"],
        rail=values.get("rail", ""),  # not said in events of before
        leaf=values.get("leaf", ""),
        health=health,
        windows=tuple((start_s, until_s) for start_s, until_s in values["windows"] if until_s > seen.now_s),
        usable_from_s=usable_from_s,
        taken_milli=min(values.get("taken_milli", 0), max(0, capacity_milli - held_milli)),
        cpu_milli=values.get("cpu_milli") or None,
        memory_mib=values.get("memory_mib") or None,
        gpu_class=values.get("gpu_class", ""),
    )
