"""A stretch of a cluster's history as a scenario, and what really happened in it as an outcome of that scenario.

What rows say is kept: nodes with how they fared, the tree with its dated shares, what was used before, and every
workload with its submission, size, contract and true work. Where rows can't say, these rules hold (docs/simulator.md):

- a workload takes the work that its runs have done, without start-ups, exits and repeated work. One that has not
  ended, or was cut off, takes the median of those ended ones of its leaf and contract that took longer than it has so
  far; where there is none, of all with its contract, and else twice as long as so far, at least its contract;
- its start-up is the median of its own runs', its exit that of its stopped runs'; without any, the cluster's;
- one that was cancelled while it ran ends where it was cancelled, by its work; one that waited is cancelled then;
- one that was refused at the door is left out, and so is one that never got to wait since it comes after another;
- a run that was leaving at the start has left, and plans and reservations of then are made anew;
- a node that was silent and came back was fit; the tree hangs as at the end; the policy is the last one in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.engine import NO_CELLS, BudgetNode, Node, Policy, fitting, layout_of
from scheduler.models import PolicyVersion
from scheduler.queries import stretch_nodes, stretch_tree, stretch_work
from scheduler.queries.stretch_work import Work
from scheduler.services import policies
from scheduler.simulator import Scenario, simulate
from scheduler.simulator.recorded import unfit_spells
from scheduler.simulator.records import Demand, JobRecord, Outcome, RunRecord
from scheduler.simulator.scenario import PASS_EVERY_S, Happening, Job
from scheduler.snapshots.build import UNIT_NAMES

LONGEST_LOOKBACK = timedelta(days=28)
"""How much use of before the start is kept, so that the lookback can be varied up to this."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """[start, end) of a cluster's history: the scenario, what really happened, and what it could not keep."""

    cluster: Cluster
    start: datetime
    end: datetime
    scenario: Scenario
    real: Outcome
    notes: Sequence[str]


def read(cluster: Cluster, start: datetime, end: datetime, *, now: datetime | None = None) -> Stretch:
    """Make a scenario of a stretch of history. A number of queries that no number of rows raises.

    Raises:
        InputError: names the bound that makes no sense, or says that there is nothing in it.
    """
    if end <= start:
        raise InputError("until", gettext("must be after the start, {start:%Y-%m-%d %H:%M}").format(start=start))
    length_s = int((end - start).total_seconds())
    nodes, health = stretch_nodes.read(cluster, start, end)
    if not nodes:
        raise InputError("cluster", gettext("{cluster} had no nodes then").format(cluster=cluster.name))
    works = stretch_work.read(cluster, start, end, {node.name for node in nodes}, now or timezone.now())
    if not works:
        raise InputError(
            "from", gettext("nothing was submitted, waited or ran on {cluster} then").format(cluster=cluster.name)
        )
    tree = stretch_tree.read(cluster, start, end, {work.leaf_id for work in works})
    history = stretch_work.past_use(cluster, start, start - LONGEST_LOOKBACK, tree.of_path)
    jobs = stretch_work.jobs(works, tree.of_leaf, length_s)
    budget, shares = tree.built()
    policy, notes = _policy(cluster, start, end)
    scenario = Scenario(
        name=f"{cluster.name}, {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC",
        nodes=nodes,
        tree=_with_cells_that_fit(budget, nodes),
        policy=policy,
        history=history,
        jobs=jobs,
        events=[*shares, *health, *_cancels(works, length_s)],
        until_s=length_s,
        unit=UNIT_NAMES[cluster.unit],
    )
    real = _what_happened(scenario, works)
    return Stretch(cluster, start, end, scenario, real, [*notes, *_censored(works)])


def _with_cells_that_fit(tree: Sequence[BudgetNode], nodes: Sequence[Node]) -> list[BudgetNode]:
    """The tree with today's cells as far as the nodes of then have them; a scenario with others is refused."""
    granted = {node.id: node.cells for node in tree if node.cells != NO_CELLS}
    fits = fitting(layout_of(nodes), granted) if granted else {}
    return [replace(node, cells=fits.get(node.id, NO_CELLS)) for node in tree]


def _policy(cluster: Cluster, start: datetime, end: datetime) -> tuple[Policy, list[str]]:
    versions = PolicyVersion.objects.filter(cluster=cluster).order_by("number")
    inside = versions.filter(made_at__gt=start, made_at__lt=end)
    last = versions.filter(made_at__lt=end).last() or versions.first()
    policy = Policy() if last is None else policies.as_policy(last)
    notes = []
    if last is not None and (count := inside.exclude(number=1).count()):
        times = "once" if count == 1 else f"{count} times"
        notes.append(f"The policy was changed {times} within this time; the replay uses the last one throughout.")
    return replace(policy, pass_every_s=PASS_EVERY_S), notes


