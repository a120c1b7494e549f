"""Plain schedulers on a plain number of GPUs: others' figures, slow counterparts, and the command."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulator.attained import tiresias
from scheduler.simulator.counted import CannotReplay, CountedJob, Stay
from scheduler.simulator.counting import COUNTING_SCHEDULERS, replay
from scheduler.traces import counted

REPOSITORY = Path(__file__).resolve().parents[2]
SIXTY = "tiresias_60_job.csv"
TEAM = "philly_vc_103959.csv"
DAY = "philly_day_2017-10-16.csv"
PUBLISHED = {
    (SIXTY, 8): {"fifo": 1556.483, "fifo-skip": 715.267, "sjf": 693.983, "srtf": 519.867},
    (SIXTY, 16): {"fifo": 200.817, "fifo-skip": 190.683, "sjf": 192.150, "srtf": 192.117},
    (TEAM, 32): {
        "fifo": 97748.736,
        "fifo-skip": 62801.067,
        "sjf": 37627.172,
        "srtf": 33224.272,
        "tiresias-published": 43239.005,
    },
    (DAY, 128): {
        "fifo": 105926.589,
        "fifo-skip": 45522.209,
        "sjf": 21690.194,
        "srtf": 16608.771,
        "tiresias-published": 16566.425,
    },
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`manage.py simulate` as a process."""
    command = [sys.executable, "manage.py", "simulate", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)


def job(name: str, submit_s: int, duration_s: int, gpus: int, estimate_s: int | None = None) -> CountedJob:
    return CountedJob(name, submit_s, duration_s, gpus * 1_000, "", estimate_s)


def stays(jobs: list[CountedJob], gpus: int, scheduler: str) -> dict[str, tuple[int, int, int]]:
    found = replay(jobs, gpus * 1_000, scheduler)
    return {each.id: tuple(stay) for each, stay in zip(jobs, found, strict=True)}


# --- others' figures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gpus", "scheduler"), [(*key, scheduler) for key, row in PUBLISHED.items() for scheduler in row]
)
def test_mean_completion_time_of_public_simulators(shared: Path, name: str, gpus: int, scheduler: str) -> None:
    jobs = counted.read((shared / "traces" / name).read_text())
    found = replay(jobs, gpus * 1_000, scheduler)
    mean_s = sum(stay.end_s - each.submit_s for each, stay in zip(jobs, found, strict=True)) / len(jobs)
    assert round(mean_s, 3) == PUBLISHED[name, gpus][scheduler]


@pytest.mark.parametrize(("scheduler", "mean_wait_s"), [("fifo", 5579.96), ("sjf-requested", 3439.83)])
def test_mean_wait_of_a_log_with_estimates(shared: Path, scheduler: str, mean_wait_s: float) -> None:
    jobs = counted.read_any((shared / "traces" / "hpc2n.swf").read_text())
    found = replay(jobs, 240_000, scheduler)
    mean_s = sum(stay.start_s - each.submit_s for each, stay in zip(jobs, found, strict=True)) / len(jobs)
    assert int(mean_s * 100) / 100 == mean_wait_s


@pytest.mark.parametrize(("name", "gpus"), [(TEAM, 32), (DAY, 128)])
def test_the_right_rule_of_tiresias_moves_means_by_little(shared: Path, name: str, gpus: int) -> None:
    jobs = counted.read((shared / "traces" / name).read_text())
    right, published = (
        sum(stay.end_s - each.submit_s for each, stay in zip(jobs, replay(jobs, gpus * 1_000, scheduler), strict=True))
        for scheduler in ("tiresias", "tiresias-published")
    )
    assert 0 < abs(right - published) / published < 0.003


# --- each rule --------------------------------------------------------------------------------------------------------


def test_nobody_passes_the_head_of_the_line() -> None:
    jobs = [job("a", 0, 10, 3), job("b", 1, 10, 4), job("c", 2, 5, 1)]
    assert stays(jobs, 4, "fifo") == {"a": (0, 10, 0), "b": (10, 20, 0), "c": (20, 25, 0)}


def test_whoever_does_not_fit_is_passed() -> None:
    jobs = [job("a", 0, 10, 3), job("b", 1, 10, 4), job("c", 2, 5, 1)]
    assert stays(jobs, 4, "fifo-skip") == {"a": (0, 10, 0), "b": (10, 20, 0), "c": (2, 7, 0)}


def test_the_shortest_goes_first_and_ties_go_by_id() -> None:
    jobs = [job("a", 0, 10, 4), job("d", 1, 7, 4), job("c", 2, 5, 4), job("b", 3, 5, 4)]
    found = stays(jobs, 4, "sjf")
    assert found == {"a": (0, 10, 0), "b": (10, 15, 0), "c": (15, 20, 0), "d": (20, 27, 0)}


