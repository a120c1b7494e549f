"""Policies compared over seeds: names, measures, arrivals drawn anew, intervals, and `manage.py compare`."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Any
from xml.etree import ElementTree

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine import LEAF_ORDERS, TREE_ORDERS, Packing
from scheduler.engine.policies import locality
from scheduler.management.comparison_page import comparison_page
from scheduler.simulator import Scenario, ScenarioError, parse, simulate
from scheduler.simulator.counted import CountedJob
from scheduler.simulator.counting import COUNTING_SCHEDULERS, replay
from scheduler.simulator.intervals import Again, difference, interval, t_975
from scheduler.simulator.measures import MEASURES, Measures, measure_counted
from scheduler.simulator.named_policies import NamedPolicy, read, read_all, registered
from scheduler.simulator.placements import with_placement
from scheduler.simulator.policy_table import again, check, how_again, run, table, under
from scheduler.simulator.resampled import BLOCK_S, can_be_resampled, resampled, resampled_counted
from scheduler.simulator.scenario import SCHEDULERS
from scheduler.simulator.written import as_file
from tests.simulator.driving import job
from tests.simulator.test_commands import assert_refused, manage

HOUR_S, DAY_S = 3_600, 86_400
CONTRACTS = NamedPolicy("contracts")


def a_scenario(*workloads: dict[str, Any], **more: Any) -> Scenario:
    """One node of 8 GPUs and two equal teams."""
    file = {"cluster": {"nodes": {"h1": 8}}, "tree": {"A": 1, "B": 1}, "workloads": list(workloads), **more}
    return parse(json.dumps(file))


# --- names ------------------------------------------------------------------------------------------------------------


def test_whatever_is_registered_has_a_name_and_can_be_simulated() -> None:
    names = [policy.name for policy in registered()]
    assert names[0] == "contracts"
    assert {*SCHEDULERS} <= {*names}
    assert {f"leaf_order={name}" for name in LEAF_ORDERS[1:]} <= {*names}
    assert {f"tree_order={name}" for name in TREE_ORDERS[1:]} <= {*names}
    check(a_scenario(job("a1", "A", "0h", 8, "1h", "2h")), registered())
    assert read_all(["all"]) == registered()
    assert read_all(["fifo", "all"])[0].name == "fifo"


def test_a_name_is_a_scheduler_or_contracts_with_knobs() -> None:
    assert read("contracts") == CONTRACTS
    assert read("fifo").knobs == {"scheduler": "fifo"}
    assert read("contracts, lookback_s=3d ,swap_margin=0.5").knobs == {
        "lookback_s": "3d",
        "swap_margin": 0.5,
        "scheduler": "contracts",
    }
    assert read("attained_limits=3250/7200").knobs == {"attained_limits": [3_250, 7_200], "scheduler": "contracts"}
    assert read("attained_limits=3250").knobs["attained_limits"] == [3_250]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("lifo", "lifo: there is no scheduler 'lifo'"),
        ("contracts,soon", "contracts,soon: must be a scheduler and knobs such as \"lookback_s=3d\", and 'soon' is"),
        ("contracts,reservations=", "and 'reservations=' is neither"),
        ("magic=3", "magic=3: there is no knob 'magic'"),
        ("reservations=1,reservations=2", "has reservations twice"),
        ("", "there is no scheduler ''"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, line: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(name)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("swap_margin=NaN", 'swap_margin=NaN: policy.swap_margin: must be a number of at least 0, not "NaN"'),
        ("reservations=-1", "reservations=-1: policy.reservations: must not be negative"),
        ("leaf_order=best", "leaf_order=best: policy.leaf_order: must be one of priority,"),
        ("attained_limits=5/5", "attained_limits=5/5: policy.attained_limits: must be 1 to 16 numbers that rise"),
    ],
)
def test_a_value_that_is_none_names_its_policy_and_knob(name: str, line: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        check(a_scenario(job("a1", "A", "0h", 8, "1h", "2h")), [read(name)])
    assert line in str(caught.value)


def test_a_policy_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ScenarioError, match="fifo: is there twice"):
        read_all(["fifo", "fifo"])


# --- placements -------------------------------------------------------------------------------------------------------


def test_a_placement_is_a_part_of_a_name() -> None:
    assert read("packing=worst_fit") == NamedPolicy(
        "packing=worst_fit", {"scheduler": "contracts"}, {"packing": "worst_fit"}
    )
    assert read("fifo,packing=first_fit").placement == {"packing": "first_fit"}
    both = read("leaf_order=tiresias,locality=2")
    assert (both.knobs["leaf_order"], both.placement) == ("tiresias", {"locality": "2"})
    names = [each.name for each in read_all(["placements"])]
    assert names[0] == "contracts"
    assert {"packing=first_fit", "locality=0", "locality=3", "cells=shares"} < {*names}
    assert not any("classes" in name for name in names), "these need classes"
    check(a_scenario(job("a1", "A", "0h", 8, "1h", "2h")), read_all(["placements"]))
    with pytest.raises(ScenarioError, match="packing=best: packing: must be one of best_fit, first_fit, worst_fit"):
        read("packing=best")


CLASSES: dict[str, Any] = {
    "cluster": {"nodes": {"h1": 8, "h2": 8}, "classes": {"A100": ["h1"], "T4": ["h2"]}},
    "policy": {"class_order": ["A100", "T4"]},
}


def test_each_placement_changes_what_it_names_alone() -> None:
    two = {
        "cluster": {"nodes": {"h1": 8, "h2": 8, "h3": 8}},
        "tree": {"A": 2, "B": {"shares": 1, "cells": {"node": 2}}},
    }
    base = a_scenario(job("a1", "A", "0h", 8, "1h", "2h"), **two, events=[{"at": "1h", "cells": {"A": {"node": 1}}}])

    def placed(**words: str) -> Scenario:
        return with_placement(base, words)

    assert placed(packing="first_fit") == replace(base, packing=Packing.FIRST_FIT)
    relaxed = placed(locality="3")
    assert (relaxed.policy.locality_waits_s, [each.locality for each in relaxed.jobs]) == ((1_800, 3_600, 7_200), [3])
    assert placed(locality="none") == base
    cells = placed(cells="shares")
    assert {node.id: node.cells.node for node in cells.tree} == {"": 0, "A": 2, "B": 1}
    assert not cells.events
    assert not any(node.cells.node for node in placed(cells="none").tree)
    assert parse(json.dumps(as_file(placed(packing="worst_fit")))).packing is Packing.WORST_FIT


def test_classes_are_ranked_with_and_without_a_reserve() -> None:
    ranked = a_scenario(job("a1", "A", "0h", 2, "1h", "2h"), **CLASSES)
    found = {value: with_placement(ranked, {"classes": value}).policy for value in ("none", "pack", "reserve")}
    assert found["none"].class_order == ()
    assert (found["pack"].high_end_classes, found["pack"].high_end_reserve) == (("A100",), 0)
    assert found["reserve"].high_end_reserve == 8, "a node of the fastest"
    unranked = a_scenario(job("a1", "A", "0h", 2, "1h", "2h"), **{**CLASSES, "policy": {}})
    with pytest.raises(ScenarioError, match="classes=pack: classes: the scenario's policy must rank classes"):
        check(unranked, [read("classes=pack")])
    check(unranked, [read("classes=pack,class_order=A100/T4")])


def test_plain_schedulers_heed_packing_alone() -> None:
    base = a_scenario(job("a1", "A", "0h", 8, "1h", "2h"))
    check(base, [read("easy,packing=worst_fit")])
    with pytest.raises(ScenarioError, match="fifo,cells=shares: cells: only contracts heed it, and fifo decides here"):
        check(base, [read("fifo,cells=shares")])


@pytest.mark.parametrize("scheduler", ["contracts", "fifo"])
@pytest.mark.parametrize(
    ("packing", "node", "packed"), [("best_fit", "h2", 6 / 8), ("first_fit", "h1", 6 / 16), ("worst_fit", "h1", 6 / 16)]
)
def test_packing_decides_on_the_node_and_is_measured(scheduler: str, packing: str, node: str, packed: float) -> None:
    base = a_scenario(
        job("a1", "A", "0h", 4, "4h", "4h", node="h2"),
        job("a2", "A", "1m", 2, "4h", "4h"),
        cluster={"nodes": {"h1": 8, "h2": 8}},
        until="3h",
    )
    name = f"{scheduler},packing={packing}"
    outcome = simulate(under(base, read(name)))
    assert list(outcome.runs[1].holdings) == [node]
    found = run(base, read(name))
    assert found["packed"] == pytest.approx(packed)
    assert found["pieces"] == pytest.approx(1.0 if node == "h1" else 2 / 10)


def test_spreading_is_measured_with_its_price() -> None:
    nodes = {"nodes": dict.fromkeys(("h1", "h2", "h3", "h4"), 4)}
    held = [job(f"a{name}", "A", "0h", 2, "8h", "8h", node=name) for name in nodes["nodes"]]
    gang = job("b1", "B", "1m", 8, "1h", "3h")
    found = {level: measures(f"locality={level}", *held, gang, cluster=nodes, until="6h") for level in "12"}
    assert (found["1"]["spread"], found["1"]["price"]) == (0.0, 1.0), "it waits for whole nodes"
    assert found["2"]["spread"] == pytest.approx(1 / 5)
    hours, price = 3, 0.4366 / 0.4094
    whole = 4 * 2 * 6 + 8 * hours * price
    assert found["2"]["price"] == pytest.approx(whole / (4 * 2 * 6 + 8 * hours), rel=1e-3)


# --- measures ---------------------------------------------------------------------------------------------------------


def measures(scheduler: str, *workloads: dict[str, Any], **more: Any) -> Measures:
    found = run(a_scenario(*workloads, **more), read(scheduler))
    assert list(found) == [each.name for each in MEASURES] or set(found) == {each.name for each in MEASURES}
    return found


def test_who_never_started_has_waited_so_far() -> None:
    found = measures("fifo", job("a1", "A", "0h", 8, "8h", "9h"), job("b1", "B", "1h", 8, "1h", "1h"), until="5h")
    assert (found["wait_mean_s"], found["wait_p90_s"]) == (2 * HOUR_S, 4 * HOUR_S)
    assert found["large_p90_s"] == 4 * HOUR_S
    assert found["debug_p90_s"] is None
    assert (found["finished"], found["occupancy"]) == (0, 1.0)


def test_work_that_is_done_again_is_lost() -> None:
    first = job("a1", "A", "0h", 8, "1h", "3h", restart_cost="30m", startup="5m")
    other = job("b1", "B", "0h", 8, "1h", "1h")
    found = measures("contracts", first, other, policy={"grace_s": 0})
    assert found["preemptions"] == 1
    assert found["lost_gpu_h"] == pytest.approx(8 * 35 / 60), "half an hour repeated, five minutes of a second start"
    gone = measures("contracts", {**first, "resumable": False}, other, policy={"grace_s": 0})
    assert gone["lost_gpu_h"] == pytest.approx(8 * 1.0), "all of its first hour"
    assert measures("fifo", first, other)["lost_gpu_h"] == 0


def test_the_largest_gang_is_looked_for_every_hour() -> None:
    nodes = {"nodes": {"h1": 8, "h2": 8}}
    held = job("a1", "A", "0h", 2, "3h", "3h", node="h1")
    found = measures("contracts", held, cluster=nodes, until="4h")
    assert found["largest"] == pytest.approx((8 + 8 + 16 + 16) / 4 / 16), "its contract ends at the third look"
    assert found["usable"] == pytest.approx((8 / 14 + 8 / 14 + 1 + 1) / 4)


def test_the_model_of_spread_goes_through_what_was_measured() -> None:
    assert [locality.utilization(servers) for servers in (2, 4, 8, 64)] == [0.4366, 0.4094, 0.2856, 0.2856]
    assert 0.4094 < locality.utilization(3) < 0.4366
    nodes = {"nodes": {"h1": 8, "h2": 8, "h3": 8, "h4": 8}}
    two = job("a1", "A", "0h", 16, "1h", "3h")
    four = job("b1", "B", "3h", 32, "1h", "1h")
    one = job("b2", "B", "0h", 8, "1h", "1h")
    found = measures("contracts", two, four, one, cluster=nodes)["utilization"]
    assert found == pytest.approx((16 * 3 * 0.4366 + 32 * 0.4094) / (16 * 3 + 32)), (
        "what is on one node is not modelled"
    )


def test_a_counted_trace_has_what_it_can_have() -> None:
    jobs = [CountedJob("a", 0, 100, 4_000), CountedJob("b", 0, 50, 4_000)]
    found = measure_counted(jobs, replay(jobs, 4_000, "sjf"), 4_000)
    assert (found["wait_mean_s"], found["completion_mean_s"], found["occupancy"]) == (25, 100, 1.0)
    assert found["delivery"] is None


def test_prediction_goes_by_what_has_ended() -> None:
    jobs = [
        CountedJob("a", 0, 1_000, 1_000, group="long"),
        CountedJob("b", 1, 10, 1_000, group="short"),
        CountedJob("c", 1_005, 50, 1_000),
        CountedJob("d", 1_020, 1_000, 1_000, group="long"),
        CountedJob("e", 1_021, 10, 1_000, group="short"),
    ]
    ends = [stay.end_s for stay in replay(jobs, 1_000, "sjf-predicted")]
    assert ends == [1_000, 1_010, 1_060, 2_070, 1_070], "a and b teach that e is shorter than d"


# --- the same work again ----------------------------------------------------------------------------------------------


def trace(instants_s: list[int]) -> Scenario:
    rows = [job(f"w{place}", "A", at_s, 1, "0s", "1h") for place, at_s in enumerate(instants_s)]  # type: ignore[arg-type]
    return a_scenario(*rows, events=[{"at": instants_s[0] + 60, "cancel": "w0"}])


@given(st.lists(st.integers(0, 4 * DAY_S), min_size=1, max_size=60), st.integers(0, 1_000))
def test_arrivals_are_drawn_from_blocks_of_the_same_time_of_day(others_s: list[int], seed: int) -> None:
    base = trace([0, *others_s, 4 * DAY_S])
    assert can_be_resampled(base)
    drawn = resampled(base, Random(seed))
    assert drawn == resampled(base, Random(seed))
    was = {job.id: job.submit_s or 0 for job in base.jobs}
    assert len({job.id for job in drawn.jobs}) == len(drawn.jobs)
    whole = Counter(at_s // BLOCK_S for at_s in was.values())
    taken: dict[int, set[int]] = {}
    for each in drawn.jobs:
        later_s = (each.submit_s or 0) - was[each.id.partition("~")[0]]
        assert later_s % DAY_S == 0
        block = (each.submit_s or 0) // BLOCK_S
        taken.setdefault(block, set()).add(block - later_s // BLOCK_S)
    for block, sources in taken.items():
        assert len(sources) == 1, "a block is filled from one"
        number = sum((each.submit_s or 0) // BLOCK_S == block for each in drawn.jobs)
        assert number == whole[sources.pop()]
    cancelled = {event.subject: event.at_s for event in drawn.events}
    copies = {each.id: each.submit_s or 0 for each in drawn.jobs if each.id.partition("~")[0] == "w0"}
    assert cancelled == {name: at_s + 60 for name, at_s in copies.items()}


def test_what_does_not_arrive_by_the_clock_is_moved_instead() -> None:
    short = trace([0, DAY_S])
    assert (how_again(short, 1), how_again(short, 2)) == (Again.ALONE, Again.MOVED)
    assert how_again(trace([0, 3 * DAY_S]), 2) is Again.DRAWN
    loop = a_scenario(
        job("a1", "A", "0h", 1, "0s", "1h"),
        job("a2", "A", "", 1, "0s", "1h", after="a1"),
        job("a3", "A", "3d", 1, "0s", "1h"),
    )
    assert how_again(loop, 2) is Again.MOVED
    moved = again(loop, Again.MOVED, Random(2))
    assert [each.id for each in moved.jobs] == ["a1", "a2", "a3"]
    assert again(loop, Again.MOVED, None) == loop


def test_a_trace_is_drawn_likewise() -> None:
    jobs = [CountedJob(str(place), place * HOUR_S, 60, 1_000) for place in range(72)]
    drawn = resampled_counted(jobs, Random(1))
    assert [each.submit_s for each in drawn] == [each.submit_s for each in jobs], "every block has six"
    assert len({each.id for each in drawn}) == 72
    assert drawn != jobs


# --- intervals --------------------------------------------------------------------------------------------------------


def test_students_t_is_as_tables_have_it() -> None:
    for degrees, known in ((1, 12.706), (4, 2.776), (30, 2.042), (40, 2.021), (60, 2.000), (120, 1.980)):
        assert t_975(degrees) == pytest.approx(known, abs=1e-3)


def test_a_mean_over_seeds_has_students_interval() -> None:
    values = [4.0, 6.0, 5.0, 7.0, 8.0]
    found = interval(values, Again.INVENTED)
    assert found is not None
    half = 2.776 * stdev(values) / 5**0.5
    assert (found.value, found.runs) == (6.0, 5)
    assert [found.low, found.high] == pytest.approx([6 - half, 6 + half])
    assert interval([3.0], Again.ALONE) == (3.0, None, None, 1)
    assert interval([None, None], Again.MOVED) is None
    assert interval([None, 2.0, 4.0], Again.MOVED) == pytest.approx((3.0, 3 - 12.706, 3 + 12.706, 2))


def test_a_history_drawn_anew_keeps_its_own_estimate_and_does_not_get_surer_than_it_is() -> None:
    few = interval([10.0, 8.0, 12.0, 9.0, 11.0], Again.DRAWN)
    many = interval([10.0, *([8.0, 12.0, 9.0, 11.0] * 10)], Again.DRAWN)
    assert few is not None
    assert many is not None
    assert few.value == many.value == 10.0
    assert few.low is not None
    assert many.low is not None
    spread = stdev([8.0, 12.0, 9.0, 11.0] * 10)
    assert 10 - many.low == pytest.approx(t_975(39) * spread)
    assert 10 - few.low > 10 - many.low > 1.9 * spread
    assert interval([10.0, 8.0], Again.DRAWN) == (10.0, None, None, 2), "one drawn history has no spread"


def test_differences_are_taken_seed_by_seed() -> None:
    base, other = [10.0, 20.0, 30.0], [11.0, 21.5, 30.5]
    apart = difference(other, base, Again.INVENTED)
    assert apart is not None
    assert apart.value == pytest.approx(1.0)
    assert apart.low is not None
    assert apart.low == pytest.approx(1 - 4.303 * 0.5 / 3**0.5)
    alone = interval(other, Again.INVENTED)
    assert alone is not None
    assert alone.low is not None
    assert alone.value - alone.low > 20, "the seeds differ by far more than the policies do"


def test_a_table_has_a_line_for_each_policy_and_waits_for_runs() -> None:
    one: Measures = dict.fromkeys((each.name for each in MEASURES), 1.0)
    lines = table([[one, one], [{**one, "rho_max": 3.0}, None]], Again.INVENTED)
    rho = lines[1]["rho_max"]
    assert rho is not None
    assert (rho["value"], rho["runs"], rho["difference"]["value"]) == (3.0, 1, 2.0)
    first = lines[0]["rho_max"]
    assert first is not None
    assert (first["difference"], first["low"]) == (None, 1.0)


def test_runs_that_were_stored_before_a_measure_was_known_go_without_it() -> None:
    one: Measures = {each.name: 1.0 for each in MEASURES if each.name != "packed"}
    lines = table([[one, one], [one, one]], Again.INVENTED)
    assert lines[0]["packed"] is None
    assert lines[0]["price"] is not None


def test_the_page_draws_and_lists_what_the_table_has() -> None:
    first: Measures = dict.fromkeys((each.name for each in MEASURES), 2.0)
    second: Measures = {**first, "wait_mean_s": 90.0, "occupancy": 3.0, "rho_max": None}
    lines = table([[first, first], [second, second]], Again.INVENTED)
    page = comparison_page("Work <1>; seeds 1, 2.", ["contracts", "fifo"], lines, {"occupancy": 0.5})
    assert "Work &lt;1&gt;; seeds 1, 2." in page
    assert page.count("<svg") == len(MEASURES)
    waits = page[page.index("<h2>Waits") : page.index("<h2>Completion")]
    assert 'class="at base"' in waits
    assert 'class="at bad"' in waits, "fifo's mean wait is clearly longer"
    assert '1 min 30 s ± 0 s<small><span class="bad">+1 min 28 s ± 0 s, worse</span></small>' in waits
    assert 'class="at good"' in page[page.index("<h2>Use") :]
    assert 'class="real"' in page
    assert "src=" not in page
    assert "http" not in page, "the file needs nothing else"
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Three days on which every four hours somebody of A, then of B, asks for a whole node for one to four hours."""
    rows = [
        job(f"{team}{place}", team.upper(), f"{4 * place + late}h", 8, "1h", f"{1 + place % 4}h")
        for place in range(18)
        for team, late in (("a", 0), ("b", 1))
    ]
    path = tmp_path / "days.json"
    path.write_text(json.dumps({"cluster": {"nodes": {"h1": 8}}, "tree": {"A": 1, "B": 1}, "workloads": rows}))
    return path


