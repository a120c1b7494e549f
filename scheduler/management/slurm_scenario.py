"""A Slurm's past as a scenario, and what really happened in it as an outcome of that scenario. Pure.

What the records say is kept: who submitted how much when, where it ran, for how long. What they cannot say is decided
by these rules, which the report names:

- a job asks for a contract of its own duration, at most the cap; a job that was requeued is one workload, with all its
  parts as work;
- accounts are the budget tree, with their fairshares as shares; without an account tree all are siblings, each entitled
  to what it really used (or all to the same);
- nodes are those of `sinfo`; without it those that the records name, each with as much as it ever held at once;
- what held no GPU is left out, on a cluster where anything did; what never started, or has not ended, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from scheduler.executors.slurm.accounts import ROOT, Account, Tree
from scheduler.executors.slurm.history import PastJob
from scheduler.executors.slurm.nodes import SlurmNode
from scheduler.simulator import Scenario, parse, simulate
from scheduler.simulator.records import Demand, JobRecord, Outcome, RunRecord

MILLI = 1_000
UNSAID_NODE = 8
"""Devices of each node where nothing says what nodes there are."""


@dataclass(frozen=True, slots=True)
class Work:
    """A job with its parts: (start, end, nodes) in seconds from the first submission. `units` are devices."""

    id: str
    leaf: str
    units: int
    submit_s: int
    parts: Sequence[tuple[int, int, Sequence[str]]]
    state: str
    limit_s: int | None

    @property
    def duration_s(self) -> int:
        """Work of all its parts."""
        return sum(end_s - start_s for start_s, end_s, _nodes in self.parts)


@dataclass(slots=True)
class Past:
    """A site's history: the scenario, its works, and what could not be kept, in words. `began_at` is instant 0."""

    scenario: Scenario
    works: Sequence[Work]
    began_at: datetime
    unit: str
    notes: list[str] = field(default_factory=list)


class NothingThere(ValueError):
    """The records hold nothing that could be simulated."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What whoever asks decides: see the options of `slurm_whatif`."""

    cap_s: int = 3_600
    shares: str = "used"  # or "equal"; where there is no account tree
    resumable: bool = True
    restart_cost_s: int = 300
    name: str = "Slurm"


def past_of(
    jobs: Sequence[PastJob], tree: Tree | None, nodes: Sequence[SlurmNode] | None, choices: Choices
) -> tuple[Past, str]:
    """A history, and its scenario as a file's text.

    Raises:
        NothingThere: no job of it ran and ended.
        ScenarioError: names that are no scenario's (a node twice, say).
    """
    notes: list[str] = []
    is_gpus = any(job.gpus for job in jobs)
    chosen = _chosen(jobs, is_gpus, notes)
    if not chosen:
        raise NothingThere("no job in it has run and ended")
    began_s = min(int(job.submitted_at.timestamp()) for job in chosen)
    leaves = _leaves(chosen, tree, notes)
    works = _works(chosen, began_s, is_gpus, leaves)
    sizes, racks = _nodes(works, nodes, is_gpus, notes)
    works = _fitting(works, sum(sizes.values()), notes)
    if not works:
        raise NothingThere("no job in it fits on the nodes")
    until_s = max(end_s for work in works for _start_s, end_s, _nodes in work.parts)
    file = {
        "name": choices.name,
        "cluster": {"nodes": sizes, **({"racks": racks} if racks else {})},
        "tree": _tree(works, tree, choices, leaves),
        "policy": {"min_runtime_min_s": 1, "min_runtime_max_s": max(choices.cap_s, 1)},
        "workloads": [_workload(work, choices) for work in works],
        "until": until_s,
    }
    text = json.dumps(file)
    unit = "GPU" if is_gpus else "core"
    past = Past(replace(parse(text), unit=unit), works, datetime.fromtimestamp(began_s, UTC), unit, notes)
    return past, text


def _workload(work: Work, choices: Choices) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": work.id,
        "leaf": work.leaf,
        "submit": work.submit_s,
        "gpus": work.units,
        "min_runtime": min(work.duration_s, choices.cap_s),
        "duration": work.duration_s,
        "resumable": choices.resumable,
        "restart_cost": choices.restart_cost_s if choices.resumable else 0,
    }
    if work.limit_s is not None:
        row["estimate"] = max(work.limit_s, work.duration_s)
    return row


