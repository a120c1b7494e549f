"""What a simulation prints: runs, workloads, use, decisions, and the figures of semantics.md section 10."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, islice
from math import lcm
from operator import add
from typing import Any, TypeVar

from scheduler.engine import Snapshot

from .records import JobRecord, LoggedDecision, Outcome, RunRecord
from .scenario import ROOT

HOUR_S = 3_600
DEBUG_CONTRACT_S = 900
"""A debug run: a contract of at most 15 min, and at most one node."""
LARGE_PART = 16
"""A large gang: at least this part of the cluster."""
Number = TypeVar("Number", int, float)
ROWS_AT_ONCE = 1_000
"""Rows of a list that are written as one piece of text."""


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The object that `simulate FILE --json` prints (scenario-format.md)."""
    return {name: list(rows()) if callable(rows) else rows for name, rows in _parts(outcome)}


def json_text(outcome: Outcome) -> Iterator[str]:
    """The text of that object, piece by piece: of months it is larger than all that is known of them."""
    opening = "{"
    for name, rows in _parts(outcome):
        yield f"{opening}{json.dumps(name)}: "
        opening = ", "
        if not callable(rows):
            yield json.dumps(rows, ensure_ascii=False)
            continue
        left = rows()
        yield "["
        separator = ""
        while some := list(islice(left, ROWS_AT_ONCE)):
            yield separator + json.dumps(some, ensure_ascii=False)[1:-1]
            separator = ", "
        yield "]"
    yield "}"


Rows = Callable[[], Iterator[dict[str, Any]]]


def _parts(outcome: Outcome) -> Iterator[tuple[str, Rows | dict[str, Any]]]:
    """The members of the object in their order; long lists as what makes their rows one by one."""
    yield "runs", lambda: run_rows(outcome)
    yield "workloads", lambda: map(_workload, outcome.jobs)
    yield "usage", usage_by_node(outcome)
    yield "decisions", lambda: map(_decision, outcome.decisions)
    yield "metrics", metrics(outcome)


