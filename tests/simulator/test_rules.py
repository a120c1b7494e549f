"""The rules of scheduling, one small scenario each, worked out by hand from semantics.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.driving import expect, job

TWO_NODES = {"nodes": {"h1": 8, "h2": 8}}


# --- the door (sections 1, 8, 9) --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"contract": "9h"}, "contract_too_long"),
        ({"contract": "4m"}, "contract_too_short"),
        ({"gpus": 9}, "too_large"),
        ({"leaf": "Z"}, "no_entitlement"),
    ],
)
def test_what_is_refused_at_the_door(changes: dict[str, Any], code: str) -> None:
    asked = {"leaf": "A", "gpus": 8, "contract": "1h", **changes}
    expect(
        {"state": {"x": "refused", "y": "finished"}, "reason": {"x": {"at": 0, "code": code}}, "runs": {"x": []}},
        job("x", asked["leaf"], "0h", asked["gpus"], asked["contract"], "1h"),
        job("y", "A", "0h", 8, "1h", "1h"),
        tree={"A": 1, "B": 1, "Z": 0},
    )


def test_a_pinned_workload_larger_than_its_node_is_too_large() -> None:
    expect(
        {"state": {"x": "refused"}, "reason": {"x": {"at": 0, "code": "too_large"}}},
        job("x", "A", "0h", 9, "1h", "1h", node="h1"),
        cluster=TWO_NODES,
    )


def test_a_closed_leaf_takes_nothing_new_holds_what_waits_and_lets_run_what_runs() -> None:
    expect(
        {
            "state": {"a1": "finished", "a2": "held", "a3": "refused"},
            "runs": {"a1": [["0h", "3h"]], "b1": [["3h", "4h"]]},
            "reason": {"a2": {"at": "1h", "code": "closed"}, "a3": {"at": "2h", "code": "closed"}},
        },
        job("a1", "A", "0h", 8, "3h", "3h"),
        job("a2", "A", "1m", 8, "1h", "1h"),
        job("a3", "A", "2h", 8, "1h", "1h"),
        job("b1", "B", "2h", 8, "1h", "1h"),
        events=[{"at": "1h", "close": "A"}],
    )


def test_funded_work_is_held_without_entitlement_and_returns_to_its_old_place() -> None:
    """a2 waits from 1m on, is held from 1h to 2h, and goes before a3 again. a1's contract stands."""
    expect(
        {
            "runs": {"a1": [["0h", "3h"]], "a2": [["3h", "4h"]], "a3": [["4h", "5h"]]},
            "reason": {"a2": {"at": "90m", "code": "no_entitlement"}},
            "order_at": {"30m": ["a2", "a3"], "90m": [], "150m": ["a2", "a3"]},
        },
        job("a1", "A", "0h", 8, "3h", "3h"),
        job("a2", "A", "1m", 8, "1h", "1h"),
        job("a3", "A", "2m", 8, "1h", "1h"),
        events=[{"at": "1h", "shares": {"A": 0}}, {"at": "2h", "shares": {"A": 1}}],
    )


# --- charging (section 2) ---------------------------------------------------------------------------------------------


def test_start_up_and_leaving_are_charged_and_the_contract_counts_from_running() -> None:
    """a1 holds from 0, runs from 10m, is protected to 70m, told to stop then, and gone at 71m."""
    result = expect(
        {"runs": {"a1": [[0, "71m"]], "b1": [["71m", "131m"]]}, "state": {"a1": "preempted"}},
        job("a1", "A", "0h", 8, "1h", "5h", startup="10m", exit_delay="1m", resumable=False),
        job("b1", "B", "1m", 8, "1h", "1h"),
    )
    assert result["runs"][0]["contract_end"] == 70 * 60
    assert result["runs"][0]["charged_gpu_s"] == 8 * 71 * 60
    assert result["usage"]["A"] == {"charged_gpu_s": 8 * 71 * 60, "uncharged_gpu_s": 0}


def test_a_gang_larger_than_a_node_holds_and_is_charged_whole_nodes() -> None:
    expect(
        {"runs": {"a1": [["0h", "1h"]], "b1": [["1h", "2h"]]}, "charged_gpu_h": {"A": 16, "B": 4, "": 20}},
        job("a1", "A", "0h", 12, "1h", "1h"),
        job("b1", "B", "0h", 4, "1h", "1h"),
        cluster=TWO_NODES,
    )


