"""A past from elsewhere, stored in bulk: nodes with their spells, workloads with their runs, what was decided.

For imports of other schedulers' records and for simulated histories. Everything is dated by its caller; nothing is
decided here, and no loop is woken. What has not ended yet (a run that holds its devices, a workload that waits) is
taken over by the next pass as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import Count
from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Person
from scheduler.models import WHOLE_DEVICE_MILLI, Decision, Device, Holding, Node, NodeSpell, Rack, Rank, Run, Workload
from scheduler.services import bulk, events, policies, timeline, workloads
from scheduler.services.events import Entry, Kind

BATCH = 5_000
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PastNode:
    """A host with its devices; `spells` are (state, from, until) in order. It is retired if the last one has ended."""

    name: str
    devices: int
    spells: Sequence[tuple[str, datetime, datetime | None]]
    rack: str = ""


@dataclass(frozen=True, slots=True)
class PastRun:
    """One holding of devices. `holdings` (thousandths by node's name) may be empty where nobody kept them.

    One that has not ended has `ended_at` None, and `running_at` if every rank runs. `stop_asked_at` is for one that was
    told to stop, and has ended.
    """

    started_at: datetime
    ended_at: datetime | None
    size_milli: int
    is_funded: bool
    running_at: datetime | None = None
    contract_ends_at: datetime | None = None
    stop_asked_at: datetime | None = None
    end_reason: str = ""
    preempted_by: str | None = None
    holdings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastDecision:
    """What was decided about a workload; `by` is the code of the workload that took its devices."""

    at: datetime
    action: str
    code: str
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None


@dataclass(frozen=True, slots=True)
class PastWorkload:
    """A workload with all its runs in order. `code` is its public id, "LEAF-NUMBER"; None draws the leaf's next one.

    `reason` (code and sentence) is what it says now; None takes that of its last decision.
    """

    leaf: BudgetNode
    owner: Person | None
    size_milli: int
    min_runtime_s: int
    state: str
    submitted_at: datetime
    ended_at: datetime | None
    runs: Sequence[PastRun] = ()
    decisions: Sequence[PastDecision] = ()
    reason: tuple[str, str] | None = None
    code: str | None = None
    name: str = ""
    is_resumable: bool = True
    priority: int = 0
    preemptions: int = 0
    progress_s: int = 0
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_demo: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """How much was stored."""

    workloads: int
    runs: int


def add_nodes(cluster: Cluster, nodes: Sequence[PastNode]) -> list[Node]:
    """Store nodes, their racks, devices and spells.

    Raises:
        InputError: a name is taken on that cluster.
    """
    taken = set(
        Node.objects.filter(cluster=cluster, name__in=[node.name for node in nodes]).values_list("name", flat=True)
    )
    if taken:
        raise InputError(
            "nodes", gettext("{cluster} has a node {taken} already").format(cluster=cluster.name, taken=min(taken))
        )
    with events.changing(cluster.pk):
        names = sorted({node.rack for node in nodes if node.rack})
        racks = {name: Rack.objects.get_or_create(cluster=cluster, name=name)[0] for name in names}
        rows = Node.objects.bulk_create(
            Node(
                cluster=cluster,
                name=node.name,
                rack=racks.get(node.rack),
                retired_at=node.spells[-1][2] if node.spells else None,
            )
            for node in nodes
        )
        pairs = list(zip(rows, nodes, strict=True))
        Device.objects.bulk_create(
            (Device(node=row, index=index) for row, node in pairs for index in range(node.devices)), batch_size=BATCH
        )
        NodeSpell.objects.bulk_create(
            (
                NodeSpell(node=row, state=state, started_at=start, ended_at=end)
                for row, node in pairs
                for state, start, end in node.spells
            ),
            batch_size=BATCH,
        )
    return rows


def add(cluster: Cluster, past: Iterable[PastWorkload]) -> Added:
    """Store workloads with their runs, holdings and decisions, in one transaction.

    Devices: a run gets the lowest ones of its nodes that no run held at that time (fractions are not packed together);
    where a record names more than a node has, the rest is left out, and its size is charged all the same.

    Raises:
        InputError: a workload's code is taken, or a run that has not ended holds what its nodes don't have.
    """
    given = sorted(past, key=lambda each: each.submitted_at)
    with events.changing(cluster.pk):
        rows = _store_workloads(cluster, given)
        runs = _store_runs(cluster, given, rows)
        _store_decisions(given, rows)
        _log(cluster, given, rows, runs)
        timeline.forget(cluster)
    return Added(len(rows), len(runs))


def _store_workloads(cluster: Cluster, given: Sequence[PastWorkload]) -> list[Workload]:
    room = _room(cluster)
    codes = _codes(given)
    taken = Workload.objects.filter(code__in=codes).order_by("code").values_list("code", flat=True).first()
    if taken is not None:
        raise InputError("workloads", gettext("there is a workload {taken} already").format(taken=taken))
    return bulk.store(
        [
            Workload(
                code=code,
                cluster=cluster,
                leaf=each.leaf,
                owner=each.owner,
                name=each.name,
                size_milli=each.size_milli,
                min_runtime_s=each.min_runtime_s,
                priority=each.priority,
                workload_class=workloads.class_of(each.size_milli, each.min_runtime_s, room),
                resumable=each.is_resumable,
                command=list(each.command),
                environment=dict(each.environment),
                demo=each.is_demo,
                state=each.state,
                submitted_at=each.submitted_at,
                first_started_at=each.runs[0].started_at if each.runs else None,
                ended_at=each.ended_at,
                preemptions=each.preemptions,
                progress_s=each.progress_s,
                **_reason(each),
            )
            for each, code in zip(given, codes, strict=True)
        ]
    )


def _reason(past: PastWorkload) -> dict[str, Any]:
    """The columns that say why it is as it is."""
    if past.reason is not None:
        return {"reason_code": past.reason[0], "reason_text": past.reason[1], "reason_numbers": {}}
    if not past.decisions:
        return {}
    last = past.decisions[-1]
    return {"reason_code": last.code, "reason_text": last.text, "reason_numbers": dict(last.numbers)}


def _room(cluster: Cluster) -> workloads.Room:
    """What the cluster has or had: retired nodes count for the past."""
    sizes = Device.objects.filter(node__cluster=cluster).values("node").annotate(size=Count("pk"))
    counts = [row["size"] * WHOLE_DEVICE_MILLI for row in sizes]
    policy = policies.as_policy(policies.latest(cluster))
    return workloads.Room(sum(counts), max(counts, default=0), len(counts), policy)


def _codes(given: Sequence[PastWorkload]) -> list[str]:
    """The codes that were given, and the next numbers of their leaves for those without."""
    missing: dict[BudgetNode, int] = {}
    for each in given:
        if each.code is None:
            missing[each.leaf] = missing.get(each.leaf, 0) + 1
    _count_on([each.code for each in given if each.code is not None])
    drawn = {leaf: iter(workloads.take_numbers(leaf, count)) for leaf, count in missing.items()}
    return [each.code if each.code is not None else next(drawn[each.leaf]) for each in given]


def _count_on(codes: Sequence[str]) -> None:
    """Let numbers of these leaves go on behind the ones that were given."""
    last: dict[str, int] = {}
    for code in codes:
        leaf, dash, number = code.rpartition("-")
        if not (dash and number.isascii() and number.isdigit()):
            raise InputError("workloads", gettext("{code} is not a leaf's code, a dash and a number").format(code=code))
        last[leaf] = max(last.get(leaf, 0), int(number))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduler_workloadnumber AS n (leaf_code, last) SELECT * FROM unnest(%s::text[], %s::int[]) "
            "ON CONFLICT (leaf_code) DO UPDATE SET last = greatest(n.last, excluded.last)",
            [list(last), list(last.values())],
        )


def _store_runs(cluster: Cluster, given: Sequence[PastWorkload], rows: Sequence[Workload]) -> list[Run]:
    by_code = {row.code: row for row in rows}
    flat = [
        (run, number, each, row)
        for each, row in zip(given, rows, strict=True)
        for number, run in enumerate(each.runs, start=1)
    ]
    flat.sort(key=lambda item: item[0].started_at)
    stored = bulk.store(
        [
            Run(
                workload=row,
                number=number,
                cluster=cluster,
                leaf=each.leaf,
                path=each.leaf.path,
                size_milli=run.size_milli,
                funded=run.is_funded,
                min_runtime_s=each.min_runtime_s,
                state=_state(run),
                started_at=run.started_at,
                running_at=run.running_at,
                contract_ends_at=run.contract_ends_at,
                stop_asked_at=run.stop_asked_at if run.ended_at is not None else None,
                ended_at=run.ended_at,
                end_reason=run.end_reason,
                preempted_by=by_code.get(run.preempted_by) if run.preempted_by else None,
            )
            for run, number, each, row in flat
        ]
    )
    _store_holdings(cluster, [run for run, *_ in flat], stored)
    return stored


def _state(run: PastRun) -> str:
    if run.ended_at is not None:
        return Run.State.ENDED
    return Run.State.STARTING if run.running_at is None else Run.State.RUNNING


def _store_holdings(cluster: Cluster, runs: Sequence[PastRun], stored: Sequence[Run]) -> None:
    """Which device a run held: in order of time, the lowest ones that were free."""
    lanes = _Lanes(cluster)
    holdings = []
    for run, row in zip(runs, stored, strict=True):
        chosen = lanes.take(run)
        if run.ended_at is None and sum(milli for *_, milli in chosen) != run.size_milli:
            raise InputError(
                "runs", gettext("{row} has not ended, and its nodes don't have what it holds").format(row=row)
            )
        holdings += [
            Holding(run=row, device_id=device_id, node_id=node_id, milli=milli, released_at=run.ended_at)
            for node_id, device_id, milli in chosen
        ]
    bulk.store(holdings)
    nodes = dict(Node.objects.filter(cluster=cluster).values_list("name", "pk"))
    Rank.objects.bulk_create(
        Rank(
            run=row,
            node_id=nodes[name],
            index=index,
            state=Rank.State.WANTED if run.running_at is None else Rank.State.RUNNING,
            began_at=run.running_at,
        )
        for run, row in zip(runs, stored, strict=True)
        if run.ended_at is None
        for index, name in enumerate(sorted(run.holdings))
    )


@dataclass(slots=True)
class _Lane:
    """One device, and from when on it is free; None is "for good taken"."""

    device_id: int
    node_id: int
    free_at: datetime | None


class _Lanes:
    """For runs in order of their start: which devices of a node are free by then."""

    def __init__(self, cluster: Cluster) -> None:
        self._lanes: dict[str, list[_Lane]] = {}
        rows = Device.objects.filter(node__cluster=cluster).order_by("node", "index")
        for pk, node_id, name in rows.values_list("pk", "node_id", "node__name"):
            self._lanes.setdefault(name, []).append(_Lane(pk, node_id, LONG_AGO))

    def take(self, run: PastRun) -> list[tuple[int, int, int]]:
        """(node, device, amount) for each device of a run."""
        found: list[tuple[int, int, int]] = []
        for name, amount_milli in run.holdings.items():
            left_milli = amount_milli
            for lane in self._lanes.get(name, ()):
                if left_milli <= 0:
                    break
                if lane.free_at is None or lane.free_at > run.started_at:
                    continue
                part_milli = min(left_milli, WHOLE_DEVICE_MILLI)
                lane.free_at = run.ended_at
                found.append((lane.node_id, lane.device_id, part_milli))
                left_milli -= part_milli
        return found


def _store_decisions(given: Sequence[PastWorkload], rows: Sequence[Workload]) -> None:
    by_code = {row.code: row for row in rows}
    bulk.store(
        [
            Decision(
                workload=row,
                at=decision.at,
                action=decision.action,
                code=decision.code,
                text=decision.text,
                numbers=dict(decision.numbers),
                by=by_code.get(decision.by) if decision.by else None,
            )
            for each, row in zip(given, rows, strict=True)
            for decision in each.decisions
        ]
    )


def _log(cluster: Cluster, given: Sequence[PastWorkload], rows: Sequence[Workload], runs: Sequence[Run]) -> None:
    """That a history was added; and, of what has not ended, how it stands, for the passes to come."""
    if not rows:
        return
    entries = [Entry(Kind.HISTORY_ADDED, data=_bounds(rows, runs))]
    entries += [
        Entry(Kind.SUBMITTED, workload_id=row.pk)
        for each, row in zip(given, rows, strict=True)
        if each.ended_at is None
    ]
    entries += [
        Entry(Kind.RUN_STARTED, workload_id=row.workload_id, run_id=row.pk) for row in runs if row.ended_at is None
    ]
    events.record_all(cluster_id=cluster.pk, entries=entries)


def _bounds(rows: Sequence[Workload], runs: Sequence[Run]) -> dict[str, int]:
    first, last = (runs[0].pk, runs[-1].pk) if runs else (0, 0)
    return {"workloads": len(rows), "runs": len(runs), "first_run": first, "last_run": last}
