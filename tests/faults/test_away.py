"""The broker is away for a minute, then the database: all are told, what runs goes on, and it recovers by itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.house import STATES, House
from tests.platform.conftest import Installation, wait_until

AWAY_S = 40 if os.environ.get("CI") else 60
"""A minute; CI, which has other things to do, needs only as much as shows everything."""
PROMPT_S, TOLD_S = 3.0, 8.0
"""No submission takes longer than the first, and no two refusals than the second, on a crowded machine either; but on
one where submissions take long while nothing is the matter, `SLOWER` times as long."""
SLOWER = 5
BACK_WITHIN_S = 45
"""The supervisor tries to start a server every 30 s at the latest; then all the others find it within seconds."""


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """The installation that all of this is done to."""
    parent = Path(tempfile.mkdtemp(prefix="allotment-away-", dir="/tmp"))
    parent.chmod(0o711)
    made = None
    try:
        made = House(Installation(parent / "data"))
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(parent, ignore_errors=True)


@contextmanager
def away(house: House, needed: Path, *words: str) -> Iterator[float]:
    """A server is killed and cannot start again, since something that it needs is not there; since when, in seconds."""
    hidden = needed.with_name(f"{needed.name}.away")
    needed.rename(hidden)
    os.kill(house.installation.find(*words), signal.SIGKILL)
    try:
        yield time.monotonic()
    finally:
        hidden.rename(needed)


@pytest.mark.long
def test_without_the_broker_nothing_is_lost_and_pages_say_since_when_nothing_starts(house: House) -> None:
    usual_s, _refused = min(house.submit(1, 300, 10 * AWAY_S + 300) for _ in range(2))
    assert wait_until(lambda: house.commands() == 2, within_s=30)
    assert 'data-stopped="here"' not in house.page("/queue/here/")
    with away(house, house.folder("valkey") / "valkey.conf", "valkey-server") as since_s:
        longest_s, refused = max(house.submit(1, 5, 10) for _ in range(3))
        assert refused == 0
        assert longest_s < max(PROMPT_S, SLOWER * usual_s), (longest_s, usual_s)
        said = lambda: 'data-stopped="here"' in house.page("/")  # noqa: E731
        assert wait_until(said, within_s=AWAY_S - 5)
        part = house.web.ask("GET", "/queue/here/", cookie=house.cookie, HX_Request="true")
        assert part is not None
        assert 'hx-swap-oob="true"' in part.text
        assert "Passes on here have stopped" in part.text
        time.sleep(max(0.0, since_s + AWAY_S - time.monotonic()))
        assert house.commands() == 2
    assert wait_until(lambda: 'data-stopped="here"' not in house.page("/"), within_s=BACK_WITHIN_S)
    assert house.commands() >= 2  # those that ran go on
    assert wait_until(lambda: house.ask(STATES)["runs"] == 5, within_s=90)  # and the others have begun


@pytest.mark.long
def test_a_broker_that_hangs_holds_up_no_submission_for_long(house: House) -> None:
    usual_s, _refused = min(house.submit(1, 5, 1) for _ in range(2))
    pid = house.installation.find("valkey-server")
    os.kill(pid, signal.SIGSTOP)
    try:
        took = sorted(house.submit(1, 5, 1) for _ in range(4))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert took[-1][0] < 12 + SLOWER * usual_s, (took, usual_s)
    assert took[-2][0] < max(PROMPT_S, SLOWER * usual_s), (took, usual_s)  # one waits for all the others


@pytest.mark.long
def test_without_the_database_everybody_is_told_and_what_runs_goes_on(house: House) -> None:
    for _ in range(2):
        house.submit(1, 300, 10 * AWAY_S + 200)
    assert wait_until(lambda: house.commands() >= 2, within_s=60)
    assert wait_until(lambda: house.ask(STATES)["runs"] == house.submitted, within_s=120)
    with away(house, house.folder("postgresql") / "postgresql.conf", "postgres", "-D") as since_s:
        house.tell(1, 5, 10)  # keeps trying
        assert wait_until(lambda: house.web.status_of("/login/") == 503, within_s=10)
        while time.monotonic() < since_s + AWAY_S:
            began_s = time.monotonic()
            page = house.web.get("/queue/here/", house.cookie)
            api = house.web.get("/api/v1/clusters/", house.cookie)
            assert page is not None
            assert api is not None
            assert (page.status, api.status) == (503, 503)
            assert time.monotonic() - began_s < TOLD_S
            assert "database does not answer" in page.text
            assert '<meta http-equiv="refresh"' in page.text
            assert json.loads(api.text)["status"] == 503
            assert api.headers["Content-Type"] == "application/problem+json"
            assert int(api.headers["Retry-After"]) > 0
            time.sleep(2)
        assert house.commands() >= 2
    assert wait_until(lambda: house.page("/queue/here/"), within_s=BACK_WITHIN_S)
    found = house.ask(STATES)
    assert [health for _name, health, _trouble in found["nodes"]] == ["healthy", "healthy"]
    house.settle(within_s=240)
    assert house.ask(STATES)["runs"] == house.submitted  # nothing was started twice, nor lost and started again
