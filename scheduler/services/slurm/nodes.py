"""What Slurm says of nodes becomes rows; what is asked of a node here becomes a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import Count

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.executors.slurm import commands
from scheduler.executors.slurm.jobs import Job
from scheduler.executors.slurm.nodes import SlurmNode
from scheduler.models import WHOLE_DEVICE_MILLI, Node, SlurmLink
from scheduler.services import events, nodes

FOREIGN_SHOWN = 200
FOUND_BY_SLURM = (
    *("NHC", "Not responding", "Kill task failed", "Epilog error", "Prolog error", "batch job complete failure"),
    *("gres/", "Low ", "Duplicate jobid", "Node unexpectedly rebooted", "update failed"),
)
"""How reasons begin that Slurm or its health check writes: such a node may be repaired without a person. Any other is
an admin's, who knows why."""


SLURMS_OWN_SLIP = "Duplicate jobid"
"""Why a controller that was killed, and has forgotten what it had just started, drains a node that had it still."""


def take(link: SlurmLink, seen: Sequence[SlurmNode], now: datetime) -> list[str]:
    """Nodes join, change, fall ill and come back as Slurm says. Says what could not be taken, in words."""
    troubles = []
    rows = _rows(link.cluster)
    silent = _silent(link, seen, now)
    for each in seen:
        try:
            row = _registered(link.cluster, each, rows.get(each.name), now)
        except InputError as error:
            troubles.append(f"{each.name}: {error.message}")
            continue
        if row is not None:
            _health(row, each, each.name in silent, now)
    for name, row in rows.items():
        if name not in {each.name for each in seen} and row.health != Node.Health.DOWN:
            nodes.set_health(node=row, health=Node.Health.DOWN, reason="not in Slurm any more", now=now)
    return troubles


def _rows(cluster: Cluster) -> dict[str, Node]:
    rows = Node.objects.filter(cluster=cluster, retired_at=None).select_related("rack", "cluster")
    return {row.name: row for row in rows.annotate(size=Count("devices"))}


def devices_of(cluster: Cluster, node: SlurmNode) -> int:
    """How many of the cluster's units a node has."""
    return node.cpus if cluster.unit == Cluster.Unit.CORE else node.gpus


def _registered(cluster: Cluster, node: SlurmNode, row: Node | None, now: datetime) -> Node | None:
    """The node's row, up to date; None for one without devices: it is none of this cluster's."""
    devices = devices_of(cluster, node)
    if row is None and not devices:
        return None
    cpu_milli = node.cpus * 1_000
    is_same = row is not None and (
        (row.rack.name if row.rack else "") == node.rack
        and (row.rail, row.leaf) == (node.rail, node.leaf)
        and (row.cpu_milli, row.memory_mib, row.gpu_class) == (cpu_milli, node.memory_mib, node.gpu_model)
        and row.size == devices  # type: ignore[attr-defined]
    )
    if is_same:
        return row
    return nodes.register(
        cluster=cluster,
        name=node.name,
        devices=devices,
        rack=node.rack,
        rail=node.rail,
        leaf=node.leaf,
        cpu_milli=cpu_milli,
        memory_mib=node.memory_mib,
        gpu_class=node.gpu_model,
        now=now,
    )


def _silent(link: SlurmLink, seen: Sequence[SlurmNode], now: datetime) -> set[str]:
    """Nodes that have not answered for `heartbeat_timeout_s`: after a restart of Slurm all are silent for a moment."""
    now_s = int(now.timestamp())
    since = {each.name: link.silent.get(each.name, now_s) for each in seen if each.is_silent}
    if since != link.silent:
        link.silent = since
        link.save(update_fields=["silent"])
    timeout_s = nodes.policy(link.cluster).heartbeat_timeout_s if since else 0
    return {name for name, began_s in since.items() if now_s - began_s > timeout_s}


def _health(row: Node, node: SlurmNode, is_silent: bool, now: datetime) -> None:
    is_ours = node.reason.startswith(commands.DRAIN_MARK)
    if node.is_down:
        wanted = Node.Health.DOWN
    elif is_silent:
        wanted = Node.Health.UNREACHABLE
    elif node.is_silent:
        return  # not for long yet: what was known of it stands
    elif node.is_drained and not is_ours:
        wanted = Node.Health.UNHEALTHY
    else:
        wanted = Node.Health.HEALTHY
    if row.health == wanted:
        return
    why = f"Slurm: {node.reason or '+'.join(sorted(node.flags)).lower()}"[: nodes.REASON_MAX_CHARS]
    if wanted == Node.Health.UNREACHABLE:  # its jobs go on, for all that Slurm knows: only nothing starts there
        with events.changing(row.cluster_id):
            nodes.change_health(row, row.health, wanted, now, what="silent", reason=why)
        return
    is_persons = not node.reason.startswith(FOUND_BY_SLURM)
    nodes.set_health(node=row, health=wanted, reason=why, now=now, is_persons=is_persons)


