"""Checkpoints: how old the last one is, which moment of the grace is picked, and how much work was lost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from scheduler.executors.checkpoints import NOTE, Checkpoints, age_s, next_in_s
from scheduler.models import Run, Workload
from scheduler.services import policies
from tests.executors.conftest import Site, wait_for


def now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def looked_at(folder: Path, every_s: int = 0, **ages: float) -> Checkpoints:
    """A rank's, whose checkpoint is so old."""
    found = Checkpoints({"directory": str(folder), "checkpoint": str(folder / "last"), "checkpoint_every_s": every_s})
    for age in ages.values():
        (folder / "last").touch()
        os.utime(folder / "last", (time.time() - age, time.time() - age))
        found.look(0)
    return found


def test_the_newest_file_of_a_folder_counts(tmp_path: Path) -> None:
    assert age_s(str(tmp_path / "none")) is None
    assert age_s(str(tmp_path)) is None
    for name, age in (("a", 100), ("b", 40)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    assert 39 < (age_s(str(tmp_path)) or 0) < 42
    assert 99 < (age_s(str(tmp_path / "a")) or 0) < 102


def test_one_from_before_this_run_is_none(tmp_path: Path) -> None:
    found = Checkpoints({"directory": str(tmp_path), "checkpoint": str(tmp_path / "last")})
    (tmp_path / "last").touch()
    assert found.look(now_s() + 5) is None


@pytest.mark.parametrize(
    ("every_s", "ages", "grace_s", "waits"),
    [
        (0, {}, 60, False),  # it never wrote one
        (0, {"only": 5}, 60, False),  # how often is not known
        (30, {"only": 20}, 60, True),  # due in 10 s
        (0, {"first": 50, "second": 20}, 60, True),  # every 30 s, as was seen: due in 10 s
        (30, {"only": 20}, 12, False),  # too late for what is left of the grace
        (600, {"only": 20}, 60, False),  # due in ten minutes
        (30, {"only": 500}, 60, False),  # it writes none any more
        (30, {"only": 32}, 60, True),  # a little late: being written just now
    ],
)
def test_a_checkpoint_about_to_be_written_is_worth_waiting_for(
    tmp_path: Path, every_s: int, ages: dict[str, float], grace_s: int, waits: bool
) -> None:
    found = looked_at(tmp_path, every_s, **ages)
    until_s = found.wait_until_s(now_s(), now_s() + grace_s, margin_s=5)
    assert (until_s is not None) == waits
    if until_s is not None:
        assert now_s() < until_s <= now_s() + grace_s - 5


@pytest.mark.parametrize("content", ["", "{", "[]", '{"next_in_s": "5"}', '{"next_in_s": true}', '{"next_in_s": -1}'])
def test_a_call_that_says_nothing_clear_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / NOTE).write_text(content)
    assert next_in_s(str(tmp_path / NOTE)) is None


def test_a_link_or_a_pipe_in_place_of_the_note_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"next_in_s": 5}')
    (tmp_path / NOTE).symlink_to(tmp_path / "elsewhere")
    assert next_in_s(str(tmp_path / NOTE)) is None
    (tmp_path / NOTE).unlink()
    os.mkfifo(tmp_path / NOTE)
    assert next_in_s(str(tmp_path / NOTE)) is None


TRAIN = """
trap 'echo told; exit 143' TERM
echo started
for n in $(seq 1000); do
    for piece in $(seq $1); do sleep 0.1; done
    echo $n > last; {call}
done
"""


def stop(site: Site, workload: Workload) -> Run:
    """Somebody funded takes its devices; its run when that is over."""
    run = site.run(workload)
    site.submit("/bin/sleep", "60", gpus=2, leaf=site.rival)
    site.look()
    wait_for(lambda: Run.objects.filter(pk=run.pk, state="ended").exists(), within_s=30)
    run.refresh_from_db()
    return run


@pytest.fixture
def long_grace(site: Site) -> Site:
    """Twenty seconds to leave."""
    policies.change(cluster=site.cluster, knobs={"grace_s": 20})
    return site


def train(site: Site, call: str = ":", every: int = 40, **more: Any) -> Workload:
    """Something unallocated that writes a checkpoint each `every` tenths of a second."""
    script = TRAIN.replace("{call}", call)
    return site.submit(*("/bin/sh", "-c", script, "train", str(every)), gpus=2, min_runtime_s=0, resumable=True, **more)


def test_a_preemption_waits_for_a_checkpoint_that_is_about_to_be_written(long_grace: Site) -> None:
    site = long_grace
    site.agent()
    workload = train(site, checkpoint="last", checkpoint_every_s=4)
    site.wait(workload, "running")
    last = site.folder / "work" / workload.code / "last"
    wait_for(last.exists)
    wait_for(lambda: site.run(workload).ranks.get().checkpoint_at is not None)
    before = last.read_text()
    run = stop(site, workload)
    assert int(last.read_text()) == int(before) + 1
    assert "told" in "".join(chunk.text for chunk in run.ranks.get().chunks.all())
    assert run.lost_s is not None
    assert run.lost_s <= 1
    assert run.stop_asked_at is not None
    assert run.ended_at is not None
    assert 0 < (run.ended_at - run.stop_asked_at).total_seconds() < 8


def test_a_call_says_when_the_next_one_is_due(long_grace: Site) -> None:
    site = long_grace
    site.agent()
    workload = train(site, call="allotment-checkpoint --next-in 4")
    site.wait(workload, "running")
    last = site.folder / "work" / workload.code / "last"
    wait_for(last.exists)
    wait_for(lambda: site.run(workload).ranks.get().checkpoint_at is not None)
    before = last.read_text()
    run = stop(site, workload)
    assert int(last.read_text()) == int(before) + 1
    assert run.lost_s is not None
    assert run.lost_s <= 1


def test_one_whose_next_checkpoint_is_far_away_is_told_at_once_and_what_it_loses_is_said(long_grace: Site) -> None:
    site = long_grace
    site.agent()
    workload = train(site, every=10_000, checkpoint="last", checkpoint_every_s=900)
    site.wait(workload, "running")
    time.sleep(3)
    run = stop(site, workload)
    assert run.checkpoint_at is None
    assert run.running_at is not None
    assert run.stop_asked_at is not None
    assert run.ended_at is not None
    assert (run.ended_at - run.stop_asked_at).total_seconds() <= 3
    assert run.lost_s == (run.ended_at - run.running_at).total_seconds() >= 3


def test_of_one_that_tells_of_no_checkpoint_nothing_is_claimed(site: Site) -> None:
    site.agent()
    workload = train(site, every=10_000)
    site.wait(workload, "running")
    assert stop(site, workload).lost_s is None
