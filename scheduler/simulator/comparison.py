"""What came out of a scenario, in the figures by which variants of it are compared, and how far two outcomes differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from .entitled import UNASSIGNED
from .finish_times import completion, rho
from .records import JobRecord, Outcome
from .report import DEBUG_CONTRACT_S, LARGE_PART, held_milli_s, metrics, owed_milli_s, percentile

CLASSES = ("debug", "standard", "large", "unallocated")
"""The classes by which waits are told apart, as `Workload.Class` has them; "all" stands beside them."""


def figures(outcome: Outcome) -> dict[str, Any]:
    """The figures of one outcome in plain values.

    Returns:
        availability, occupancy, delivery, unallocated_share: ratios, None where nothing was there to divide by.
        preemptions, started, ended: counts of the scenario's time; `submitted` of all that were let in.
        end_s: the length of that time.
        completion: from submission to end, {count, mean_s, median_s, p90_s}.
        rho: finish-time fairness, {median, p90, max}.
        waits: by class, {count, median_s, p90_s} of those that first started in it.
        nodes: by budget node ("" is the root, whose parent is None), parents before their children,
            {parent, charged_milli_s, uncharged_milli_s, owed_milli_s, delivery}.
    """
    told = metrics(outcome)
    charged, uncharged = held_milli_s(outcome)
    owed = owed_milli_s(outcome)
    records = [record for record in outcome.jobs if record.state is not None]
    return {
        "end_s": outcome.end_s,
        **{name: told[name] for name in ("availability", "occupancy", "delivery", "unallocated_share", "preemptions")},
        "submitted": sum(record.state != "refused" for record in records),
        "started": sum(_starts_in_time(record) for record in records),
        "ended": sum(record.end_s is not None and record.state != "refused" for record in records),
        "completion": completion(outcome),
        "rho": rho(outcome),
        "waits": _waits(outcome),
        "nodes": {
            node.id: {
                "parent": node.parent,
                "charged_milli_s": charged[node.id],
                "uncharged_milli_s": uncharged[node.id],
                "owed_milli_s": int(owed[node.id]),
                "delivery": _delivery(charged[node.id], owed[node.id]),
            }
            for node in outcome.scenario.tree
            if not node.id.endswith(UNASSIGNED)
        },
    }


def _delivery(charged_milli_s: int, owed_milli_s: Fraction) -> float | None:
    return float(min(Fraction(charged_milli_s), owed_milli_s) / owed_milli_s) if owed_milli_s else None


def _starts_in_time(record: JobRecord) -> bool:
    return record.first_start_s is not None and record.first_start_s >= 0


def wait_s(record: JobRecord) -> int:
    """First start less submission, of a workload that has started."""
    assert record.first_start_s is not None
    return record.first_start_s - record.submitted_s


def _waits(outcome: Outcome) -> dict[str, dict[str, int | None]]:
    nodes = outcome.scenario.nodes
    node_milli = max(node.capacity_milli for node in nodes)
    total_milli = sum(node.capacity_milli for node in nodes)
    by_class: dict[str, list[int]] = {"all": [], **{name: [] for name in CLASSES}}
    for record in outcome.jobs:
        if _starts_in_time(record):
            by_class["all"].append(wait_s(record))
            by_class[class_of(record, node_milli, total_milli)].append(wait_s(record))
    return {
        name: {"count": len(waits), "median_s": percentile(waits, 50), "p90_s": percentile(waits, 90)}
        for name, waits in by_class.items()
    }


def class_of(record: JobRecord, node_milli: int, total_milli: int) -> str:
    """One of CLASSES (semantics.md section 10); a debug run is no large gang."""
    job = record.job
    if not job.min_runtime_s:
        return "unallocated"
    if job.min_runtime_s <= DEBUG_CONTRACT_S and job.size_milli <= node_milli:
        return "debug"
    return "large" if job.size_milli * LARGE_PART >= total_milli else "standard"


def waits_by_workload(outcome: Outcome) -> dict[str, int]:
    """First start less submission, in whole seconds, of all that first started in the scenario's time."""
    return {record.job.id: wait_s(record) for record in outcome.jobs if _starts_in_time(record)}


def wait_error(real: Mapping[str, int], replay: Outcome) -> dict[str, int | None]:
    """How far a replay's waits are from the real ones (`waits_by_workload`), workload by workload.

    Only those count that first started in the stretch's time in both.

    Returns:
        compared: how many. median_off_s, p90_off_s: of the differences without their sign. mean_s: with it, replay less
        real, so that it says to which side the replay leans. only_real, only_replay: how many started in one alone.
    """
    again = waits_by_workload(replay)
    differences = [again[name] - wait for name, wait in real.items() if name in again]
    off = [abs(difference) for difference in differences]
    return {
        "compared": len(differences),
        "median_off_s": percentile(off, 50),
        "p90_off_s": percentile(off, 90),
        "mean_s": _mean(differences),
        "only_real": len(real.keys() - again.keys()),
        "only_replay": len(again.keys() - real.keys()),
    }


def _mean(values: Iterable[int]) -> int | None:
    given = list(values)
    return round(Fraction(sum(given), len(given))) if given else None