# --- preemption (section 4) -------------------------------------------------------------------------------------------


def test_in_one_leaf_a_higher_priority_takes_over_when_the_contract_is_over() -> None:
    expect(
        {"runs": {"a1": [["0h", "1h"], ["2h", "3h"]], "a2": [["1h", "2h"]]}, "victims_of": {"a2": ["a1"]}},
        job("a1", "A", "0h", 8, "1h", "2h"),
        job("a2", "A", "30m", 8, "1h", "1h", priority=5),
    )


def test_a_victim_is_killed_at_the_end_of_the_grace() -> None:
    expect(
        {"runs": {"b1": [[0, 3_660], [7_260, 10_800 + 3_660]], "a1": [[3_660, 7_260]]}},
        job("b1", "B", "0h", 8, 0, "3h", exit_delay="10m"),
        job("a1", "A", "1h", 8, "1h", "1h"),
    )


def test_work_after_the_stop_signal_is_lost_and_a_restart_repeats_what_it_costs() -> None:
    """b1 has worked 1h when told, and repeats 10m: 2h10m are left at 7_230."""
    expect(
        {"runs": {"b1": [[0, 3_630], [7_230, 7_230 + 7_800]], "a1": [[3_630, 7_230]]}},
        job("b1", "B", "0h", 8, 0, "3h", exit_delay="30s", restart_cost="10m"),
        job("a1", "A", "1h", 8, "1h", "1h"),
    )


def test_who_does_not_leave_takes_its_node_along_and_a_new_plan_is_made() -> None:
    """b1 never leaves h1: at 1h + 60s + 300s it is given up, h1 is unfit, and a1 takes h2 from b2."""
    expect(
        {
            "runs": {"b1": [[60, 3_960]], "b2": [[0, 3_960]], "a1": [[3_960, 7_560]]},
            "preemptions": {"b1": 1, "b2": 1},
            "reason": {"a1": {"at": "61m", "code": "waiting_victims"}},
            "state": {"b1": "queued", "b2": "queued", "a1": "finished"},
        },
        job("b1", "B", "1m", 8, 0, "9h", exit_delay="never", node="h1"),
        job("b2", "B", "0m", 8, 0, "9h", node="h2"),
        job("a1", "A", "1h", 8, "1h", "1h"),
        cluster=TWO_NODES,
        until=7_600,
        events=[{"at": 7_560, "node": "h2", "health": "down"}],
    )


def test_a_cancelled_preemptor_gives_its_victims_room_back() -> None:
    """a1 waits for b1 to leave and is cancelled meanwhile: b1 comes back at once when it has left."""
    expect(
        {
            "runs": {"b1": [[0, 3_640], [3_640, 10_840]], "a1": []},
            "state": {"a1": "cancelled"},
            "preemptions": {"b1": 1},
        },
        job("b1", "B", "0h", 8, 0, "3h", exit_delay="40s"),
        job("a1", "A", "1h", 8, "1h", "1h"),
        events=[{"at": 3_610, "cancel": "a1"}],
    )


def test_a_cancelled_run_leaves_in_its_own_time_and_charges_until_it_has() -> None:
    expect(
        {"runs": {"a1": [[0, 1_830]], "b1": [[1_830, 5_430]]}, "state": {"a1": "cancelled"}, "total_preemptions": 0},
        job("a1", "A", "0h", 8, "2h", "2h", exit_delay="30s"),
        job("b1", "B", "10m", 8, "1h", "1h"),
        events=[{"at": "30m", "cancel": "a1"}],
    )


def test_a_workload_cancelled_by_its_submission_was_never_submitted_and_the_next_follows() -> None:
    expect(
        {"state": {"a1": "cancelled"}, "runs": {"a1": [], "a2": [["90m", "150m"]]}},
        job("a1", "A", "1h", 8, "1h", "1h"),
        job("a2", "A", "", 8, "1h", "1h", after="a1", think="30m"),
        events=[{"at": "1h", "cancel": "a1"}],
    )


# --- promises (section 5) ---------------------------------------------------------------------------------------------