def compare(*argv: str) -> str:
    out = StringIO()
    call_command("compare", *argv, stdout=out)
    return out.getvalue()


def test_policies_on_a_file_drawn_anew(days: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "out.csv", tmp_path / "out.html"
    printed = compare(
        str(days), "--policy", "contracts", "--policy", "fifo,packing=worst_fit", "--seeds", "1-3", "--json",
        "--csv", str(out), "--html", str(page),
    )  # fmt: skip
    assert page.read_text().startswith("<!doctype html>")
    found = json.loads(printed)
    assert (found["again"], found["seeds"], found["real"]) == ("drawn", [1, 2, 3], None)
    assert [policy["name"] for policy in found["policies"]] == ["contracts", "fifo,packing=worst_fit"]
    assert found["policies"][1]["placement"] == {"packing": "worst_fit"}
    contracts, fifo = (policy["measures"] for policy in found["policies"])
    by_hand = run(parse(days.read_text()), read("fifo"))
    assert fifo["wait_mean_s"]["value"] == by_hand["wait_mean_s"], "the estimate is what the file itself came to"
    assert found["policies"][1]["runs"][0] == by_hand
    apart = fifo["wait_mean_s"]["difference"]
    assert apart["value"] == pytest.approx(fifo["wait_mean_s"]["value"] - contracts["wait_mean_s"]["value"])
    assert apart["low"] < apart["value"] < apart["high"]
    rows = list(csv.DictReader(out.open()))
    (row,) = (row for row in rows if (row["policy"], row["figure"]) == ("fifo,packing=worst_fit", "wait_mean_s"))
    assert float(row["difference_high"]) == apart["high"]
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 6
    assert told[-1].startswith("6 of 6: seed ")


def test_a_table_for_people(days: Path) -> None:
    lines = compare(str(days), "--policy", "contracts", "--policy", "fifo", "--seeds", "1").splitlines()
    assert lines[0].endswith("seed 1: one history, no intervals.")
    place = lines.index("wait, mean; less is better")
    assert lines[place + 1].split()[0] == "contracts"
    assert lines[place + 2].split()[0] == "fifo"
    assert "±" not in "".join(lines)


def test_laboratories_are_others_with_each_seed() -> None:
    found = json.loads(compare("--days", "1", "--gpus", "64", "--policy", "fifo-skip", "--seeds", "3,5", "--json"))
    assert (found["again"], found["seeds"]) == ("invented", [3, 5])
    one, other = found["policies"][0]["runs"]
    assert one["wait_mean_s"] != other["wait_mean_s"]
    assert found["policies"][0]["measures"]["wait_mean_s"]["value"] == pytest.approx(
        fmean([one["wait_mean_s"], other["wait_mean_s"]])
    )


@pytest.fixture
def jobs_csv(tmp_path: Path) -> Path:
    rows = [
        f"j{place},{place * HOUR_S},{600 + place * 37 % 5_000},{1 + place % 8},vc{place % 2}" for place in range(72)
    ]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(["job_id,submit_time,duration,num_gpus,vc", *rows, ""]))
    return path


