"""GPU timelines: who is where on which device, cells that keep every second, and files that stand alone."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.simulator import parse, simulate
from scheduler.simulator.recorded import Recorded, RecordedNode, RecordedRun, RecordedWorkload, UnfitSpell, pack, unpack
from scheduler.simulator.timeline import (
    INSIDE,
    LEAVING,
    OVER,
    STARTING,
    TO_COME,
    UNALLOCATED,
    Bar,
    Part,
    Row,
    Shelf,
    Team,
    Timeline,
    of_recorded,
    parts_of,
    teams_of,
)
from scheduler.simulator.timeline_cells import (
    BARS_MAX,
    COLUMNS,
    GROUPS,
    MARKS_MAX,
    Held,
    View,
    bars_in,
    cells,
    grid_of,
    held_in,
    taken_in,
    whole,
)
from scheduler.simulator.timeline_figures import by_team, hours, percent, sum_of
from scheduler.simulator.timeline_page import Panel, embedded, html_file, svg_file
from scheduler.simulator.timeline_style import ROLES, TEAMS
from scheduler.simulator.timeline_svg import Look, draw_bars
from scheduler.simulator.timeline_words import duration_word, ticks_of
from tests.conftest import REPOSITORY

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Machines that do other things beside are slow."""
SVG = "{http://www.w3.org/2000/svg}"
SCENARIO = {
    "name": "two <teams>",
    "cluster": {"nodes": {"h1": 4, "h2": 4}},
    "tree": {"A": 1, "B": 1},
    "policy": {"grace_s": 60},
    "workloads": [
        {"id": "a1", "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "6h", "resumable": True},
        {"id": "b1", "leaf": "B", "submit": "30m", "gpus": 4, "min_runtime": "1h", "duration": "1h", "startup": "2m"},
        {"id": "b2", "leaf": "B", "submit": "40m", "gpus": 1, "min_runtime": 0, "duration": "1h"},
    ],
    "events": [{"at": "8h", "node": "h2", "maintenance": "1h"}],
    "until": "10h",
}


def timeline_of(scenario=None):
    recorded = unpack(pack(simulate(parse(json.dumps(SCENARIO if scenario is None else scenario)))))
    return of_recorded(recorded, *teams_of(recorded.parents)), recorded


def made(runs, nodes=4, size=8):
    """A timeline of runs given as (node, amount, start, contract end, told, end, is funded, leaf)."""
    names = [f"n{at}" for at in range(nodes)]
    leaves = sorted({run[-1] for run in runs} | {"A"})
    recorded = Recorded(
        end_s=100_000,
        nodes=[RecordedNode(name, size * 1_000, "r") for name in names],
        parents=dict.fromkeys(leaves),
        workloads=[
            RecordedWorkload(f"w{at}", run[-1], run[1], 0, 0, run[2], run[5], "x") for at, run in enumerate(runs)
        ],
        runs=[
            RecordedRun(at, start, start, contract, told, end, funded, "finished", None, {names[node]: amount})
            for at, (node, amount, start, contract, told, end, funded, _) in enumerate(runs)
        ],
        unfit=[],
    )
    return of_recorded(recorded, *teams_of(recorded.parents))


# --- devices ----------------------------------------------------------------------------------------------------------


def test_a_run_gets_the_lowest_neighbours_and_gives_them_back():
    shelf = Shelf(8_000)
    assert shelf.put(0, 10, 2_000) == [(0, 2_000)]
    assert shelf.put(0, 20, 2_000) == [(2_000, 2_000)]
    assert shelf.put(5, 30, 1_000) == [(4_000, 1_000)]
    assert shelf.put(10, 40, 3_000) == [(5_000, 3_000)]
    assert shelf.put(10, 40, 2_000) == [(0, 2_000)]
    assert shelf.put(30, 40, 3_000) == [(2_000, 3_000)]


def test_parts_of_one_device_lie_beside_each_other_and_fill_gaps():
    shelf = Shelf(1_000)
    assert shelf.put(0, 10, 250) == [(0, 250)]
    assert shelf.put(0, 99, 500) == [(250, 500)]
    assert shelf.put(10, 99, 400) == [(0, 250), (750, 150)]
    with pytest.raises(ValueError, match="200 thousandths are not free"):
        shelf.put(10, 99, 200)


@UNHURRIED
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 30), st.sampled_from([250, 500, 1_000, 2_000, 4_000])), max_size=20
    )
)
def test_no_two_runs_are_drawn_on_one_place(asked):
    shelf, held = Shelf(4_000), []
    for start, length, amount in sorted(asked):
        try:
            places = shelf.put(start, start + length, amount)
        except ValueError:
            continue
        assert sum(size for _, size in places) == amount
        for low, size in places:
            assert all(
                low + size <= other or other + other_size <= low for other, other_size, end in held if end > start
            )
        held += [(low, size, start + length) for low, size in places]


