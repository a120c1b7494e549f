"""Gaming: what a team that transforms its submissions gains over an honest twin of equal entitlement in the same world.

The twin has the same shares and submits, second by second, what the team would have submitted. What counts is *useful*
device time: work that a run made progress with, without start-ups, work repeated after restarts, and parked no-ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..fields import ScenarioError
from ..records import JobRecord, Outcome
from ..scenario import ROOT, Job, Scenario
from ..world import simulate
from .spread import least_middle_most
from .strategies import AGAIN, HONEST, NOOP, STRATEGIES, Strategy

TWIN = "-twin"
"""Ends the name of every budget node and workload of the honest twin."""
COPY = "-copy"
"""Ends the name of a workload that stands for more demand; a number follows."""
MOST_GAIN = 0.01
"""What a strategy may gain before the report says how and what would stop it."""


# --- the world --------------------------------------------------------------------------------------------------------


def middle_team(scenario: Scenario) -> str:
    """The team whose entitlement is the median of those that submit anything.

    Raises:
        ScenarioError: fewer than two teams do.
    """
    team_of = _team_of(scenario)
    busy = {team_of[job.leaf] for job in scenario.jobs}
    ranked = sorted((node.shares, node.id) for node in scenario.tree if node.parent == ROOT and node.id in busy)
    if len(ranked) < 2:
        raise ScenarioError("tree", "needs two teams or more that submit workloads")
    return ranked[len(ranked) // 2][1]


def _team_of(scenario: Scenario) -> dict[str, str]:
    """For each budget node the one below the root that it belongs to."""
    parents = {node.id: node.parent for node in scenario.tree}
    found = {}
    for name in parents:
        at = name
        while (parent := parents[at]) is not None and parent != ROOT:
            at = parent
        found[name] = at
    return found


def with_twin(scenario: Scenario, team: str, strategy: Strategy, demand: int = 1) -> Scenario:
    """The scenario with an honest twin of a team, and the team playing a strategy.

    The cluster stays as it is; every team is entitled to a little less, as the twin has as many shares as the team.

    Args:
        scenario: what there is.
        team: a budget node below the root.
        strategy: what the team does to its submissions.
        demand: both submit everything so many times, so that they ask for more than they are entitled to.

    Raises:
        ScenarioError: the team's name, or one of its workloads', would be there twice.
    """
    team_of = _team_of(scenario)
    own = [job for job in scenario.jobs if team_of[job.leaf] == team]
    own = [*own, *(_copy(job, number, {each.id for each in own}) for number in range(2, demand + 1) for job in own)]
    names = {node.id for node in scenario.tree} | {job.id for job in scenario.jobs}
    for name in [team, *(job.id for job in own)]:
        if name + TWIN in names:
            raise ScenarioError("tree", f'"{name + TWIN}" is the name that the twin would have')
    shares = next(node.shares for node in scenario.tree if node.id == team)
    tree = [replace(node, whole=node.whole + shares) if node.parent == ROOT else node for node in scenario.tree]
    tree += [
        replace(node, id=node.id + TWIN, parent=ROOT if node.parent == ROOT else f"{node.parent}{TWIN}")
        for node in tree
        if node.id != ROOT and team_of[node.id] == team
    ]
    ids = {job.id for job in own}
    twins = [replace(job, id=job.id + TWIN, leaf=job.leaf + TWIN, after=_after(job, ids, TWIN)) for job in own]
    others = [job for job in scenario.jobs if team_of[job.leaf] != team]
    events = [event for event in scenario.events if event.kind in ("health", "maintenance")]
    world = replace(scenario, scheduler="contracts", tree=tree, events=events, jobs=[])
    return replace(world, jobs=[*others, *strategy.play(own, world), *twins])


def _copy(job: Job, number: int, ids: set[str]) -> Job:
    """The same workload once more, after the copy of what it comes after."""
    suffix = f"{COPY}{number}"
    return replace(job, id=job.id + suffix, after=_after(job, ids, suffix))


def _after(job: Job, ids: set[str], suffix: str) -> str | None:
    """What a workload's counterpart comes after: the counterpart, or the same where that has none."""
    return job.after + suffix if job.after is not None and job.after in ids else job.after


# --- figures ----------------------------------------------------------------------------------------------------------


