"""Fencing: nothing of the past is obeyed, whoever says it; doing twice is doing once."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from scheduler.executors.fences import KEPT_MAX, Fences
from scheduler.models import Event, Node, PortalEpoch, Run, Workload
from scheduler.services import epochs, workloads
from tests.executors.conftest import Site, wait_for

ONCE = "mkdir ran-$ALLOTMENT_RUN || exit 9; sleep 600"


def test_epochs_only_rise_and_the_newest_run_of_a_workload_is_remembered(tmp_path: Path) -> None:
    first = Fences(tmp_path)
    assert first.may_start("A-1", 7)
    first.started("A-1", 7)
    assert not first.is_past(5)
    second = Fences(tmp_path)
    assert second.epoch > first.epoch
    assert [second.may_start("A-1", run) for run in (6, 7, 8)] == [False, False, True]
    assert [second.is_past(epoch) for epoch in (4, 5, 6, 5)] == [True, False, False, True]
    content = json.loads((tmp_path / "fences.json").read_text())
    content["epoch"] = 10**18  # a clock that was far ahead
    (tmp_path / "fences.json").write_text(json.dumps(content))
    assert Fences(tmp_path).epoch == 10**18 + 1


def test_only_so_many_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.executors.fences.KEPT_MAX", 3)
    fences = Fences(tmp_path)
    for number in range(5):
        fences.started(f"A-{number}", number + 1)
    assert KEPT_MAX > 1_000
    assert [fences.may_start(f"A-{number}", 1) for number in range(5)] == [True, True, False, False, False]


def test_a_copy_of_a_node_is_heard_only_if_it_was_started_last(site: Site) -> None:
    """The folder of an agent is copied, as with a machine; both think that they are n1."""
    agent = site.agent()
    workload = site.submit("/bin/sh", "-c", ONCE)
    site.wait(workload, "running")
    shutil.copytree(agent.state, site.folder / "copy", ignore=shutil.ignore_patterns("ranks", "lock"))
    epoch = Node.objects.get().agent_epoch
    said = {"cluster": "bench", "node": "n1", "problems": ["all is lost"], "epoch": epoch - 1}
    refused = (409, {"field": "epoch", "message": "an agent that was started later speaks for this node"})
    assert site.post("sync", said, token=agent.token) == refused
    assert (Node.objects.get().trouble, Node.objects.get().agent_epoch) == ("", epoch)
    agent.kill()
    agent.start()
    wait_for(lambda: Node.objects.get().agent_epoch > epoch)
    assert site.post("sync", said | {"epoch": epoch}, token=agent.token) == refused
    workload.refresh_from_db()
    assert (workload.state, Run.objects.count()) == ("running", 1)


class Impostor:
    """A server that was left running on an old database: it wants everything stopped, and something else started."""

    def __init__(self) -> None:
        self.asked = 0
        impostor = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                impostor.asked += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                body = json.dumps({"epoch": 1, "desired": [], "self_fence_s": 1}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    """Such a server."""
    impostor = Impostor()
    yield impostor
    impostor.server.shutdown()


def test_a_portal_of_the_past_is_not_obeyed(site: Site, impostor: Impostor) -> None:
    PortalEpoch.objects.create(number=2)
    agent = site.agent()
    workload = site.submit("/bin/sh", "-c", ONCE)
    site.wait(workload, "running")
    agent.kill()
    agent.options[agent.options.index(site.url)] = impostor.url
    agent.start()
    wait_for(lambda: impostor.asked > 2)
    assert "the portal's answer is not obeyed: epoch: 1 is a portal's that was replaced by 2" in agent.log()
    assert len(site.marked(site.run(workload))) > 0
    agent.kill()
    agent.options[agent.options.index(impostor.url)] = site.url
    agent.start()
    before = Node.objects.get().agent_epoch
    wait_for(lambda: Node.objects.get().agent_epoch >= before)
    workload.refresh_from_db()
    assert (workload.state, Run.objects.count()) == ("running", 1)


def test_after_a_restore_nothing_that_was_given_away_is_given_away_again(site: Site) -> None:
    site.agent()
    first = site.submit("/bin/true")
    site.wait(first, "finished")
    assert epochs.current() == 1
    number = epochs.begin_another()
    assert number == epochs.current() > 1
    assert epochs.begin_another(timezone.now()) > number
    second = site.submit("/bin/true")
    site.wait(second, "finished")
    assert second.code == "A-2002"
    assert site.run(second).pk > number


def test_an_order_that_was_carried_out_before_is_not_carried_out_again(site: Site) -> None:
    """The portal forgets that a run began, as after a restore without a new epoch; the agent forgets its folder."""
    agent = site.agent()
    workload = site.submit("/bin/sh", "-c", ONCE, resumable=True)
    site.wait(workload, "running")
    run = site.run(workload)
    agent.kill()
    for pid in site.marked(run):
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists() or _kill(pid))
    shutil.rmtree(agent.state / "ranks")
    run.ranks.update(state="wanted", began_at=None, pid=None)
    agent.start()
    wait_for(lambda: Run.objects.filter(pk=run.pk, state="ended").exists())
    run.refresh_from_db()
    assert run.end_reason == "node_lost"
    assert run.ranks.get().message == "it, or a newer run of its workload, has been started here before"
    site.look()
    site.wait(workload, "running")
    assert site.run(workload).number == 2
    workloads.cancel(workload=workload, by=None)
    site.wait(workload, "cancelled")


def _kill(pid: int) -> bool:
    import os
    import signal

    os.kill(pid, signal.SIGKILL)
    return False


def test_every_start_is_one_event_of_one_run(site: Site) -> None:
    site.agent()
    workload = site.submit("/bin/true")
    site.wait(workload, "finished")
    kinds = list(Event.objects.filter(run=site.run(workload)).order_by("pk").values_list("kind", flat=True))
    assert kinds == ["run_started", "run_running", "run_ended"]
    assert Workload.objects.get().state == "finished"
