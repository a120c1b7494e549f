"""Agents are killed at random instants under a steady stream of gangs: nothing is lost, and nothing is run twice."""

import random
import time

import pytest

from scheduler.models import Rank, Run, Workload
from tests.executors.conftest import Site
from tests.scheduler.conftest import check_books

STREAM_S = 60
SETTLE_S = 60
ONCE = """
mkdir ran-$ALLOTMENT_RUN-$RANK || { echo twice; exit 9; }
trap 'exit 143' TERM
for piece in $(seq $1); do sleep 0.1; done
echo done
"""
"""Each rank of each run leaves a mark; a second start would find it."""


@pytest.mark.long
def test_killed_agents_lose_nothing_and_run_nothing_twice(site: Site) -> None:
    chance = random.Random(7)
    agents = [site.agent(f"n{number}") for number in (1, 2, 3)]
    kills = 0
    ends_s = time.monotonic() + STREAM_S
    while time.monotonic() < ends_s:
        pieces = str(chance.randrange(1, 40))
        gpus, contract = chance.choice([(1, 300), (2, 300), (4, 300), (1, 0), (2, 0)])
        leaf = chance.choice([site.leaf, site.rival])
        site.submit("/bin/sh", "-c", ONCE, "once", pieces, gpus=gpus, min_runtime_s=contract, leaf=leaf, resumable=True)
        if chance.random() < 0.5:
            agent = chance.choice(agents)
            agent.kill()
            time.sleep(chance.random())
            agent.start()
            kills += 1
        time.sleep(chance.random())
        site.look()
    ends_s = time.monotonic() + SETTLE_S
    while Workload.objects.filter(state__in=Workload.OPEN_STATES).exists() and time.monotonic() < ends_s:
        site.look()
        time.sleep(0.2)
    assert kills > 10
    states = Workload.objects.values_list("state", flat=True)
    assert set(states) == {"finished"}, [agent.log() for agent in agents]
    ends = set(Run.objects.values_list("end_reason", flat=True))
    assert ends <= {"finished", "preempted_unallocated"}
    for rank in Rank.objects.select_related("run__workload"):
        if rank.exit_code == 0:
            mark = site.folder / "work" / rank.run.workload.code / f"ran-{rank.run_id}-{rank.index}"
            assert mark.is_dir()
    assert [pid for run in Run.objects.all() for pid in site.marked(run)] == []
    check_books()
