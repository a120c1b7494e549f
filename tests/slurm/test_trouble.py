"""Slurm slow, away, restarted or killed: nothing is lost, nothing runs twice, and whoever looks is told."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from scheduler.loop import look_at
from scheduler.models import Node, Rank, Run, SlurmJob, SlurmLink, Workload
from scheduler.services.slurm import links, look
from tests.conftest import REPOSITORY
from tests.scheduler.conftest import check_books
from tests.slurm.cluster import SMALL
from tests.slurm.conftest import Site

pytestmark = pytest.mark.long

STREAM_S = 60
SETTLE_S = 400
"""Slurm itself takes minutes to notice that a job has ended which it had forgotten when it was killed."""
ONCE = """
mkdir ran-$ALLOTMENT_RUN-$RANK || { echo twice; exit 9; }
trap 'exit 143' TERM
for piece in $(seq $1); do sleep 0.1; done
echo done > ended-$ALLOTMENT_RUN-$RANK
"""
"""Each rank of each run leaves a mark; a second start would find it."""


def test_killed_controllers_lose_nothing_and_run_nothing_twice(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setattr(links, "TIMEOUT_S", 3.0)
    chance = random.Random(11)
    kills, ends_s, dead_until_s = 0, time.monotonic() + STREAM_S, 0.0
    next_kill_s = time.monotonic() + 5
    while time.monotonic() < ends_s:
        if Workload.objects.filter(state__in=Workload.OPEN_STATES).count() < 8:
            gpus, contract = chance.choice([(1, 300), (4, 300), (8, 300), (16, 300), (2, 0), (8, 0)])
            leaf = chance.choice([site.leaf, site.rival])
            pieces = str(chance.randrange(1, 40))
            site.submit(
                "/bin/sh", "-c", ONCE, "once", pieces, gpus=gpus, min_runtime_s=contract, leaf=leaf, resumable=True
            )
        if dead_until_s and time.monotonic() > dead_until_s:
            site.slurm.start_ctld()
            dead_until_s = 0.0
        elif not dead_until_s and time.monotonic() > next_kill_s:
            site.slurm.kill("slurmctld")
            dead_until_s = time.monotonic() + chance.random() * 3
            next_kill_s = dead_until_s + 2 + chance.random() * 8
            kills += 1
        site.step()
        time.sleep(chance.random() * 0.3)
    if dead_until_s:
        site.slurm.start_ctld()
    site.until(lambda: not Workload.objects.filter(state__in=Workload.OPEN_STATES).exists(), within_s=SETTLE_S)
    assert kills >= 5
    print(f"{kills} kills, {Workload.objects.count()} workloads, {Run.objects.count()} runs")
    assert set(Workload.objects.values_list("state", flat=True)) == {"finished"}, site.told()
    ends = set(Run.objects.values_list("end_reason", flat=True))
    assert ends <= {"finished", "preempted_unallocated", "node_lost"}, site.told()
    jobs = site.slurm.root / "jobs"
    for rank in Rank.objects.select_related("run__workload"):
        if rank.run.end_reason == "finished":
            assert (jobs / rank.run.workload.code / f"ended-{rank.run_id}-{rank.index}").exists()
    assert not [path for path in jobs.glob("*/.allotment/*.out") if "twice" in path.read_text()]
    for run in Run.objects.filter(end_reason="preempted_unallocated"):
        assert run.min_runtime_s == 0
    check_books()
    assert not [job for job in site.jobs() if job.holds]


def test_an_outage_stops_decisions_and_nothing_else(site: Site) -> None:
    gang = site.submit("sh", "-c", "sleep 12; echo done", gpus=8)
    site.wait(gang, "running")
    time.sleep(7)  # what a controller has begun in the last five seconds it may forget when it is killed
    site.slurm.kill("slurmctld")
    try:
        looked = site.step()
        assert looked is not None
        assert not looked.reached
        link = SlurmLink.objects.get(pk=site.link.pk)
        assert link.is_failing
        assert "contact" in link.error or "no answer" in link.error
        assert links.may_decide(site.cluster, timezone.now())
        assert not links.may_decide(site.cluster, timezone.now() + timedelta(minutes=1))
        waits = site.submit("true", gpus=4)
        time.sleep(5)
        site.step()
        gang.refresh_from_db()
        waits.refresh_from_db()
        assert (gang.state, waits.state in ("queued", "starting")) == ("running", True)
    finally:
        site.slurm.start_ctld()
    site.wait(gang, "finished", within_s=SETTLE_S)
    site.wait(waits, "finished")
    run, job = site.run(gang), site.job(gang)
    assert (run.running_at, run.ended_at) == (job.started_at, job.ended_at)  # as Slurm says, not as we learned of it
    assert gang.runs.count() == 1
    assert not SlurmLink.objects.get(pk=site.link.pk).is_failing


def test_accounting_away_stops_no_job(site: Site) -> None:
    site.slurm.kill("slurmdbd")
    try:
        SlurmLink.objects.update(drift_at=None)
        gang = site.submit("true", gpus=8)
        site.wait(gang, "finished")
        assert "accounts:" in " ".join(SlurmLink.objects.get(pk=site.link.pk).troubles)
    finally:
        site.slurm.start_dbd()


def test_a_slow_slurm_is_given_up_in_time(site: Site, tmp_path: Path, monkeypatch: Any) -> None:
    slow = tmp_path / "scontrol"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("scheduler.services.slurm.links.TIMEOUT_S", 1.0)
    began_s = time.monotonic()
    looked = site.step()
    assert looked is not None
    assert not looked.reached
    assert time.monotonic() - began_s < 5
    assert "no answer within 1 s" in SlurmLink.objects.get(pk=site.link.pk).error


def test_a_node_that_dies_is_down_and_its_gang_starts_elsewhere(site: Site) -> None:
    gang = site.submit("sleep", "300", gpus=4, resumable=True)
    site.wait(gang, "running")
    (name,) = site.nodes_of(site.run(gang))
    site.slurm.kill(name)
    try:
        glance = lambda: look.look(site.cluster.pk, is_glance=True)  # noqa: E731 (reads no nodes, but for such a job)
        site.until(lambda: site.run(gang).state == "ended", within_s=90, step=glance)
        assert site.node(name).health == "down"
        site.until(lambda: gang.runs.count() == 2)
        site.wait(gang, "running")
        assert site.node(name).health == "down"
    finally:
        site.slurm.start_node(name)
    first, second = gang.runs.order_by("number")
    assert first.end_reason == "node_lost"
    assert site.nodes_of(second) != [name]
    assert sum(job.holds for job in site.jobs()) == 1


def test_nodes_that_its_partition_has_no_longer_are_down_also_where_it_has_none_left(site: Site) -> None:
    site.step()
    rows = Node.objects.filter(cluster=site.cluster).order_by("name")
    assert set(rows.values_list("health", flat=True)) == {"healthy"}
    SlurmLink.objects.filter(pk=site.link.pk).update(partition="uneven")
    site.step()
    there = set(rows.filter(health="healthy").values_list("name", flat=True))
    assert there == {site.slurm.nodes[-1], SMALL}
    SlurmLink.objects.filter(pk=site.link.pk).update(partition="none")
    site.step()
    assert set(rows.values_list("health", flat=True)) == {"down"}


def test_a_run_whose_nodes_others_took_waits_again_and_starts_elsewhere(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setattr("scheduler.services.slurm.orders.BEGINS_WITHIN_S", 3)
    work = site.submit("true", gpus=4, resumable=True)
    look_at(site.cluster.pk, is_due=True)
    (name,) = site.nodes_of(site.run(work))
    site.slurm.run("sbatch", "--gpus=4", "-N1", f"--nodelist={name}", "-o", "/dev/null", "--wrap", "sleep 300")
    site.until(lambda: work.runs.count() == 2)
    site.wait(work, "finished")
    first, second = work.runs.order_by("number")
    assert (first.end_reason, first.running_at) == ("node_lost", None)
    assert site.nodes_of(second) != [name]


def test_the_loop_carries_on_by_itself(site: Site, process_environment: dict[str, str]) -> None:
    loop = subprocess.Popen(
        [sys.executable, "manage.py", "slurm_sync", site.cluster.name],
        cwd=REPOSITORY,
        env=process_environment,
        stdin=subprocess.DEVNULL,
    )
    try:
        took = []
        for _number in range(20):
            work = site.submit("sh", "-c", "date +%s.%N", gpus=4)
            ends_s = time.monotonic() + 30
            while not Run.objects.filter(workload=work).exists():
                look_at(site.cluster.pk, is_due=True)
                assert time.monotonic() < ends_s, site.told()
                time.sleep(0.2)
            decided_s = time.time()
            while not site.printed(work).strip():
                assert time.monotonic() < ends_s, site.told()
                time.sleep(0.02)
            took.append(float(site.printed(work).split()[0]) - decided_s)
            while Workload.objects.get(pk=work.pk).state != "finished":
                assert time.monotonic() < ends_s, site.told()
                time.sleep(0.1)
        took.sort()
        print(f"decision to process, by the loop: median {took[9]:.2f} s, p95 of 20 {took[18]:.2f} s, load {load()}")
        assert took[9 if load() > 3 * (os.cpu_count() or 1) else 18] <= 3  # crowded, Slurm alone takes longer
        assert SlurmJob.objects.exclude(gone_at=None).count() >= 18
    finally:
        loop.terminate()
        assert loop.wait(20) == 0


def test_a_killed_loop_submits_nothing_twice(site: Site, process_environment: dict[str, str]) -> None:
    chance = random.Random(3)
    argv = [sys.executable, "manage.py", "slurm_sync", site.cluster.name]
    kills, ends_s, loop = 0, time.monotonic() + 40, None
    while time.monotonic() < ends_s:
        if Workload.objects.filter(state__in=Workload.OPEN_STATES).count() < 6:
            gpus = chance.choice([1, 4, 8])
            site.submit("/bin/sh", "-c", ONCE, "once", str(chance.randrange(1, 20)), gpus=gpus, resumable=True)
        if loop is None:
            loop = subprocess.Popen(argv, cwd=REPOSITORY, env=process_environment, stdin=subprocess.DEVNULL)
            kill_at_s = time.monotonic() + 3 + chance.random() * 5
        elif time.monotonic() > kill_at_s:
            loop.kill()
            loop.wait(10)
            loop, kills = None, kills + 1
        look_at(site.cluster.pk, is_due=True)
        time.sleep(0.2)
    if loop is not None:
        loop.kill()
        loop.wait(10)
    site.until(lambda: not Workload.objects.filter(state__in=Workload.OPEN_STATES).exists(), within_s=SETTLE_S)
    assert kills >= 3
    print(f"{kills} kills of the loop, {Workload.objects.count()} workloads, {Run.objects.count()} runs")
    assert set(Workload.objects.values_list("state", flat=True)) == {"finished"}, site.told()
    assert set(Run.objects.values_list("end_reason", flat=True)) == {"finished"}, site.told()
    ours = [job for job in site.jobs() if job.comment.startswith(f"allotment:{site.link.token}:")]
    ran = [job.name for job in ours if job.started_at != job.ended_at]  # Slurm also lists those of tests before
    assert len(ran) == len(set(ran))
    check_books()


def load() -> float:
    """How many processes want to run, over the last minute."""
    return os.getloadavg()[0]
