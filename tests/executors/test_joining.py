"""Join tokens: for one node, once, until they expire."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from budgets.errors import InputError
from scheduler.models import Device, JoinToken, Node
from scheduler.services import join_tokens
from tests.executors.conftest import Site, wait_for

MINE, OTHERS = "m" * 40, "o" * 40
REFUSED = (401, {"field": "token", "message": "is no join token for this node, has expired, or has been used"})


def offer(site: Site, token: str, node: str = "n1", own: str = MINE, **more: Any) -> tuple[int, Any]:
    """Try to join with a join token."""
    said = {"cluster": "bench", "node": node, "token": own, "devices": 2, **more}
    return site.post("register", said, token=token)


def test_a_token_lets_one_node_join_once(site: Site) -> None:
    token = join_tokens.make(cluster=site.cluster, valid_for_s=60)
    assert token not in str(JoinToken.objects.values().get())
    assert offer(site, token) == (200, {"node": "n1"})
    assert offer(site, token) == (200, {"node": "n1"})  # its answer may have been lost
    assert offer(site, token, own=OTHERS) == REFUSED
    assert offer(site, token, node="n2", own=OTHERS) == REFUSED
    assert list(Node.objects.values_list("name", flat=True)) == ["n1"]


def test_an_expired_token_lets_nobody_join(site: Site) -> None:
    token = join_tokens.make(cluster=site.cluster, valid_for_s=60, now=timezone.now() - timedelta(seconds=61))
    assert offer(site, token) == REFUSED
    assert offer(site, "join-unknown") == REFUSED
    assert not Node.objects.exists()


def test_a_token_for_one_node_is_for_no_other(site: Site) -> None:
    token = join_tokens.make(cluster=site.cluster, valid_for_s=60, node_name="n7")
    assert offer(site, token) == REFUSED
    assert offer(site, token, node="n7") == (200, {"node": "n7"})


def test_a_bad_offer_uses_nothing_up(site: Site) -> None:
    token = join_tokens.make(cluster=site.cluster, valid_for_s=60)
    assert offer(site, token, devices=-1)[0] == 400
    assert offer(site, token, uuids=["GPU-1", "GPU-2"], epoch=5) == (200, {"node": "n1"})
    assert list(Device.objects.order_by("index").values_list("uuid", flat=True)) == ["GPU-1", "GPU-2"]
    assert Node.objects.get().agent_epoch == 5


@pytest.mark.parametrize(
    ("more", "field"),
    [({"valid_for_s": 0}, "valid_for_s"), ({"valid_for_s": 10**9}, "valid_for_s"), ({"node_name": "../x"}, "node")],
)
def test_a_token_that_makes_no_sense_is_not_made(site: Site, more: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        join_tokens.make(**{"cluster": site.cluster, "valid_for_s": 60, **more})
    assert caught.value.field == field


def test_an_agent_joins_with_the_token_that_the_command_prints(site: Site) -> None:
    said = StringIO()
    call_command("join_token", "bench", "--node", "n1", "--valid-for", "10m", stdout=said)
    token = said.getvalue().strip()
    (site.folder / "other").write_text(token)
    site.agent("n1", **{"join-token-file": site.folder / "other"})
    wait_for(lambda: Node.objects.filter(name="n1").exclude(heartbeat_at=None).exists())
    assert JoinToken.objects.get().used_by == Node.objects.get()