def _chosen(jobs: Iterable[PastJob], is_gpus: bool, notes: list[str]) -> list[PastJob]:
    """Those that ran and ended, and held what is counted; by submission."""
    counts = {"never": 0, "open": 0, "none": 0}
    chosen = []
    for job in jobs:
        if job.started_at is None:
            counts["never"] += 1
        elif job.ended_at is None:
            counts["open"] += 1
        elif not (job.gpus if is_gpus else job.cpus):
            counts["none"] += 1
        elif job.ran_s > 0:
            chosen.append(job)
    for name, text in (
        ("never", "never started"),
        ("open", "had not ended"),
        ("none", "held no GPU" if is_gpus else "held no core"),
    ):
        if counts[name]:
            notes.append(f"{counts[name]:,} jobs that {text} are left out.")
    return sorted(chosen, key=lambda job: (job.submitted_at, job.started_at or job.submitted_at, job.id))


def _works(jobs: Sequence[PastJob], began_s: int, is_gpus: bool, leaves: Mapping[str, str]) -> list[Work]:
    """One for each job; the parts of a requeued one belong together."""
    by_id: dict[str, list[PastJob]] = {}
    for job in jobs:
        by_id.setdefault(job.id, []).append(job)
    works = []
    for name, parts in by_id.items():
        last = parts[-1]
        works.append(
            Work(
                id=name,
                leaf=leaves[last.account],
                units=last.gpus if is_gpus else last.cpus,
                submit_s=int(min(part.submitted_at for part in parts).timestamp()) - began_s,
                parts=_in_order(
                    [
                        (
                            int(part.started_at.timestamp()) - began_s,
                            int(part.ended_at.timestamp()) - began_s,
                            part.nodes,
                        )
                        for part in parts
                        if part.started_at is not None and part.ended_at is not None
                    ]
                ),
                state=last.state,
                limit_s=last.limit_s,
            )
        )
    return sorted(works, key=lambda work: (work.submit_s, work.id))


def _in_order(parts: list[tuple[int, int, Sequence[str]]]) -> list[tuple[int, int, Sequence[str]]]:
    """Parts one after the other: the records of a requeue may overlap by a second."""
    found: list[tuple[int, int, Sequence[str]]] = []
    for start_s, end_s, nodes in sorted(parts, key=lambda part: (part[0], part[1])):
        begin_s = max(start_s, found[-1][1]) if found else start_s
        if end_s > begin_s:
            found.append((begin_s, end_s, nodes))
    return found


def _fitting(works: Sequence[Work], total: int, notes: list[str]) -> list[Work]:
    fitting = [work for work in works if work.units <= total]
    if len(fitting) < len(works):
        notes.append(f"{len(works) - len(fitting):,} jobs larger than all nodes together are left out.")
    return fitting


# --- the tree ---------------------------------------------------------------------------------------------------------


def _leaves(jobs: Sequence[PastJob], tree: Tree | None, notes: list[str]) -> dict[str, str]:
    """The leaf of each account's jobs: itself, or, where accounts hang below it, one of its own beside them."""
    used = {job.account for job in jobs}
    above = {account.parent for account in tree.accounts.values()} if tree is not None else set()
    leaves = {name: f"{name or 'none'} (itself)" if name in above or name in ("", ROOT) else name for name in used}
    strangers = sorted(name for name in used if tree is not None and name not in tree.accounts and name != ROOT)
    if strangers:
        notes.append(f"Accounts that are not in the account tree stand beside it: {', '.join(strangers[:10])}.")
    return leaves


def _tree(works: Sequence[Work], tree: Tree | None, choices: Choices, leaves: Mapping[str, str]) -> dict[str, Any]:
    used: dict[str, int] = {}
    for work in works:
        used[work.leaf] = used.get(work.leaf, 0) + work.units * work.duration_s
    if tree is None:
        return {leaf: used[leaf] if choices.shares == "used" else 1 for leaf in sorted(used)}
    of_account = {account: leaf for account, leaf in leaves.items() if leaf in used}
    made = _below(ROOT, tree, of_account)
    placed = _names_in(made)
    for leaf in sorted(used):
        if leaf not in placed:
            made[leaf] = _usual(made.values())
    return made


def _below(parent: str, tree: Tree, of_account: Mapping[str, str]) -> dict[str, Any]:
    """The children of an account, and what was run on its own account as one of them."""
    made: dict[str, Any] = {}
    for account in tree.children(parent):
        share = _share_of(account)
        below = _below(account.name, tree, of_account)
        made[account.name] = {"shares": share, "children": below} if below else share
    own = of_account.get(parent)
    if own is not None and made:
        made[own] = _usual(made.values())
    return made


