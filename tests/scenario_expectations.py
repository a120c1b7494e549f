"""Checks what a scenario file expects against what came out, whoever ran it: the simulator or the live loop.

The second is given in the form that `simulate FILE --json` prints. `order_at` is asked of the driver, as an order is no
part of what a run leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.simulator import read_duration

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""Data that is handed on beside the repository, never inside it."""
OrderAt = Callable[[int], list[str]]


def shared_file(*parts: str) -> Path:
    """A file of the shared data; the test is skipped, loudly, where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"SHARED DATA ABSENT: {path} is needed for this test")
    return path


def shared_scenarios() -> list[Any]:
    """Every shared scenario as a parameter; one that skips where there are none."""
    files = sorted(SHARED.glob("scenarios/*.json"))
    if not files:
        reason = f"SHARED DATA ABSENT: no scenarios in {SHARED / 'scenarios'}"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-shared-scenarios")]
    return [pytest.param(path, id=path.stem) for path in files]


def differences(
    expect: Mapping[str, Any], result: Mapping[str, Any], order_at: OrderAt, leaves: Mapping[str, set[str]]
) -> list[str]:
    """What differs from what was expected, a line each; empty when all is as it should be.

    Args:
        expect: the `expect` object of the file.
        result: what came out, in the form of `simulate --json`.
        order_at: answers what `--order-at` prints.
        leaves: the leaves below each budget node, itself included.
    """
    found: list[str] = []
    known = {
        "runs": lambda value: _runs(value, result),
        "preemptions": lambda value: _preemptions(value, result),
        "total_preemptions": lambda value: _total_preemptions(value, result),
        "victims_of": lambda value: _victims(value, result),
        "charged_gpu_h": lambda value: _use(value, result, "charged_gpu_s"),
        "uncharged_gpu_h": lambda value: _use(value, result, "uncharged_gpu_s"),
        "state": lambda value: _states(value, result),
        "reason": lambda value: _reasons(value, result),
        "order_at": lambda value: _orders(value, order_at),
        "started_by": lambda value: _started(value, result, leaves),
    }
    for key, value in expect.items():
        if key not in known:
            found.append(f"expect.{key}: this check is not known")
        else:
            found.extend(known[key](value))
    return found


def seconds(value: Any) -> int:
    """An instant of the file."""
    return read_duration(value, "expect")


def _differ(what: str, expected: Any, got: Any) -> list[str]:
    return [] if expected == got else [f"{what}: expected {expected!r}, got {got!r}"]


def _runs(expect: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    found = []
    for workload, spans in expect.items():
        expected = [[seconds(start), seconds(end)] for start, end in spans]
        got = [[run["start"], run["end"]] for run in result["runs"] if run["workload"] == workload]
        found += _differ(f"runs of {workload}", expected, got)
    return found


def _preemptions(expect: Mapping[str, int], result: Mapping[str, Any]) -> list[str]:
    counts = {each["id"]: each["preemptions"] for each in result["workloads"]}
    return [line for name, count in expect.items() for line in _differ(f"preemptions of {name}", count, counts[name])]


def _total_preemptions(expect: int, result: Mapping[str, Any]) -> list[str]:
    return _differ("total_preemptions", expect, sum(each["preemptions"] for each in result["workloads"]))


def _victims(expect: Mapping[str, list[str]], result: Mapping[str, Any]) -> list[str]:
    found = []
    for workload, expected in expect.items():
        got = [run["workload"] for run in result["runs"] if run["preempted_by"] == workload]
        found += _differ(f"victims of {workload}", sorted(expected), sorted(got))
    return found


def _use(expect: Mapping[str, float], result: Mapping[str, Any], key: str) -> list[str]:
    return [
        line
        for node, hours in expect.items()
        for line in _differ(f"{key} of {node or 'the root'}", hours * 3_600, result["usage"][node][key])
    ]


def _states(expect: Mapping[str, str], result: Mapping[str, Any]) -> list[str]:
    states = {each["id"]: each["state"] for each in result["workloads"]}
    return [line for name, state in expect.items() for line in _differ(f"state of {name}", state, states[name])]


def _reasons(expect: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    found = []
    for workload, asked in expect.items():
        at_s = seconds(asked["at"])
        past = [each for each in result["decisions"] if each["workload"] == workload and each["at"] <= at_s]
        if not past:
            found.append(f"reason of {workload}: nothing was decided by {at_s}")
            continue
        reason = past[-1]["reason"]
        if not reason["text"].strip():
            found.append(f"reason of {workload}: no sentence")
        if "code" in asked:
            found += _differ(f"reason of {workload} at {at_s}", asked["code"], reason["code"])
        if "earliest_start" in asked:
            expected = seconds(asked["earliest_start"])
            found += _differ(f"earliest start of {workload} at {at_s}", expected, reason["earliest_start"])
    return found


def _orders(expect: Mapping[str, list[str]], order_at: OrderAt) -> list[str]:
    return [line for at, ids in expect.items() for line in _differ(f"order at {at}", ids, order_at(seconds(at)))]


def _started(expect: Mapping[str, Any], result: Mapping[str, Any], leaves: Mapping[str, set[str]]) -> list[str]:
    found = []
    leaf_of = result["leaf_of"]
    for at, counts in expect.items():
        at_s = seconds(at)
        for node, count in counts.items():
            got = sum(
                1
                for run in result["runs"]
                if run["start"] <= at_s
                and (run["end"] is None or at_s < run["end"])
                and leaf_of[run["workload"]] in leaves[node]
            )
            found += _differ(f"running in {node} at {at}", count, got)
    return found
