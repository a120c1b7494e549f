"""Plain schedulers on real nodes: a small scenario for each rule, and what must hold in every world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.simulator import ScenarioError, World, order_at, parse
from scheduler.simulator.counted import CountedJob
from scheduler.simulator.counting import replay
from scheduler.simulator.partition import slots_milli
from scheduler.simulator.records import Outcome
from scheduler.simulator.scenario import SCHEDULERS
from scheduler.simulator.schedulers import counts_devices_alone
from scheduler.traces import counted
from tests.simulator.worlds import stormy_worlds

PLAIN = [name for name in SCHEDULERS if name != "contracts"]
WORLDS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Spans = dict[str, list[tuple[int, int | None]]]


def lived(
    scheduler: str,
    workloads: list[dict[str, Any]],
    *,
    nodes: dict[str, int] | None = None,
    tree: dict[str, Any] | None = None,
    **rest: Any,
) -> Outcome:
    """A small world to its end; each workload is in leaf A from 0 on, for an hour, unless it says otherwise."""
    rows = [{"leaf": "A", "submit": 0, "duration": "1h"} | row for row in workloads]
    scenario = {
        "cluster": {"nodes": nodes or {"h1": 8}},
        "tree": tree or {"A": 1, "B": 1},
        "policy": {"scheduler": scheduler},
        "workloads": rows,
        **rest,
    }
    world = World(parse(json.dumps(scenario)))
    world.run()
    return world.outcome


def spans(outcome: Outcome) -> Spans:
    """Start and end of every run, in minutes, by workload."""
    return {
        record.job.id: [(run.start_s // 60, None if run.end_s is None else run.end_s // 60) for run in record.runs]
        for record in outcome.jobs
    }


def codes(outcome: Outcome) -> dict[str, list[str]]:
    """The reason codes that every workload was told, in time."""
    found: dict[str, list[str]] = {record.job.id: [] for record in outcome.jobs}
    for each in outcome.decisions:
        found[each.workload].append(str(each.reason.code))
    return found


# --- without preemption -----------------------------------------------------------------------------------------------

LINE = [
    {"id": "a", "gpus": 6},
    {"id": "b", "gpus": 8, "submit": "1m"},
    {"id": "c", "gpus": 2, "submit": "2m", "duration": "30m"},
    {"id": "d", "gpus": 2, "submit": "3m", "duration": "10m"},
]


def test_fifo_lets_nobody_pass() -> None:
    outcome = lived("fifo", LINE)
    assert spans(outcome) == {"a": [(0, 60)], "b": [(60, 120)], "c": [(120, 150)], "d": [(120, 130)]}
    assert codes(outcome)["c"] == ["waiting_order", "waiting_capacity", "started"]  # at last it is the head


def test_fifo_skip_passes_who_does_not_fit() -> None:
    outcome = lived("fifo-skip", LINE)
    assert spans(outcome) == {"a": [(0, 60)], "b": [(60, 120)], "c": [(2, 32)], "d": [(32, 42)]}
    assert codes(outcome)["b"] == ["waiting_capacity", "started"]


def test_sjf_takes_the_shortest() -> None:
    later = [row | {"submit": "1m"} if row["id"] in "cd" else row for row in LINE]
    assert spans(lived("sjf", later)) == {"a": [(0, 60)], "b": [(60, 120)], "c": [(11, 41)], "d": [(1, 11)]}


def test_enough_gpus_that_are_not_together_do_not_count() -> None:
    rows = [
        {"id": "a", "gpus": 3, "node": "h1"},
        {"id": "b", "gpus": 3, "node": "h2", "duration": "2h"},
        {"id": "c", "gpus": 2, "submit": "1m"},
        {"id": "gang", "gpus": 8, "submit": "1m"},
    ]
    outcome = lived("fifo-skip", rows, nodes={"h1": 4, "h2": 4})
    assert spans(outcome)["c"] == [(60, 120)]
    assert spans(outcome)["gang"] == [(120, 180)]
    assert codes(outcome)["c"] == ["waiting_placement", "started"]
    assert outcome.jobs[3].runs[0].holdings == {"h1": 4_000, "h2": 4_000}


def test_draining_nodes_let_runs_end_and_start_nothing() -> None:
    rows = [{"id": "a", "gpus": 8}, {"id": "b", "gpus": 8, "submit": "10m"}]
    events = [
        {"at": "5m", "node": "h1", "health": "unhealthy"},
        {"at": "2h", "node": "h1", "health": "healthy"},
    ]
    outcome = lived("fifo", rows, events=events)
    assert spans(outcome) == {"a": [(0, 60)], "b": [(135, 195)]}  # after a dwell of 15 min
    assert codes(outcome)["b"][0] == "waiting_nodes"


def test_a_closed_leaf_holds_what_waits_and_takes_nothing() -> None:
    rows = [{"id": "a", "gpus": 8}, {"id": "b", "gpus": 8}, {"id": "c", "gpus": 1, "submit": "40m"}]
    outcome = lived("fifo", rows, events=[{"at": "30m", "close": "A"}])
    assert [record.state for record in outcome.jobs] == ["finished", "held", "refused"]


def test_what_is_larger_than_the_cluster_is_refused() -> None:
    outcome = lived("fifo", [{"id": "a", "gpus": 9}])
    assert codes(outcome) == {"a": ["too_large"]}


def test_the_order_can_be_asked_for() -> None:
    scenario = {
        "cluster": {"nodes": {"h1": 8}},
        "tree": {"A": 1},
        "policy": {"scheduler": "sjf"},
        "workloads": [{"leaf": "A", **row} | {"duration": row.get("duration", "1h"), "submit": 0} for row in LINE],
    }
    scenario["workloads"].append({"id": "z", "leaf": "A", "gpus": 8, "submit": 0, "duration": "5m"})
    assert order_at(parse(json.dumps(scenario)), 60)[0] == ("d", "c", "a", "b")


# --- EASY -------------------------------------------------------------------------------------------------------------


def test_easy_lets_pass_who_ends_before_the_head_could_start() -> None:
    rows = [
        {"id": "a", "gpus": 6, "estimate": "1h"},
        {"id": "b", "gpus": 8, "submit": "1m", "estimate": "1h"},
        {"id": "c", "gpus": 2, "submit": "2m", "duration": "30m", "estimate": "59m"},
        {"id": "d", "gpus": 1, "submit": "3m", "duration": "30m", "estimate": "57m"},
        {"id": "e", "gpus": 1, "submit": "3m", "duration": "30m", "estimate": "20m"},
    ]
    outcome = lived("easy", rows)
    # c might outlast a, and so delay b; d and e can't
    assert spans(outcome) == {"a": [(0, 60)], "b": [(60, 120)], "c": [(120, 150)], "d": [(3, 33)], "e": [(3, 33)]}
    assert codes(outcome)["c"][0] == "waiting_reservation"
    head = next(each for each in outcome.decisions if each.workload == "b")
    assert (head.reason.code, head.reason.earliest_start_s) == ("waiting_capacity", 3_600)


def test_easy_lets_pass_who_leaves_enough_for_the_head() -> None:
    rows = [
        {"id": "a", "gpus": 6},
        {"id": "b", "gpus": 6, "submit": "1m"},
        {"id": "long", "gpus": 2, "submit": "2m", "duration": "5h"},
    ]
    assert spans(lived("easy", rows)) == {"a": [(0, 60)], "b": [(60, 120)], "long": [(2, 302)]}


def test_easy_keeps_the_heads_own_node() -> None:
    rows = [
        {"id": "a", "gpus": 2, "node": "h1"},
        {"id": "b", "gpus": 4, "node": "h2", "duration": "3h"},
        {"id": "head", "gpus": 4, "submit": "1m"},
        {"id": "long", "gpus": 2, "submit": "2m", "duration": "2h"},
        {"id": "short", "gpus": 2, "submit": "3m", "duration": "57m"},
    ]
    found = spans(lived("easy", rows, nodes={"h1": 4, "h2": 4}))
    assert found["head"] == [(60, 120)]
    assert found["short"] == [(3, 60)]
    assert found["long"] == [(120, 240)]


# --- shortest remaining time first ------------------------------------------------------------------------------------


def test_srtf_stops_who_has_most_left_and_no_more_than_it_needs() -> None:
    rows = [
        {"id": "a", "gpus": 4, "duration": "2h"},
        {"id": "b", "gpus": 4, "duration": "1h"},
        {"id": "c", "gpus": 2, "submit": "10m", "duration": "20m"},
    ]
    outcome = lived("srtf", rows)
    assert spans(outcome) == {"a": [(0, 10), (30, 140)], "b": [(0, 60)], "c": [(10, 30)]}
    stopped = outcome.jobs[0].runs[0]
    assert (stopped.end_reason, stopped.preempted_by) == ("preempted_priority", "c")


def test_srtf_holds_devices_while_victims_leave() -> None:
    rows = [
        {"id": "a", "gpus": 8, "duration": "2h", "exit_delay": "1m"},
        {"id": "b", "gpus": 8, "submit": "10m", "duration": "20m"},
        {"id": "c", "gpus": 1, "submit": "10m", "duration": "40m"},
    ]
    assert spans(lived("srtf", rows)) == {"a": [(0, 11), (71, 181)], "b": [(11, 31)], "c": [(31, 71)]}


def test_srtf_counts_what_a_restart_repeats_as_left() -> None:
    rows = [
        {"id": "a", "gpus": 1, "duration": "45m", "restart_cost": "2m"},
        {"id": "b", "gpus": 1, "duration": "45m"},
        {"id": "short", "gpus": 1, "submit": "1m", "duration": "5m", "node": "h2"},
        {"id": "pair", "gpus": 2, "submit": "1m", "duration": "5m", "node": "h1"},
    ]
    # both are stopped with equally much left, and one can go on beside "short": b, as a would do a minute again
    outcome = lived("srtf", rows, nodes={"h1": 2, "h2": 2})
    assert spans(outcome) == {"a": [(0, 1), (6, 51)], "b": [(0, 1), (1, 45)], "short": [(1, 6)], "pair": [(1, 6)]}


# --- priority ---------------------------------------------------------------------------------------------------------

CAPPED = {"A": {"shares": 1, "cap_gpus": 4}, "B": {"shares": 1, "cap_gpus": 4}}


def test_higher_levels_preempt_lower_ones_and_as_few_as_they_need() -> None:
    rows = [
        {"id": "low1", "gpus": 2, "level": "LOW"},
        {"id": "low2", "gpus": 2, "level": "LOW", "submit": "1m"},
        {"id": "normal", "gpus": 4, "submit": "2m"},
        {"id": "high", "gpus": 2, "level": "HIGH", "submit": "3m", "duration": "10m"},
    ]
    outcome = lived("priority", rows)
    assert spans(outcome) == {
        "low1": [(0, 60)],
        "low2": [(1, 3), (13, 71)],  # of the lowest level the latest start
        "normal": [(2, 62)],
        "high": [(3, 13)],
    }


def test_equal_levels_do_not_preempt_each_other() -> None:
    rows = [{"id": "a", "gpus": 8}, {"id": "b", "gpus": 8, "submit": "1m", "level": 1}]
    assert spans(lived("priority", rows)) == {"a": [(0, 60)], "b": [(60, 120)]}


def test_any_whole_number_is_a_level() -> None:
    rows = [{"id": "a", "gpus": 8, "level": -7}, {"id": "b", "gpus": 8, "submit": "30m", "level": -5}]
    assert spans(lived("priority", rows)) == {"a": [(0, 30), (90, 120)], "b": [(30, 90)]}


def test_the_protected_are_not_preempted() -> None:
    rows = [
        {"id": "low", "gpus": 4, "level": "LOW", "protected": True},
        {"id": "idle", "gpus": 4, "level": "LOW", "leaf": "B"},
        {"id": "high", "gpus": 4, "level": "HIGH", "submit": "1m", "duration": "10m"},
        {"id": "high2", "gpus": 4, "level": "HIGH", "submit": "1m", "duration": "10m"},
    ]
    outcome = lived("priority", rows, tree=CAPPED)
    assert spans(outcome) == {"low": [(0, 60)], "idle": [(0, 1), (21, 80)], "high": [(1, 11)], "high2": [(11, 21)]}


def test_the_protected_of_a_team_hold_no_more_than_its_cap_and_others_may_go_beyond() -> None:
    rows = [
        {"id": "p1", "gpus": 3, "protected": True},
        {"id": "p2", "gpus": 2, "protected": True, "submit": "1m"},
        {"id": "beyond", "gpus": 3, "submit": "2m"},
        {"id": "other", "gpus": 2, "leaf": "B", "protected": True, "submit": "3m"},
        {"id": "larger", "gpus": 5, "protected": True, "submit": "4m"},
    ]
    outcome = lived("priority", rows, tree=CAPPED)
    assert spans(outcome) == {
        "p1": [(0, 60)],
        "p2": [(60, 120)],
        "beyond": [(2, 62)],
        "other": [(3, 63)],
        "larger": [],
    }
    assert codes(outcome)["p2"] == ["waiting_capacity", "started"]
    assert codes(outcome)["larger"] == ["too_large"]


def test_a_cap_binds_all_below_it() -> None:
    tree = {"T": {"shares": 1, "cap_gpus": 4, "children": {"A": 1, "B": 1}}}
    rows = [{"id": "a", "gpus": 3, "protected": True}, {"id": "b", "gpus": 3, "protected": True, "leaf": "B"}]
    assert spans(lived("priority", rows, tree=tree)) == {"a": [(0, 60)], "b": [(60, 120)]}


def test_a_gang_preempts_whole_nodes_of_the_lowest_levels() -> None:
    rows = [
        {"id": "normal", "gpus": 4, "node": "h1"},
        {"id": "low2", "gpus": 4, "node": "h2", "level": "LOW"},
        {"id": "low3", "gpus": 1, "node": "h3", "level": "LOW"},
        {"id": "gang", "gpus": 8, "level": "HIGH", "submit": "10m", "duration": "10m"},
    ]
    outcome = lived("priority", rows, nodes={"h1": 4, "h2": 4, "h3": 4})
    assert outcome.jobs[3].runs[0].holdings == {"h2": 4_000, "h3": 4_000}
    assert spans(outcome) == {
        "normal": [(0, 60)],
        "low2": [(0, 10), (20, 70)],
        "low3": [(0, 10), (20, 70)],
        "gang": [(10, 20)],
    }


def test_nobody_is_preempted_in_vain() -> None:
    rows = [
        {"id": "low", "gpus": 4, "level": "LOW"},
        {"id": "kept", "gpus": 4, "protected": True, "level": "LOW"},
        {"id": "high", "gpus": 8, "level": "HIGH", "submit": "1m"},
    ]
    assert spans(lived("priority", rows)) == {"low": [(0, 60)], "kept": [(0, 60)], "high": [(60, 120)]}


def test_a_plan_keeps_its_devices_until_all_have_left_and_then_the_order_decides() -> None:
    rows = [
        {"id": "gang", "gpus": 8, "level": "LOW", "duration": "3h", "exit_delay": "2m"},
        {"id": "normal", "gpus": 3, "submit": "10m", "duration": "20m"},
        {"id": "high", "gpus": 4, "level": "HIGH", "submit": "11m", "duration": "30m", "node": "h1"},
    ]
    outcome = lived("priority", rows, nodes={"h1": 4, "h2": 4}, policy={"scheduler": "priority", "grace_s": 300})
    # "normal" stops the gang and is to have h1; meanwhile "high" came, which would stop it there in the same second
    assert spans(outcome) == {"gang": [(0, 12), (42, 212)], "normal": [(12, 32)], "high": [(12, 42)]}
    assert outcome.jobs[1].runs[0].holdings == {"h2": 3_000}


def test_nobody_starts_where_a_gang_goes_on_that_another_stops() -> None:
    rows = [
        {"id": "pinned", "gpus": 2, "level": "HIGH", "node": "h1"},
        {"id": "gang", "gpus": 4, "duration": "10m"},
        {"id": "high", "gpus": 0.5, "level": "HIGH", "submit": "5m", "node": "h3"},
        {"id": "low", "gpus": 1, "level": "LOW", "submit": "5m"},
    ]
    outcome = lived("priority", rows, nodes={"h1": 2, "h2": 2, "h3": 2, "h4": 2})
    assert spans(outcome) == {"pinned": [(0, 60)], "gang": [(0, 5), (5, 10)], "high": [(5, 65)], "low": [(5, 65)]}


@pytest.mark.parametrize(("level", "shown"), [('"URGENT"', '"URGENT"'), ("1.5", '"1.5"'), ("true", "true")])
def test_a_level_that_is_none_is_refused(level: str, shown: str) -> None:
    content = (
        '{"cluster": {"nodes": {"h1": 8}}, "tree": {"A": 1}, "workloads": '
        f'[{{"id": "a", "leaf": "A", "submit": 0, "gpus": 1, "duration": 1, "level": {level}}}]}}'
    )
    with pytest.raises(ScenarioError) as caught:
        parse(content)
    assert caught.value.path == "workloads[0].level"
    assert shown in caught.value.message


# --- partition --------------------------------------------------------------------------------------------------------


def test_each_team_owns_its_gpus_alone() -> None:
    rows = [
        {"id": "a1", "gpus": 4},
        {"id": "a2", "gpus": 2, "submit": "1m"},
        {"id": "a3", "gpus": 5},
        {"id": "b1", "gpus": 4, "leaf": "B", "submit": "2m"},
    ]
    outcome = lived("partition", rows)
    assert spans(outcome) == {"a1": [(0, 60)], "a2": [(60, 120)], "a3": [], "b1": [(2, 62)]}
    assert codes(outcome)["a3"] == ["too_large"]


def test_slots_are_whole_gpus_by_shares_and_whole_nodes_first() -> None:
    scenario = parse(
        json.dumps(
            {
                "cluster": {"nodes": {"h1": 8, "h2": 8, "h3": 8}},
                "tree": {"A": {"shares": 5, "children": {"A1": 1, "A2": 9}}, "B": 4, "C": 1, "D": 0},
            }
        )
    )
    assert slots_milli(scenario) == {
        "A": {"h1": 8_000, "h3": 4_000},  # 12 of 24
        "B": {"h2": 8_000, "h3": 2_000},  # 9.6, rounded up
        "C": {"h3": 2_000},  # 2.4
        "D": {},
    }


# --- every world ------------------------------------------------------------------------------------------------------


@st.composite
def ranked_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Stormy worlds with caps, whose workloads have levels and may be protected."""
    world = draw(stormy_worlds())
    for row in world["workloads"]:
        row["level"] = draw(st.integers(0, 2))
        row["protected"] = draw(st.sampled_from([False, False, False, True]))
    for name, value in world["tree"].items():
        shares = value if isinstance(value, dict) else {"shares": value}
        world["tree"][name] = shares | {"cap_gpus": draw(st.integers(1, 8))}
    return world