def run_rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Every run, in the order of starts."""
    return (_run(run, outcome.end_s) for run in outcome.runs)


def _run(run: RunRecord, end_s: int) -> dict[str, Any]:
    return {
        "workload": run.job.job.id,
        "start": run.start_s,
        "end": run.end_s,
        "nodes": {name: units(amount_milli) for name, amount_milli in run.holdings.items()},
        "contract_end": run.contract_end_s,
        "funded": run.is_funded,
        "end_reason": run.end_reason,
        "preempted_by": run.preempted_by,
        "charged_gpu_s": units(run.held_milli_s(end_s)) if run.is_funded else 0,
    }


def _workload(record: JobRecord) -> dict[str, Any]:
    first_s = record.first_start_s
    return {
        "id": record.job.id,
        "state": record.state,
        "first_start": first_s,
        "end": record.end_s,
        "wait_s": None if first_s is None else first_s - record.submitted_s,
        "preemptions": record.preemptions,
        "reason": None
        if record.reason is None
        else {"code": record.reason.code, "text": record.reason.text, "earliest_start": record.reason.earliest_start_s},
    }


def _decision(decision: LoggedDecision) -> dict[str, Any]:
    reason = decision.reason
    return {
        "at": decision.at_s,
        "workload": decision.workload,
        "action": decision.action,
        "reason": {"code": reason.code, "text": reason.text, "earliest_start": reason.earliest_start_s},
    }


def units(amount_milli: int) -> int | float:
    """Thousandths as whole units where they are whole."""
    whole, rest = divmod(amount_milli, 1_000)
    return amount_milli / 1_000 if rest else whole


def served_by_node(snapshot: Snapshot) -> dict[str, Any]:
    """The numbers behind an order, as `--order-at` prints them."""
    return {
        name: {
            "used_gpu_s": units(each.used_milli_s),
            "committed_gpu_s": units(each.committed_milli_s),
            "uncharged_gpu_s": units(each.uncharged_milli_s),
            "shares": each.shares,
            "entitlement": each.entitlement[0] / each.entitlement[1],
        }
        for name, each in snapshot.tree.figures(snapshot.now_s).items()
        if name != snapshot.tree.root.id
    }


# --- use by budget node -----------------------------------------------------------------------------------------------


def _ancestors(outcome: Outcome) -> dict[str, list[str]]:
    """Each budget node with all above it, itself included."""
    parents = {node.id: node.parent for node in outcome.scenario.tree}
    found: dict[str, list[str]] = {}
    for name in parents:
        at: str | None = name
        found[name] = []
        while at is not None:
            found[name].append(at)
            at = parents[at]
    return found


def held_milli_s(outcome: Outcome) -> tuple[dict[str, int], dict[str, int]]:
    """Charged and uncharged device time of every node, over the whole run."""
    above = _ancestors(outcome)
    charged = dict.fromkeys(above, 0)
    uncharged = dict.fromkeys(above, 0)
    for run in outcome.runs:
        held_milli_s = run.held_milli_s(outcome.end_s)
        totals = charged if run.is_funded else uncharged
        for name in above[run.job.job.leaf]:
            totals[name] += held_milli_s
    return charged, uncharged


def usage_by_node(outcome: Outcome) -> dict[str, dict[str, int | float]]:
    """Charged and uncharged GPU-seconds of every node of the tree; the root is called ""."""
    charged, uncharged = held_milli_s(outcome)
    return {
        name: {"charged_gpu_s": units(charged[name]), "uncharged_gpu_s": units(uncharged[name])} for name in charged
    }


# --- figures ----------------------------------------------------------------------------------------------------------


def metrics(outcome: Outcome) -> dict[str, Any]:
    """The figures of section 10. Ratios are None where nothing was there to divide by."""
    end_s = outcome.end_s
    nodes = outcome.scenario.nodes
    total_milli_s = sum(node.capacity_milli for node in nodes) * end_s
    healthy_milli_s = sum(
        amount_milli * (until_s - from_s) for from_s, until_s, amount_milli in _spans(outcome.healthy_steps, end_s)
    )
    charged, uncharged = held_milli_s(outcome)
    all_held_milli_s = charged[ROOT] + uncharged[ROOT]
    owed = owed_milli_s(outcome)
    top = [node.id for node in outcome.scenario.tree if node.parent == ROOT]
    delivered_milli_s = sum(min(Fraction(charged[name]), owed[name]) for name in top)
    return {
        "end": end_s,
        "availability": _ratio(healthy_milli_s, total_milli_s),
        "occupancy": _ratio(all_held_milli_s, healthy_milli_s + outcome.held_unfit_milli_s),
        "delivery": _ratio(delivered_milli_s, sum(owed[name] for name in top)),
        "unallocated_share": _ratio(uncharged[ROOT], all_held_milli_s),
        "preemptions": sum(record.preemptions for record in outcome.jobs),
        "passes": outcome.passes,
        "demand": demand_quantiles(outcome),
        "waits": waits_by_class(outcome),
        "nodes": {
            name: {
                "charged_gpu_h": charged[name] / (HOUR_S * 1_000),
                "uncharged_gpu_h": uncharged[name] / (HOUR_S * 1_000),
                "owed_gpu_h": float(owed[name] / (HOUR_S * 1_000)),
                "delivery": _ratio(min(Fraction(charged[name]), owed[name]), owed[name]),
            }
            for name in charged
        },
    }


def _ratio(part: int | Fraction, whole: int | Fraction) -> float | None:
    return float(Fraction(part) / Fraction(whole)) if whole else None


def _spans(steps: Sequence[tuple[int, Any]], end_s: int) -> list[tuple[int, int, Any]]:
    """Steps as [from, until) spans up to the end."""
    ends = [at_s for at_s, _ in steps[1:]] + [end_s]
    return [(at_s, until_s, value) for (at_s, value), until_s in zip(steps, ends, strict=True) if until_s > at_s]


def owed_milli_s(outcome: Outcome) -> dict[str, Fraction]:
    """By node: the sum over hours of the smaller of entitled and demanded."""
    hours = -(-outcome.end_s // HOUR_S)
    demanded = _demanded_by_hour(outcome, hours)
    entitled = _entitled_by_hour(outcome, hours)
    owed = {}
    for name, amounts in demanded.items():
        whole, parts = entitled[name]
        owed[name] = Fraction(sum(map(min, parts, [amount * whole for amount in amounts])), whole)
    return owed


class _ByHour:
    """Device time by hour, of amounts that were held or asked for in spans of time."""

    def __init__(self, hours: int) -> None:
        """Nothing yet, in so many hours."""
        self._at_edges = [0] * (hours + 1)  # in hours that a span has a part of
        self._changes_milli = [0] * (hours + 1)  # from that hour on, so much more for all of it

    def add(self, amount_milli: int, from_s: int, until_s: int) -> None:
        """So much in [from_s, until_s), which lies within the hours."""
        first, last = from_s // HOUR_S, until_s // HOUR_S
        if first == last:
            self._at_edges[first] += amount_milli * (until_s - from_s)
            return
        self._at_edges[first] += amount_milli * ((first + 1) * HOUR_S - from_s)
        self._at_edges[last] += amount_milli * (until_s - last * HOUR_S)
        self._changes_milli[first + 1] += amount_milli
        self._changes_milli[last] -= amount_milli

    def milli_s(self) -> list[int]:
        """By hour."""
        held = accumulate(self._changes_milli)
        return [part + amount * HOUR_S for part, amount in zip(self._at_edges, held, strict=True)][:-1]


def _demanded_by_hour(outcome: Outcome, hours: int) -> dict[str, list[int]]:
    above = _ancestors(outcome)
    by_leaf: dict[str, _ByHour] = {}
    for demand in outcome.demand:
        if demand.leaf not in by_leaf:
            by_leaf[demand.leaf] = _ByHour(hours)
        by_leaf[demand.leaf].add(demand.size_milli, demand.from_s, demand.until_s)
    demanded = {name: [0] * hours for name in above}
    for leaf, by_hour in by_leaf.items():
        amounts = by_hour.milli_s()
        for name in above[leaf]:
            demanded[name] = list(map(add, demanded[name], amounts))
    return demanded


def _entitled_by_hour(outcome: Outcome, hours: int) -> dict[str, tuple[int, list[int]]]:
    """Entitlement times healthy device time, hour by hour, in parts of which so many (the first) make one whole."""
    healthy = _spans(outcome.healthy_steps, outcome.end_s)
    shares = _spans(outcome.entitlement_steps, outcome.end_s)
    by_shares: list[tuple[Mapping[str, tuple[int, int]], _ByHour]] = []
    for (from_s, until_s, amount_milli), (_, _, entitlements) in zip(healthy, shares, strict=True):
        if not by_shares or by_shares[-1][0] != entitlements:
            by_shares.append((entitlements, _ByHour(hours)))
        by_shares[-1][1].add(amount_milli, from_s, until_s)
    found = {node.id: (1, [0] * hours) for node in outcome.scenario.tree}
    healthy_milli_s = [(entitlements, by_hour.milli_s()) for entitlements, by_hour in by_shares]
    for name in found:
        whole = lcm(*(entitlements[name][1] for entitlements, _ in healthy_milli_s))
        parts = [0] * hours
        for entitlements, amounts in healthy_milli_s:
            numerator, denominator = entitlements[name]
            share = numerator * (whole // denominator)
            parts = [part + share * amount for part, amount in zip(parts, amounts, strict=True)]
        found[name] = whole, parts
    return found


def demand_quantiles(outcome: Outcome) -> dict[str, float | None]:
    """What was queued or running, funded and unallocated together, as a multiple of the cluster, hour by hour."""
    hours = outcome.end_s // HOUR_S
    by_hour = _ByHour(hours)
    for record in outcome.jobs:
        if record.state is None or record.state == "refused":
            continue
        until_s = min(outcome.end_s if record.end_s is None else record.end_s, hours * HOUR_S)
        from_s = max(record.submitted_s, 0)
        if from_s < until_s:
            by_hour.add(record.job.size_milli, from_s, until_s)
    asked = by_hour.milli_s()
    total_milli_s = sum(node.capacity_milli for node in outcome.scenario.nodes) * HOUR_S
    return {
        name: None if amount is None else amount / total_milli_s
        for name, amount in (
            ("p5", percentile(asked, 5)),
            ("median", percentile(asked, 50)),
            ("p95", percentile(asked, 95)),
        )
    }


def waits_by_class(outcome: Outcome) -> dict[str, dict[str, int | None]]:
    """First start minus submission, of those that first started in the scenario's time.

    Of all, of debug runs, and of large gangs, apart by how they are charged.
    """
    node_milli = max(node.capacity_milli for node in outcome.scenario.nodes)
    total_milli = sum(node.capacity_milli for node in outcome.scenario.nodes)
    classes: dict[str, list[int]] = {"all": [], "funded": [], "unallocated": [], "debug": [], "large": []}
    for record in outcome.jobs:
        if record.first_start_s is None or record.first_start_s < 0:
            continue
        job = record.job
        wait_s = record.first_start_s - record.submitted_s
        classes["all"].append(wait_s)
        classes["funded" if job.min_runtime_s else "unallocated"].append(wait_s)
        if 0 < job.min_runtime_s <= DEBUG_CONTRACT_S and job.size_milli <= node_milli:
            classes["debug"].append(wait_s)
        if job.size_milli * LARGE_PART >= total_milli:
            classes["large"].append(wait_s)
    return {
        name: {"count": len(waits), "median_s": percentile(waits, 50), "p90_s": percentile(waits, 90)}
        for name, waits in classes.items()
    }


def percentile(values: Iterable[Number], percent: int) -> Number | None:
    """The nearest-rank percentile: the least value that so many per cent do not exceed."""
    ranked = sorted(values)
    return ranked[-(-len(ranked) * percent // 100) - 1] if ranked else None
