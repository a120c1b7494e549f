"""One scenario made into others: with other knobs, other shares, more work, or work that came a little differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, Protocol

from scheduler.engine import DEVICE_MILLI, BudgetNode, Policy

from .before import Before
from .entitled import entitlements
from .fields import Fields, ScenarioError, parse_json, shown, text
from .placements import with_placement
from .references import check
from .scenario import ROOT, Happening, Job, Scenario, read_events, read_jobs, read_policy

JITTER_S = 600
"""How far `jittered` moves a submission, at most."""
STRETCH_PERCENT = 10
"""How much longer or shorter it makes a workload, at most."""
HIGH, LOW = 2, 0
"""Levels of the priority baseline: of funded work, and of the rest."""


class Chance(Protocol):
    """The part of `random.Random` that is used; the caller seeds it."""

    def randint(self, a: int, b: int) -> int:
        """A whole number in [a, b]."""


def with_policy(scenario: Scenario, knobs: Mapping[str, object]) -> Scenario:
    """The same under other knobs, in the words of a file's `policy`; what is not named stays.

    People would ask for other contracts under another longest one: those above it are cut to it, and those that were
    as long as had been allowed grow with it, up to their workload's duration.

    Raises:
        ScenarioError: names the knob.
    """
    names = [knob.name for knob in fields(Policy)]
    standing = {name: getattr(scenario.policy, name) for name in names}
    standing["swap_margin"] = Fraction(scenario.policy.swap_margin)
    exact = {name: Decimal(str(value)) if isinstance(value, float) else value for name, value in knobs.items()}
    policy, scheduler = read_policy(exact, "policy", standing, scenario.scheduler)
    longest_s = scenario.policy.min_runtime_max_s
    changed = replace(scenario, policy=policy, scheduler=scheduler)
    if policy.min_runtime_max_s != longest_s:
        changed = replace(changed, jobs=[_asking(job, longest_s, policy.min_runtime_max_s) for job in scenario.jobs])
    if scheduler == "partition":
        return with_nothing_running(changed)
    return with_caps(changed) if scheduler == "priority" else changed


def _asking(job: Job, longest_before_s: int, longest_s: int) -> Job:
    """A workload whose owner knows the longest contract there is."""
    if job.min_runtime_s >= longest_before_s:
        return replace(job, min_runtime_s=min(longest_s, max(job.min_runtime_s, job.duration_s)))
    return replace(job, min_runtime_s=min(job.min_runtime_s, longest_s))


def with_caps(scenario: Scenario) -> Scenario:
    """Made fit for the priority baseline, where the scenario says nothing about it.

    Caps are the entitlements, in whole devices. Funded work is high, the rest low and preemptible. Who is protected is
    what careful people would choose: as many of the funded, in the order of their submission, as their caps would have
    room for if each started when it was submitted; the others can be preempted, and may go beyond the caps.
    """
    if scenario.caps_milli or any(job.is_protected for job in scenario.jobs):
        return scenario
    total_milli = sum(node.capacity_milli for node in scenario.nodes)
    caps = {
        name: int(entitlement * total_milli) // DEVICE_MILLI * DEVICE_MILLI
        for name, entitlement in entitlements(scenario.tree).items()
        if name != ROOT
    }
    protected = _protected(scenario, caps)
    jobs = [
        replace(job, is_protected=job.id in protected, level=HIGH if job.min_runtime_s else LOW)
        for job in scenario.jobs
    ]
    return replace(scenario, caps_milli=caps, jobs=jobs)


def _protected(scenario: Scenario, caps_milli: Mapping[str, int]) -> set[str]:
    """The ids of those for whom their caps would have room if everything started when it was submitted."""
    parents = {node.id: node.parent for node in scenario.tree}
    node_milli = max(node.capacity_milli for node in scenario.nodes)
    held_milli = dict.fromkeys(caps_milli, 0)
    ends: list[tuple[int, str, int]] = []  # (instant, capped node, what it then holds less)
    found = set()
    funded = [job for job in scenario.jobs if job.min_runtime_s]
    for job in sorted(funded, key=lambda each: (each.submit_s or 0, each.id)):
        now_s = job.submit_s or 0
        while ends and ends[0][0] <= now_s:
            _, name, size_milli = heappop(ends)
            held_milli[name] -= size_milli
        size_milli = job.size_milli if job.size_milli <= node_milli else -(-job.size_milli // node_milli) * node_milli
        above = _capped(job.leaf, parents, caps_milli)
        if all(held_milli[name] + size_milli <= caps_milli[name] for name in above):
            found.add(job.id)
            for name in above:
                held_milli[name] += size_milli
                heappush(ends, (now_s + job.duration_s, name, size_milli))
    return found


def _capped(leaf: str, parents: Mapping[str, str | None], caps_milli: Mapping[str, int]) -> list[str]:
    """The nodes from a leaf up that have a cap."""
    found = []
    at: str | None = leaf
    while at is not None:
        if at in caps_milli:
            found.append(at)
        at = parents[at]
    return found


def with_nothing_running(scenario: Scenario) -> Scenario:
    """The same, where whatever held devices at the start waits instead, with all its work kept.

    Where each team has fixed slots, what ran on others' before has no place.
    """

    def waits(job: Job) -> Job:
        before = job.before
        if before is None or not before.holdings:
            return job
        done_s = before.done_s + (0 if before.running_s is None else -before.running_s)
        return replace(job, before=Before(before.submitted_s, before.first_start_s, min(done_s, job.duration_s)))

    return replace(scenario, jobs=[waits(job) for job in scenario.jobs])


def with_shares(scenario: Scenario, shares: Mapping[str, int], from_s: int = 0) -> Scenario:
    """The same with other shares for these budget nodes from an instant on; their siblings keep theirs.

    Whatever the scenario would have changed about these nodes from then on does not happen.

    Raises:
        ScenarioError: names a node that is not in the tree, or shares that are no whole number of at least 0.
    """
    names = {node.id for node in scenario.tree} - {ROOT}
    for name, amount in shares.items():
        if name not in names:
            raise ScenarioError(f"shares.{name}", "there is no such budget node")
        if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
            raise ScenarioError(f"shares.{name}", f"must be a whole number of at least 0, not {shown(amount)}")
    events: list[Happening] = []
    for event in scenario.events:
        if event.kind == "shares" and event.at_s >= from_s:
            kept = {name: amount for name, amount in event.shares.items() if name not in shares}
            if kept:
                events.append(replace(event, shares=kept))
        else:
            events.append(event)
    if from_s > 0:
        return replace(scenario, events=[*events, Happening(from_s, "shares", shares=dict(shares))])
    return replace(scenario, events=events, tree=_divided(scenario.tree, shares))


def _divided(tree: Sequence[BudgetNode], shares: Mapping[str, int]) -> list[BudgetNode]:
    """The tree with these shares; each sibling's whole is the new sum."""
    amounts = {node.id: shares.get(node.id, node.shares) for node in tree}
    touched = {node.parent for node in tree if node.id in shares}
    wholes: dict[str | None, int] = dict.fromkeys(touched, 0)
    for node in tree:
        if node.parent in touched:
            wholes[node.parent] += amounts[node.id]
    return [
        replace(node, shares=amounts[node.id], whole=wholes[node.parent]) if node.parent in touched else node
        for node in tree
    ]


