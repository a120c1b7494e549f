"""Private cells in simulations: two racks of two nodes, one small scenario for each rule, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.engine import CellCounts
from scheduler.simulator import ScenarioError, parse
from scheduler.simulator.known import tree_at
from scheduler.simulator.written import as_file
from tests.simulator.driving import expect, job

TWO_RACKS = {
    "nodes": dict.fromkeys(("h1", "h2", "h3", "h4"), 8),
    "racks": {"r1": ["h1", "h2"], "r2": ["h3", "h4"]},
}
NODE_AND_RACK = {"A": 1, "B": {"shares": 1, "cells": {"node": 1, "rack": 1}}}


def on_two_racks(expected: dict[str, Any], *workloads: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Check a scenario on them, where B has a node and a rack unless said otherwise."""
    return expect(expected, *workloads, **{"cluster": TWO_RACKS, "tree": NODE_AND_RACK, **more})


def test_others_stay_off_cells_that_nobody_uses_and_the_tenant_need_not_wait() -> None:
    """A may have one of four nodes. B's gang has its rack, b2 its node; b3 is beyond its cells, and waits for b1."""
    result = on_two_racks(
        {
            "runs": {"a1": [["0h", "4h"]], "a2": [["4h", "8h"]], "b1": [["1h", "3h"]], "b2": [["1h", "2h"]]},
            "reason": {"a2": {"at": "0h", "code": "waiting_cells"}},
            "total_preemptions": 0,
        },
        job("a1", "A", "0h", 8, "4h", "4h"),
        job("a2", "A", "0h", 8, "4h", "4h"),
        job("b1", "B", "1h", 16, "2h", "2h"),
        job("b2", "B", "1h", 8, "1h", "1h"),
    )
    first = next(each for each in result["decisions"] if each["workload"] == "a2")
    assert first["reason"]["text"] == "Waiting: 8 GPUs would fit only on nodes that are private to B (3 of them)."
    assert next(run["nodes"] for run in result["runs"] if run["workload"] == "b1") in ({"h1": 8, "h2": 8},)


def test_unallocated_work_may_be_anywhere_and_leaves_when_the_cell_is_claimed() -> None:
    on_two_racks(
        {
            "runs": {"a1": [["0h", "5h"]], "b1": [["1h", "2h"]], "b2": [["1h", "2h"]]},
            "victims_of": {"b1": ["u1", "u2"], "b2": ["u3"]},
            "started_by": {"30m": {"A": 4}},
        },
        job("a1", "A", "0h", 8, "1h", "5h"),
        *(job(f"u{index}", "A", "1m", 8, 0, "9h") for index in (1, 2, 3)),
        job("b1", "B", "1h", 16, "1h", "1h"),
        job("b2", "B", "1h", 8, "1h", "1h"),
        until="10h",
    )


def test_nobody_is_told_to_leave_before_a_cell_is_needed() -> None:
    """Neither the grant nor b1, for whose rack there is room, concerns u1 and u2; b2 needs one of their nodes."""
    on_two_racks(
        {
            "runs": {"u1": [["0h", "9h"]], "b1": [["1h", "4h"]], "b2": [["2h", "3h"]]},
            "victims_of": {"b1": [], "b2": ["u2"]},
            "total_preemptions": 1,
        },
        job("u1", "A", "0h", 8, 0, "9h"),
        job("u2", "A", "1m", 8, 0, "9h"),
        job("b1", "B", "1h", 16, "3h", "3h"),
        job("b2", "B", "2h", 8, "1h", "1h"),
        tree={"A": 1, "B": 1},
        events=[{"at": "30m", "cells": {"B": {"node": 1, "rack": 1}}}],
        until="10h",
    )


def test_a_cell_is_bound_only_while_it_is_used() -> None:
    """b1 binds one node, a1 has another, and the third is anybody's; when b1 has ended it is on h1 no longer."""
    on_two_racks(
        {"runs": {"b1": [["0h", "1h"]], "a1": [["0h", "2h"]], "a2": [["0h", "2h"]], "a3": [["2h", "4h"]]}},
        job("b1", "B", "0h", 8, "1h", "1h"),
        *(job(f"a{index}", "A", "0h", 8, "2h", "2h") for index in (1, 2, 3)),
        tree={"A": 1, "B": {"shares": 1, "cells": {"node": 2}}},
    )


