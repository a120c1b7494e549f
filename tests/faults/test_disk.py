"""Disks are full: of the portal with its database, and of a node. Nothing is lost, nobody's work ends, all recovers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.models import Node, Run, Workload
from scheduler.services import workloads
from tests.executors.conftest import Site, wait_for
from tests.executors.test_under_run import shell
from tests.faults.disks import fill, full, small_disk
from tests.faults.house import STATES, House
from tests.platform.conftest import Installation, wait_until

NODE_DISK_MIB, PORTAL_DISK_MIB = 64, 900
FULL_S = 12
PRINTS = "for piece in $(seq 60); do head -c 20000 /dev/zero | tr '\\0' x; echo; sleep 0.1; done; echo done"
WORDS = ("disk is full", "database does not answer")
SWELL = """
from django.db import connection
try:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS swell (a text)")
        for _ in range(400):
            cursor.execute("INSERT INTO swell SELECT repeat(md5(n::text), 200) FROM generate_series(1, 300) n")
    print("stored")
except Exception as error:
    print(type(error).__name__)
"""


@pytest.fixture
def disk() -> Iterator[Path]:
    """That of a node."""
    with small_disk(NODE_DISK_MIB) as folder:
        yield folder


def test_on_a_full_node_what_runs_goes_on_and_nothing_new_starts(site: Site, disk: Path) -> None:
    agent = site.agent("n1", gpus=3, state=disk / "state", work=disk / "work")
    prints = site.submit("/bin/sh", "-c", PRINTS)
    told = site.submit("/bin/sleep", "1000")
    site.wait(prints, "running")
    site.wait(told, "running")
    with full(disk):
        wait_for(lambda: "is full" in Node.objects.get(name="n1").trouble)
        assert Node.objects.get(name="n1").health == "unhealthy"
        later = site.submit("/bin/true")
        workloads.cancel(workload=told, by=None)
        site.look()
        site.wait(told, "cancelled")  # what cannot be written down is told all the same
        site.wait(prints, "finished")  # and its end finds the room that was kept for it
        site.look()
        later.refresh_from_db()
        assert later.state == "queued"
        assert agent.process is not None
        assert agent.process.poll() is None, agent.log()
    run = Run.objects.get(workload=prints)
    assert (run.end_reason, run.exit_code) == ("finished", 0)
    assert "not all that it printed was kept" in run.ranks.get().message
    wait_for(lambda: Node.objects.get(name="n1").health == "healthy")
    wait_for(lambda: site.look() or Workload.objects.get(pk=later.pk).state == "finished")
    assert set(Workload.objects.values_list("state", flat=True)) == {"finished", "cancelled"}


@pytest.mark.long
def test_with_a_full_disk_of_the_portal_nothing_is_lost_and_all_recovers() -> None:
    with small_disk(PORTAL_DISK_MIB) as folder:
        house = House(Installation(folder / "data"))
        try:
            house.submit(1, 300, 10 * FULL_S + 250)
            house.submit(1, 300, 30)  # this one ends while the disk is full
            assert wait_until(lambda: house.commands() == 2, within_s=30)
            with full(folder):
                said = []
                began_s = time.monotonic()
                house.tell(1, 5, 10)
                while time.monotonic() - began_s < FULL_S:
                    swell(house)
                    fill(folder / "ballast")
                    for path in ("/nodes/here/", "/queue/here/"):
                        answer = house.web.get(path, house.cookie)
                        assert answer is not None, "nobody answers"
                        assert answer.status in (200, 503), (path, answer)
                        assert answer.status == 200 or any(each in answer.text for each in WORDS)
                        said.append(answer.status)
                    time.sleep(1)
                assert house.commands() >= 1
                print(said)
            assert wait_until(lambda: house.page("/queue/here/"), within_s=60)
            assert wait_until(lambda: house.ask(STATES)["passes"], within_s=60)
            house.settle(within_s=180)
        finally:
            house.close()


def swell(house: House) -> str:
    """Have the database grow until it cannot; what it says."""
    try:
        return shell(house.installation, SWELL).split()[-1]
    except (AssertionError, IndexError):
        return "not reached"
