"""One look at a cluster's Slurm: what is there, what follows from it, what is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import connection
from django.utils import timezone

from budgets.models import Cluster
from scheduler.executors.slurm import SlurmError, Unreadable
from scheduler.executors.slurm import jobs as slurm_jobs
from scheduler.executors.slurm import nodes as slurm_nodes
from scheduler.executors.slurm.calling import Caller
from scheduler.models import SlurmLink
from scheduler.services.slurm import checkpoints, jobs, links, nodes, orders, printed, shares, throughput, usage, works

log = structlog.get_logger(__name__)

LOOK_LOCK = 0x414C03
"""Class of the session lock that a look holds: of two that look at one cluster, one goes away."""


@dataclass(frozen=True, slots=True)
class Looked:
    """How a look went: whether Slurm answered, and how many commands changed something there."""

    reached: bool
    done: int = 0


@contextmanager
def the_only_one(cluster_id: int) -> Iterator[bool]:
    """Whether nobody else looks at this cluster now; if so, until the end of the block."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOOK_LOCK, cluster_id])
        (is_mine,) = cursor.fetchone()
    try:
        yield is_mine
    finally:
        if is_mine:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [LOOK_LOCK, cluster_id])


def look(cluster_id: int, now: datetime | None = None, *, is_glance: bool = False) -> Looked | None:
    """Look once; None where somebody else does, or the cluster has no Slurm. Raises nothing for a Slurm in trouble.

    A glance sees to jobs only, so that what has just been decided starts sooner: nodes and accounts wait for the next
    whole look.
    """
    link = SlurmLink.objects.select_related("cluster").filter(cluster=cluster_id).first()
    if link is None or link.cluster.executor not in links.KINDS:
        return None
    with the_only_one(cluster_id) as is_mine:
        if not is_mine:
            return None
        return _look(link, now, is_glance and link.contact_at is not None)


def _look(link: SlurmLink, now: datetime | None, is_glance: bool) -> Looked:
    caller = links.caller(link)
    desk = works.Desk(link, caller)
    at = (now or timezone.now()).replace(microsecond=0)
    try:
        if link.cluster.executor == Cluster.Executor.SLURM:
            _carry_out(link, caller, desk, at, is_glance)
        else:
            desk.troubles += _read_only(link, caller, at)
        if not is_glance:
            desk.troubles += shares.tend(link, caller, at)
    except (SlurmError, Unreadable) as error:
        links.failed(link, at, str(error))
        return Looked(False, desk.done)
    if not is_glance:
        _keep(link, desk)
        links.contacted(link, at)
    return Looked(True, desk.done)


def _keep(link: SlurmLink, desk: works.Desk) -> None:
    """What was only planned, and what was refused, for the page."""
    plan, troubles = desk.planned[: works.PLAN_SHOWN], desk.troubles[: works.PLAN_SHOWN]
    if (plan, troubles) != (link.plan, link.troubles):
        link.plan, link.troubles = plan, troubles
        link.save(update_fields=["plan", "troubles"])


def read_nodes(link: SlurmLink, caller: Caller) -> list[slurm_nodes.SlurmNode]:
    """The nodes of its partition, with their racks.

    Raises:
        SlurmError, Unreadable: it did not answer, or not as it should.
    """
    seen = slurm_nodes.read(caller(slurm_nodes.LIST))
    if link.partition:
        seen = [node for node in seen if link.partition in node.partitions]
    try:
        racks = slurm_nodes.read_topology(caller(slurm_nodes.TOPOLOGY))
    except Unreadable:
        racks = {}  # "No topology information available" and its like
    except SlurmError as error:
        if "opology" not in str(error):
            raise
        racks = {}
    return slurm_nodes.with_places(seen, racks)


def _carry_out(link: SlurmLink, caller: Caller, desk: works.Desk, now: datetime, is_glance: bool) -> None:
    seen = [] if is_glance else read_nodes(link, caller)  # before the jobs: nodes.take_foreign
    listed = slurm_jobs.read(caller(slurm_jobs.LIST))
    ours = jobs.find(link, listed, now)
    # A node that took a run along since then must be known to be down before the run waits again: else it starts there.
    newest = read_nodes(link, caller) if jobs.may_have_lost_nodes(ours) else seen
    printed.take(ours)
    checkpoints.take(ours)
    throughput.take(ours)
    jobs.report(ours, caller)
    if newest or not is_glance:
        desk.troubles += nodes.take(link, newest, now)
    if not is_glance:
        nodes.take_foreign(link, seen, listed, jobs.held_by_runs(ours), now)
    orders.carry_out(ours, desk)
    for order in nodes.orders(link, seen):
        desk.order(order)


def _read_only(link: SlurmLink, caller: Caller, now: datetime) -> list[str]:
    """Where Slurm decides: nodes, and what ran. What could not be taken, in words."""
    troubles = nodes.take(link, read_nodes(link, caller), now)
    return troubles + usage.take(link, caller, slurm_jobs.read(caller(slurm_jobs.LIST)), now)