def test_at_the_promised_instant_the_holder_takes_over_whatever_the_figures_then_say() -> None:
    """p1 is promised both nodes at 2h, as F and X had more. Then P's shares shrink: by (b) it could take nothing."""
    expect(
        {
            "reason": {"p1": {"at": "6m", "code": "waiting_capacity", "earliest_start": "2h"}},
            "runs": {"p1": [["2h", "10h"]], "x1": [["0h", "2h"], ["10h", "14h"]]},
            "victims_of": {"p1": ["x1", "f1"]},
        },
        job("x1", "X", "0h", 8, "2h", "6h", node="h1"),
        job("f1", "F", "0h", 8, "1h", "5h", node="h2"),
        job("p1", "P", "5m", 16, "8h", "8h"),
        cluster=TWO_NODES,
        tree={"X": 100, "P": 100, "F": 100},
        history=[{"leaf": "P", "gpus": 1, "from": "-2h", "to": "-1h"}],
        events=[{"at": "30m", "shares": {"P": 1}}],
    )


def test_what_would_outlast_a_promise_waits_and_what_ends_by_it_runs() -> None:
    """g1 is promised both nodes at 2h. On the free h2, a contract of 90m from 15m on fits, one of 2h does not."""
    expect(
        {
            "reason": {
                "g1": {"at": "5m", "earliest_start": "2h"},
                "long": {"at": "11m", "code": "waiting_reservation"},
            },
            "runs": {"g1": [["2h", "4h"]], "short": [["15m", "105m"]], "long": [["4h", "6h"]]},
        },
        job("s1", "S", "0h", 8, "2h", "2h", node="h1"),
        job("g1", "G", "5m", 16, "2h", "2h"),
        job("long", "T", "10m", 8, "2h", "2h"),
        job("short", "T", "15m", 8, "90m", "90m"),
        cluster=TWO_NODES,
        tree={"S": 1, "G": 1, "T": 1},
        history=[{"leaf": "T", "gpus": 1, "from": "-2h", "to": "-1h"}],
    )


# --- placement (section 6) --------------------------------------------------------------------------------------------


def test_best_fit_leaves_whole_nodes_whole() -> None:
    result = expect(
        {"total_preemptions": 0},
        job("a1", "A", "0m", 5, "1h", "1h"),
        job("a2", "A", "1m", 6, "1h", "1h"),
        job("a3", "A", "2m", 2, "1h", "1h"),
        job("a4", "A", "3m", 8, "1h", "1h"),
        cluster={"nodes": {"h1": 8, "h2": 8, "h3": 8}},
    )
    assert [run["nodes"] for run in result["runs"]] == [{"h1": 5}, {"h2": 6}, {"h2": 2}, {"h3": 8}]


def test_one_rack_if_one_can_hold_the_gang_else_as_few_as_possible() -> None:
    racks = {"r1": ["h1", "h2"], "r2": ["h3", "h4", "h5"]}
    result = expect(
        {"total_preemptions": 0},
        job("a1", "A", "0m", 24, "1h", "1h"),
        job("a2", "A", "2h", 16, "1h", "1h"),
        job("a3", "A", "4h", 32, "1h", "1h"),
        cluster={"nodes": {f"h{index}": 8 for index in range(1, 6)}, "racks": racks},
    )
    assert [sorted(run["nodes"]) for run in result["runs"]] == [
        ["h3", "h4", "h5"],
        ["h1", "h2"],  # the smaller rack that holds it
        ["h1", "h3", "h4", "h5"],
    ]


def test_a_pin_is_honoured_although_another_node_is_free() -> None:
    expect(
        {"runs": {"a2": [["1h", "2h"]]}},
        job("a1", "A", "0h", 8, "1h", "1h", node="h1"),
        job("a2", "A", "0h", 8, "1h", "1h", node="h1"),
        cluster=TWO_NODES,
    )


def test_enough_gpus_but_not_together() -> None:
    expect(
        {"reason": {"a3": {"at": "1m", "code": "waiting_placement"}}, "runs": {"a3": [["1h", "2h"]]}},
        job("a1", "A", "0h", 4, "1h", "1h", node="h1"),
        job("a2", "A", "0h", 4, "1h", "1h", node="h2"),
        job("a3", "A", "0m", 8, "1h", "1h"),
        cluster=TWO_NODES,
    )


# --- nodes (section 7) ------------------------------------------------------------------------------------------------


def test_a_node_that_dies_loses_its_runs_which_start_again_elsewhere() -> None:
    expect(
        {
            "runs": {"a1": [["0h", "1h"], ["1h", "2h"]], "a2": [["0h", "1h"]]},
            "state": {"a1": "finished", "a2": "lost"},
            "total_preemptions": 0,
        },
        job("a1", "A", "0h", 4, "2h", "2h"),
        job("a2", "A", "0h", 4, "2h", "2h", resumable=False),
        cluster=TWO_NODES,
        events=[{"at": "1h", "node": "h1", "health": "down"}],
    )