NEEDS_A_RACK = {"locality_waits_s": ["30d", "30d", "30d"]}
"""A gang with `locality` 0 looks in one rack alone."""


def test_small_work_goes_to_the_node_cell_so_that_the_rack_is_there_for_a_gang() -> None:
    """A is on h4, so B's node cell can only be h3: on h1, which comes first by name, b1 would break up the rack."""
    result = on_two_racks(
        {"runs": {"a1": [["0h", "4h"]], "b1": [["1h", "4h"]], "b2": [["2h", "3h"]]}},
        job("a1", "A", "0h", 8, "4h", "4h", node="h4"),
        job("b1", "B", "1h", 2, "3h", "3h"),
        job("b2", "B", "2h", 16, "1h", "1h", locality=0),
        policy=NEEDS_A_RACK,
    )
    nodes = {run["workload"]: sorted(run["nodes"]) for run in result["runs"]}
    assert (nodes["b1"], nodes["b2"]) == (["h3"], ["h1", "h2"])


def test_unallocated_work_leaves_the_node_cell_rather_than_that_the_rack_is_broken_up() -> None:
    result = on_two_racks(
        {"victims_of": {"b1": ["u1"]}, "runs": {"b2": [["2h", "3h"]]}},
        job("a1", "A", "0h", 8, "4h", "4h", node="h4"),
        job("u1", "A", "0h", 8, 0, "9h", node="h3"),
        job("b1", "B", "1h", 2, "3h", "3h"),
        job("b2", "B", "2h", 16, "1h", "1h", locality=0),
        policy={**NEEDS_A_RACK, "grace_s": 0},
        until="9h",
    )
    assert {tuple(run["nodes"]) for run in result["runs"] if run["workload"] == "b1"} == {("h3",)}


def test_contracts_of_before_a_grant_stand_and_then_the_tenant_takes_over_whatever_the_figures_say() -> None:
    """B has had far more than its share, so by fair share it could take over from nobody: rule (e)."""
    result = on_two_racks(
        {
            "runs": {"b1": [["2h", "3h"]]},
            "reason": {"b1": {"at": "90m", "code": "waiting_capacity", "earliest_start": "2h"}},
            "victims_of": {"b1": ["a1", "a2"]},
        },
        *(job(f"a{index}", "A", "0h", 8, "2h", "9h") for index in (1, 2, 3, 4)),
        job("b1", "B", "90m", 16, "1h", "1h"),
        tree={"A": 1, "B": 1},
        history=[{"leaf": "B", "gpus": 32, "from": "-9h", "to": "0h"}],
        events=[{"at": "1h", "cells": {"B": {"rack": 1}}}],
        until="4h",
    )
    assert [run["end_reason"] for run in result["runs"] if run["preempted_by"] == "b1"] == ["preempted_cell"] * 2


def test_what_will_be_a_cell_is_left_alone_until_it_is() -> None:
    """h4 is over at 1h; the rack of h3 and h4 is nearest to clean, so a3 may not begin there although it is first."""
    on_two_racks(
        {"runs": {"a1": [["0h", "3h"]], "a2": [["0h", "1h"]], "a3": [["3h", "4h"]], "b1": [["70m", "130m"]]}},
        job("a1", "A", "0h", 8, "3h", "3h", node="h1"),
        job("a4", "A", "0h", 8, "3h", "3h", node="h2"),
        job("a2", "A", "0h", 8, "1h", "1h", node="h4"),
        job("a3", "A", "40m", 8, "1h", "1h"),
        job("b1", "B", "70m", 16, "1h", "1h"),
        tree={"A": 1, "B": 1},
        history=[{"leaf": "B", "gpus": 32, "from": "-9h", "to": "0h"}],
        events=[{"at": "30m", "cells": {"B": {"rack": 1}}}],
        until="5h",
    )


def test_a_promise_to_others_is_kept_and_its_nodes_become_nobodys_cells() -> None:
    """p is promised h1 and h4 for 1h. B is granted a node then: it will be h2, which is clear before them and h3."""
    result = on_two_racks(
        {
            "runs": {"p": [["1h", "2h"]], "b1": [["1h", "2h"]]},
            "reason": {"p": {"at": "1m", "earliest_start": "1h"}, "b1": {"at": "30m", "earliest_start": "1h"}},
        },
        job("a1", "A", "0h", 8, "1h", "1h", node="h1"),
        job("a2", "A", "0h", 8, "1h", "1h", node="h2"),
        job("a3", "A", "0h", 8, "2h", "2h", node="h3"),
        job("u", "A", "0h", 8, 0, "9h", node="h4"),
        job("p", "P", "1m", 16, "1h", "1h"),
        job("b1", "B", "30m", 8, "1h", "1h"),
        tree={"A": 1, "B": 1, "P": 1},
        events=[{"at": "10m", "cells": {"B": {"node": 1}}}],
        until="3h",
    )
    nodes = {run["workload"]: sorted(run["nodes"]) for run in result["runs"]}
    assert (nodes["p"], nodes["b1"]) == (["h1", "h4"], ["h2"])


