"""The laboratory's past: invented submissions, run through the scheduler itself on invented time, stored as history.

The simulated clock counts Unix seconds, and the simulator's tree, nodes and workloads bear their final names, so every
stored reason reads as if it had been decided live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from budgets import queries
from budgets.models import WHOLE_BASIS_POINTS, Cluster, Share
from portal.demo.organisation import Laboratory
from portal.demo.stream import APPETITE, Draft, activity, draft, environment, mean_size, some_kind
from scheduler.engine import BudgetNode, Node, Policy
from scheduler.services.history import PastDecision, PastNode, PastRun, PastWorkload
from scheduler.simulator import Scenario
from scheduler.simulator.records import JobRecord, Outcome, RunRecord
from scheduler.simulator.scenario import Happening, Job
from scheduler.snapshots.build import UNIT_NAMES

MILLI = 1_000
FINISHED = ("finished", "All ranks exited with status 0.")
PASS_EVERY_S = 300
"""Of the simulated past: submissions and ends are looked at as they happen, the clock alone every five minutes."""
OVERSUBSCRIBED = 2
"""Demand, as a multiple of the cluster."""
SMALLEST = 4
"""A thread of work asks for up to so many units, however little a leaf has left to ask for."""
THINK_S = (600, 28_800)
"""Between the end of a workload and the next one of the same thread of work."""


@dataclass(frozen=True, slots=True)
class Hall:
    """A simulated cluster's hardware, and how many faults it has had."""

    cluster: str
    nodes: int
    devices_per_node: int
    nodes_per_rack: int
    faults: int