def test_by_requested_time_nobody_passes_the_shortest() -> None:
    jobs = [job("a", 0, 10, 3, 10), job("b", 1, 9, 2, 5), job("c", 2, 1, 1, 6)]
    found = stays(jobs, 4, "sjf-requested")
    assert found == {"a": (0, 10, 0), "b": (10, 19, 0), "c": (10, 11, 0)}


def test_without_a_requested_time_the_job_is_named() -> None:
    with pytest.raises(CannotReplay, match="job 'a' has no requested time"):
        replay([job("a", 0, 1, 1)], 1_000, "sjf-requested")


def test_whoever_has_less_left_preempts() -> None:
    jobs = [job("long", 0, 100, 4), job("short", 10, 20, 2)]
    assert stays(jobs, 4, "srtf") == {"long": (0, 120, 1), "short": (10, 30, 0)}


THREE = [job("J1", 0, 2, 2), job("J2", 0, 8, 1), job("J3", 0, 6, 2)]


@pytest.mark.parametrize(("limit_gpu_s", "ends_s"), [(4, (2, 12, 16)), (6, (2, 13, 16)), (8, (2, 10, 16))])
def test_attained_service_in_two_queues(limit_gpu_s: int, ends_s: tuple[int, ...]) -> None:
    assert tuple(stay.end_s for stay in tiresias(THREE, 2_000, (limit_gpu_s,))) == ends_s


def test_the_least_remaining_service_goes_first() -> None:
    assert [stay.end_s for stay in replay(THREE, 2_000, "srsf")] == [2, 10, 16]
    assert [stay.end_s for stay in replay(THREE, 2_000, "srtf")] == [2, 16, 8]


def test_a_gang_moves_down_when_it_has_attained_its_limit() -> None:
    jobs = [job("gang", 0, 1_000, 8), job("later", 200, 10, 8)]
    assert stays(jobs, 8, "tiresias") == {"gang": (0, 1_010, 1), "later": (407, 417, 0)}
    assert stays(jobs, 8, "tiresias-published") == {"gang": (0, 1_010, 1), "later": (581, 591, 0)}


TURNS = [job("a", 0, 100, 1), job("b", 5, 100, 1), job("c", 8, 100, 1)]


@pytest.mark.parametrize(
    ("knob", "found"),
    [("0", [(0, 120, 1), (10, 210, 1), (20, 300, 1)]), ("1", [(0, 280, 9), (10, 290, 9), (20, 300, 9)])],
)
def test_whoever_has_waited_for_as_long_as_it_had_executed_has_another_turn(
    knob: str, found: list[tuple[int, int, int]]
) -> None:
    """Ten seconds for each in the first queue; with a knob of 1 both counts begin anew each time."""
    assert tiresias(TURNS, 1_000, (10,), Fraction(knob)) == found


def test_a_promotion_comes_at_its_instant_and_once() -> None:
    """From 20 on a goes on in the second queue, ahead of b, which had 10 s: so b is first again at 20 + 4 x 10."""
    found = tiresias([job("a", 0, 60, 1), job("b", 5, 200, 1)], 1_000, (10,), Fraction(4))
    assert found == [(0, 80, 2), (10, 260, 2)]


def test_completions_come_before_arrivals_of_the_same_second() -> None:
    jobs = [job("a", 0, 10, 4), job("b", 10, 10, 4)]
    for scheduler in ("fifo", "fifo-skip", "sjf", "srtf", "srsf", "tiresias", "tiresias-published"):
        assert stays(jobs, 4, scheduler) == {"a": (0, 10, 0), "b": (10, 20, 0)}


# --- slow counterparts ------------------------------------------------------------------------------------------------


