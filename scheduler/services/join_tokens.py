"""Join tokens: each lets one node join one cluster, once, until it expires."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import Cluster, Person
from budgets.services import ledger
from scheduler.models import JoinToken, Node
from scheduler.services import nodes

LONGEST_S = 30 * 86_400
FORGOTTEN_AFTER = timedelta(days=90)
PREFIX = "join-"


def make(*, cluster: Cluster, valid_for_s: int, node_name: str = "", now: datetime | None = None) -> str:
    """`issue` by whoever has the machine; what the token is."""
    return issue(cluster=cluster, valid_for_s=valid_for_s, node_name=node_name, by=None, now=now)[1]


def issue(
    *, cluster: Cluster, valid_for_s: int, node_name: str = "", by: Person | None, now: datetime | None = None
) -> tuple[JoinToken, str]:
    """A new token, and what it is. Only its hash is kept: it is shown once.

    Args:
        cluster: which nodes join.
        valid_for_s: until it expires, in seconds.
        node_name: the only node that may use it; empty for any.
        by: the operator who makes it; None for whoever has the machine.

    Raises:
        InputError: no agents join that cluster, an impossible name, or too long a time. NotAllowed: not theirs to do.
    """
    _allowed(by, cluster)
    at = (now or timezone.now()).replace(microsecond=0)
    if cluster.executor != Cluster.Executor.AGENT:
        raise InputError("cluster", _("%(cluster)s has no agents") % {"cluster": cluster.name})
    if node_name and not nodes.NAME.fullmatch(node_name):
        raise InputError("node", _("%(name)r is no name for a node") % {"name": node_name[:60]})
    if not 1 <= valid_for_s <= LONGEST_S:
        raise InputError("valid_for_s", _("must be 1 to %(most)s") % {"most": f"{LONGEST_S:,}"})
    JoinToken.objects.filter(expires_at__lt=at - FORGOTTEN_AFTER).delete()
    token = PREFIX + secrets.token_urlsafe(30)
    with transaction.atomic():
        row = JoinToken.objects.create(
            cluster=cluster,
            node_name=node_name,
            digest=nodes.digest(token),
            made_at=at,
            expires_at=at + timedelta(seconds=valid_for_s),
        )
        _record("join_token.made", row, by)
    return row, token


def revoke(*, row: JoinToken, by: Person | None = None) -> bool:
    """Nobody joins by this token any more. False: somebody has.

    Raises:
        NotAllowed: not theirs to do.
    """
    _allowed(by, row.cluster)
    with transaction.atomic():
        if not JoinToken.objects.filter(pk=row.pk, used_at=None).delete()[0]:
            return False
        _record("join_token.revoked", row, by)
    return True


def _allowed(by: Person | None, cluster: Cluster) -> None:
    if by is not None and not may(by, "node.operate", cluster):
        raise NotAllowed("node.operate")


def _record(verb: str, row: JoinToken, by: Person | None) -> None:
    """In the ledger of the whole tree."""
    said = {"node": row.node_name or "*", "until": row.expires_at.isoformat()}
    is_new = verb == "join_token.made"
    before, after = (None, said) if is_new else (said, None)
    ledger.record_of_all(verb=verb, by=by, before=before, after=after, reason="", cluster=row.cluster)


def find(*, token: str, cluster: Cluster, node_name: str, agent_token: str, now: datetime) -> JoinToken | None:
    """The join token, locked in the caller's transaction, if this node may join by it; None where it may not.

    One that was used lets the same agent, which shows the same token of its own, try again: its answer may have been
    lost. Nobody else.
    """
    row = JoinToken.objects.select_for_update().filter(digest=nodes.digest(token), cluster=cluster).first()
    if row is None or (row.node_name and row.node_name != node_name):
        return None
    if row.used_at is not None:
        return row if row.used_with == nodes.digest(agent_token) else None
    return row if now < row.expires_at else None


def use(*, row: JoinToken, node: Node, agent_token: str, now: datetime) -> None:
    """The node has joined by it: nobody else can."""
    JoinToken.objects.filter(pk=row.pk, used_at=None).update(
        used_at=now, used_by=node, used_with=nodes.digest(agent_token)
    )