def _censored(works: Sequence[Work]) -> list[str]:
    number = sum(work.is_censored for work in works)
    if not number:
        return []
    who = "1 workload had" if number == 1 else f"{number:,} workloads had"
    return [f"{who} not ended, or had been cut off: how long they take is the median of their like."]


def _cancels(works: Sequence[Work], length_s: int) -> list[Happening]:
    return [
        Happening(work.end_s, "cancel", work.code)
        for work in works
        if work.was_cancelled_waiting and work.end_s is not None and work.end_s < length_s
    ]


# --- what really happened ---------------------------------------------------------------------------------------------


def _what_happened(scenario: Scenario, works: Sequence[Work]) -> Outcome:
    """The rows as a simulation would have written them down, so that the same code makes the same figures of them."""
    assert scenario.until_s is not None
    idle = simulate(replace(scenario, jobs=(), history=(), events=_not_cancels(scenario)))
    jobs = {job.id: job for job in scenario.jobs}
    records = [_record(work, jobs[work.code], scenario.until_s) for work in works]
    node_milli = max(node.capacity_milli for node in scenario.nodes)
    outcome = Outcome(
        scenario,
        end_s=scenario.until_s,
        jobs=records,
        runs=sorted((run for record in records for run in record.runs), key=lambda run: run.start_s),
        demand=[demand for record in records if (demand := _demand(record, scenario.until_s, node_milli)) is not None],
        healthy_steps=idle.healthy_steps,
        entitlement_steps=idle.entitlement_steps,
    )
    outcome.held_unfit_milli_s = _held_unfit_milli_s(outcome)
    return outcome


def _not_cancels(scenario: Scenario) -> list[Happening]:
    return [event for event in scenario.events if event.kind != "cancel"]


def _record(work: Work, job: Job, length_s: int) -> JobRecord:
    record = JobRecord(
        job,
        state=work.state if work.end_s is not None and work.end_s <= length_s else "queued",
        submitted_s=work.submitted_s,
        first_start_s=work.first_start_s if work.first_start_s is not None and work.first_start_s < length_s else None,
        end_s=work.end_s if work.end_s is not None and work.end_s <= length_s else None,
    )
    for run in work.runs:
        if run.start_s >= length_s or (run.end_s is not None and run.end_s <= 0):
            continue
        has_ended = run.end_s is not None and run.end_s <= length_s
        record.preemptions += has_ended and run.is_preemption
        record.runs.append(
            RunRecord(
                id=f"{work.code}/{run.number}",
                job=record,
                start_s=run.start_s,
                holdings=run.holdings,
                is_funded=run.is_charged,
                size_milli=run.size_milli,
                running_s=run.running_s,
                contract_end_s=run.contract_end_s,
                end_s=run.end_s if has_ended else None,
                end_reason=run.end_reason if has_ended else None,
                preempted_by=run.preempted_by if has_ended else None,
                told_s=run.told_s,
            )
        )
    if record.end_s is None and record.runs and record.runs[-1].end_s is None:
        record.state = "running"
    return record


def _demand(record: JobRecord, length_s: int, node_milli: int) -> Demand | None:
    job = record.job
    from_s, until_s = max(record.submitted_s, 0), length_s if record.end_s is None else record.end_s
    if not job.min_runtime_s or until_s <= from_s:
        return None
    size_milli = job.size_milli if job.size_milli <= node_milli else -(-job.size_milli // node_milli) * node_milli
    return Demand(job.leaf, record.runs[-1].size_milli if record.runs else size_milli, from_s, until_s)


def _held_unfit_milli_s(outcome: Outcome) -> int:
    """What was held on nodes while they were not to be used."""
    by_node: dict[str, list[tuple[int, int, int]]] = {}
    for run in outcome.runs:
        until_s = outcome.end_s if run.end_s is None else run.end_s
        for name, amount_milli in run.holdings.items():
            by_node.setdefault(name, []).append((max(run.start_s, 0), until_s, amount_milli))
    return sum(
        amount_milli * max(0, min(until_s, spell.until_s) - max(from_s, spell.from_s))
        for spell in unfit_spells(outcome)
        for from_s, until_s, amount_milli in by_node.get(spell.node, ())
    )
