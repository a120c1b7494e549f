"""The studies: samples of a cluster, what strategies do, what counts as useful, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.core.management import call_command

from scheduler.engine import Packing
from scheduler.simulator import Scenario, ScenarioError, as_json, parse, simulate
from scheduler.simulator.sampled import Sample, SampledWorld
from scheduler.simulator.scenario import Job
from scheduler.simulator.study import charts, fragmentation, gaming, page, strategies

REPOSITORY = Path(__file__).resolve().parents[2]


def scenario(workloads: list[dict[str, Any]], **rest: Any) -> Scenario:
    """Each workload is in leaf A from 0 on, for an hour, unless it says otherwise."""
    rows = [{"leaf": "A", "submit": 0, "duration": "1h"} | row for row in workloads]
    return parse(
        json.dumps(
            {"cluster": {"nodes": {"h1": 4, "h2": 4}}, "tree": {"A": 1, "B": 1}, "workloads": rows, "until": "6h"}
            | rest
        )
    )


# --- fragmentation ----------------------------------------------------------------------------------------------------

HALF_FREE = [
    {"id": "protected", "gpus": 1, "min_runtime": "5h", "duration": "5h", "node": "h1"},
    {"id": "free", "gpus": 2, "duration": "5h", "node": "h2"},
]


def test_a_sample_says_what_is_free_interruptible_and_the_largest_gang() -> None:
    world = SampledWorld(scenario(HALF_FREE))
    world.run()
    assert world.samples[0] == Sample(
        at_s=3_600,
        fit_milli=8_000,
        free_milli=5_000,
        interruptible_milli=2_000,
        largest_free_milli=3_000,  # no node is whole: the most on one, h1
        largest_milli=4_000,  # h2, where "free" would be stopped
        pieces_milli=5_000,  # no node is empty
        held_milli=3_000,
        touched_milli=8_000,
    )
    assert [each.at_s for each in world.samples] == [3_600 * hour for hour in range(1, 7)]
    assert world.samples[-1][1:] == (8_000, 8_000, 0, 8_000, 8_000, 0, 0, 0)  # all has ended


def test_a_contract_that_is_over_is_interruptible() -> None:
    rows = [{"id": "a", "gpus": 4, "min_runtime": "1h", "duration": "3h"}]
    world = SampledWorld(scenario(rows))
    world.run()
    assert [each.interruptible_milli for each in world.samples] == [
        4_000,
        4_000,
        4_000,
        0,
        0,
        0,
    ]  # the last before it ends


def test_sampling_changes_nothing() -> None:
    rows = [
        {
            "id": f"w{index}",
            "gpus": 1 + index % 4,
            "submit": 700 * index,
            "min_runtime": 600 * (index % 3),
            "leaf": leaf,
        }
        for index, leaf in enumerate("ABABBAABBA")
    ]
    sampled = SampledWorld(scenario(rows))
    sampled.run()
    assert as_json(sampled.outcome) == as_json(simulate(scenario(rows), is_explained=False))


@pytest.mark.parametrize(
    ("packing", "nodes"),
    [(Packing.BEST_FIT, ["h2", "h2"]), (Packing.FIRST_FIT, ["h1", "h1"]), (Packing.WORST_FIT, ["h1", "h1"])],
)
def test_packing_chooses_the_node(packing: Packing, nodes: list[str]) -> None:
    rows = [
        {"id": "first", "gpus": 2, "node": "h2"},
        {"id": "one", "gpus": 1, "submit": 60},
        {"id": "two", "gpus": 1, "submit": 120},
    ]
    world = SampledWorld(replace(scenario(rows), packing=packing))
    world.run()
    assert [next(iter(record.runs[0].holdings)) for record in world.outcome.jobs[1:]] == nodes


def test_worst_fit_spreads() -> None:
    rows = [{"id": "one", "gpus": 1}, {"id": "two", "gpus": 1, "submit": 60}]
    world = SampledWorld(replace(scenario(rows), packing=Packing.WORST_FIT))
    world.run()
    assert [next(iter(record.runs[0].holdings)) for record in world.outcome.jobs] == ["h1", "h2"]


def test_large_gangs_that_never_start_wait_to_the_end() -> None:
    rows = [
        {"id": "long", "gpus": 8, "min_runtime": "8h", "duration": "8h"},
        {"id": "large", "gpus": 8, "min_runtime": "1h", "submit": "1h", "leaf": "B"},
        {"id": "unallocated", "gpus": 8, "submit": "1h"},
    ]
    assert fragmentation.large_waits_s(simulate(scenario(rows))) == [(0, True), (5 * 3_600, False)]


def test_each_factor_is_varied_by_itself() -> None:
    found = {
        (each.factor, each.value): fragmentation.varied(scenario(HALF_FREE), each) for each in fragmentation.variants()
    }
    assert found["max contract", "24 h"].policy.min_runtime_max_s == 86_400
    assert found["reservations", "16"].policy.reservations == 16
    assert found["packing", "worst fit"].policy == found["base", "as the scenario says"].policy
    assert len(found) == 16


def test_the_table_has_least_median_and_most() -> None:
    def found(wait_s: int | None) -> dict[str, Any]:
        return dict.fromkeys(fragmentation.TOLD, 0.5) | {"large_p90_s": wait_s, "large": 2, "large_unstarted": 1}

    lines = fragmentation.table([(fragmentation.BASE, found(wait_s)) for wait_s in (30, None, 10, 20)])
    assert len(lines) == 1
    assert lines[0]["large_p90_s"] == [10, 20, 30]
    assert (lines[0]["large"], lines[0]["large_unstarted"], lines[0]["scenarios"]) == (8, 4, 4)


# --- strategies -------------------------------------------------------------------------------------------------------


def job(name: str, **rest: Any) -> Job:
    return Job(**{"id": name, "leaf": "A", "size_milli": 1_000, "min_runtime_s": 600, "duration_s": 600} | rest)


WORLD = scenario([])


def test_splitting_makes_whole_devices_and_the_next_follows_the_last_piece() -> None:
    jobs = [job("a", size_milli=6_000), job("b", after="a", submit_s=None), job("half", size_milli=500)]
    found = strategies.split(jobs, WORLD)
    assert [(each.id, each.size_milli, each.after) for each in found] == [
        ("a/piece1", 2_000, None),
        ("a/piece2", 2_000, None),
        ("a/piece3", 1_000, None),
        ("a/piece4", 1_000, None),
        ("b", 1_000, "a/piece4"),
        ("half", 500, None),
    ]


def test_resubmitting_repeats_work_unless_it_was_saved() -> None:
    jobs = [job("a", duration_s=1_500, restart_cost_s=100, think_s=9), job("b", after="a", submit_s=None, think_s=7)]
    again = strategies.resubmit(jobs, WORLD)
    saved = strategies.resubmit_saved(jobs, WORLD)
    assert [(each.id, each.duration_s, each.submit_s, each.after, each.think_s) for each in again] == [
        ("a/again1", 600, 0, None, 9),
        ("a/again2", 600, None, "a/again1", 0),
        ("a/again3", 500, None, "a/again2", 0),
        ("b", 600, None, "a/again3", 7),
    ]
    assert [(each.id, each.duration_s) for each in saved] == [
        ("a/part1", 600),
        ("a/part2", 600),
        ("a/part3", 300),
        ("b", 600),
    ]


def test_contracts_that_a_restart_would_fill_are_not_resubmitted() -> None:
    jobs = [job("a", duration_s=1_500, restart_cost_s=300), job("free", min_runtime_s=0)]
    assert strategies.resubmit(jobs, WORLD) == jobs


def test_over_declaring_leaves_the_unallocated_alone() -> None:
    found = strategies.over_declare([job("a"), job("free", min_runtime_s=0)], WORLD)
    assert [each.min_runtime_s for each in found] == [28_800, 0]


def test_parking_adds_loops_of_no_ops() -> None:
    found = strategies.park([job("a")], WORLD)
    # A is entitled to 4 of 8 GPUs: one loop on one node, and 6 h are within one contract
    assert [each.id for each in found] == ["a", "no-op-0-0"]
    assert (found[1].priority, found[1].size_milli, found[1].is_resumable) == (-1, 4_000, False)


# --- the twin ---------------------------------------------------------------------------------------------------------

TEAMS = {"A": {"shares": 3, "children": {"A1": 1, "A2": 2}}, "B": 5}
PLAY = [
    {"id": "a1", "leaf": "A1", "gpus": 2, "min_runtime": "30m", "duration": "2h"},
    {"id": "a2", "leaf": "A2", "gpus": 2, "min_runtime": "30m", "duration": "2h", "submit": "10m"},
    {"id": "b", "leaf": "B", "gpus": 4, "min_runtime": "30m", "duration": "1h", "submit": "20m"},
]


def test_the_twin_has_equal_shares_and_submits_the_same() -> None:
    follower = {"id": "a3", "leaf": "A1", "gpus": 1, "duration": "1h", "after": "a1", "think": "5m"}
    base = parse(
        json.dumps(
            {
                "cluster": {"nodes": {"h1": 8}},
                "tree": TEAMS,
                "workloads": [{"submit": 0} | row for row in PLAY] + [follower],
            }
        )
    )
    found = gaming.with_twin(base, "A", gaming.HONEST, demand=2)
    assert {node.id: (node.parent, node.shares, node.whole) for node in found.tree} == {
        "": (None, 0, 0),
        "A": ("", 3, 11),
        "A1": ("A", 1, 3),
        "A2": ("A", 2, 3),
        "B": ("", 5, 11),
        "A-twin": ("", 3, 11),
        "A1-twin": ("A-twin", 1, 3),
        "A2-twin": ("A-twin", 2, 3),
    } | {"": next((node.parent, node.shares, node.whole) for node in base.tree if node.id == "")}
    afters = {each.id: (each.leaf, each.after) for each in found.jobs}
    assert afters == {
        "b": ("B", None),
        "a1": ("A1", None),
        "a2": ("A2", None),
        "a3": ("A1", "a1"),
        "a1-copy2": ("A1", None),
        "a2-copy2": ("A2", None),
        "a3-copy2": ("A1", "a1-copy2"),
        "a1-twin": ("A1-twin", None),
        "a2-twin": ("A2-twin", None),
        "a3-twin": ("A1-twin", "a1-twin"),
        "a1-copy2-twin": ("A1-twin", None),
        "a2-copy2-twin": ("A2-twin", None),
        "a3-copy2-twin": ("A1-twin", "a1-copy2-twin"),
    }


def test_the_middle_team_is_the_one_of_median_entitlement() -> None:
    rows = [{"id": name, "leaf": name, "gpus": 1} for name in "ABC"]
    assert gaming.middle_team(scenario(rows, tree={"A": 9, "B": 1, "C": 4, "idle": 3})) == "C"


def test_one_team_alone_has_no_twin_to_be_compared_with() -> None:
    with pytest.raises(ScenarioError, match="two teams or more"):
        gaming.middle_team(scenario([{"id": "a", "gpus": 1}]))


def test_useful_is_progress_without_startups_repetition_and_no_ops() -> None:
    rows = [
        # preempted at 1 h with 55 min done, goes on at 2 h, and repeats 10 min of it
        {"id": "a", "gpus": 8, "startup": "5m", "restart_cost": "10m", "duration": "4h"},
        {"id": "b", "leaf": "B", "gpus": 8, "min_runtime": "1h", "submit": "1h"},
        {"id": "no-op-1", "gpus": 8, "min_runtime": "1h", "submit": "3h"},
    ]
    outcome = simulate(scenario(rows, until="3h"))
    # from 2 h 05 min to 3 h
    assert gaming.useful_milli_s(outcome, "A") == 8_000 * ((55 - 10) + 55) * 60
    assert gaming.useful_milli_s(outcome, "B") == 8_000 * 3_600
    assert gaming.charged_milli_s(outcome, "A") == 0
    parked = simulate(scenario(rows[2:], until="5h"))
    assert gaming.useful_milli_s(parked, "A") == 0
    assert gaming.charged_milli_s(parked, "A") == 8_000 * 3_600


def test_a_part_that_repeats_work_is_useful_without_it() -> None:
    row = {"id": "a", "gpus": 1, "min_runtime": "1h", "duration": "2h", "restart_cost": "10m"}
    base = scenario([row])
    jobs = strategies.resubmit(base.jobs, base)
    again = Scenario(**{name: getattr(base, name) for name in base.__slots__} | {"jobs": jobs})
    assert gaming.useful_milli_s(simulate(again), "A") == 1_000 * 2 * 3_600
    assert gaming.charged_milli_s(simulate(again), "A") == 1_000 * (2 * 3_600 + 2 * 600)  # three parts


def test_who_inflates_priority_gains_nothing() -> None:
    base = scenario([{"submit": 0} | row for row in PLAY], tree=TEAMS, cluster={"nodes": {"h1": 4}}, until="8h")
    inflate = next(each for each in gaming.STRATEGIES if each.name == "inflate")
    assert gaming.play(base, "A", inflate, demand=2) == gaming.play(base, "A", gaming.HONEST, demand=2)


def test_a_gain_is_told_beside_the_luck_of_honest_twins() -> None:
    split = gaming.STRATEGIES[0]

    def played(useful: float, twin: float) -> dict[str, float]:
        return {"useful_gpu_h": useful, "twin_useful_gpu_h": twin, "charged_gpu_h": 1.0, "twin_charged_gpu_h": 1.0}

    lines = gaming.table(
        [(1, gaming.HONEST, played(110, 100)), (1, split, played(121, 100)), (2, gaming.HONEST, played(100, 100)),
         (2, split, played(99, 100)), (3, gaming.HONEST, played(100, 100)), (3, split, played(105, 100))]
    )  # fmt: skip
    assert [line["strategy"] for line in lines] == ["honest", "split"]
    assert lines[0]["gain"] == [0, 0, 0]
    assert lines[1]["gain"] == pytest.approx([-0.01, 0.05, 0.1])
    assert lines[1]["over_itself"] == pytest.approx([-0.01, 0.05, 0.1])
    assert gaming.verdict(lines[1]).startswith(
        "It gains more than 1% (+5.0% in the median, from -1.0% to +10.0%): small"
    )
    assert split.stop in gaming.verdict(lines[1])
    assert gaming.verdict(lines[1] | {"gain": [-0.5, 0.0, 0.01]}) == "It gains at most 1% with every seed."


# --- plots ------------------------------------------------------------------------------------------------------------


def test_lines_are_drawn_to_scale() -> None:
    drawn = charts.lines(
        "x", [charts.Series("a < b", "a", [(0, 0), (10, 4)])], lambda x: f"{x:g} d", lambda y: f"{y:g}"
    )
    svg = ElementTree.fromstring(f"<figure>{drawn}</figure>")
    path = next(each for each in svg.iter("path") if "line" in each.attrib["class"])
    assert (
        path.attrib["d"]
        == f"M{charts.LEFT}.0 {charts.TOP + charts.PLOT_HEIGHT}.0L{charts.WIDTH - charts.RIGHT}.0 {charts.TOP}.0"
    )
    assert [each.text for each in svg.iter("text")][:5] == ["0", "1", "2", "3", "4"]
    assert next(svg.iter("li")).itertext().__next__() == "a < b"


def test_spreads_mark_the_median_between_least_and_most() -> None:
    rows = [charts.Spread("one", [-1.0, 0.0, 1.0]), charts.Spread("none", None)]
    svg = ElementTree.fromstring(f"<figure>{charts.spreads('x', rows, lambda value: f'{value:g}', (-1, 1))}</figure>")
    dots = list(svg.iter("circle"))
    band = next(svg.iter("rect"))
    assert len(dots) == 1
    assert float(dots[0].attrib["cx"]) == pytest.approx(float(band.attrib["x"]) + float(band.attrib["width"]) / 2)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    rows = [
        {"id": f"w{index}", "leaf": "AB"[index % 2], "gpus": 1 + index % 4, "submit": 900 * index, "min_runtime": "30m",
         "duration": "90m"}
        for index in range(12)
    ]  # fmt: skip
    file = tmp_path / "small.json"
    file.write_text(
        json.dumps(
            {"name": "small", "cluster": {"nodes": {"h1": 4, "h2": 4}}, "tree": {"A": 1, "B": 1}, "workloads": rows,
             "until": "8h"}
        )
    )  # fmt: skip
    return file


def test_the_study_of_gaming(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("study", "gaming", str(small), "--seeds", "1-2", "--html", str(tmp_path / "out.html"), "--json")
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [each["demand"] for each in found["demands"]] == [1, 3]
    names = [row["strategy"] for row in found["demands"][1]["rows"]]
    assert names == ["honest", *(each.name for each in gaming.STRATEGIES)]
    assert all(
        row["gain"] == [0, 0, 0] for each in found["demands"] for row in each["rows"] if row["strategy"] == "inflate"
    )
    assert said.err.endswith(f"{2 * 2 * len(names)} of {2 * 2 * len(names)} runs\n")
    html = (tmp_path / "out.html").read_text()
    assert html.count("<svg") == 2
    assert "http" not in html
    assert "<script" not in html


def test_the_study_of_fragmentation(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("study", "fragmentation", str(small), "--seeds", "1", "--html", str(tmp_path / "out.html"))
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "small; seed 1, from the second on jittered."
    assert [line.split("  ")[1] for line in said.splitlines()[2:]] == [
        row[0]
        for row in [
            [each.value if each.factor == "base" else f"{each.factor} {each.value}"]
            for each in fragmentation.variants()
        ]
    ]
    html = (tmp_path / "out.html").read_text()
    assert html.count("<svg") == 7
    assert "http" not in html


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fragmentation", "--gpus", "7"], "--gpus: must be a multiple of 8 from 64 to 100,000, but is 7"),
        (["gaming", "FILE", "--days", "3"], "--days: belongs to an invented laboratory, and a FILE is given"),
        (["gaming", "--demand", "0"], '--demand: must be numbers from 1 to 10 such as "1,3", but is "0"'),
        (["gaming", "FILE", "--team", "X"], "--team: there is no team 'X' below the root"),
        (["fragmentation", "FILE", "--team", "A"], "--team: belongs to the study of gaming"),
        (["gaming", "FILE", "--processes", "0"], "--processes: must be from 1 to 64, but is 0"),
        (["gaming", "--seeds", "a"], '--seeds: must be numbers and ranges such as "1-5" or "1,3,8", but is "a"'),
        (["gaming", "FILE", "--max-contract", "99d"], "--max-contract: must be from 1 h to 24 h"),
        (["fragmentation", "FILE", "--restart-cost", "1m"], "--restart-cost: belongs to the study of gaming"),
        (["gaming", "nowhere.json"], "nowhere.json: cannot be read: No such file or directory"),
        (["gaming", "FILE", "--html", "/no/o.html"], "/no/o.html: cannot be written: No such file or directory"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line(small: Path, arguments: list[str], message: str) -> None:
    words = [str(small) if word == "FILE" else word for word in arguments]
    found = subprocess.run(
        [sys.executable, "manage.py", "study", *words, "--seeds=1"] if "--seeds" not in words
        else [sys.executable, "manage.py", "study", *words],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.splitlines()[-1] == f"study: {message}"


def test_pages_escape_what_they_are_given() -> None:
    lines = [{"strategy": "honest", "does": "<b>", "gain": None, "over_twin": None, "over_itself": None,
              "charged_over_twin": None}]  # fmt: skip
    assert "<i>" not in page.gaming_page("<i>", {1: lines})