def useful_milli_s(outcome: Outcome, team: str) -> int:
    """Device time in which workloads of a team made progress, no-ops apart."""
    team_of = _team_of(outcome.scenario)
    return sum(
        record.job.size_milli * _progress_s(record, outcome.end_s)
        for record in outcome.jobs
        if team_of[record.job.leaf] == team and not record.job.id.startswith(NOOP)
    )


def _progress_s(record: JobRecord, end_s: int) -> int:
    """Seconds of its work that are done, need not be repeated, and are no repetition."""
    done_s = record.progress_s
    if record.state == "finished":
        done_s = record.job.duration_s
    elif record.state == "running" and record.runs[-1].running_s is not None:
        done_s += end_s - record.runs[-1].running_s
    return max(0, done_s - _repeats_s(record.job))


def _repeats_s(job: Job) -> int:
    """What a part begins with, of what the part before it had done."""
    _, is_part, number = job.id.rpartition(AGAIN)
    return job.restart_cost_s if is_part and number != "1" else 0


def charged_milli_s(outcome: Outcome, team: str) -> int:
    """Device time that was charged to a team."""
    team_of = _team_of(outcome.scenario)
    return sum(
        run.held_milli_s(outcome.end_s) for run in outcome.runs if run.is_funded and team_of[run.job.job.leaf] == team
    )


def play(scenario: Scenario, team: str, strategy: Strategy, demand: int = 1) -> dict[str, Any]:
    """Simulate a strategy against the honest twin; device time in hours of one."""
    outcome = simulate(with_twin(scenario, team, strategy, demand), is_explained=False)
    return {
        "useful_gpu_h": useful_milli_s(outcome, team) / 3_600_000,
        "twin_useful_gpu_h": useful_milli_s(outcome, team + TWIN) / 3_600_000,
        "charged_gpu_h": charged_milli_s(outcome, team) / 3_600_000,
        "twin_charged_gpu_h": charged_milli_s(outcome, team + TWIN) / 3_600_000,
    }


def table(results: Sequence[tuple[int, Strategy, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A line for each strategy, with the spread over seeds of each figure: least, median and most.

    `over_twin` is what it got over what its twin got. Even twins who both are honest differ by luck, so `gain` is that
    over the same of the honest pair; `over_itself` what it got over what it gets in a world where it is honest.

    Args:
        results: (seed, strategy, `play`) of each run; each seed has one of `HONEST`.
    """
    fair = {seed: found for seed, strategy, found in results if strategy is HONEST}
    lines = []
    for strategy in (HONEST, *STRATEGIES):
        mine = [(found, fair[seed]) for seed, each, found in results if each is strategy]
        if not mine:
            continue
        over_twin = [_over(found["useful_gpu_h"], found["twin_useful_gpu_h"]) for found, _ in mine]
        luck = [_over(each["useful_gpu_h"], each["twin_useful_gpu_h"]) for _, each in mine]
        lines.append(
            {
                "strategy": strategy.name,
                "does": strategy.does,
                "seeds": len(mine),
                "gain": least_middle_most(
                    [
                        None if one is None or other is None else (1 + one) / (1 + other) - 1
                        for one, other in zip(over_twin, luck, strict=True)
                    ]
                ),
                "over_twin": least_middle_most(over_twin),
                "over_itself": least_middle_most(
                    [_over(found["useful_gpu_h"], each["useful_gpu_h"]) for found, each in mine]
                ),
                "charged_over_twin": least_middle_most(
                    [_over(found["charged_gpu_h"], found["twin_charged_gpu_h"]) for found, _ in mine]
                ),
            }
        )
    return lines


def _over(got: float, other: float) -> float | None:
    return got / other - 1 if got and other else None


def verdict(line: Mapping[str, Any]) -> str:
    """What a line of the table says of a strategy, in sentences."""
    strategy = next(each for each in STRATEGIES if each.name == line["strategy"])
    if line["gain"] is None:
        return "One of the twins got nothing, so that nothing can be said."
    least, median, most = line["gain"]
    if most <= MOST_GAIN:
        return f"It gains at most {MOST_GAIN:.0%} with every seed."
    spread = f"{median:+.1%} in the median, from {least:+.1%} to {most:+.1%}"
    if median <= MOST_GAIN:
        return f"It gains at most {MOST_GAIN:.0%} in the median, but more with some seeds ({spread}): {strategy.how}."
    return f"It gains more than {MOST_GAIN:.0%} ({spread}): {strategy.how}. What would stop it: {strategy.stop}"