@pytest.mark.parametrize("scheduler", PLAIN)
@WORLDS
@given(data=st.data())
def test_no_gpu_twice_gangs_whole_and_nothing_forgotten(scheduler: str, data: st.DataObject) -> None:
    drawn = data.draw(ranked_worlds())
    scenario = parse(json.dumps(drawn | {"policy": drawn.get("policy", {}) | {"scheduler": scheduler}}))
    world = World(scenario)
    world.run()
    capacity = {node.name: node.capacity_milli for node in scenario.nodes}
    steps: dict[str, list[tuple[int, int]]] = {name: [] for name in capacity}
    for run in world.outcome.runs:
        size_milli = run.job.job.size_milli
        held_milli = sum(run.holdings.values())
        if len(run.holdings) == 1:
            assert held_milli >= size_milli
        else:
            assert all(amount == capacity[name] for name, amount in run.holdings.items()), "whole nodes only"
            assert held_milli >= size_milli > held_milli - min(run.holdings.values())
        assert run.end_s != run.start_s or run.preempted_by is None, "nobody starts to be stopped in the same second"
        for name, amount in run.holdings.items():
            steps[name].append((run.start_s, amount))
            if run.end_s is not None:
                steps[name].append((run.end_s, -amount))
    for name, changes in steps.items():
        held_milli = 0
        for _, change in sorted(changes):
            held_milli += change
            assert 0 <= held_milli <= capacity[name]
    if scheduler not in ("srtf", "priority", "themis"):
        assert all(run.preempted_by is None for run in world.outcome.runs)
    if scenario.until_s is None and not scenario.events:
        assert {record.state for record in world.outcome.jobs} <= {"finished", "refused", "preempted"}


