"""Other people's orders, live: the loop does with rows what the simulator does, and every pass can be replayed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.models import Decision, Pass, Workload
from scheduler.queries.replay import replay
from scheduler.services import clusters, policies, predictions
from scheduler.simulator import as_json, parse, simulate
from tests.scheduler.conftest import START
from tests.scheduler.live_driver import LiveDriver


def asks(name: str, leaf: str, submit: int, duration: int, gpus: int = 8, **more: Any) -> dict[str, Any]:
    """A workload with the shortest contract."""
    return {
        "id": name, "leaf": leaf, "submit": submit, "gpus": gpus, "min_runtime": 300, "duration": duration, **more,
    }  # fmt: skip


ATTAINED = [
    asks("A-1", "A", 0, 3_600),
    asks("A-2", "A", 100, 600),
    asks("A-3", "A", 130, 1_200, gpus=4, restart_cost=120),
    asks("B-1", "B", 2_000, 900, exit_delay=20),
    asks("A-4", "A", 2_100, 300, gpus=2),
]
SHORTEST = [
    asks("A-1", "A", 0, 60, group="eval"),
    asks("A-2", "A", 0, 600, group="train"),
    asks("A-3", "A", 100, 1_000),
    asks("A-4", "A", 900, 600, group="train"),
    asks("A-5", "A", 1_000, 60, group="eval"),
]


def lived(
    policy: dict[str, Any], workloads: list[dict[str, Any]], *history: dict[str, Any], **more: Any
) -> list[tuple[Any, ...]]:
    """The same scenario live and simulated: the runs, which are the same; all its passes replayed."""
    scenario = parse(
        json.dumps(
            {
                "cluster": {"nodes": {"h1": 8}},
                "tree": {"A": 1, "B": 1},
                "policy": {"grace_s": 60, **policy},
                "history": history,
                "workloads": workloads,
                **more,
            }
        )
    )
    driver = LiveDriver(scenario)
    driver.run([])
    live = [(run["workload"], run["start"], run["end"], run["end_reason"]) for run in driver.result()["runs"]]
    told = as_json(simulate(scenario))["runs"]
    assert sorted(live) == sorted((run["workload"], run["start"], run["end"], run["end_reason"]) for run in told)
    for stored in Pass.objects.order_by("pk"):
        assert replay(stored).differences == ()
    return sorted(live)


CELLS = [
    asks("A-1", "A", 0, 3_600),
    asks("A-2", "A", 0, 1_200),
    asks("A-3", "A", 0, 1_200),
    asks("B-1", "B", 600, 300, gpus=16),
    asks("A-4", "A", 900, 300),
]


def test_cells_are_private_live_as_in_a_simulation(transactional_db: None) -> None:
    """A holds three nodes of four when B is granted a rack; from 5 min on B may take over what it needs of it."""
    runs = lived(
        {},
        CELLS,
        {"leaf": "B", "gpus": 32, "from": "-9h", "to": "0h"},
        cluster={
            "nodes": dict.fromkeys(("h1", "h2", "h3", "h4"), 8),
            "racks": {"r1": ["h1", "h2"], "r2": ["h3", "h4"]},
        },
        events=[{"at": 240, "cells": {"B": {"rack": 1}}}],
    )
    assert {run[3] for run in runs} == {"finished", "preempted_cell"}
    assert next(run[1] for run in runs if run[0] == "B-1") == 600
    kept = Decision.objects.filter(code="waiting_cells").values_list("text", flat=True)
    assert "Waiting: 8 GPUs would fit only on nodes that are private to B" in kept[0]


@pytest.mark.parametrize("order", ["tiresias", pytest.param("gittins", marks=pytest.mark.long)])
def test_whoever_has_attained_less_goes_first(transactional_db: None, order: str) -> None:
    policy = {"leaf_order": order, "attained_limits": [3_250, 7_200], "service_samples": [900, 4_800, 9_600, 28_800]}
    runs = lived(policy, ATTAINED)
    assert ("A-1", 0, 407, "preempted_priority") in runs


CROWDED = [
    asks("A-1", "A", 0, 3_600),
    asks("A-2", "A", 100, 1_200),
    asks("A-3", "A", 100, 1_200),
    asks("A-4", "A", 1_000, 1_200),
]


@pytest.mark.long
def test_whoever_starves_is_promoted_and_begins_anew(transactional_db: None) -> None:
    runs = lived({"leaf_order": "tiresias", "attained_limits": [3_250, 7_200], "promote_knob": 2}, CROWDED)
    assert [run[1:3] for run in runs if run[0] == "A-1"][:3] == [(0, 407), (1_221, 1_628), (2_442, 2_849)]
    forgiven = dict(Workload.objects.values_list("code", "forgiven_s"))
    assert forgiven["A-1"] > 407


BEHIND = [
    asks("A-1", "A", 0, 20_000, group="long"),
    asks("A-2", "A", 90, 1_200, group="short"),
    asks("A-3", "A", 1_300, 900, gpus=4, group="short"),
    asks("B-1", "B", 2_000, 600, gpus=4),
    asks("A-4", "A", 5_000, 600, group="short", exit_delay=20),
]


@pytest.mark.long
def test_whoever_is_furthest_behind_a_fair_share_goes_first(transactional_db: None) -> None:
    runs = lived({"leaf_order": "themis", "round_s": 600}, BEHIND)
    assert any(run[3] == "preempted_priority" for run in runs)


@pytest.mark.long
def test_the_shortest_goes_first_by_what_has_ended(transactional_db: None) -> None:
    runs = lived({"leaf_order": "shortest"}, SHORTEST)
    assert [name for name, *_ in sorted(runs, key=lambda run: run[1])] == ["A-1", "A-2", "A-3", "A-5", "A-4"]
    assert list(Workload.objects.order_by("code").values_list("predicted_s", flat=True)) == [600, 600, 60, 600, 60]


@pytest.mark.long
def test_use_decays(transactional_db: None) -> None:
    past = {"leaf": "B", "gpus": 2, "from": "-30h", "to": "-1h"}
    lived({"tree_order": "half_life", "half_life_s": 3_600}, ATTAINED, past)


BOUND = [
    asks("A-1", "A", 0, 3_600, gpus=4),
    asks("A-2", "A", 10, 600, gpus=4),
    asks("B-1", "B", 20, 900, gpus=2, exit_delay=20),
    asks("C-1", "C", 30, 900, gpus=2),
    asks("C-2", "C", 40, 1_200, gpus=2),
]
LIMITED = {"A": {"shares": 2, "max_gpus": 6, "weight": 0.5}, "B": 1, "C": {"shares": 1, "min_gpus": 2}}


def test_whoever_is_below_a_minimum_goes_first_and_nobody_above_a_maximum(transactional_db: None) -> None:
    runs = lived({"tree_order": "fair"}, BOUND, tree=LIMITED)
    assert [run[:2] for run in sorted(runs, key=lambda run: run[1])][:3] == [("A-1", 0), ("B-1", 20), ("C-1", 30)]
    row = Workload.objects.get(code="A-2")
    assert row.first_started_at is not None
    assert row.first_started_at > Workload.objects.get(code="C-2").first_started_at
    assert Pass.objects.latest("pk").figures["A"]["standing"]["maximum_milli"] == 6_000


HOST = [
    asks("A-1", "A", 0, 1_200, gpus=1, memory_gib=40),
    asks("A-2", "A", 0, 1_200, gpus=1, memory_gib=20, cpus=4),
    asks("B-1", "B", 0, 1_200, gpus=4, cpus=8),
    asks("B-2", "B", 0, 1_200, gpus=2, cpus=8),
    asks("B-3", "B", 400, 600, gpus=1, memory_gib=30, exit_delay=10),
]


@pytest.mark.long
def test_memory_and_cores_bound_where_work_goes_and_who_is_next(transactional_db: None) -> None:
    cluster = {"nodes": {"h1": 8}, "cpus": 16, "memory_gib": 64}
    lived({"tree_order": "drf"}, HOST, cluster=cluster)


def test_an_order_that_there_is_not_is_refused(db: None) -> None:
    cluster = clusters.create(name="north", title="North", unit=Cluster.Unit.GPU)
    with pytest.raises(InputError, match="leaf_order"):
        policies.change(cluster=cluster, knobs={"leaf_order": "lifo"})
    with pytest.raises(InputError, match="attained_limits"):
        policies.change(cluster=cluster, knobs={"attained_limits": [5, 5]})
    for value in ("-1", "nan", "1e999999999", "1/0", "a lot"):
        with pytest.raises(InputError, match="promote_knob"):
            policies.change(cluster=cluster, knobs={"promote_knob": value})
    with pytest.raises(InputError, match="round_s"):
        policies.change(cluster=cluster, knobs={"round_s": 0})
    made = policies.change(cluster=cluster, knobs={"leaf_order": "gittins"})
    found = policies.effective(made)
    assert (found["leaf_order"], found["service_samples"]) == ("gittins", [])
    assert predictions.predicted_s(cluster, None, "train", START) == 600
