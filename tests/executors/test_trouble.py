"""Real agents in trouble: faults, checks, repairs, clocks, old directories."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from budgets.models import Person
from scheduler.executors.old_directories import OldDirectories
from scheduler.models import Node, Repair, Run, UtilizationHour, Workload
from scheduler.services import directories, nodes, repairs, workloads
from tests.conftest import REPOSITORY
from tests.executors.conftest import Site, wait_for

MIB = 1024 * 1024


def looked(site: Site, done: Any) -> Any:
    """Wait for something that needs beat."""

    def look() -> Any:
        site.look()
        return done()

    return wait_for(look, within_s=40)


def test_a_faulty_node_drains_is_repaired_by_its_agent_and_takes_work_again(site: Site) -> None:
    agent = site.agent(
        "n1",
        **{"repair-command": "/bin/sh -c 'rm FOLDER/n1/faults; echo reset both'".replace("FOLDER", str(site.folder))},
    )
    repairs.set_hook(cluster=site.cluster, kind="node")
    free = site.submit("/bin/sleep", "600", min_runtime_s=0, resumable=True)
    site.wait(free, "running")
    (agent.state / "faults").write_text("GPU 1: Xid 79, it has fallen off the bus\n")
    looked(site, lambda: Repair.objects.exists())
    looked(site, lambda: Repair.objects.filter(state="done").exists())
    repair = Repair.objects.get()
    assert (repair.cause, repair.attempts, repair.message, repair.needed_person) == (
        "GPU 1: Xid 79, it has fallen off the bus",
        1,
        "reset both",
        False,
    )
    looked(site, lambda: site.run(free).number == 2)
    site.wait(free, "running")
    assert Run.objects.earliest("pk").end_reason == "drained"


def test_a_check_of_the_operators_says_what_is_wrong(site: Site) -> None:
    check = site.folder / "check"
    check.write_text("#!/bin/sh\necho looking\ntest ! -e $(dirname $0)/full || { echo disk is full; exit 2; }\n")
    check.chmod(0o755)
    site.agent("n1", **{"health-command": check, "health-every-s": 1})
    (site.folder / "full").touch()
    wait_for(lambda: Node.objects.get().health == "unhealthy")
    assert Node.objects.get().trouble == "health check ended with status 2: disk is full"
    (site.folder / "full").unlink()
    wait_for(lambda: Node.objects.get().health == "healthy")
    assert Node.objects.get().trouble == ""


def test_an_agents_clock_that_is_off_by_a_minute_changes_nothing(site: Site) -> None:
    """libfaketime is not everywhere: the agent's own view of the time is moved, as a wrong clock would."""
    for offset, name in ((-60, "n1"), (60, "n2")):
        wrong = site.folder / f"wrong{name}"
        wrong.mkdir()
        (wrong / "sitecustomize.py").write_text(
            "import time\nreal, real_ns = time.time, time.time_ns\n"
            f"time.time = lambda: real() + {offset}\ntime.time_ns = lambda: real_ns() + {offset} * 10**9\n"
        )
        site.agent(name, gpus=1, path=f"{wrong}:{REPOSITORY}")
    said = {node.name: node.agent_epoch / 1_000_000 for node in Node.objects.all()}  # from the agents' own clocks
    assert 90 < said["n2"] - said["n1"] < 180
    began = timezone.now()
    workload = site.submit("/bin/sleep", "2", gpus=2)
    site.wait(workload, "finished")
    run = site.run(workload)
    assert run.running_at is not None
    assert run.ended_at is not None
    assert began - timedelta(seconds=2) <= run.running_at <= run.ended_at <= timezone.now()
    assert 1 <= (run.ended_at - run.running_at).total_seconds() <= 5


