"""How a cluster's Slurm is reached, and whether it is."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.core.exceptions import ValidationError

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.executors.slurm import Caller
from scheduler.executors.slurm.calling import TIMEOUT_S
from scheduler.models import SlurmLink
from scheduler.services import rollout

log = structlog.get_logger(__name__)

KINDS = (Cluster.Executor.SLURM, Cluster.Executor.ADVISED)
FRESH_S = 30
"""A decision is made only on what was seen at most so long ago: what starts is charged from then on."""
SETTINGS = ("conf", "name", "partition", "qos", "folder", "run_as_owner", "writes", "held_ahead")


def connect(*, cluster: Cluster, **settings: Any) -> SlurmLink:
    """Say how a cluster's Slurm is reached, or say it anew; what is not given stays.

    Args:
        cluster: of a kind that has a Slurm.
        settings: columns of `SlurmLink`, those of SETTINGS.

    Raises:
        InputError: the cluster is of another kind, or a setting is unknown or of the wrong kind.
    """
    if cluster.executor not in KINDS:
        raise InputError("cluster", f"{cluster.name} is not carried out by a Slurm")
    for name in settings:
        if name not in SETTINGS:
            raise InputError(name, f"is not one of {', '.join(SETTINGS)}")
    link = SlurmLink.objects.filter(cluster=cluster).first() or SlurmLink(cluster=cluster, token=secrets.token_hex(6))
    for name, value in settings.items():
        setattr(link, name, value)
    try:
        link.clean_fields(exclude={each.name for each in SlurmLink._meta.fields} - set(SETTINGS))
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise InputError(field, messages[0]) from None
    link.save()
    return link


def caller(link: SlurmLink) -> Caller:
    """How its commands are called."""
    return Caller(conf=link.conf, timeout_s=TIMEOUT_S)


def contacted(link: SlurmLink, at: datetime) -> None:
    """A whole look has succeeded."""
    if link.is_failing:
        log.info("slurm_is_back", cluster=link.cluster.name)
    link.tried_at, link.contact_at, link.failing_since, link.error = at, at, None, ""
    link.save(update_fields=["tried_at", "contact_at", "failing_since", "error"])


def failed(link: SlurmLink, at: datetime, why: str) -> None:
    """A look has failed; nothing follows from it."""
    if link.error != why[:400]:
        log.warning("slurm_not_reached", cluster=link.cluster.name, error=why)
    link.tried_at, link.failing_since, link.error = at, link.failing_since or at, why[:400]
    link.save(update_fields=["tried_at", "failing_since", "error"])


def may_decide(cluster: Cluster, now: datetime) -> bool:
    """Whether passes are made: not where Slurm decides, not on what was seen too long ago, and not where nothing may be
    written, unless they are only to be shown."""
    if cluster.executor == Cluster.Executor.ADVISED:
        return False
    if cluster.executor != Cluster.Executor.SLURM:
        return True
    row = SlurmLink.objects.filter(cluster=cluster).values("contact_at", "writes").first()
    if row is None or row["contact_at"] is None:
        return False
    is_fresh = now - row["contact_at"] <= timedelta(seconds=FRESH_S)
    return is_fresh and (row["writes"] or rollout.mode_of(cluster, now) is rollout.Mode.SHADOW)
