"""Scenarios made into others, written as files, begun in the middle, compared, swept."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from scheduler.simulator import Scenario, ScenarioError, parse, simulate
from scheduler.simulator.before import Before
from scheduler.simulator.comparison import figures, wait_error, waits_by_workload
from scheduler.simulator.entitled import entitlements
from scheduler.simulator.recorded import RecordedRun, UnfitSpell, pack, unpack
from scheduler.simulator.scenario import Happening
from scheduler.simulator.sweeps import KNOBS, parts, read_values, table
from scheduler.simulator.variants import changed, jittered, with_more, with_policy, with_shares
from scheduler.simulator.written import as_file


def a_file(**changes: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "cluster": {
            "nodes": {"h1": 8, "h2": 8},
            "racks": {"r1": ["h1"]},
            "rails": {"A": ["h1"]},
            "leaves": {"L1": ["h1"]},
        },
        "tree": {"A": 1, "B": {"shares": 3, "children": {"B1": 1, "B2": {"shares": 1, "cap_gpus": 4}}}},
        "policy": {"lookback_s": "3d", "swap_margin": 0.5},
        "history": [{"leaf": "A", "gpus": 4, "from": "-2d", "to": "-1d"}],
        "workloads": [job("a1"), job("b1", leaf="B1", submit="30m"), job("b2", leaf="B2", submit="1h", min_runtime=0)],
        "events": [{"at": "2h", "shares": {"A": 2, "B": 2}}, {"at": "5h", "node": "h2", "health": "unhealthy"}],
        "until": "2d",
        **changes,
    }


def job(name: str, **changes: Any) -> dict[str, Any]:
    row = {"id": name, "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "3h", **changes}
    return {key: value for key, value in row.items() if value is not None}


def scenario(**changes: Any) -> Scenario:
    return parse(json.dumps(a_file(**changes)))


def fault(content: Any) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(json.dumps(content))
    return str(caught.value)


# --- written ----------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_as_the_same() -> None:
    every = job(
        "every", leaf="B2", gpus=0.5, resumable=False, priority=-1, node="h2", exit_delay="never", restart_cost="5m",
        startup="1m", estimate="4h", protected=True, level="HIGH",
    )  # fmt: skip
    then = job("then", submit=None, after="every", think="10m")
    waits = job("waits", submit=None, before={"submitted": "-3h", "first_start": "-2h", "done": "20m"})
    held = {"submitted": "-1h", "holds": {"h1": 2}, "since": "-30m", "running": "-29m", "funded": False}
    holds = job("holds", gpus=2, submit=None, before=held)
    events = [
        {"at": 1, "shares": {"A": 5}},
        {"at": 2, "close": "B2"},
        {"at": 3, "cancel": "every"},
        {"at": 4, "node": "h1", "maintenance": "1h"},
    ]
    given = scenario(workloads=[every, then, waits, holds], events=events)
    assert parse(json.dumps(as_file(given))) == given


def test_shared_scenarios_are_written_as_they_are(shared: Path) -> None:
    found = [parse(path.read_text()) for path in sorted((shared / "scenarios").glob("*.json"))]
    assert found
    for each in found:
        assert parse(json.dumps(as_file(each))) == replace(each, expect={})


# --- what stands at the start -----------------------------------------------------------------------------------------


def test_it_goes_on_where_it_stood() -> None:
    """a1 has run for 30 min of its contract of 1 h and 2 h of work; b1 has waited for 10 min."""
    running = {"submitted": "-1h", "holds": {"h1": 8}, "since": "-40m", "running": "-30m"}
    found = simulate(
        parse(
            json.dumps(
                {
                    "cluster": {"nodes": {"h1": 8}},
                    "tree": {"A": 1, "B": 1},
                    "workloads": [
                        job("a1", submit=None, duration="2h", before=running),
                        job("b1", submit=None, leaf="B", duration="1h", before={"submitted": "-10m"}),
                    ],
                    "until": "1d",
                }
            )
        )
    )
    told = [(run.id, run.start_s, run.contract_end_s, run.end_s, run.end_reason) for run in found.runs]
    assert told == [
        ("a1/1", -2_400, 1_800, 1_800, "preempted_fair_share"),
        ("b1/1", 1_800, 5_400, 5_400, "finished"),
        ("a1/2", 5_400, 9_000, 9_000, "finished"),  # 1 h of its 2 h was left
    ]
    assert figures(found)["nodes"]["A"]["charged_milli_s"] == 8_000 * (1_800 + 3_600)
    assert figures(found)["waits"]["all"] == {"count": 1, "median_s": 2_400, "p90_s": 2_400}


def test_past_use_that_was_not_charged_orders_the_unallocated() -> None:
    def first(**history: Any) -> str:
        found = scenario(
            cluster={"nodes": {"h1": 8}},
            tree={"A": 1, "B": 1},
            history=[{"leaf": "A", "gpus": 8, "from": "-2h", "to": "-1h", **history}],
            workloads=[job("a1", min_runtime=0), job("b1", leaf="B", min_runtime=0)],
            events=[],
        )
        return simulate(found).runs[0].job.job.id

    assert (first(funded=False), first()) == ("b1", "a1")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ({"first_start": 0}, "before.submitted: is missing"),
        ({"submitted": 1}, "before.submitted: must not be after the start, 0"),
        ({"submitted": -5, "first_start": -6}, "before.first_start: must not be before its submission"),
        ({"submitted": -5, "holds": {"h1": 8}}, "before.since: is missing"),
        ({"submitted": -5, "holds": {}, "since": 0}, "before.holds: must name at least one node"),
        ({"submitted": -5, "holds": {"h9": 8}, "since": 0}, 'before.holds: there is no node "h9"'),
        ({"submitted": -5, "holds": {"h1": 9}, "since": 0}, 'before.holds: node "h1" has no room for it at the start'),
        ({"submitted": -5, "holds": {"h1": 8}, "since": -9}, "before.first_start: must not be before its submission"),
        (
            {"submitted": -9, "holds": {"h1": 8}, "since": -4, "running": -5},
            "before.running: must not be before `since`",
        ),
        ({"submitted": -5, "since": -4}, "before.since: unknown key"),
    ],
)
def test_before_names_its_key(before: dict[str, Any], said: str) -> None:
    assert fault(a_file(workloads=[job("a1", submit=None, before=before)], events=[])) == f"workloads[0].{said}"


def test_one_way_of_coming_is_enough() -> None:
    assert fault(a_file(workloads=[job("a1", before={"submitted": 0})])) == (
        "workloads[0].before: a workload has either `submit` or `before`"
    )


# --- variants ---------------------------------------------------------------------------------------------------------


def test_other_knobs_leave_the_rest() -> None:
    base = scenario()
    found = with_policy(base, {"scheduler": "easy", "reservations": 4})
    assert (found.scheduler, found.policy) == ("easy", replace(base.policy, reservations=4))
    assert (base.policy.lookback_s, base.policy.swap_margin) == (259_200, Fraction(1, 2))
    assert with_policy(base, {"swap_margin": 0.25}).policy.swap_margin == Fraction(1, 4)


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"lookback": 1}, "policy.lookback: unknown key"),
        ({"reservations": -1}, "policy.reservations: must not be negative, but is -1"),
        ({"min_runtime_max_s": 10}, "policy.min_runtime_min_s: 300 is more than min_runtime_max_s, 10"),
    ],
)
def test_a_knob_that_is_none_is_named(knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        with_policy(scenario(), knobs)
    assert str(caught.value) == said


def test_contracts_follow_the_longest_one() -> None:
    base = scenario(
        policy={"min_runtime_max_s": "4h"},
        workloads=[job("short"), job("longest", min_runtime="4h", duration="7h"), job("free", min_runtime=0)],
        events=[],
    )

    def contracts(longest_s: int) -> list[int]:
        return [each.min_runtime_s for each in with_policy(base, {"min_runtime_max_s": longest_s}).jobs]

    assert contracts(1_800) == [1_800, 1_800, 0]
    assert contracts(6 * 3_600) == [3_600, 6 * 3_600, 0]
    assert contracts(24 * 3_600) == [3_600, 7 * 3_600, 0]


def test_priority_gets_caps_where_the_file_has_none() -> None:
    work = [
        job("a1", gpus=4),
        job("a2", gpus=4, submit="1h"),  # while a1 would still run: no room under A's cap of 4
        job("a3", gpus=4, submit="3h"),
        job("a4", gpus=8, submit="9h"),  # larger than A's cap
        job("b1", leaf="B", min_runtime=0),
    ]
    found = with_policy(scenario(tree={"A": 1, "B": 3}, workloads=work, events=[]), {"scheduler": "priority"})
    assert found.caps_milli == {"A": 4_000, "B": 12_000}
    assert {each.id: (each.is_protected, each.level) for each in found.jobs} == {
        "a1": (True, 2),
        "a2": (False, 2),
        "a3": (True, 2),
        "a4": (False, 2),
        "b1": (False, 0),
    }
    assert with_policy(scenario(), {"scheduler": "priority"}).caps_milli == {"B2": 4_000}


def test_fixed_slots_begin_with_nothing_running() -> None:
    held = {"submitted": "-2h", "holds": {"h1": 8}, "since": "-90m", "running": "-1h"}
    base = scenario(workloads=[job("a1", submit=None, before=held)], events=[])
    found = with_policy(base, {"scheduler": "partition"})
    assert found.jobs[0].before == Before(submitted_s=-7_200, first_start_s=-5_400, done_s=3_600)
    with_slots = with_shares(found, {"A": 1, "B": 1})
    assert [(run.start_s, run.end_s) for run in simulate(with_slots).runs] == [(0, 7_200)]  # 2 h of its 3 h were left
    assert fault({**as_file(base), "policy": {"scheduler": "partition"}}) == (
        "policy.scheduler: partition can't begin with work that holds devices on others' slots"
    )


def test_other_shares_from_the_start_and_later() -> None:
    base = scenario()
    at_once = with_shares(base, {"A": 6})
    assert {name: str(part) for name, part in entitlements(at_once.tree).items()} == {
        "": "1", "A": "2/3", "B": "1/3", "B1": "1/6", "B2": "1/6",
    }  # fmt: skip
    assert at_once.events[0] == Happening(7_200, "shares", shares={"B": 2})
    later = with_shares(base, {"A": 6, "B": 1}, from_s=3_600)
    assert later.tree == base.tree
    assert [event for event in later.events if event.kind == "shares"] == [
        Happening(3_600, "shares", shares={"A": 6, "B": 1})
    ]
    assert simulate(later).entitlement_steps[1][1]["A"] == (6, 7)


@pytest.mark.parametrize("shares", [{"C": 1}, {"A": -1}, {"A": 0.5}, {"": 1}])
def test_shares_that_are_none_are_named(shares: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=rf"^shares\.{next(iter(shares))}: "):
        with_shares(scenario(), shares)


def test_more_work_over_a_scenario() -> None:
    more = {"name": "debug", "workloads": [job("d1", after="a1", submit=None)], "events": [{"at": 9, "cancel": "a1"}]}
    found = with_more(scenario(), json.dumps(more))
    assert (found.name, [each.id for each in found.jobs]) == ("small + debug", ["a1", "b1", "b2", "d1"])
    assert found.events[-1] == Happening(9, "cancel", "a1")
    assert [record.end_s for record in simulate(found).jobs][-1] is not None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"workloads": [job("a1")]}, 'workloads[0].id: there is a workload "a1" already'),
        ({"workloads": [job("d1", leaf="C")]}, 'workloads[0].leaf: there is no leaf "C" in the tree'),
        ({"workloads": [job("d1", submit=None, after="x")]}, 'workloads[0].after: there is no workload "x"'),
        ({"workloads": [job("d1", submit=None, before={"submitted": 0})]},
         "workloads[0].before: work that is added comes at 0 or later"),
        ({"workloads": [], "tree": {"A": 1}}, "tree: unknown key"),
        ({}, "workloads: is missing"),
    ],
)  # fmt: skip
def test_more_work_names_its_key(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        with_more(scenario(), json.dumps(more))
    assert str(caught.value) == said


def test_a_little_luck_by_seed() -> None:
    base = scenario(workloads=[job(f"a{number}", submit="1h") for number in range(50)], events=[])
    first, again, other = (jittered(base, Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert all(3_000 <= each.submit_s <= 4_200 and 9_720 <= each.duration_s <= 11_880 for each in first.jobs)
    assert len({each.submit_s for each in first.jobs}) > 40
    assert changed(base, {"policy": {"reservations": 3}}, Random(1)) == with_policy(first, {"reservations": 3})


# --- compared ---------------------------------------------------------------------------------------------------------


def test_how_far_a_replay_is_off() -> None:
    base = scenario(events=[])
    real = waits_by_workload(simulate(base))
    assert real == {"a1": 0, "b1": 0, "b2": 7_200}
    assert wait_error({**real, "b2": 7_100, "gone": 5}, simulate(base)) == {
        "compared": 3,
        "median_off_s": 0,
        "p90_off_s": 100,
        "mean_s": 33,
        "only_real": 1,
        "only_replay": 0,
    }


def test_what_nobody_was_given_is_not_in_the_figures() -> None:
    told = figures(
        simulate(scenario(tree={"A": 1, "B": {"shares": 1, "children": {"B1": 1, "B2": 1}}, "~unassigned": 2}))
    )
    assert sorted(told["nodes"]) == ["", "A", "B", "B1", "B2"]
    assert {name: each["parent"] for name, each in told["nodes"].items()} == {
        "": None, "A": "", "B": "", "B1": "B", "B2": "B",
    }  # fmt: skip


def test_runs_are_stored_and_read_again() -> None:
    outcome = simulate(scenario(events=[{"at": "5h", "node": "h2", "health": "unhealthy"}]))
    found = unpack(pack(outcome))
    assert found.end_s == outcome.end_s
    assert found.parents == {"A": None, "B": None, "B1": "B", "B2": "B"}
    assert found.unfit == [UnfitSpell("h2", 18_000, outcome.end_s, "unhealthy")]
    assert [(each.id, each.leaf) for each in found.workloads] == [("a1", "A"), ("b1", "B1"), ("b2", "B2")]
    assert found.runs == [
        RecordedRun(
            workload=[record.job.id for record in outcome.jobs].index(run.job.job.id),
            start_s=run.start_s,
            running_s=run.running_s,
            contract_end_s=run.contract_end_s,
            told_s=run.told_s,
            end_s=run.end_s,
            is_funded=run.is_funded,
            end_reason=run.end_reason,
            preempted_by=run.preempted_by,
            holdings=dict(run.holdings),
        )
        for run in outcome.runs
    ]


# --- swept ------------------------------------------------------------------------------------------------------------


def test_a_sweep_has_every_value_with_every_seed() -> None:
    knob = KNOBS["min_runtime_max_s"]
    assert parts(knob, read_values(knob, ["1h", 7_200]), 2) == [
        {"policy": {"min_runtime_max_s": 3_600}, "seed": 0},
        {"policy": {"min_runtime_max_s": 3_600}, "seed": 1},
        {"policy": {"min_runtime_max_s": 7_200}, "seed": 0},
        {"policy": {"min_runtime_max_s": 7_200}, "seed": 1},
    ]
    with pytest.raises(ScenarioError, match="seeds: 2 values times 101 seeds are more than 200 runs"):
        parts(knob, [3_600, 7_200], 101)
    with pytest.raises(ScenarioError, match="seeds: must be at least 1, but is 0"):
        parts(knob, [3_600], 0)


def test_a_table_has_medians_and_spread() -> None:
    def outcome(occupancy: float, median_s: int | None) -> dict[str, Any]:
        waits = {"all": {"count": 0 if median_s is None else 1, "median_s": median_s, "p90_s": median_s}}
        return {"occupancy": occupancy, "delivery": None, "unallocated_share": 0.5, "preemptions": 3, "waits": waits}

    found = table([(1, outcome(0.5, 10)), (1, outcome(0.9, None)), (1, outcome(0.6, 30)), (4, outcome(1.0, None))])
    assert found == [
        {
            "value": 1,
            "runs": 3,
            "occupancy": [0.5, 0.6, 0.9],
            "delivery": None,
            "unallocated_share": [0.5, 0.5, 0.5],
            "preemptions": [3, 3, 3],
            "all_median_s": [10, 10, 30],
            "all_p90_s": [10, 10, 30],
        },
        {
            "value": 4,
            "runs": 1,
            "occupancy": [1.0, 1.0, 1.0],
            "delivery": None,
            "unallocated_share": [0.5, 0.5, 0.5],
            "preemptions": [3, 3, 3],
            "all_median_s": None,
            "all_p90_s": None,
        },
    ]
