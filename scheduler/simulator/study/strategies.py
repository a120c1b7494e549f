"""Ways to game a budget: what a team could do to its honest submissions in the hope of more than its due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from scheduler.engine import BudgetNode

from ..scenario import Job, Scenario

PIECES = 4
"""Into how many workloads a splitter makes one."""
INFLATED_PRIORITY = 100
AGAIN, PART = "/again", "/part"
"""In the ids of workloads that are parts of another, before their number: each of the first kind but the first begins
with what a restart repeats."""
NOOP = "no-op-"
NOOP_PART = 4
"""A parker's no-ops ask for one part in so many of what its team is entitled to."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to game: what it does to a team's honest submissions, and what the study has to say about it."""

    name: str
    does: str
    play: Callable[[Sequence[Job], Scenario], list[Job]]
    how: str
    stop: str


def honest(jobs: Sequence[Job], _: Scenario) -> list[Job]:
    """As it is."""
    return list(jobs)


def split(jobs: Sequence[Job], _: Scenario) -> list[Job]:
    """Each workload of several devices as some smaller ones, submitted together; the next follows the last of them."""
    last: dict[str, str] = {}
    found: list[Job] = []
    for job in jobs:
        pieces = _pieces_milli(job.size_milli)
        last[job.id] = job.id if len(pieces) == 1 else f"{job.id}/piece{len(pieces)}"
        if len(pieces) == 1:
            found.append(job)
        else:
            found += [
                replace(job, id=f"{job.id}/piece{number}", size_milli=size_milli)
                for number, size_milli in enumerate(pieces, start=1)
            ]
    return [job if job.after is None else replace(job, after=last.get(job.after, job.after)) for job in found]


def _pieces_milli(size_milli: int) -> list[int]:
    """Up to PIECES whole devices' worth, as equal as can be."""
    whole, rest = divmod(size_milli, 1_000)
    number = min(PIECES, whole)
    if rest or number < 2:
        return [size_milli]
    return [1_000 * (whole // number + (index < whole % number)) for index in range(number)]


def resubmit(jobs: Sequence[Job], _: Scenario) -> list[Job]:
    """Whatever would outlive its contract ends with it, and is submitted again at once; restarts repeat work."""
    return _in_parts(jobs, AGAIN)


def resubmit_saved(jobs: Sequence[Job], _: Scenario) -> list[Job]:
    """The same, saving all of its progress just before it ends, so that nothing is repeated."""
    return _in_parts(jobs, PART)


def _in_parts(jobs: Sequence[Job], marker: str) -> list[Job]:
    """Each funded workload as one after the other of its contract's length.

    Contracts of which a repetition would take half or more are left alone.
    """
    last: dict[str, str] = {}
    found: list[Job] = []
    for job in jobs:
        parts = _parts(job, marker)
        found += parts
        last[job.id] = parts[-1].id
    return [job if job.after is None else replace(job, after=last.get(job.after, job.after)) for job in found]


def _parts(job: Job, marker: str) -> list[Job]:
    repeats_s = job.restart_cost_s if marker == AGAIN else 0
    if job.duration_s <= job.min_runtime_s or job.min_runtime_s <= 2 * repeats_s:
        return [job]
    found = [replace(job, id=f"{job.id}{marker}1", duration_s=job.min_runtime_s)]
    left_s = job.duration_s - job.min_runtime_s
    while left_s > 0:
        work_s = min(left_s, job.min_runtime_s - repeats_s)
        found.append(
            replace(
                job,
                id=f"{job.id}{marker}{len(found) + 1}",
                duration_s=repeats_s + work_s,
                submit_s=None,
                after=found[-1].id,
                think_s=0,
            )
        )
        left_s -= work_s
    return found


def inflate(jobs: Sequence[Job], _: Scenario) -> list[Job]:
    """Everything is more urgent than anything."""
    return [replace(job, priority=INFLATED_PRIORITY, level=INFLATED_PRIORITY) for job in jobs]


def over_declare(jobs: Sequence[Job], scenario: Scenario) -> list[Job]:
    """Every funded workload asks for the longest contract there is."""
    longest_s = scenario.policy.min_runtime_max_s
    return [replace(job, min_runtime_s=longest_s) if job.min_runtime_s else job for job in jobs]


def park(jobs: Sequence[Job], scenario: Scenario) -> list[Job]:
    """Besides its work, loops of no-ops that hold devices, of less priority, so that its work takes them over."""
    leaves = sorted({job.leaf for job in jobs})
    end_s = scenario.until_s if scenario.until_s is not None else max(job.duration_s for job in jobs)
    node_milli = max(node.capacity_milli for node in scenario.nodes)
    number = max(1, _entitled_milli(scenario, leaves) // NOOP_PART // node_milli)
    noops: list[Job] = []
    for index in range(number):
        leaf = leaves[index % len(leaves)]
        contract_s = scenario.policy.min_runtime_max_s
        for turn in range(-(-end_s // contract_s)):
            noops.append(
                Job(
                    id=f"{NOOP}{index}-{turn}",
                    leaf=leaf,
                    size_milli=node_milli,
                    min_runtime_s=contract_s,
                    duration_s=2 * contract_s,
                    submit_s=0 if turn == 0 else None,
                    after=None if turn == 0 else f"{NOOP}{index}-{turn - 1}",
                    priority=-1,
                    is_resumable=False,
                )
            )
    return [*jobs, *noops]


def _entitled_milli(scenario: Scenario, leaves: Sequence[str]) -> int:
    """What these leaves are entitled to together."""
    by_id = {node.id: node for node in scenario.tree}
    total_milli = sum(node.capacity_milli for node in scenario.nodes)
    found = 0
    for leaf in leaves:
        amount, whole = total_milli, 1
        at: BudgetNode | None = by_id[leaf]
        while at is not None and at.parent is not None:
            amount, whole = amount * at.shares, whole * max(1, at.whole)
            at = by_id[at.parent]
        found += amount // whole
    return found


HONEST = Strategy("honest", "submits like its twin", honest, "", "")
STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "split",
        f"makes up to {PIECES} smaller workloads of each, submitted together",
        split,
        "small pieces fit where a whole gang does not, and each makes progress as soon as it starts",
        "nothing in the order, as every piece is charged, and work that can be split may be. Placing the pieces of one "
        "name as one gang would.",
    ),
    Strategy(
        "resubmit",
        "ends with its contract and submits the rest again with a new one, where a restart costs what it costs others",
        resubmit,
        "it is inside a contract all the time, so that nobody stops it, but repeats work by itself",
        "a contract that may be renewed in place when the team is first in the order gives everybody the same.",
    ),
    Strategy(
        "resubmit-saved",
        "the same, but saves just before, so that it repeats no work",
        resubmit_saved,
        "what others lose is the work that a restart after a preemption repeats; it saves in time, and so loses none",
        "what spares everybody that loss: checkpoints just before a contract ends (--restart-cost 0 shows what then is "
        "left), or contracts as long as a workload whose restart is dear.",
    ),
    Strategy(
        "inflate",
        f"submits everything at priority {INFLATED_PRIORITY}",
        inflate,
        "priorities are compared inside a leaf only, so that this is luck",
        "nothing needs to: priority means nothing outside its leaf.",
    ),
    Strategy(
        "over-declare",
        "asks for the longest contract for all that is funded",
        over_declare,
        "its runs are protected for longer, so that they are stopped less and repeat less work",
        "the same as for resubmit-saved; try a shorter longest contract (--max-contract).",
    ),
    Strategy(
        "park",
        "holds devices with no-ops, which its work takes over",
        park,
        "its work takes over devices of its own leaf by priority, whoever has been served less",
        "measured utilization: a run without activity is shown to the team's lead, or ended with its contract.",
    ),
)