def _share_of(account: Account) -> int:
    """Fairshare "parent" gives users their part of what is above; as an account it weighs like one share."""
    return 1 if account.share is None else account.share


def _usual(siblings: Iterable[Any]) -> int:
    """What a sibling usually has: for what stands beside them and was given nothing."""
    shares = [each["shares"] if isinstance(each, dict) else each for each in siblings]
    return max(1, sum(shares) // len(shares)) if shares else 1


def _names_in(made: Mapping[str, Any]) -> set[str]:
    names = set(made)
    for each in made.values():
        if isinstance(each, dict):
            names |= _names_in(each["children"])
    return names


# --- the nodes --------------------------------------------------------------------------------------------------------


def _nodes(
    works: Sequence[Work], nodes: Sequence[SlurmNode] | None, is_gpus: bool, notes: list[str]
) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Devices by node, and nodes by rack."""
    if nodes is not None:
        sizes = {node.name: node.gpus if is_gpus else node.cpus for node in nodes}
        sizes = {name: size for name, size in sizes.items() if size}
        racks: dict[str, list[str]] = {}
        for node in nodes:
            if node.rack and node.name in sizes:
                racks.setdefault(node.rack, []).append(node.name)
        if sizes:
            return sizes, racks
        notes.append("The list of nodes names none with what jobs held; nodes are taken from the jobs.")
    sizes = _ever_held(works)
    if sizes:
        notes.append("What each node has is the most that jobs ever held on it at once.")
        return sizes, {}
    total = _peak([(start_s, end_s, work.units) for work in works for start_s, end_s, _nodes in work.parts])
    notes.append(f"Nothing names the nodes: as much as was ever held at once, in nodes of {UNSAID_NODE}.")
    return {f"n{number:04d}": UNSAID_NODE for number in range(1, -(-total // UNSAID_NODE) + 1)}, {}


def _ever_held(works: Sequence[Work]) -> dict[str, int]:
    spells: dict[str, list[tuple[int, int, int]]] = {}
    for work in works:
        for start_s, end_s, names in work.parts:
            for name in names:
                spells.setdefault(name, []).append((start_s, end_s, -(-work.units // len(names))))
    return {name: _peak(each) for name, each in sorted(spells.items())}


def _peak(spells: Iterable[tuple[int, int, int]]) -> int:
    """The most that was held at any one time; what ends in a second makes room in that second."""
    changes = sorted(
        change for start_s, end_s, amount in spells for change in ((start_s, 1, amount), (end_s, 0, -amount))
    )
    held = most = 0
    for _at_s, _kind, amount in changes:
        held += amount
        most = max(most, held)
    return most


# --- what really happened ---------------------------------------------------------------------------------------------


def real_outcome(past: Past) -> Outcome:
    """The records as a simulation would have written them down, so that the same code makes the same figures."""
    scenario = past.scenario
    assert scenario.until_s is not None
    idle = simulate(replace(scenario, jobs=()))
    by_id = {job.id: job for job in scenario.jobs}
    records = [_record(work, by_id[work.id]) for work in past.works]
    return Outcome(
        scenario,
        end_s=scenario.until_s,
        jobs=records,
        runs=sorted((run for record in records for run in record.runs), key=lambda run: run.start_s),
        demand=[
            Demand(record.job.leaf, record.job.size_milli, record.submitted_s, record.end_s)
            for record in records
            if record.end_s is not None and record.end_s > record.submitted_s
        ],
        healthy_steps=idle.healthy_steps,
        entitlement_steps=idle.entitlement_steps,
    )


def _record(work: Work, job: Any) -> JobRecord:
    record = JobRecord(
        job,
        state="finished",
        submitted_s=work.submit_s,
        first_start_s=max(work.parts[0][0], work.submit_s),
        end_s=work.parts[-1][1],
        preemptions=len(work.parts) - 1,
    )
    for number, (start_s, end_s, nodes) in enumerate(work.parts, start=1):
        record.runs.append(
            RunRecord(
                id=f"{work.id}/{number}",
                job=record,
                start_s=start_s,
                holdings=_holdings(work.units, nodes),
                is_funded=True,
                size_milli=work.units * MILLI,
                running_s=start_s,
                end_s=end_s,
                end_reason="finished" if number == len(work.parts) else "requeued",
            )
        )
    return record


def _holdings(units: int, nodes: Sequence[str]) -> dict[str, int]:
    if not nodes:
        return {}
    each, rest = divmod(units, len(nodes))
    amounts = {name: (each + (index < rest)) * MILLI for index, name in enumerate(nodes)}
    return {name: amount for name, amount in amounts.items() if amount}