def with_more(scenario: Scenario, content: str) -> Scenario:
    """The same with constructed work laid over it.

    Args:
        scenario: what there is.
        content: JSON text with `workloads` and, if need be, `events` as in a scenario file, and a `name`. Leaves and
            nodes are the scenario's.

    Raises:
        ScenarioError: names the key path in that text.
    """
    file = Fields(parse_json(content), "")
    name = file.take("name", text, "more work")
    jobs = file.need("workloads", read_jobs)
    events: list[Happening] = file.take("events", read_events, [])
    file.finish()
    known = {job.id for job in scenario.jobs}
    for index, job in enumerate(jobs):
        if job.id in known:
            raise ScenarioError(f"workloads[{index}].id", f"there is a workload {shown(job.id)} already")
        if job.before is not None:
            raise ScenarioError(f"workloads[{index}].before", "work that is added comes at 0 or later")
    check(replace(scenario, history=(), jobs=jobs, events=events), also=known)
    return replace(
        scenario,
        name=f"{scenario.name} + {name}" if scenario.name else name,
        jobs=[*scenario.jobs, *jobs],
        events=[*scenario.events, *events],
    )


def jittered(scenario: Scenario, chance: Chance) -> Scenario:
    """The same work come a little differently, to see how much of a result is luck.

    Each submission moves by up to 10 min, each workload takes up to a tenth more or less.
    """

    def moved(job: Job) -> Job:
        percent = 100 + chance.randint(-STRETCH_PERCENT, STRETCH_PERCENT)
        submit_s = job.submit_s
        if submit_s is not None:
            submit_s = max(0, submit_s + chance.randint(-JITTER_S, JITTER_S))
        return replace(job, submit_s=submit_s, duration_s=job.duration_s * percent // 100)

    return replace(scenario, jobs=[moved(job) for job in scenario.jobs])


def changed(scenario: Scenario, change: Mapping[str, Any], chance: Chance | None) -> Scenario:
    """A variant of a scenario, as a stored change says it.

    Args:
        scenario: the base.
        change: `policy` (knobs, with `scheduler`), `placement` (by word), `shares` (by budget node) from `from_s` on;
            all optional.
        chance: where the work is to come a little differently.

    Raises:
        ScenarioError: names what is wrong.
    """
    found = with_shares(scenario, change["shares"], change.get("from_s", 0)) if change.get("shares") else scenario
    if change.get("policy"):
        found = with_policy(found, change["policy"])
    if change.get("placement"):
        found = with_placement(found, change["placement"])
    return found if chance is None else jittered(found, chance)
