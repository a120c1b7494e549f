"""What spreading a workload over more nodes than it needs costs, before it is paid, while it waits, and afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from budgets.models import Cluster
from scheduler.engine import locality
from scheduler.models import Holding, Run, Workload
from scheduler.services import workloads


@dataclass(frozen=True, slots=True)
class Look:
    """How far one that waits looks.

    Attributes:
        level, nodes: at which level now, and over how many nodes it may be there.
        relaxes_at: from when on further; None if it never does.
        later_level, later_nodes: the same from then on.
    """

    level: int
    nodes: int
    relaxes_at: datetime | None
    later_level: int | None
    later_nodes: int | None


@dataclass(frozen=True, slots=True)
class Spreading:
    """What a page and the API say of it.

    Attributes:
        most: the level that its owner allows.
        fewest: the nodes that it needs.
        servers: over how many it may be at most, or, where `is_held`, over how many it is.
        price: how many times the GPU-hours the same work takes there in place of `fewest`.
        worth_s: how long to wait for `fewest` and still finish earlier; None where nobody knows how long it runs.
        look: how far it looks now, of one that waits.
        is_held: whether it runs, or ran last, on `servers`.
    """

    most: int
    fewest: int
    servers: int
    price: float
    worth_s: int | None
    look: Look | None = None
    is_held: bool = False

    @property
    def is_dear(self) -> bool:
        """Whether it costs anything."""
        return self.servers > self.fewest

    def pays_from(self, expected_s: float | None) -> bool | None:
        """Whether a wait that is expected to be so long is better spread; None where nobody can say."""
        return None if expected_s is None or self.worth_s is None else expected_s > self.worth_s


def foreseen(cluster: Cluster, size_milli: int, level: int, runtime_s: int | None) -> Spreading | None:
    """What a level may come to; None where this cluster does not relax by wait."""
    room = workloads.room_of(cluster)
    if not room.policy.locality_waits_s or not room.node_milli:
        return None
    return _at_most(room, size_milli, level, runtime_s)


def _at_most(
    room: workloads.Room, size_milli: int, level: int, runtime_s: int | None, look: Look | None = None
) -> Spreading:
    found = locality.outlook(level, size_milli, room.node_milli, runtime_s, room.nodes)
    return Spreading(level, found.fewest, found.servers, found.price, found.worth_s, look)


def runtime_s(workload: Workload) -> int | None:
    """How long it is thought to run in all; None where nobody knows."""
    known = [each for each in (workload.predicted_s, workload.time_limit_s) if each is not None]
    return min(known, default=None)


def of_workloads(rows: Iterable[Workload]) -> dict[int, Spreading]:
    """By primary key, of those that may be spread, or are: what that costs. Few queries for each of their clusters."""
    found: dict[int, Spreading] = {}
    asked = [row for row in rows if row.locality >= locality.TWICE or "locality" in row.reason_numbers]
    clusters = {row.cluster_id: row.cluster for row in asked}
    rooms = {pk: workloads.room_of(cluster) for pk, cluster in clusters.items()}
    held = _held({row.pk for row in asked if row.state not in (Workload.State.QUEUED, Workload.State.HELD)})
    for row in asked:
        room = rooms[row.cluster_id]
        if not room.node_milli or row.node_id is not None:
            continue
        fewest = locality.fewest_nodes(row.size_milli, room.node_milli)
        runs_s = runtime_s(row)
        if (servers := held.get(row.pk, 0)) > fewest:
            on = locality.outlook_on(row.locality, fewest, servers, runs_s)
            found[row.pk] = Spreading(row.locality, fewest, servers, on.price, on.worth_s, is_held=True)
        elif row.state == Workload.State.QUEUED and room.policy.locality_waits_s:
            spreading = _at_most(room, row.size_milli, row.locality, runs_s, _look_of(row))
            if spreading.look is not None or spreading.is_dear:
                found[row.pk] = spreading
    return found


def _held(ids: set[int]) -> dict[int, int]:
    """By workload, the number of nodes that its latest run holds or held."""
    if not ids:
        return {}
    latest = Run.objects.filter(workload__in=ids).order_by("workload_id", "-number").distinct("workload_id")
    found: dict[int, set[int]] = {}
    rows = Holding.objects.filter(run__in=latest.values("pk")).values_list("run__workload_id", "node_id")
    for workload_id, node_id in rows.order_by().distinct():
        found.setdefault(workload_id, set()).add(node_id)
    return {workload_id: len(nodes) for workload_id, nodes in found.items()}


def of_workload(workload: Workload) -> Spreading | None:
    """The same of one; None where there is nothing to say."""
    return of_workloads([workload]).get(workload.pk)


def _look_of(workload: Workload) -> Look | None:
    """What the last pass said of one that waits."""
    told = workload.reason_numbers.get("locality")
    if told is None:
        return None
    relaxes_s = told["relaxes_at_s"]
    return Look(
        told["level"],
        told["nodes"],
        None if relaxes_s is None else datetime.fromtimestamp(relaxes_s, UTC),
        told["later_level"],
        told["later_nodes"],
    )