# --- a bar's life -----------------------------------------------------------------------------------------------------


def test_the_parts_of_a_run_that_was_preempted():
    timeline, _ = timeline_of()
    first = next(bar for bar in timeline.bars if bar.workload == "a1")
    assert first.taker == "b1"
    assert list(parts_of(first, timeline.now_s)) == [Part(INSIDE, 0, 3_600)]
    slow = made([(0, 1_000, 0, 100, 150, 180, True, "A")]).bars[0]
    assert list(parts_of(slow, 999)) == [Part(INSIDE, 0, 100), Part(OVER, 100, 150), Part(LEAVING, 150, 180)]
    starting = next(bar for bar in timeline.bars if bar.workload == "b1")
    assert next(parts_of(starting, timeline.now_s)) == Part(STARTING, starting.start_s, starting.start_s + 120)


def test_the_parts_of_runs_that_go_on():
    timeline = made([(0, 1_000, 10, 200, None, None, True, "A"), (0, 1_000, 20, None, None, None, False, "A")])
    funded, free = timeline.bars
    assert list(parts_of(funded, 100)) == [Part(INSIDE, 10, 100), Part(TO_COME, 100, 200)]
    assert list(parts_of(funded, 300)) == [Part(INSIDE, 10, 200), Part(OVER, 200, 300)]
    assert list(parts_of(free, 100)) == [Part(UNALLOCATED, 20, 100)]


def test_teams_are_the_deepest_level_that_has_a_hue_for_each():
    people = {f"p{team}{person}": f"t{team}" for team in range(15) for person in range(3)}
    teams, index = teams_of({**{f"t{team}": None for team in range(15)}, **people})
    assert teams == [Team(f"t{team}", f"t{team}", team + 1) for team in range(15)]
    assert index["p142"] == 14
    crowd, _ = teams_of({f"t{team}": None for team in range(20)})
    assert [team.colour for team in crowd[14:]] == [15, 16, 0, 0, 0, 0]


# --- cells ------------------------------------------------------------------------------------------------------------

RUN = st.tuples(
    st.integers(0, 3),
    st.just(1_000),
    st.integers(0, 80_000),
    st.integers(1, 9_000),
    st.integers(0, 9_000),
    st.booleans(),
)


