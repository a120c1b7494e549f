"""Reading scenario files: every fault is reported with the key path where it stands."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from scheduler.engine import BudgetNode, Node
from scheduler.simulator import ScenarioError, parse


def scenario(**changes: Any) -> dict[str, Any]:
    """A small scenario that is right, with some keys replaced."""
    return {
        "name": "small",
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": 1, "B": {"shares": 3, "children": {"B1": 1, "B2": 1}}},
        "workloads": [job("a1"), job("b1", leaf="B1", submit="30m")],
        **changes,
    }


def job(name: str, **changes: Any) -> dict[str, Any]:
    """A workload that is right; a change to None takes a key away."""
    row = {"id": name, "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "2h", **changes}
    return {key: value for key, value in row.items() if value is not None}


def fault(value: Any) -> str:
    """What is said about a scenario that is wrong."""
    with pytest.raises(ScenarioError) as caught:
        parse(value if isinstance(value, str) else json.dumps(value))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_everything_has_its_default() -> None:
    found = parse(json.dumps(scenario()))
    assert found.nodes == [Node("h1", 8_000)]
    assert sorted(found.tree, key=lambda row: row.id) == [
        BudgetNode("", None, 1, 1),
        BudgetNode("A", "", 1, 4),
        BudgetNode("B", "", 3, 4),
        BudgetNode("B1", "B", 1, 2),
        BudgetNode("B2", "B", 1, 2),
    ]
    assert (found.scheduler, found.policy.pass_every_s, found.policy.lookback_s) == ("contracts", 60, 604_800)
    assert found.until_s is None
    first, second = found.jobs
    assert (first.submit_s, second.submit_s, first.min_runtime_s, first.duration_s) == (0, 1_800, 3_600, 7_200)
    assert (first.is_resumable, first.exit_delay_s, first.startup_s, first.priority, first.node) == (
        True,
        0,
        0,
        0,
        None,
    )


def test_nodes_may_be_counted_and_racks_filled_in_order() -> None:
    found = parse(json.dumps(scenario(cluster={"nodes": 3, "gpus_per_node": 4, "nodes_per_rack": 2})))
    assert [(node.name, node.capacity_milli, node.rack) for node in found.nodes] == [
        ("n001", 4_000, "r001"),
        ("n002", 4_000, "r001"),
        ("n003", 4_000, "r002"),
    ]


def test_rails_and_leaves_may_be_filled_in_order_too() -> None:
    counted = {"nodes": 4, "gpus_per_node": 4, "nodes_per_rack": 4, "nodes_per_rail": 3, "nodes_per_leaf": 2}
    found = parse(json.dumps(scenario(cluster=counted)))
    assert [(node.rack, node.rail, node.leaf) for node in found.nodes] == [
        ("r001", "q001", "l001"),
        ("r001", "q001", "l001"),
        ("r001", "q001", "l002"),
        ("r001", "q002", "l002"),
    ]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(90, 90), ("90s", 90), ("15m", 900), ("1h30m", 5_400), ("7d", 604_800), ("0h", 0), ("1d1h1m1s", 90_061)],
)
def test_durations(given: Any, seconds: int) -> None:
    found = parse(json.dumps(scenario(workloads=[job("a1", duration=given)])))
    assert found.jobs[0].duration_s == seconds


def test_a_factor_is_kept_exactly() -> None:
    content = json.dumps(scenario(policy={"swap_margin": 0})).replace('"swap_margin": 0', '"swap_margin": 0.1')
    assert parse(content).policy.swap_margin == Fraction(1, 10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "colour: unknown key"),
        ({"cluster": {"nodes": {"h1": 0}}}, "cluster.nodes.h1: must be at least 1, but is 0"),
        ({"cluster": {"nodes": {}}}, "cluster.nodes: must name at least one node"),
        ({"cluster": {"nodes": 4}}, "cluster.gpus_per_node: is missing, with a number of nodes"),
        ({"cluster": {"nodes": 0, "gpus_per_node": 8}}, "cluster.nodes: must be at least 1, but is 0"),
        ({"cluster": {"nodes": {"h1": 8}, "gpu": 1}}, "cluster.gpu: unknown key"),
        ({"cluster": {"nodes": {"h1": 8}, "racks": {"r1": ["h2"]}}}, 'cluster.racks.r1[0]: there is no node "h2"'),
        ({"cluster": {"nodes": {"h1": 8}, "leaves": {"L1": ["h2"]}}}, 'cluster.leaves.L1[0]: there is no node "h2"'),
        (
            {"cluster": {"nodes": {"h1": 8}, "rails": {"A": ["h1"], "B": ["h1"]}}},
            'cluster.rails.B[0]: node "h1" is in rail "A" already',
        ),
        (
            {"cluster": {"nodes": {"h1": 8}, "racks": {"r1": ["h1"], "r2": ["h1"]}}},
            'cluster.racks.r2[0]: node "h1" is in rack "r1" already',
        ),
        ({"tree": {}}, "tree: must name at least one budget node"),
        ({"tree": {"A": -1, "B1": 1}}, "tree.A: must not be negative, but is -1"),
        ({"tree": {"A": 0.5, "B1": 1}}, 'tree.A: must be a whole number, not "0.5"'),
        ({"tree": {"A": {"children": {"B1": 1}}}}, "tree.A.shares: is missing"),
        (
            {"tree": {"A": 1, "B": {"shares": 1, "children": {"A": 1, "B1": 1}}}},
            "tree.B.children.A: this name is in the tree twice",
        ),
        ({"policy": {"lookback": "7d"}}, "policy.lookback: unknown key"),
        ({"policy": {"lookback_s": 0}}, "policy.lookback_s: must be at least 1 s"),
        ({"policy": {"swap_margin": -1}}, "policy.swap_margin: must be a number of at least 0, not -1"),
        (
            {"policy": {"grace_s": "soon"}},
            'policy.grace_s: must be seconds or a text such as "90s" or "1h30m", not "soon"',
        ),
        (
            {"history": [{"leaf": "X", "gpus": 1, "from": -2, "to": -1}]},
            'history[0].leaf: there is no leaf "X" in the tree',
        ),
        ({"history": [{"leaf": "A", "gpus": 1, "from": -1, "to": -2}]}, "history[0].from: must not be after `to`"),
        ({"history": [{"leaf": "A", "gpus": 1, "from": -1, "to": 5}]}, "history[0].to: must not be after the start, 0"),
        ({"events": [{"at": 0, "node": "h9", "health": "down"}]}, 'events[0].node: there is no node "h9"'),
        (
            {"events": [{"at": 0, "node": "h1", "health": "ill"}]},
            'events[0].health: must be healthy, unhealthy or down, not "ill"',
        ),
        ({"events": [{"at": 0, "cancel": "zz"}]}, 'events[0].cancel: there is no workload "zz"'),
        ({"events": [{"at": 0, "close": "zz"}]}, 'events[0].close: there is no budget node "zz"'),
        ({"events": [{"at": 0, "shares": {"zz": 1}}]}, 'events[0].shares: there is no budget node "zz"'),
        ({"events": [{"at": 0, "shares": {"A": -1}}]}, "events[0].shares.A: must not be negative, but is -1"),
        ({"events": [{"at": 0}]}, "events[0]: needs one of shares, cells, health, close, cancel and maintenance"),
        ({"events": [{"at": -1, "close": "A"}]}, "events[0].at: must not be negative, but is -1"),
        ({"until": -1}, "until: must not be negative, but is -1"),
        ({"expect": []}, "expect: must be an object, not []"),
    ],
)
def test_a_fault_in_the_file_names_its_key(changes: dict[str, Any], message: str) -> None:
    assert fault(scenario(**changes)) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus": 0}, "workloads[0].gpus: must be at least 1, but is 0"),
        ({"gpus": "8"}, 'workloads[0].gpus: must be a whole number, not "8"'),
        ({"gpus": True}, "workloads[0].gpus: must be a whole number, not true"),
        ({"gpus": 1.5}, 'workloads[0].gpus: must be a whole number, not "1.5"'),
        ({"leaf": "B"}, 'workloads[0].leaf: "B" has children, so it takes no workloads'),
        ({"leaf": "Z"}, 'workloads[0].leaf: there is no leaf "Z" in the tree'),
        ({"node": "h9"}, 'workloads[0].node: there is no node "h9"'),
        ({"submit": None}, "workloads[0].submit: is missing"),
        ({"duration": None}, "workloads[0].duration: is missing"),
        ({"duration": "-1h"}, 'workloads[0].duration: must not be negative, but is "-1h"'),
        ({"duration": ""}, 'workloads[0].duration: must be seconds or a text such as "90s" or "1h30m", not ""'),
        ({"duration": "1m1h"}, 'workloads[0].duration: must be seconds or a text such as "90s" or "1h30m", not "1m1h"'),
        ({"duration": 1.5}, 'workloads[0].duration: must be a whole number, not "1.5"'),
        ({"resumable": 1}, "workloads[0].resumable: must be true or false, not 1"),
        ({"after": "b1"}, "workloads[0].after: a workload has either `submit` or `after`"),
        ({"submit": None, "after": "zz"}, 'workloads[0].after: there is no workload "zz"'),
        ({"submit": None, "after": "a1"}, 'workloads[0].after: "a1" would come after itself'),
        ({"think": 5}, "workloads[0].think: unknown key"),
        (
            {"exit_delay": "ever"},
            'workloads[0].exit_delay: must be seconds or a text such as "90s" or "1h30m", not "ever"',
        ),
        ({"id": ""}, 'workloads[0].id: must be a text that is not empty, not ""'),
        ({"id": "b1"}, 'workloads[1].id: there is a workload "b1" already'),
    ],
)
def test_a_fault_in_a_workload_names_its_key(changes: dict[str, Any], message: str) -> None:
    assert fault(scenario(workloads=[job("a1", **changes), job("b1", leaf="B1")])) == message


def test_a_longer_cycle_is_found() -> None:
    rows = [job(name, submit=None, after=after) for name, after in (("a", "b"), ("b", "c"), ("c", "b"))]
    assert fault(scenario(workloads=rows)) == 'workloads[1].after: "b" would come after itself'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON: Expecting value in line 1, column 1"),
        ('{"tree": 1,}', "not JSON: Expecting property name enclosed in double quotes in line 1, column 12"),
        ("[1]", "must be an object, not [1]"),
        ('{"tree": NaN}', "NaN is not a number that may stand here"),
        ('{"tree": -Infinity}', "-Infinity is not a number that may stand here"),
        ('{"name": "a", "name": "b"}', "name: this key is given twice in one object"),
        ('{"until": 1' + "0" * 40 + "}", "the number 100000000000… is too large"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "cluster: is missing"),
        ('{"clustr": {}}', 'cluster: is missing; "clustr" is no key'),
    ],
)
def test_what_is_no_scenario_at_all(content: str, message: str) -> None:
    assert fault(content) == message