def orders(link: SlurmLink, seen: Sequence[SlurmNode]) -> list[list[str]]:
    """Drains that were asked for here and are not in Slurm yet; the end of those of ours that are over, and of those
    that Slurm has brought about by its own restart, once the node is empty."""
    asked = dict(
        Node.objects.filter(cluster=link.cluster, retired_at=None)
        .exclude(drain_asked_at=None)
        .values_list("name", "drain_reason")
    )
    found = []
    for node in seen:
        is_ours = node.reason.startswith(commands.DRAIN_MARK)
        if node.name in asked and not node.is_drained and not node.is_down:
            found.append(commands.drain(node.name, asked[node.name] or "drained in the portal"))
        elif node.name not in asked and node.is_drained and (is_ours or _is_slip(node)):
            found.append(commands.resume(node.name))
    return found


def _is_slip(node: SlurmNode) -> bool:
    return node.reason == SLURMS_OWN_SLIP and not node.held_cpus


# --- jobs of others ---------------------------------------------------------------------------------------------------


def take_foreign(
    link: SlurmLink,
    seen: Sequence[SlurmNode],
    jobs: Sequence[Job],
    ours: Mapping[int, Mapping[str, int]],
    now: datetime,
) -> None:
    """What jobs of others hold is not free: of each node, what Slurm has given out less what jobs of ours hold.

    Args:
        link: whose.
        seen: the nodes, read before the jobs.
        jobs: all jobs.
        ours: of jobs that carry out a run that has not ended, by id: how many devices of each node they hold.
        now: when.
    """
    others = [job for job in jobs if job.holds and job.id not in ours]
    on: dict[str, int] = {}
    for job in jobs:
        if job.holds and job.id in ours:
            for name in job.nodes:
                on[name] = on.get(name, 0) + ours[job.id].get(name, 0)
    with_others = {name for job in others for name in job.nodes}
    taken = {}
    for node in seen:
        # A job of ours that ended between the two looks is no other's: there must be one of others on the node.
        taken[node.name] = _taken_milli(link.cluster, node, on.get(node.name, 0)) if node.name in with_others else 0
    _store_taken(link.cluster, taken, now)
    shown = [
        {
            "job": job.id,
            "user": job.user,
            "account": job.account,
            "name": job.name[:60],
            "nodes": list(job.nodes)[:50],
            "devices": job.cpus if link.cluster.unit == Cluster.Unit.CORE else job.gpus,
            "state": job.state,
        }
        for job in others[:FOREIGN_SHOWN]
    ]
    if shown != link.foreign:
        link.foreign = shown
        link.save(update_fields=["foreign"])


def _taken_milli(cluster: Cluster, node: SlurmNode, ours: int) -> int:
    devices = devices_of(cluster, node)
    held = node.held_cpus if cluster.unit == Cluster.Unit.CORE else node.held_gpus
    taken = max(0, min(devices, held - ours))
    if cluster.unit == Cluster.Unit.GPU and node.held_cpus >= node.cpus:
        taken = max(taken, devices - min(ours, devices))  # no core is left to start anything with
    return taken * WHOLE_DEVICE_MILLI


def _store_taken(cluster: Cluster, taken: dict[str, int], now: datetime) -> None:
    rows = Node.objects.filter(cluster=cluster, name__in=taken, retired_at=None)
    changed = [row for row in rows if row.taken_milli != taken[row.name]]
    if not changed:
        return
    with events.changing(cluster.pk):
        for row in changed:
            Node.objects.filter(pk=row.pk).update(taken_milli=taken[row.name])
        events.record_all(
            cluster_id=cluster.pk,
            entries=[
                events.Entry(
                    events.Kind.NODE_CHANGED,
                    node_id=row.pk,
                    data={"what": "held by others", "reason": f"{taken[row.name] // WHOLE_DEVICE_MILLI} devices"},
                )
                for row in changed
            ],
            at=now,
        )
        events.wake(cluster.pk)