def second_by_second(
    jobs: list[CountedJob],
    gpus: int,
    *,
    key: Callable[[CountedJob, int, int], tuple[int, ...]],
    preempts: bool,
    strict: bool,
) -> list[Stay]:
    """All of it second by second, as the words say it. `key` is given a job, its turn and the time it has left."""
    order = sorted(range(len(jobs)), key=lambda place: jobs[place].submit_s)
    left = {place: jobs[place].duration_s for place in order}
    first: dict[int, int] = {}
    end: dict[int, int] = {}
    preemptions = dict.fromkeys(order, 0)
    running: set[int] = set()
    now_s = 0
    while len(end) < len(jobs):
        has_happened = any(each.submit_s == now_s for each in jobs)
        while has_happened or any(left[place] == 0 for place in running):
            has_happened = False
            done = [place for place in running if left[place] == 0]
            end.update(dict.fromkeys(done, now_s))
            running.difference_update(done)
            here = [place for place in order if jobs[place].submit_s <= now_s and place not in end]
            here.sort(key=lambda place: key(jobs[place], order.index(place), left[place]))
            if not preempts:
                here = [place for place in here if place in running] + [place for place in here if place not in running]
            free_milli, chosen = gpus * 1_000, set()
            for place in here:
                if jobs[place].size_milli <= free_milli:
                    free_milli -= jobs[place].size_milli
                    chosen.add(place)
                elif strict:
                    break
            for place in running - chosen:
                preemptions[place] += 1
            for place in chosen - running:
                first.setdefault(place, now_s)
            running = chosen
        for place in running:
            left[place] -= 1
        now_s += 1
    return [Stay(first[place], end[place], preemptions[place]) for place in range(len(jobs))]


SMALL_JOBS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 9), st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=9
).map(lambda rows: [job(f"j{index}", *row) for index, row in enumerate(rows)])


@given(jobs=SMALL_JOBS)
def test_fifo_is_what_it_says(jobs: list[CountedJob]) -> None:
    slow = second_by_second(jobs, 4, key=lambda _, turn, __: (turn,), preempts=False, strict=True)
    assert replay(jobs, 4_000, "fifo") == slow


@given(jobs=SMALL_JOBS)
def test_fifo_skip_is_what_it_says(jobs: list[CountedJob]) -> None:
    slow = second_by_second(jobs, 4, key=lambda _, turn, __: (turn,), preempts=False, strict=False)
    assert replay(jobs, 4_000, "fifo-skip") == slow


@given(jobs=SMALL_JOBS)
def test_sjf_is_what_it_says(jobs: list[CountedJob]) -> None:
    slow = second_by_second(
        jobs, 4, key=lambda each, _, __: (each.duration_s, int(each.id[1:])), preempts=False, strict=False
    )
    assert replay(jobs, 4_000, "sjf") == slow


@given(jobs=SMALL_JOBS)
def test_sjf_by_requested_time_is_what_it_says(jobs: list[CountedJob]) -> None:
    slow = second_by_second(
        jobs, 4, key=lambda each, turn, _: (each.estimate_s or 0, turn), preempts=False, strict=True
    )
    assert replay(jobs, 4_000, "sjf-requested") == slow


@given(jobs=SMALL_JOBS)
def test_srtf_is_what_it_says(jobs: list[CountedJob]) -> None:
    slow = second_by_second(jobs, 4, key=lambda _, turn, left_s: (left_s, turn), preempts=True, strict=False)
    assert replay(jobs, 4_000, "srtf") == slow


@given(jobs=SMALL_JOBS)
def test_srsf_is_what_it_says(jobs: list[CountedJob]) -> None:
    slow = second_by_second(
        jobs, 4, key=lambda each, turn, left_s: (left_s * each.size_milli, turn), preempts=True, strict=False
    )
    assert replay(jobs, 4_000, "srsf") == slow


def queues_second_by_second(jobs: list[CountedJob], gpus: int, limits_gpu_s: tuple[int, ...]) -> list[Stay]:
    """Tiresias as the words say it."""
    order = sorted(range(len(jobs)), key=lambda place: jobs[place].submit_s)
    executed, preemptions = dict.fromkeys(order, 0), dict.fromkeys(order, 0)
    first: dict[int, int] = {}
    end: dict[int, int] = {}
    queues: list[list[int]] = [[] for _ in range(len(limits_gpu_s) + 1)]
    running: set[int] = set()
    now_s = 0
    while len(end) < len(jobs):
        arriving = [place for place in order if jobs[place].submit_s == now_s]
        while True:
            done = {place for place in running if executed[place] == jobs[place].duration_s}
            end.update(dict.fromkeys(done, now_s))
            running -= done
            queues = [[place for place in queue if place not in done] for queue in queues]
            queues[0] += arriving
            demoted = [
                place
                for index, queue in enumerate(queues[:-1])
                for place in queue
                if place in running and executed[place] * jobs[place].size_milli >= limits_gpu_s[index] * 1_000
            ]
            if not (done or arriving or demoted):
                break
            arriving = []
            for place in sorted(demoted, key=order.index):
                index = next(index for index, queue in enumerate(queues) if place in queue)
                queues[index].remove(place)
                queues[index + 1].append(place)
            free_milli, chosen = gpus * 1_000, set()
            for place in (place for queue in queues for place in queue):
                if jobs[place].size_milli <= free_milli:
                    free_milli -= jobs[place].size_milli
                    chosen.add(place)
            for place in running - chosen:
                preemptions[place] += 1
            for place in chosen - running:
                first.setdefault(place, now_s)
            running = chosen
            queues = [sorted(queue, key=lambda place: place not in chosen) for queue in queues]
        for place in running:
            executed[place] += 1
        now_s += 1
    return [Stay(first[place], end[place], preemptions[place]) for place in range(len(jobs))]


