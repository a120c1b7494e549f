"""The nodes of a stretch of history, and how they fared in it."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import Count, Q

from budgets.models import Cluster
from scheduler.engine import Node
from scheduler.models import WHOLE_DEVICE_MILLI, MaintenanceWindow, NodeSpell
from scheduler.models import Node as NodeRow
from scheduler.simulator.scenario import Happening

HEALTHY, UNHEALTHY, DOWN = "healthy", "unhealthy", "down"
HEALTH_OF_SPELL = {"healthy": HEALTHY, "draining": UNHEALTHY, "down": DOWN}
"""What a scenario calls it. Silence (unreachable) is neither: until it turns out that the node was lost, it was fit."""


def read(cluster: Cluster, start: datetime, end: datetime) -> tuple[list[Node], list[Happening]]:
    """The nodes that the cluster had in [start, end), by name, and what happened to them. Three queries."""
    rows = list(
        NodeRow.objects.filter(Q(retired_at=None) | Q(retired_at__gt=start), cluster=cluster)
        .annotate(size=Count("devices"))
        .filter(size__gt=0)
        .order_by("name")
        .values_list(
            "pk", "name", "size", "rack__name", "rail", "leaf", "cpu_milli", "memory_mib", "gpu_class", "retired_at"
        )
    )
    spells: dict[int, list[tuple[str, datetime]]] = {}
    for node_id, state, started_at in (
        NodeSpell.objects.filter(Q(ended_at=None) | Q(ended_at__gt=start), node__cluster=cluster, started_at__lt=end)
        .order_by("started_at", "pk")
        .values_list("node_id", "state", "started_at")
    ):
        spells.setdefault(node_id, []).append((state, started_at))
    names = {pk: name for pk, name, *_ in rows}
    events: list[Happening] = []
    nodes: list[Node] = []
    for pk, name, size, rack, rail, leaf, cpu_milli, memory_mib, gpu_class, retired_at in rows:
        if pk in spells and spells[pk][0][1] < end:
            nodes.append(
                Node(
                    name,
                    size * WHOLE_DEVICE_MILLI,
                    rack or "",
                    rail=rail,
                    leaf=leaf,
                    cpu_milli=cpu_milli or None,
                    memory_mib=memory_mib or None,
                    gpu_class=gpu_class,
                )
            )
            events += _health(name, spells[pk], retired_at, start, end)
    events += _windows(cluster, {pk: name for pk, name in names.items() if pk in spells}, start, end)
    return nodes, sorted(events, key=lambda event: event.at_s)


def _health(
    name: str, spells: list[tuple[str, datetime]], retired_at: datetime | None, start: datetime, end: datetime
) -> list[Happening]:
    """Changes of health from the start on; a node that came later, or went, is down before and after."""
    changes = [(_second(at, start), HEALTH_OF_SPELL[state]) for state, at in spells if state in HEALTH_OF_SPELL]
    if spells[0][1] > start:
        changes.insert(0, (0, DOWN))
    if retired_at is not None and retired_at < end:
        changes.append((_second(retired_at, start), DOWN))
    found: list[Happening] = []
    health = HEALTHY
    for at_s, now in changes:
        if now != health:
            found.append(Happening(max(at_s, 0), "health", name, now))
            health = now
    return found


def _windows(cluster: Cluster, names: dict[int, str], start: datetime, end: datetime) -> list[Happening]:
    rows = MaintenanceWindow.objects.filter(
        node__cluster=cluster, cancelled_at=None, ends_at__gt=start, starts_at__lt=end
    ).order_by("starts_at", "pk")
    found = []
    for node_id, starts_at, ends_at in rows.values_list("node_id", "starts_at", "ends_at"):
        if node_id in names:
            at_s = max(0, _second(starts_at, start))
            found.append(Happening(at_s, "maintenance", names[node_id], length_s=_second(ends_at, start) - at_s))
    return found


def _second(at: datetime, start: datetime) -> int:
    return int((at.astimezone(UTC) - start).total_seconds())