HALLS = (
    Hall("north", nodes=16, devices_per_node=8, nodes_per_rack=8, faults=9),
    Hall("south", nodes=6, devices_per_node=16, nodes_per_rack=8, faults=3),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A node was unfit for a while: "unhealthy" (it drains) or "down"."""

    node: str
    health: str
    start_s: int
    end_s: int


@dataclass(slots=True)
class Plan:
    """One cluster's past before it is simulated."""

    hall: Hall
    scenario: Scenario
    drafts: Mapping[str, Draft]
    faults: Sequence[Fault]


def plans(lab: Laboratory, chance: Random, start: datetime, end: datetime) -> list[Plan]:
    """Draw what was submitted and what broke on each simulated cluster in [start, end)."""
    start_s, end_s = int(start.timestamp()), int(end.timestamp())
    wishes = [wish for hall in HALLS for wish in _wishes(lab, hall, chance, start_s, end_s)]
    _number(wishes)
    found = []
    for hall in HALLS:
        faults = _faults(hall, chance, start_s, end_s)
        own = [wish for wish in wishes if wish.hall is hall]
        cluster = lab.clusters[hall.cluster]
        scenario = Scenario(
            name=f"past of {hall.cluster}",
            nodes=[
                Node(_node_name(hall, index), hall.devices_per_node * MILLI, _rack_name(hall, index))
                for index in range(hall.nodes)
            ],
            tree=_tree(cluster, start),
            policy=Policy(pass_every_s=PASS_EVERY_S),
            jobs=[_job(wish) for wish in own],
            events=[*_share_changes(cluster, start, end), *_health_changes(faults)],
            until_s=end_s,
            unit=UNIT_NAMES[cluster.unit],
        )
        found.append(Plan(hall, scenario, {wish.code: wish.draft for wish in own}, faults))
    return found


def nodes(plan: Plan, start: datetime) -> list[PastNode]:
    """The cluster's nodes with how they fared."""
    return [
        PastNode(
            name=_node_name(plan.hall, index),
            devices=plan.hall.devices_per_node,
            rack=_rack_name(plan.hall, index),
            spells=_spells([fault for fault in plan.faults if fault.node == _node_name(plan.hall, index)], start),
        )
        for index in range(plan.hall.nodes)
    ]


def workloads(lab: Laboratory, plan: Plan, outcome: Outcome, chance: Random) -> list[PastWorkload]:
    """What became of every workload that was submitted by the end."""
    decisions: dict[str, list[PastDecision]] = {}
    for each in outcome.decisions:
        reason = each.reason
        taker = reason.numbers.get("by") if each.action == "preempt" else None
        decisions.setdefault(each.workload, []).append(
            PastDecision(_at(each.at_s), each.action, reason.code, reason.text, reason.numbers, by=taker)
        )
    return [
        _workload(lab, record, plan.drafts[record.job.id], decisions.get(record.job.id, []), outcome.end_s, chance)
        for record in outcome.jobs
        if record.state is not None
    ]


# --- drawing --------------------------------------------------------------------------------------------------------


def _node_name(hall: Hall, index: int) -> str:
    return f"{hall.cluster[0]}{index + 1:03d}"


def _rack_name(hall: Hall, index: int) -> str:
    return f"{hall.cluster[0]}-rack{index // hall.nodes_per_rack + 1}"


def _tree(cluster: Cluster, start: datetime) -> list[BudgetNode]:
    """The engine's tree as it was on the first day."""
    rows = queries.tree_on(cluster, queries.day_of(start))
    codes = {row.node.pk: row.node.code for row in rows}
    return [
        BudgetNode(
            id=row.node.code,
            parent=None if row.parent_id is None else codes[row.parent_id],
            shares=row.basis_points,
            whole=WHOLE_BASIS_POINTS,
        )
        for row in rows
    ]


def _share_changes(cluster: Cluster, start: datetime, end: datetime) -> list[Happening]:
    """Shares that began within the time, by parent and day."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    for share in Share.objects.filter(cluster=cluster).select_related("node", "parent"):
        at = queries.midnight(share.valid_from)
        if start < at < end:
            found.setdefault((int(at.timestamp()), share.parent.code), {})[share.node.code] = share.basis_points
    return [Happening(at_s, "shares", shares=given) for (at_s, _), given in sorted(found.items())]


def _faults(hall: Hall, chance: Random, start_s: int, end_s: int) -> list[Fault]:
    """Each on another node, and over well before the end."""
    found = []
    for index in chance.sample(range(hall.nodes), hall.faults):
        length_s = chance.randrange(2 * 3_600, 30 * 3_600)
        at_s = chance.randrange(start_s + 86_400, end_s - 3 * 86_400)
        health = chance.choice(("unhealthy", "unhealthy", "down"))
        found.append(Fault(_node_name(hall, index), health, at_s, at_s + length_s))
    return found


def _health_changes(faults: Sequence[Fault]) -> list[Happening]:
    broken = [Happening(fault.start_s, "health", fault.node, fault.health) for fault in faults]
    mended = [Happening(fault.end_s, "health", fault.node, "healthy") for fault in faults]
    return broken + mended


@dataclass(slots=True)
class _Wish:
    """A workload of a thread of work: submitted at `at_s` if it is the first, else `think_s` after the one before it.

    `at_s` of the others is the earliest they can come; it only serves to number them.
    """

    hall: Hall
    leaf: str
    draft: Draft
    at_s: int
    before: _Wish | None
    think_s: int
    code: str = ""


def _wishes(lab: Laboratory, hall: Hall, chance: Random, start_s: int, end_s: int) -> list[_Wish]:
    """Threads of work in every leaf: somebody submits, waits, looks at what came out, and submits the next.

    So demand is bounded: the sizes of all threads together are OVERSUBSCRIBED times the cluster.
    """
    found: list[_Wish] = []
    for leaf, wanted in units_wanted(lab, lab.clusters[hall.cluster], hall.nodes * hall.devices_per_node).items():
        asked = 0.0
        while asked < wanted:
            kind = some_kind(chance, hall.cluster, largest=max(SMALLEST, round(wanted - asked)))
            at_s, before = start_s + chance.randrange(8 * 3_600), None
            while at_s < end_s:
                before = _Wish(hall, leaf, draft(chance, kind), at_s, before, chance.randrange(*THINK_S))
                found.append(before)
                at_s += before.draft.length_s + before.think_s
            asked += mean_size(kind)
    return found


def units_wanted(lab: Laboratory, cluster: Cluster, units: int) -> dict[str, float]:
    """How many units each leaf asks for at any time: OVERSUBSCRIBED times the cluster in all."""
    entitled = {row.node.code: row.entitlement for row in queries.tree_on(cluster, queries.today())}
    wanted = {code: float(entitled[code]) * APPETITE[code] for code in lab.leaves}
    scale = OVERSUBSCRIBED * units / sum(wanted.values())
    return {code: amount * scale for code, amount in wanted.items()}


def _number(wishes: Sequence[_Wish]) -> None:
    """Give each its public id: numbers of a leaf rise with time, over all clusters."""
    last: dict[str, int] = {}
    for wish in sorted(wishes, key=lambda each: each.at_s):
        last[wish.leaf] = last.get(wish.leaf, 0) + 1
        wish.code = f"{wish.leaf}-{last[wish.leaf]:04d}"


def _job(wish: _Wish) -> Job:
    one = wish.draft
    return Job(
        id=wish.code,
        leaf=wish.leaf,
        size_milli=one.size * MILLI,
        min_runtime_s=one.min_runtime_s,
        duration_s=one.length_s,
        submit_s=wish.at_s if wish.before is None else None,
        after=wish.before.code if wish.before is not None else None,
        think_s=wish.think_s,
        is_resumable=one.is_resumable,
        priority=one.priority,
        restart_cost_s=one.restart_cost_s,
        startup_s=one.startup_s,
        exit_delay_s=one.exit_delay_s,
    )


# --- storing --------------------------------------------------------------------------------------------------------


def _at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _spells(faults: Sequence[Fault], start: datetime) -> list[tuple[str, datetime, datetime | None]]:
    spells: list[tuple[str, datetime, datetime | None]] = []
    since = start
    for fault in sorted(faults, key=lambda each: each.start_s):
        spells.append(("healthy", since, _at(fault.start_s)))
        state = "down" if fault.health == "down" else "draining"
        since = _at(fault.end_s)
        spells.append((state, _at(fault.start_s), since))
    return [*spells, ("healthy", since, None)]


def _workload(
    lab: Laboratory, record: JobRecord, one: Draft, decisions: list[PastDecision], end_s: int, chance: Random
) -> PastWorkload:
    """A record of the simulation as history; a run that was leaving at the very end has left."""
    runs = [_run(run, end_s) for run in record.runs]
    state, ended_s = record.state or "", record.end_s
    if state == "leaving":
        state = "queued" if one.is_resumable else "preempted"
        ended_s = None if one.is_resumable else end_s
    is_open = ended_s is None
    return PastWorkload(
        code=record.job.id,
        leaf=lab.nodes[record.job.leaf],
        owner=chance.choice(lab.members[record.job.leaf]),
        name=one.name,
        size_milli=record.job.size_milli,
        min_runtime_s=record.job.min_runtime_s,
        is_resumable=one.is_resumable,
        priority=one.priority,
        state=state,
        submitted_at=_at(record.submitted_s),
        ended_at=None if ended_s is None else _at(ended_s),
        preemptions=record.preemptions,
        progress_s=record.progress_s,
        runs=runs,
        decisions=decisions,
        reason=FINISHED if state == "finished" else None,
        command=["python", "train.py", "--config", f"{one.name}.yaml"],
        environment=environment(one) if is_open else activity(one),
    )


def _run(run: RunRecord, end_s: int) -> PastRun:
    is_over = run.end_s is not None or run.is_leaving
    ended_s = (run.end_s if run.end_s is not None else end_s) if is_over else None
    return PastRun(
        started_at=_at(run.start_s),
        running_at=None if run.running_s is None else _at(run.running_s),
        contract_ends_at=None if run.contract_end_s is None else _at(run.contract_end_s),
        stop_asked_at=None if run.told_s is None else _at(run.told_s),
        ended_at=None if ended_s is None else _at(ended_s),
        end_reason=run.end_reason or "",
        preempted_by=run.preempted_by,
        size_milli=run.size_milli,
        is_funded=run.is_funded,
        holdings=run.holdings,
    )