@st.composite
def estimated_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Calm worlds whose owners think that their workloads take at least as long as they do."""
    nodes = draw(st.sampled_from([{"h1": 8}, {"h1": 4, "h2": 4}, {"h1": 2, "h2": 4, "h3": 4}]))
    rows = []
    for index in range(draw(st.integers(2, 14))):
        duration = draw(st.integers(1, 40))
        row = {
            "id": f"w{index:02d}",
            "leaf": "A",
            "submit": draw(st.integers(0, 60)),
            "gpus": draw(st.sampled_from([1, 1, 2, 3, 4, 8])),
            "duration": duration,
            "estimate": duration + draw(st.sampled_from([0, 0, 5, 60])),
            "startup": draw(st.sampled_from([0, 0, 3])),
        }
        if draw(st.integers(0, 5)) == 0 and row["gpus"] <= 2:
            row["node"] = draw(st.sampled_from(sorted(nodes)))
        rows.append(row)
    return {
        "cluster": {"nodes": nodes},
        "tree": {"A": 1},
        "policy": {"scheduler": "easy"},
        "workloads": rows,
    }


@WORLDS
@given(drawn=estimated_worlds())
def test_easy_never_delays_the_head(drawn: dict[str, Any]) -> None:
    """Whoever was told when it will start at the latest, being the head, has started by then."""
    world = World(parse(json.dumps(drawn)))
    world.run()
    started = {record.job.id: record.first_start_s for record in world.outcome.jobs}
    for each in world.outcome.decisions:
        if each.reason.earliest_start_s is not None:
            first_s = started[each.workload]
            assert first_s is not None
            assert first_s <= each.reason.earliest_start_s


@pytest.mark.parametrize("scheduler", ["fifo", "fifo-skip", "sjf", "srtf"])
@WORLDS
@given(
    rows=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=9).map(
        sorted
    )
)
def test_one_node_is_the_same_as_counting(scheduler: str, rows: list[tuple[int, int, int]]) -> None:
    jobs = [CountedJob(f"j{index}", submit, length, gpus * 1_000) for index, (submit, length, gpus) in enumerate(rows)]
    assert ends_on_one_node(jobs, 4, scheduler) == [stay.end_s for stay in replay(jobs, 4_000, scheduler)]


@pytest.mark.parametrize("scheduler", ["fifo", "fifo-skip", "sjf", "srtf"])
def test_a_real_trace_on_one_node_is_the_same_as_counting(shared: Path, scheduler: str) -> None:
    jobs = counted.read((shared / "traces" / "tiresias_60_job.csv").read_text())
    jobs = [each._replace(id=f"{int(each.id):03d}") for each in jobs]
    assert ends_on_one_node(jobs, 8, scheduler) == [stay.end_s for stay in replay(jobs, 8_000, scheduler)]


def ends_on_one_node(jobs: list[CountedJob], gpus: int, scheduler: str) -> list[int | None]:
    """When each ends on a node of so many GPUs."""
    rows = [
        {"id": each.id, "submit": each.submit_s, "duration": each.duration_s, "gpus": each.size_milli // 1_000}
        for each in jobs
    ]
    return [record.end_s for record in lived(scheduler, rows, nodes={"h1": gpus}).jobs]


@pytest.mark.parametrize(
    ("beside", "asked", "scheduler", "is_said"),
    [
        ({"cpus": {"h1": 64}}, {"cpus": 8}, "fifo", True),
        ({"memory_gib": {"h1": 64}}, {"memory_gib": 8}, "themis", True),
        ({"cpus": {"h1": 64}}, {}, "fifo", False),
        ({}, {"cpus": 8}, "fifo", False),
        ({"cpus": {"h1": 64}}, {"cpus": 8}, "contracts", False),
    ],
)
def test_it_is_said_where_cores_and_memory_bound_nothing(
    beside: dict[str, Any], asked: dict[str, Any], scheduler: str, is_said: bool
) -> None:
    job = {"id": "a", "leaf": "A", "submit": 0, "gpus": 1, "min_runtime": "1h", "duration": "1h", **asked}
    made = parse(json.dumps({"cluster": {"nodes": {"h1": 8}, **beside}, "tree": {"A": 1}, "workloads": [job]}))
    said = counts_devices_alone(made, scheduler)
    assert bool(said) == is_said
    assert not said or said == f"{scheduler} counts GPUs alone: cores and memory of nodes bound nothing under it"
