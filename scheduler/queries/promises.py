"""The reservations that stand on a cluster, and who fills the time until they are due. A fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from budgets.models import Cluster
from scheduler.models import Holding, Reservation, Run
from scheduler.queries.levels import Level, Levels


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that holds devices which are reserved for another. `over_at` is the end of its contract, None without."""

    code: str
    run_number: int
    size_milli: int
    funded: bool
    over_at: datetime | None


@dataclass(frozen=True, slots=True)
class Promise:
    """One reservation.

    Attributes:
        code, leaf, size_milli: whose it is.
        starts_at: from then on the devices are its own; `certain_at` is its latest start.
        nodes: (name, thousandths) of what is reserved.
        counts_on: the runs whose devices it takes then.
        fillers: the other runs on those nodes, which fill the time until then.
    """

    code: str
    leaf: Level | None
    size_milli: int
    starts_at: datetime
    certain_at: datetime
    nodes: Sequence[tuple[str, int]]
    counts_on: Sequence[Holder]
    fillers: Sequence[Holder]


def standing(cluster: Cluster, levels: Levels, grace_s: int) -> list[Promise]:
    """Those that stand, the earliest first. Three queries."""
    rows = list(
        Reservation.objects.filter(cluster=cluster, ended_at=None)
        .select_related("workload")
        .order_by("starts_at", "pk")
    )
    names = {name for row in rows for name in row.holdings}
    if not rows:
        return []
    on = Holding.objects.filter(node__cluster=cluster, node__name__in=names, released_at=None)
    by_node: dict[str, set[int]] = {}
    for run_id, name in on.values_list("run_id", "node__name").distinct():
        by_node.setdefault(name, set()).add(run_id)
    wanted = {run_id for found in by_node.values() for run_id in found} | {pk for row in rows for pk in row.counts_on}
    runs = {
        run.pk: Holder(run.workload.code, run.number, run.size_milli, run.funded, run.contract_ends_at)
        for run in Run.objects.filter(pk__in=wanted).exclude(state=Run.State.ENDED).select_related("workload")
    }
    return [_promise(row, levels, grace_s, by_node, runs) for row in rows]


def _promise(
    row: Reservation, levels: Levels, grace_s: int, by_node: dict[str, set[int]], runs: dict[int, Holder]
) -> Promise:
    there = {run_id for name in row.holdings for run_id in by_node.get(name, ())}
    counted = set(row.counts_on)
    return Promise(
        code=row.workload.code,
        leaf=levels.by_id.get(row.workload.leaf_id),
        size_milli=row.workload.size_milli,
        starts_at=row.starts_at,
        certain_at=row.starts_at + timedelta(seconds=grace_s),
        nodes=sorted(row.holdings.items()),
        counts_on=_holders(counted, runs),
        fillers=_holders(there - counted, runs),
    )


def _holders(pks: set[int], runs: dict[int, Holder]) -> list[Holder]:
    return sorted((runs[pk] for pk in pks if pk in runs), key=lambda holder: (holder.code, holder.run_number))