def test_where_nodes_are_unfit_what_is_fit_is_kept_and_the_reason_says_so() -> None:
    result = on_two_racks(
        {"runs": {"a1": [["2h15m", "3h15m"]], "b1": [["90m", "150m"]]}},
        job("a1", "A", "1h", 8, "1h", "1h"),
        job("b1", "B", "90m", 8, "1h", "1h"),
        tree={"A": 1, "B": {"shares": 1, "cells": {"node": 3}}},
        events=[
            {"at": "0h", "node": "h1", "health": "down"},
            {"at": "0h", "node": "h2", "health": "down"},
            {"at": "2h", "node": "h1", "health": "healthy"},
            {"at": "2h", "node": "h2", "health": "healthy"},
        ],
    )
    reasons = [each["reason"] for each in result["decisions"] if each["workload"] == "a1"]
    assert reasons[0]["code"] == "waiting_cells"
    assert reasons[0]["text"].endswith("Some cells that were granted are not fit and clear yet.")


def test_cells_below_a_tenant_are_in_its_pool_and_a_pinned_workload_stays_off_only_where_it_must() -> None:
    """B1's node is B's, so B2 may use it. Pinned to h1, a1 has it, as h2 to h4 do as well for B."""
    on_two_racks(
        {"runs": {"a1": [["0h", "2h"]], "b2": [["0h", "1h"]], "a2": [["2h", "4h"]]}},
        job("a1", "A", "0h", 8, "2h", "2h", node="h1"),
        job("b2", "B2", "0h", 24, "1h", "1h"),
        job("a2", "A", "0h", 8, "2h", "2h"),
        tree={
            "A": 1,
            "B": {"shares": 1, "cells": {"rack": 1}, "children": {"B1": {"shares": 1, "cells": {"node": 1}}, "B2": 1}},
        },
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": {"node": 5}}, "tree.B.cells: 1 node more than there are, with those of all others"),
        ({"cells": {"rack": 3, "node": 1}}, "tree.B.cells: 1 rack and 1 node more than there are"),
        ({"cells": {"host": 1}}, "tree.B.cells.host: unknown key"),
        ({"cells": {"node": -1}}, "tree.B.cells.node: must not be negative, but is -1"),
    ],
)
def test_cells_that_there_are_not_are_refused_by_their_key(change: dict[str, Any], message: str) -> None:
    file = {"cluster": TWO_RACKS, "tree": {"A": 1, "B": {"shares": 1, **change}}}
    with pytest.raises(ScenarioError) as caught:
        parse(json.dumps(file))
    assert str(caught.value).startswith(message)


def test_grants_of_events_are_checked_together_with_what_stands_then() -> None:
    events = [
        {"at": "2h", "cells": {"A": {"node": 3}}},
        {"at": "1h", "cells": {"B": {"node": 1}}},
    ]
    file = {"cluster": TWO_RACKS, "tree": NODE_AND_RACK, "events": events}
    assert [event.cells for event in parse(json.dumps(file)).events] == [{"A": (3, 0)}, {"B": (1, 0)}]
    events[0]["at"] = "30m"
    with pytest.raises(ScenarioError, match=r"^events\[0\].cells: 2 nodes more than there are"):
        parse(json.dumps(file))


def test_a_scenario_with_cells_is_written_as_it_was_read_and_known_as_it_stood() -> None:
    file = {"cluster": TWO_RACKS, "tree": NODE_AND_RACK, "events": [{"at": "1h", "cells": {"B": {}, "A": {"node": 2}}}]}
    scenario = parse(json.dumps(file))
    assert parse(json.dumps(as_file(scenario))) == scenario
    cells = {node.id: node.cells for node in tree_at(scenario, 3_600)}
    assert cells == {"": (0, 0), "A": CellCounts(node=2), "B": (0, 0)}
