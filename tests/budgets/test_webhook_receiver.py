"""The receiver of the documentation, as a process of its own: takes what is ours, once, and nothing else."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from budgets.models import WebhookDelivery
from budgets.services import deliveries, sending, webhook_settings, webhooks
from tests.budgets.laboratory import Lab
from tests.budgets.servers import free_port
from tests.conftest import REPOSITORY

PROGRAM = REPOSITORY / "docs" / "webhook_receiver.py"
SECRET = "a secret of this test"


class Running:
    """A receiver, and what it printed."""

    def __init__(self, output: Path, secret: str) -> None:
        self.port, self.output = free_port(), output
        with output.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(self.port)],
                env={**os.environ, "WEBHOOK_SECRET": secret}, stdout=file, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == f"listening on {self.port}\n"

    def post(self, body: bytes, signature: str | None) -> int:
        """What it answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        headers = {} if signature is None else {"X-Allotment-Signature": signature}
        connection.request("POST", "/", body, headers)
        return connection.getresponse().status

    def took(self) -> list[dict]:
        """What it has taken."""
        return [json.loads(line) for line in self.output.read_text().splitlines()]


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Running]:
    """One that knows SECRET."""
    running = Running(tmp_path / "taken", SECRET)
    yield running
    running.process.terminate()
    running.process.wait(5)


def signed(body: bytes, secret: str = SECRET, ago_s: int = 0) -> str:
    """As the portal signs."""
    return webhooks.signature([secret], body, int(time.time()) - ago_s)


def test_it_takes_what_the_portal_posts_once(lab: Lab, settings, tmp_path: Path) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.1/32")]
    row = webhook_settings.create(by=lab.pi, url="http://127.0.0.1:9/")
    running = Running(tmp_path / "taken", row.secret)
    try:
        webhook_settings.change(webhook=row, url=f"http://127.0.0.1:{running.port}/hooks/7")
        webhook_settings.ping(webhook=row)
        sending.send_due()
        (delivery,) = WebhookDelivery.objects.all()
        assert (delivery.state, delivery.attempts.get().status) == ("delivered", 204)
        deliveries.send_again(delivery=delivery)
        sending.send_due()
        assert delivery.attempts.count() == 2
        webhook_settings.rotate(webhook=row)  # it knows the old one still, and is given a day
        webhook_settings.ping(webhook=row)
        sending.send_due()
        assert [each["event"] for each in running.took()] == ["ping", "ping"]
        assert len({each["id"] for each in running.took()}) == 2
        webhook_settings.ping(webhook=row)
        sending.send_due(datetime.now(UTC) + timedelta(hours=25))  # by a clock that is a day ahead, or an old post
        assert WebhookDelivery.objects.latest("pk").attempts.get().status == 401
    finally:
        running.process.terminate()
        running.process.wait(5)


def test_it_takes_nothing_else(receiver: Running) -> None:
    body = b'{"id": "1", "event": "ping"}'
    good = signed(body)
    moment, _, proof = good.partition(",")
    assert receiver.post(body, None) == 401
    assert receiver.post(body, signed(body, "another secret")) == 401
    assert receiver.post(body + b" ", good) == 401
    assert receiver.post(body, signed(body, ago_s=301)) == 401
    assert receiver.post(body, signed(body, ago_s=-301)) == 401
    assert receiver.post(body, f"t={int(moment[2:]) + 1},{proof}") == 401
    assert receiver.post(body, f"{moment},{moment},{proof}") == 401
    assert receiver.post(body, "") == 401
    assert receiver.took() == []
    assert receiver.post(body, signed(body, ago_s=290)) == 204
    assert receiver.post(body, good) == 204  # the same id again
    assert [each["id"] for each in receiver.took()] == ["1"]
    assert receiver.post(body, f"{moment},v1=00,{proof}") == 204  # while the secret changes


def test_the_documentation_shows_this_very_code() -> None:
    code = PROGRAM.read_text().split("# [verify]\n")[1].split("# [/verify]")[0].strip()
    shown = (REPOSITORY / "docs" / "webhooks.md").read_text().split("```python\n")[1].split("```")[0].strip()
    assert shown == code


def test_it_reads_signatures_as_documented() -> None:
    spec = importlib.util.spec_from_file_location("webhook_receiver", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    now_s = 1_782_993_600
    header = webhooks.signature([SECRET, "old"], b"{}", now_s)
    assert header.count("v1=") == 2
    assert [module.is_ours(secret, header, b"{}", now_s) for secret in (SECRET, "old", "none")] == [True, True, False]
    assert module.WINDOW_S == webhooks.REPLAY_WINDOW_S
    for broken in ("t=", "t=x,v1=1", "v1=1", "t=1;v1=2", "t=-5,v1=1"):
        assert not module.is_ours(SECRET, broken, b"{}", now_s)