def test_a_victim_that_ignores_sigterm_is_gone_after_its_grace(site: Site) -> None:
    site.agent()
    stubborn = site.submit("/bin/sh", "-c", "trap '' TERM; while true; do sleep 0.1; done", gpus=2, min_runtime_s=0)
    site.wait(stubborn, "running")
    taker = site.submit("/bin/sleep", "60", gpus=2, leaf=site.rival)
    looked(site, lambda: Workload.objects.get(pk=taker.pk).state == "running")
    run = site.run(stubborn)
    assert (run.state, run.exit_code) == ("ended", -9)
    assert run.ended_at is not None
    assert run.leave_by is not None
    assert 0 <= (run.ended_at - run.leave_by).total_seconds() <= 2
    assert site.marked(run) == []


def test_what_ranks_burn_is_measured_where_there_is_no_nvml(site: Site) -> None:
    site.agent("n1", gpus=2, **{"sample-every-s": 2})
    busy = site.submit("/bin/sh", "-c", "while :; do :; done")
    idle = site.submit("/bin/sleep", "600")
    for workload in (busy, idle):
        site.wait(workload, "running")
    measured = UtilizationHour.objects.filter
    wait_for(lambda: measured(run=site.run(busy)).exists() and measured(run=site.run(idle)).exists())
    row, other = measured(run=site.run(busy)).latest("hour"), measured(run=site.run(idle)).latest("hour")
    assert 0.2 < row.busy_milli_s / row.measured_milli_s <= 1
    assert other.busy_milli_s / other.measured_milli_s < 0.2


def test_an_agent_stays_small_and_wakes_at_once(site: Site) -> None:
    agent = site.agent("n1", gpus=8, **{"heartbeat-s": 10})
    delays = []
    for _number in range(8):
        began_s = time.monotonic()
        workload = site.submit("/bin/sleep", "600")
        site.wait(workload, "running")
        delays.append(time.monotonic() - began_s)
    assert max(delays) < 5
    assert agent.process is not None
    resident = int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert resident < 60 * MIB


def old(folder: Path, name: str) -> Path:
    """A directory that was last changed yesterday."""
    path = folder / name
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "file").write_text("x")
    os.utime(path, (time.time() - 86_400,) * 2)
    return path


def test_old_directories_are_asked_about_and_only_what_the_portal_names_is_removed(tmp_path: Path) -> None:
    for name in ("A-0001", "A-0002", "A-0003", ".hidden"):
        old(tmp_path, name)
    (tmp_path / "A-0004").mkdir()  # changed just now
    (tmp_path / "A-0005").symlink_to(tmp_path / "A-0001")
    found = OldDirectories(tmp_path, every_s=0)
    assert found.to_ask({"A-0003"}) == ["A-0001", "A-0002"]
    for thread in found.remove(["A-0001", "A-0003", "../x", "A-0004"], {"A-0003"}):
        thread.join(10)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".hidden", "A-0002", "A-0003", "A-0004", "A-0005"]


def test_a_directory_is_kept_while_its_workload_may_run_again_and_for_the_retention(
    site: Site, owners: list[Person], settings: Any
) -> None:
    nodes.ask_drain(node=nodes.register(cluster=site.cluster, name="n9", devices=2))  # so that all of them wait
    done, waiting, waited_for = (site.submit("/bin/true") for _number in range(3))
    follower = site.submit("/bin/true", after=waited_for)
    for workload in (done, waited_for):
        workloads.cancel(workload=workload, by=None)
    later = timezone.now() + timedelta(days=settings.DIRECTORY_DAYS, hours=1)
    names = [each.code for each in (done, waiting, waited_for, follower)] + ["B-9999"]

    def removable(now: Any = later) -> list[str]:
        return directories.removable(names=names, cluster_id=site.cluster.pk, now=now)

    assert removable(timezone.now()) == []
    assert removable() == [done.code]
    workloads.cancel(workload=Workload.objects.get(pk=follower.pk), by=None)
    assert removable(later + timedelta(days=1)) == sorted([done.code, waited_for.code, follower.code])
    settings.DIRECTORY_DAYS = 0
    assert removable() == []
