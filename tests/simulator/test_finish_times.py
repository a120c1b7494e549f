"""Completion times and finish-time fairness, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

from scheduler.simulator import parse, simulate
from scheduler.simulator.comparison import figures
from scheduler.simulator.finish_times import completion, rho, rhos


def lived(*workloads: dict[str, Any], gpus: int = 1, **more: Any) -> Any:
    """What became of workloads of one team."""
    file = {"cluster": {"nodes": {"h1": gpus}}, "tree": {"A": 1}, "workloads": list(workloads), **more}
    return simulate(parse(json.dumps(file)))


def asks(name: str, submit: int, duration: int, **more: Any) -> dict[str, Any]:
    """One GPU for so long."""
    return {"id": name, "leaf": "A", "submit": submit, "gpus": 1, "min_runtime": 3_600, "duration": duration, **more}


def test_two_that_share_one_device() -> None:
    outcome = lived(asks("a", 0, 100), asks("b", 0, 100))
    assert rhos(outcome) == {"a": 0.5, "b": 1.333}  # 100 / (100 * 2) and 200 / (100 * 1.5)
    assert rho(outcome) == {"median": 0.5, "p90": 1.333, "max": 1.333}
    assert completion(outcome) == {"count": 2, "mean_s": 150.0, "median_s": 100, "p90_s": 200}
    assert figures(outcome)["rho"] == rho(outcome)


def test_with_more_devices_than_workloads_nobody_is_in_the_way() -> None:
    outcome = lived(asks("a", 0, 100), asks("b", 50, 100, startup=20), gpus=8)
    assert rhos(outcome) == {"a": 1.0, "b": 1.0}


def test_what_has_not_finished_counts_as_there_and_has_no_figure() -> None:
    outcome = lived(asks("a", 0, 100), asks("b", 0, 10_000), until=300)
    assert rhos(outcome) == {"a": 0.5}


def test_where_nothing_finished_there_is_nothing_to_tell() -> None:
    outcome = lived(asks("a", 0, 100), until=50)
    assert rho(outcome) == {"median": None, "p90": None, "max": None}
    assert completion(outcome) == {"count": 0, "mean_s": None, "median_s": None, "p90_s": None}