@UNHURRIED
@given(st.lists(RUN, max_size=30), st.integers(0, 90_000), st.integers(60, 50_000))
def test_cells_keep_every_second_that_was_held(asked, from_s, span_s):
    runs = []
    busy = defaultdict(int)
    for node, amount, start, contract, more, funded in sorted(asked, key=lambda each: each[2]):
        if busy[node, start] > 7:
            continue
        busy[node, start] += 1
        end = start + contract + more
        runs.append((node, amount, start, start + contract if funded else None, None, end, funded, "A"))
    try:
        timeline = made(runs, size=64)
    except ValueError:
        return
    grid = grid_of(View(from_s, from_s + span_s, 0, 4))
    view = grid.view
    assert view.from_s <= from_s
    assert view.until_s >= from_s + span_s
    assert grid.columns <= COLUMNS + 1
    held = held_in(timeline.bars, grid, timeline.now_s)
    wanted = sum(
        bar.size_milli * max(0, min(bar.end_s, view.until_s) - max(bar.start_s, view.from_s)) for bar in timeline.bars
    )
    assert sum(each.milli_s for each in held) == wanted
    lines = by_team(timeline.teams, timeline.bars, view, timeline.now_s)
    assert sum(line.held_milli_s for line in lines) == wanted
    assert sum(line.interruptible_milli_s for line in lines) == sum(
        each.milli_s for each in held if each.kind in (OVER, UNALLOCATED)
    )


def test_lanes_divide_a_cell_as_it_was_held():
    grid = grid_of(View(0, 60, 0, 1))
    held = [Held(0, 0, 0, INSIDE, 60 * 3_000), Held(0, 0, 1, UNALLOCATED, 60 * 2_000)]
    found = cells(grid, held, {}, [8_000], 60)
    assert found.lanes == 8
    assert [(mark.lane, mark.team, mark.kind) for mark in found.marks] == [
        (0, 0, INSIDE), (1, 0, INSIDE), (2, 0, INSIDE), (3, 1, UNALLOCATED), (4, 1, UNALLOCATED),
    ]  # fmt: skip


def test_a_crowd_stays_within_the_marks():
    view = View(0, 30 * 86_400, 0, 128)
    grid = grid_of(view)
    assert (grid.groups, grid.per_group, grid.columns) == (GROUPS, 2, 60)
    held = [
        Held(group, column, (group + column * 7 + part) % 15, INSIDE, 4_000 * grid.column_s)
        for group in range(grid.groups)
        for column in range(grid.columns)
        for part in range(4)
    ]
    found = cells(grid, held, {}, [8_000] * 128, view.until_s)
    assert len(found.marks) <= MARKS_MAX


def test_what_was_preempted_is_counted_where_it_ended():
    timeline, _ = timeline_of()
    view = whole(timeline)
    grid = grid_of(view)
    assert sum(taken_in(bars_in(timeline, view), grid).values()) == 8_000


# --- files ------------------------------------------------------------------------------------------------------------


def panels():
    timeline, _ = timeline_of()
    other, _ = timeline_of({**SCENARIO, "policy": {"scheduler": "fifo"}})
    return [Panel("fifo", other, whole(other)), Panel("contracts", timeline, whole(timeline))]


def test_the_svg_stands_alone_and_shows_every_run():
    text = svg_file("two <teams>", panels())
    root = ElementTree.fromstring(text)
    titles = [each.text or "" for each in root.iter(f"{SVG}title")]
    assert titles[0] == "two <teams>"
    assert sum(title.startswith("a1, A\n") for title in titles) == 3  # once under fifo; preempted once under contracts
    assert any("preempted for b1" in title for title in titles)
    assert not re.search(r'(?:href|src)="(?!#)', text)
    assert "prefers-color-scheme:dark" in text


def test_the_page_stands_alone_and_holds_its_runs():
    shown = panels()
    text = html_file("two <teams>", shown, "begin();")
    assert "<title>two &lt;teams&gt;</title>" in text
    assert text.count("<figure data-panel=") == 2
    assert not re.search(r'(?:src|href)="(?!#)', text)
    data = json.loads(zlib.decompress(base64.b64decode(embedded(shown[1]))))
    bars = shown[1].timeline.bars
    starts, at = [], 0
    for step in data["start"]:
        at += step
        starts.append(at)
    assert starts == [bar.start_s for bar in bars]
    assert [data["workloads"][name] for name in data["names"]] == [bar.workload for bar in bars]
    assert [None if each < 0 else data["workloads"][each] for each in data["taken"]] == [bar.taker for bar in bars]


