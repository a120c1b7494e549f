"""Agents die, come back, and are cut off; what runs goes on, ends when it must, and is never run twice."""

import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scheduler.models import Node, Rank, Run
from scheduler.services import nodes, policies
from tests.conftest import REPOSITORY
from tests.executors.conftest import AgentProcess, Gate, Site, is_minder_of, wait_for

AGENT_MAX_KIB = 40 * 1024
MINDER_MAX_KIB = 16 * 1024
TICK = ("/bin/sh", "-c", "while true; do echo tick; sleep 0.1; done")


def minder_of(agent: AgentProcess) -> int:
    """The process that minds its only rank."""
    (folder,) = agent.ranks()
    (pid,) = [int(e.name) for e in Path("/proc").iterdir() if e.name.isdigit() and is_minder_of(int(e.name), folder)]
    return pid


def memory_kib(pid: int) -> int:
    """What the process holds in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_a_killed_agent_finds_its_ranks_again_and_goes_on_listening(site: Site) -> None:
    agent = site.agent()
    workload = site.submit(*TICK)
    site.wait(workload, "running")
    run = site.run(workload)
    before = site.marked(run)
    agent.kill()
    agent.start()
    seen = len(site.printed(workload))
    wait_for(lambda: len(site.printed(workload)) > seen + 20)
    assert before[0] in site.marked(run)
    assert [rank.pid for rank in run.ranks.all()] == [before[0]]
    assert set(site.printed(workload).splitlines()) == {"tick"}
    assert Run.objects.count() == 1


def test_what_ended_while_the_agent_was_away_ended_then(site: Site) -> None:
    agent = site.agent()
    workload = site.submit("/bin/sh", "-c", "sleep 1; echo last words; exit 5")
    site.wait(workload, "running")
    agent.kill()
    time.sleep(2.5)
    agent.start()
    site.wait(workload, "failed")
    run = site.run(workload)
    assert run.exit_code == 5
    assert 1 <= (run.ended_at - run.running_at).total_seconds() <= 2
    assert site.printed(workload) == "last words\n"
    wait_for(lambda: agent.ranks() == [])


def test_a_killed_minder_takes_its_rank_along_and_it_is_run_again(site: Site) -> None:
    agent = site.agent()
    workload = site.submit("/bin/sh", "-c", "setsid sleep 60 & sleep 60", resumable=True)
    site.wait(workload, "running")
    run = site.run(workload)
    os.kill(minder_of(agent), signal.SIGKILL)
    site.wait(workload, "queued")
    assert (site.run(workload).end_reason, run.ranks.get().message) == ("node_lost", "its minder was killed")
    assert site.marked(run) == []
    site.look()
    site.wait(workload, "running")
    assert site.run(workload).number == 2


def test_a_portal_that_is_away_kills_nothing_and_learns_when_it_happened(site: Site, gate: Gate) -> None:
    site.agent(portal=gate.url)
    lasting, brief = site.submit("/bin/sleep", "60"), site.submit("/bin/sleep", "1")
    site.wait(brief, "running")
    site.wait(lasting, "running")
    before = site.marked(site.run(lasting))
    gate.shut()
    time.sleep(3)
    assert site.marked(site.run(lasting)) == before
    assert site.marked(site.run(brief)) == []
    gate.reopen()
    site.wait(brief, "finished")
    run = site.run(brief)
    assert 1 <= (run.ended_at - run.running_at).total_seconds() <= 2


@pytest.mark.long
def test_what_is_cut_off_for_too_long_stops_before_it_is_given_up(site: Site, gate: Gate) -> None:
    knobs = {"heartbeat_timeout_s": 2, "self_fence_s": 4, "lost_after_s": 9}
    policies.change(cluster=site.cluster, knobs=knobs)
    site.agent("n1", portal=gate.url)
    workload = site.submit("/bin/sleep", "60", resumable=True)
    site.wait(workload, "running")
    first = site.run(workload)
    gate.shut()
    silent_since = Node.objects.get(name="n1").heartbeat_at
    site.agent("n2")
    states = []
    stopped_s = lost_s = 0.0
    began_s = time.monotonic()
    while not lost_s and time.monotonic() < began_s + 30:
        site.look()
        first.refresh_from_db()
        if first.state not in states:
            states.append(first.state)
        if not stopped_s and not site.marked(first):
            stopped_s = time.monotonic()
        if first.state == "ended":
            lost_s = time.monotonic()
        time.sleep(0.1)
    assert states == ["running", "unreachable", "ended"]
    assert 0 < stopped_s < lost_s
    assert (first.end_reason, first.ranks.get().state) == ("node_lost", "gone")
    assert 0 <= (first.ended_at - silent_since).total_seconds() <= 2  # as of the last heartbeat
    site.wait(workload, "running")
    assert site.run(workload).ranks.get().node.name == "n2"
    gate.reopen()
    wait_for(lambda: Node.objects.get(name="n1").health == "healthy")
    assert Rank.objects.get(run=first).state == "gone"
    assert site.run(workload).state == "running"


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_tied_ranks_end_with_who_started_the_agent(site: Site, end: int) -> None:
    agent = site.agent(joins=False, portal="http://127.0.0.1:9")
    agent.kill()
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"),
            *(sys.executable, "-m", "scheduler.executors.agent", *agent.options, "--portal", site.url, "--tie"),
        ],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    try:
        wait_for(lambda: Node.objects.exclude(wake_url="").exists())
        workload = site.submit("/bin/sh", "-c", "setsid sleep 60 & sleep 60", resumable=True)
        site.wait(workload, "running")
        run = site.run(workload)
        (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        if end == signal.SIGTERM:  # in good order, and the portal is told
            os.kill(int(child), signal.SIGTERM)
            site.wait(workload, "queued")
            assert site.run(workload).end_reason == "node_lost"
        else:
            minder = minder_of(agent)
            os.kill(int(child), signal.SIGKILL)
            parent.kill()
            wait_for(lambda: not Path(f"/proc/{minder}").exists())
        parent.wait(10)
        wait_for(lambda: site.marked(run) == [])
    finally:
        parent.kill()
        parent.wait(10)


def test_an_agent_is_called_rather_than_waited_for(site: Site) -> None:
    agent = site.agent(**{"heartbeat-s": 600})
    began_s = time.monotonic()
    workload = site.submit("/bin/sleep", "60")
    site.wait(workload, "running", within_s=5)
    assert time.monotonic() - began_s < 3
    url = urlsplit(Node.objects.get(name=agent.name).wake_url)
    assert url.hostname == "127.0.0.1"

    def call(path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=5)
        connection.request("POST", path)
        return connection.getresponse().status

    assert [call("/wake/guess"), call("/"), call(url.path)] == [404, 404, 204]
    seen = Node.objects.get(name=agent.name).heartbeat_at
    wait_for(lambda: call("/wake/guess") and call(url.path) and Node.objects.get(name=agent.name).heartbeat_at > seen)


def test_agent_and_minder_are_small(site: Site) -> None:
    agent = site.agent()
    site.wait(site.submit("/bin/sleep", "60"), "running")
    assert agent.process is not None
    assert memory_kib(agent.process.pid) < AGENT_MAX_KIB
    assert memory_kib(minder_of(agent)) < MINDER_MAX_KIB


def test_a_second_agent_in_the_same_folder_is_refused(site: Site) -> None:
    agent = site.agent()
    second = AgentProcess("n1", site.folder, agent.options).start()
    assert second.process is not None
    assert second.process.wait(10) == 2
    assert agent.log().splitlines()[-1] == f"agent: {agent.state} is in use by another agent"


def test_an_agent_that_lost_its_folder_says_so_of_what_had_begun(site: Site) -> None:
    agent = site.agent()
    workload = site.submit("/bin/sleep", "60", resumable=True)
    site.wait(workload, "running")
    run = site.run(workload)
    agent.kill()
    for folder in agent.ranks():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    agent.start()
    site.wait(workload, "queued")
    assert site.run(workload).ranks.get().message == "the node's agent has lost its record of it"
    wait_for(lambda: site.marked(run) == [])


@pytest.mark.long
def test_a_silent_node_comes_back_with_its_run(site: Site) -> None:
    policies.change(cluster=site.cluster, knobs={"heartbeat_timeout_s": 2})
    agent = site.agent()
    workload = site.submit("/bin/sleep", "60")
    site.wait(workload, "running")
    run = site.run(workload)
    agent.kill()
    wait_for(lambda: site.look() or Run.objects.get(pk=run.pk).state == "unreachable")
    workload.refresh_from_db()
    assert (agent.row.health, workload.state) == ("unreachable", "unreachable")
    agent.start()
    site.wait(workload, "running")
    assert (agent.row.health, Run.objects.get(pk=run.pk).state) == ("healthy", "running")
    states = agent.row.spells.values_list("state", flat=True)
    assert list(states) == ["healthy", "unreachable", "healthy"]


def test_silence_counts_only_while_the_portal_listens(site: Site, settings: object) -> None:
    policies.change(cluster=site.cluster, knobs={"heartbeat_timeout_s": 1})
    agent = site.agent()
    agent.kill()
    settings.URL = "http://127.0.0.1:9"  # type: ignore[attr-defined]  # where nothing answers
    time.sleep(3)
    site.look()
    assert agent.row.health == "healthy"
    settings.URL = site.url  # type: ignore[attr-defined]
    site.look()
    assert agent.row.health == "unreachable"


def test_a_node_that_is_known_to_be_dead_loses_its_runs_at_once(site: Site) -> None:
    agent = site.agent()
    workload = site.submit("/bin/sleep", "60")
    site.wait(workload, "running")
    run = site.run(workload)
    assert nodes.set_health(node=agent.row, health="down")
    site.wait(workload, "lost")
    assert workload.reason_text == "Node n1 was lost, and rank 0 with it."
    wait_for(lambda: site.marked(run) == [])  # it was not dead after all: its agent hears that nothing is wanted
    assert not nodes.set_health(node=agent.row, health="down")