def test_a_node_is_used_again_only_after_it_stayed_healthy() -> None:
    expect(
        {"runs": {"a1": [["75m", "135m"]]}, "reason": {"a1": {"at": "61m", "code": "waiting_nodes"}}},
        job("a1", "A", "10m", 8, "1h", "1h"),
        events=[{"at": 0, "node": "h1", "health": "unhealthy"}, {"at": "1h", "node": "h1", "health": "healthy"}],
    )


def test_no_contract_reaches_into_a_maintenance_window_and_what_is_left_drains() -> None:
    """The window opens at 2h. b1's contract would reach into it; u1 and a1 run until then, a1's being over."""
    expect(
        {
            "runs": {"a1": [["0h", "2h"]], "u1": [["0h", "2h"]], "b1": []},
            "preemptions": {"a1": 1, "u1": 1},
            "reason": {"b1": {"at": "1h", "code": "waiting_nodes"}},
        },
        job("a1", "A", "0h", 4, "1h", "9h"),
        job("u1", "A", "0h", 2, 0, "9h"),
        job("b1", "B", "1h", 2, "90m", "2h"),
        events=[{"at": "2h", "node": "h1", "maintenance": "1h"}],
        until="3h",
    )


def test_what_one_plan_waits_for_is_nobody_elses_beside_a_shared_device() -> None:
    """v leaves 2 GPUs, one of them for p: for its 2 whole ones q needs the other, and the whole of f's device."""
    expect(
        {
            "victims_of": {"p": ["v"], "q": ["f"]},
            "total_preemptions": 2,
            "started_by": {"10m": {"F": 1, "K": 1, "Q": 1, "V": 0}},
            "state": {"p": "running", "q": "running", "v": "queued", "f": "queued"},
        },
        {**job("f", "F", "0h", 1, "5m", "8h"), "gpus": 0.5},
        job("k", "K", "0h", 1, "8h", "8h"),
        job("v", "V", "0h", 2, "5m", "2h"),
        job("p", "F", "10m", 1, "1h", "1h"),
        job("q", "Q", "10m", 2, "1h", "1h"),
        cluster={"nodes": {"h1": 4}},
        tree={"F": 1, "K": 1, "V": 1, "Q": 1},
        history=[{"leaf": "Q", "gpus": 1, "from": "-400s", "to": "0s"}],
        until="20m",
    )


def test_what_is_promised_to_one_is_not_promised_to_its_like() -> None:
    """c1 and c2 ask for the same in one leaf: what is certain at 20 min is c1's, so c2 waits for a2's contract."""
    expect(
        {
            "reason": {"c1": {"at": "12m", "earliest_start": "20m"}, "c2": {"at": "12m", "earliest_start": "30m"}},
            "runs": {"c1": [["0h", "10m"], ["20m", "25m"]], "c2": [["25m", "30m"]]},
        },
        job("a1", "A", "0h", 1, "20m", "20m"),
        job("a2", "A", "0h", 2, "20m", "15m"),
        job("c1", "C", "0h", 2, "10m", "15m"),
        job("c2", "C", "11m", 2, "5m", "5m"),
        cluster={"nodes": {"h1": 4}},
        tree={"A": 3, "C": 2},
        policy={"reservations": 2, "grace_s": 0},
    )


# --- time -------------------------------------------------------------------------------------------------------------


def test_no_pass_runs_at_the_end_itself() -> None:
    expect(
        {"runs": {"a1": [["0h", "1h"]], "a2": []}, "state": {"a1": "finished", "a2": "queued"}},
        job("a1", "A", "0h", 8, "1h", "1h"),
        job("a2", "A", "0h", 8, "1h", "1h"),
        until="1h",
    )


def test_unallocated_work_yields_only_what_is_needed_and_comes_back() -> None:
    expect(
        {
            "runs": {"u1": [["0h", "1h"], ["2h", "5h"]], "u2": [["0h", "4h"]], "b1": [["1h", "2h"]]},
            "uncharged_gpu_h": {"A": 32},
        },
        job("u1", "A", "0h", 4, 0, "4h"),
        job("u2", "A", "0h", 4, 0, "4h"),
        job("b1", "B", "1h", 2, "1h", "1h"),
    )