def test_files_have_the_colours_of_the_pages():
    sheet = (REPOSITORY / "static" / "css" / "allotment.css").read_text(encoding="utf-8")
    for name, colours in ROLES.items():
        assert re.search(rf"--{name}:\s+light-dark\({colours[0]}, {colours[1]}\)", sheet), name
    for number, (light, on_light, dark, on_dark) in enumerate(TEAMS):
        assert (
            f"--team-{number}: light-dark({light}, {dark});  --on-{number}: light-dark({on_light}, {on_dark});" in sheet
        )


def test_the_sums_of_a_panel():
    timeline, _ = timeline_of()
    view = whole(timeline)
    total = sum_of(timeline, by_team(timeline.teams, timeline.bars, view, timeline.now_s), view)
    assert total.known_milli_s == 8_000 * 36_000
    assert (total.runs, total.taken) == (4, 1)
    assert [percent(1, 3), percent(0, 0), hours(5_400_000)] == ["33.3", "–", "2"]


def test_ticks_and_instants_in_the_words_of_scenario_files():
    assert [duration_word(at) for at in (0, 90, 129_600, -3_600)] == ["0", "1m30s", "1d12h", "−1h"]
    assert [tick.words for tick in ticks_of(0, 7 * 86_400, 8)] == ["0", "1d", "2d", "3d", "4d", "5d", "6d", "7d"]


def test_spells_of_unfit_nodes_are_drawn():
    timeline, recorded = timeline_of()
    assert recorded.unfit == [UnfitSpell("h2", 28_800, 32_400, "maintenance")]
    assert 'class="repair"' in svg_file("x", [Panel("contracts", timeline, whole(timeline))])


# --- the command ------------------------------------------------------------------------------------------------------


def command(*argv, given=SCENARIO):
    return subprocess.run(
        (sys.executable, "manage.py", "timeline", "-", *argv),
        input=json.dumps(given), capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip


def test_the_command_writes_both_kinds(tmp_path):
    for suffix in ("html", "svg"):
        out = tmp_path / f"out.{suffix}"
        done = command("--out", str(out), "--from", "30m", "--until", "3h", "--nodes", "h1:h1")
        assert (done.returncode, done.stderr) == (0, "")
        assert "runs: 3 under fifo, 4 under contracts" in done.stdout
        assert "contracts" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--out", "OUT.png"), "--out: must end in .html or .svg, and is 'OUT.png'"),
        (("--out", "OUT.svg", "--nodes", "h9"), "--nodes: there is no node 'h9'"),
        (("--out", "OUT.svg", "--nodes", "h2:h1"), "--nodes: 'h1' comes before 'h2'"),
        (
            ("--out", "OUT.svg", "--from", "99h"),
            "--from: nothing is between it and the end: the runs end at second 36,000",
        ),
        (("--out", "/nowhere/OUT.svg"), "/nowhere/OUT.svg: cannot be written: No such file or directory"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(argv, line):
    done = command(*argv)
    assert (done.returncode, done.stderr) == (2, f"timeline: {line}\n")


def test_bars_in_all_their_parts_stay_within_the_marks():
    rows = [Row(f"n{number:03}", 8_000, "r") for number in range(128)]
    teams = [Team(f"T{number}", f"T{number}", number % 9 + 1) for number in range(20)]
    bars = []
    for number in range(BARS_MAX):
        at, lane = number // 1_024 * 3_000, number // 128 % 8 * 1_000
        ends = (at, at + 60, at + 900, at + 1_900, at + 2_000)
        bars.append(Bar(number % 128, lane, 1_000, *ends, True, number % 20, number, f"w{number}", "preempted", "w1"))
    view = View(0, 10_000, 0, 128)
    svg = draw_bars(Timeline(rows, teams, bars, (), 10_000), bars, view, Look("a", 1_060.0, "x", [], str))
    assert BARS_MAX < len(re.findall(r"<(?:rect|line|use)\b|M-?[\d.]", svg)) <= 10_000