@given(jobs=SMALL_JOBS)
def test_tiresias_is_what_it_says(jobs: list[CountedJob]) -> None:
    assert tiresias(jobs, 4_000, (5, 11)) == queues_second_by_second(jobs, 4, (5, 11))


# --- the command ------------------------------------------------------------------------------------------------------

CSV = "job_id,submit_time,duration,num_gpus,vc\n007,0,10,2,6214e9\n8,3,4,1,103959\n"


def test_the_object_and_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.csv").write_text(CSV)
    arguments = ["--trace", str(tmp_path / "trace.csv"), "--gpus", "2", "--scheduler", "fifo", "--placement", "count"]
    call_command("simulate", *arguments, "--runs-csv", str(tmp_path / "runs.csv"), "--json")
    found = json.loads(capsys.readouterr().out)
    assert found.pop("wall_s") > 0
    assert found == {
        "jobs": 2,
        "mean_jct_s": 10.5,
        "median_jct_s": 10,
        "p90_jct_s": 11,
        "makespan_s": 14,
        "preemptions": 0,
    }
    rows = list(csv.reader(io.StringIO((tmp_path / "runs.csv").read_text())))
    assert rows == [["job_id", "start", "end", "preemptions"], ["007", "0", "10", "0"], ["8", "10", "14", "0"]]


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (
            CSV,
            {"--scheduler": "lifo"},
            f"--scheduler: must be one of {', '.join(COUNTING_SCHEDULERS)}, not 'lifo'",
        ),
        (CSV, {"--placement": "rack"}, "--placement: must be one of count, not 'rack'"),
        (CSV, {"--promote-knob": "8"}, "--promote-knob: belongs to tiresias, not to fifo"),
        (
            CSV,
            {"--scheduler": "tiresias", "--promote-knob": "nan"},
            "--promote-knob: must be a number such as 0.5 or 8, not 'nan'",
        ),
        (
            CSV,
            {"--scheduler": "tiresias", "--promote-knob": "1e999999999"},
            "--promote-knob: must be a number such as 0.5 or 8, not '1e999999999'",
        ),
        (CSV, {"--gpus": "0"}, "--gpus: must be from 1 to 10000000000, but is 0"),
        (CSV, {"--gpus": "1"}, "TRACE: job '007' asks for 2 GPUs, there are 1"),
        (CSV, {"--until": "1h"}, "--until: belongs to a scenario, not to --trace"),
        (CSV.replace("duration", "length"), {}, "TRACE: row 1, duration: this column is missing"),
        (CSV.replace(",10,", ",ten,"), {}, "TRACE: row 2, duration: must be a whole number, not 'ten'"),
        (CSV.replace(",3,", ",-3,"), {}, "TRACE: row 3, submit_time: must be at least 0, but is -3"),
        (CSV.replace("8,3,4,1", "8,3,4,nan"), {}, "TRACE: row 3, num_gpus: must be a whole number, not 'nan'"),
        (CSV.replace("\n8,", "\n007,"), {}, "TRACE: row 3, job_id: '007' is in row 2 already"),
        (CSV.splitlines()[0], {}, "TRACE: has no jobs"),
    ],
)
def test_a_fault_is_one_line(tmp_path: Path, content: str, changes: dict[str, str], message: str) -> None:
    trace, out = tmp_path / "trace.csv", tmp_path / "runs.csv"
    trace.write_text(content)
    options = {"--trace": str(trace), "--gpus": "2", "--scheduler": "fifo", "--runs-csv": str(out)} | changes
    found = run(*(word for option in options.items() for word in option))
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"simulate: {message.replace('TRACE', str(trace))}\n"
    assert not out.exists()


def test_options_of_a_trace_need_one() -> None:
    found = run("--gpus", "4")
    assert (found.returncode, found.stderr) == (2, "simulate: --gpus: belongs to --trace FILE\n")


def test_files_are_simulated_without_setting_django_up() -> None:
    """It would take longer than most of what the command does."""
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "manage.py", "simulate", "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "trace_mode" in found.stderr
    for module in ("scheduler.models", "celery", "psycopg", "portal.settings"):
        assert f" {module}\n" not in found.stderr
