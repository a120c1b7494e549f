"""CASSINI's score: it decides between placements that are equal otherwise, and takes nothing from anybody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.engine import Policy
from scheduler.simulator import ScenarioError, parse, simulate

HEAVY = {"period_ms": 100, "phases": [{"from_ms": 0, "until_ms": 80, "gbps": 45}]}
LIGHT = {"period_ms": 100, "phases": [{"from_ms": 0, "until_ms": 20, "gbps": 45}]}
NODES = {f"h{index}": 8 for index in range(1, 9)}
LEAVES = {f"L{index}": [f"h{2 * index - 1}", f"h{2 * index}"] for index in range(1, 5)}


def placed(new: dict[str, Any], **policy: Any) -> list[str]:
    """Where a gang of two nodes lands, of which each of four leaves has one that is free.

    On L1 and L2 it would be beside a gang that sends for 80 of 100 ms, on L3 and L4 beside one that sends for 20.
    """
    knobs = {"placement_score": "cassini", "leaf_uplink_gbps": 50} | policy
    first = [{"id": f"p{index}", "gpus": 8, "node": f"h{index}", "duration": "30m"} for index in (1, 3, 5, 7)]
    gangs = [
        {"id": "heavy", "gpus": 16, "submit": "1m", "communication": HEAVY},
        {"id": "light", "gpus": 16, "submit": "2m", "communication": LIGHT},
        {"id": "new", "gpus": 16, "submit": "40m"} | new,
    ]
    usual = {"leaf": "A", "min_runtime": "2h", "duration": "2h", "submit": 0}
    scenario = {
        "cluster": {"nodes": NODES, "leaves": LEAVES},
        "tree": {"A": 1, "B": 1},
        "policy": knobs,
        "workloads": [usual | row for row in first + gangs],
        "until": "1h",
    }
    outcome = simulate(parse(json.dumps(scenario)))
    where = {each.job.id: sorted(each.runs[0].holdings) for each in outcome.jobs if each.runs}
    assert (where["heavy"], where["light"]) == (["h2", "h4"], ["h6", "h8"])
    return where["new"]


def test_a_gang_goes_where_it_is_in_nobody_s_way() -> None:
    assert placed({"communication": HEAVY}) == ["h5", "h7"]


@pytest.mark.parametrize(
    ("new", "policy"),
    [
        pytest.param({"communication": LIGHT}, {}, id="in nobody's way wherever it is"),
        pytest.param({}, {}, id="says nothing of what it sends"),
        pytest.param({"communication": HEAVY}, {"placement_score": "none"}, id="no score"),
        pytest.param({"communication": HEAVY}, {"leaf_uplink_gbps": 0}, id="uplinks unsaid"),
        pytest.param({"communication": HEAVY}, {"leaf_uplink_gbps": 400}, id="room for all"),
    ],
)
def test_else_names_decide(new: dict[str, Any], policy: dict[str, Any]) -> None:
    assert placed(new, **policy) == ["h1", "h3"]


def test_a_node_that_is_asked_for_is_never_overruled() -> None:
    assert placed({"communication": HEAVY, "gpus": 8, "node": "h1"}) == ["h1"]


def test_bad_input_is_refused_by_its_place() -> None:
    with pytest.raises(ValueError, match="placement_score: must be one of none, cassini, not 'best'"):
        Policy(placement_score="best")
    zero = HEAVY | {"period_ms": 0}
    with pytest.raises(ScenarioError, match=r"workloads\[6\].communication: period_ms: must be a whole number from 1"):
        placed({"communication": zero})