def test_a_trace_on_nodes_and_counted(jobs_csv: Path) -> None:
    on_nodes = json.loads(compare("--trace", str(jobs_csv), "--gpus", "8", "--seeds", "1", "--json"))
    assert [policy["name"] for policy in on_nodes["policies"]] == ["contracts", "fifo-skip"]
    assert on_nodes["policies"][0]["measures"]["finished"]["value"] == 72
    argv = ("--trace", str(jobs_csv), "--gpus", "8", "--placement", "count", "--policy", "all", "--seeds", "1-3")
    counted = json.loads(compare(*argv, "--json"))
    names = [policy["name"] for policy in counted["policies"]]
    assert names == [name for name in COUNTING_SCHEDULERS if name != "sjf-requested"], "the trace has no estimates"
    assert counted["again"] == "drawn"
    assert all(policy["measures"]["completion_mean_s"]["runs"] == 3 for policy in counted["policies"])


Argv = Callable[[Path, Path], tuple[str, ...]]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("{days}", "--policy", "lifo"), "--policy: lifo: there is no scheduler 'lifo'"),
        (("{days}", "--policy", "fifo", "--policy", "fifo"), "--policy: fifo: is there twice"),
        (("{days}", "--policy", "leaf_order=best"), "--policy: leaf_order=best: policy.leaf_order: must be one of"),
        (("{days}", "--seeds", "0-"), "--seeds: must be numbers and ranges"),
        (("{days}", "--policy", "all", "--seeds", "1-100"), "seeds are more than 400 runs"),
        (("{days}", "--policy", "classes=pack"), "--policy: classes=pack: classes: the scenario's policy must rank"),
        (("{days}", "--html", "/nowhere/x.html"), "/nowhere/x.html: cannot be written: No such file or directory"),
        (("{days}", "--gpus", "64"), "--gpus: does not belong to a scenario"),
        (("{days}", "--processes", "0"), "--processes: must be from 1 to 64, but is 0"),
        (("{days}", "--trace", "{csv}"), "FILE: or --trace: only one of both can be compared on"),
        (("--days", "1", "--gpus", "60"), "--gpus: must be a multiple of 8 from 64 to 100,000, but is 60"),
        (("--add", "{days}"), "--add: does not belong to invented laboratories, and no FILE"),
        (("--placement", "count"), "--placement: does not belong to invented laboratories"),
        (("--trace", "{csv}"), "--gpus: is missing: how many there are for the trace"),
        (("--trace", "{csv}", "--gpus", "9"), "--gpus: must be a multiple of 8 on nodes, but is 9"),
        (("--trace", "{csv}", "--gpus", "4", "--placement", "count"), "asks for 8 GPUs, there are 4"),
        (
            ("--trace", "{csv}", "--gpus", "8", "--placement", "count", "--policy", "contracts"),
            "--policy: must be one of fifo, fifo-skip,",
        ),
        (
            ("--trace", "{csv}", "--gpus", "8", "--placement", "count", "--policy", "sjf-requested"),
            "has no requested time to go by",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_run(
    days: Path, jobs_csv: Path, argv: tuple[str, ...], line: str
) -> None:
    given_argv = [each.format(days=days, csv=jobs_csv) for each in argv]
    with pytest.raises(CommandError) as caught:
        compare(*given_argv)
    assert line in str(caught.value)


def test_a_fault_is_one_line_at_a_terminal(tmp_path: Path) -> None:
    gone = tmp_path / "none.json"
    assert_refused(manage("compare", str(gone)), f"compare: {gone}: cannot be read: No such file or directory")
