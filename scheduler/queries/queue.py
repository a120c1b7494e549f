"""The queue of a cluster: who waits in which order, why, and the numbers behind it. A fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from django.db.models import Case, Count, F, Max, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Greatest
from django.utils import timezone

from budgets.models import BudgetNode, Cluster
from scheduler.engine import Policy
from scheduler.models import WHOLE_DEVICE_MILLI, Holding, Node, Pass, Reservation, Run, Workload
from scheduler.queries.levels import Level, Levels, latest_pass, levels_of
from scheduler.queries.promises import Promise, standing
from scheduler.services import events, policies

PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class Filters:
    """What of the queue is wanted; empty is everything. `leaf` is a code: what waits at or below that node.

    `find` looks in ids, and in the names of those that the asker sees inside: their own (`asker_id`), and what is at
    or below the nodes `inside`.
    """

    find: str = ""
    asker_id: int | None = None
    inside: Sequence[int] = ()
    leaf: str = ""
    workload_class: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One waiting workload. `waited_s` counts from its submission, or from the end of its last run.

    Attributes:
        place: in the order of the last pass, None before its first pass, for one whose devices are being left for it,
            and for one that is held.
        leaf: its leaf as the last pass had it; `leaf_path` are ids from the root down to it as it hangs now.
        path: (level, served) from the child of the root down to its leaf.
        promise: its number among the reservations that stand, from 1; None without one.
        earliest_start_at: with a promise its instant, else when contract ends would make room, if that is known.
        certain_at: the latest start of one with a promise: that instant, and the grace of those who leave then.
    """

    pk: int
    code: str
    name: str
    state: str
    owner_id: int | None
    leaf: Level | None
    leaf_id: int
    leaf_code: str
    leaf_path: Sequence[int]
    size_milli: int
    min_runtime_s: int
    workload_class: str
    priority: int
    submitted_at: datetime
    waited_s: int
    place: int | None
    path: Sequence[Level]
    reason_code: str
    reason_text: str
    reason_numbers: Mapping[str, Any]
    earliest_start_at: datetime | None
    certain_at: datetime | None
    promise: int | None

    @property
    def is_funded(self) -> bool:
        """Whether it asks to be charged."""
        return self.min_runtime_s > 0

    @property
    def served(self) -> list[Fraction | None]:
        """Served at each level of `path`."""
        return [level.served for level in self.path]


@dataclass(frozen=True, slots=True)
class Totals:
    """The cluster in figures; amounts in thousandths."""

    waiting_funded: int
    waiting_funded_milli: int
    waiting_unallocated: int
    waiting_unallocated_milli: int
    held_count: int
    capacity_milli: int
    healthy_milli: int
    held_milli: int
    in_contract_milli: int
    after_contract_milli: int
    unallocated_milli: int
    longest_wait: Workload | None
    longest_wait_since: datetime | None

    @property
    def interruptible_milli(self) -> int:
        """What can be taken over: after a contract, or unallocated."""
        return self.after_contract_milli + self.unallocated_milli

    @property
    def unfit_milli(self) -> int:
        """In repair, draining or out of reach."""
        return self.capacity_milli - self.healthy_milli


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A page of the queue, as of the last pass."""

    cluster: Cluster
    as_of: datetime | None
    last_pass: Pass | None
    policy: Policy
    window_s: int
    reservations: int
    totals: Totals
    rows: Sequence[Row]
    levels: Levels
    filters: Filters
    number: int
    pages: int
    count: int
    promises: Sequence[Promise]


def page(
    cluster: Cluster,
    number: int = 1,
    filters: Filters | None = None,
    *,
    per_page: int = PER_PAGE,
    now: datetime | None = None,
) -> QueuePage:
    """One page of the queue, in the order in which the next pass considers it.

    Args:
        cluster: which.
        number: from 1; one beyond the last gives the last.
        filters: what is wanted.
        per_page: rows on a page.
        now: for how long they have waited.
    """
    wanted = filters or Filters()
    instant = now or timezone.now()
    last = latest_pass(cluster)
    levels = levels_of(cluster, last)
    policy = policies.as_policy(last.policy) if last is not None else Policy()
    found = _filtered(cluster, wanted, levels)
    count = found.count()
    pages = max(1, -(-count // per_page))
    number = min(max(1, number), pages)
    promises = _promises(cluster)
    grace = timedelta(seconds=policy.grace_s)
    rows = list(found.select_related("leaf")[(number - 1) * per_page : number * per_page])
    since = waits_since(rows)
    return QueuePage(
        cluster=cluster,
        as_of=None if last is None else last.at,
        last_pass=last,
        policy=policy,
        window_s=policy.lookback_s,
        reservations=policy.reservations,
        totals=totals(cluster, instant),
        rows=[
            _row(row, levels, promises, grace, max(0, int((instant - since[row.pk]).total_seconds()))) for row in rows
        ],
        levels=levels,
        filters=wanted,
        number=number,
        pages=pages,
        count=count,
        promises=standing(cluster, levels, policy.grace_s),
    )


def waiting(cluster: Cluster) -> QuerySet[Workload]:
    """Everybody who waits: devices being left for them, then by place, then new, then held."""
    rank = Case(
        When(state="held", then=Value(3)),
        When(reason_code="waiting_victims", then=Value(0)),
        When(place__isnull=False, then=Value(1)),
        default=Value(2),
    )
    rows = Workload.objects.filter(cluster=cluster, state__in=("queued", "held"))
    return rows.annotate(rank=rank).order_by("rank", F("place").asc(nulls_last=True), "submitted_at", "code")


def waits_since(rows: Iterable[Workload]) -> dict[int, datetime]:
    """Since when each of these waits, by id: its submission or, where it has run before, the end of its last run."""
    waiting = {row.pk: row.submitted_at for row in rows}
    ended = Run.objects.filter(workload__in=waiting, ended_at__isnull=False).values_list("workload")
    return waiting | dict(ended.annotate(last=Max("ended_at")))


def _filtered(cluster: Cluster, wanted: Filters, levels: Levels) -> QuerySet[Workload]:
    rows = waiting(cluster)
    if wanted.find:
        seen = Q(owner=wanted.asker_id) if wanted.asker_id is not None else Q(pk__in=[])
        if wanted.inside:
            seen |= Q(leaf__path__overlap=list(wanted.inside))
        rows = rows.filter(Q(code__icontains=wanted.find) | Q(name__icontains=wanted.find) & seen)
    if wanted.leaf:
        level = levels.of.get(wanted.leaf)
        below = BudgetNode.objects.filter(path__contains=[level.node_id]) if level else BudgetNode.objects.none()
        rows = rows.filter(leaf__in=below)
    if wanted.workload_class:
        rows = rows.filter(workload_class=wanted.workload_class)
    return rows


def _promises(cluster: Cluster) -> dict[int, tuple[int, datetime]]:
    """The number and the instant of each reservation that stands, the earliest first, by workload."""
    rows = Reservation.objects.filter(cluster=cluster, ended_at=None).order_by("starts_at", "pk")
    found = enumerate(rows.values_list("workload_id", "starts_at"), 1)
    return {workload_id: (number, starts_at) for number, (workload_id, starts_at) in found}


def _row(
    row: Workload, levels: Levels, promises: Mapping[int, tuple[int, datetime]], grace: timedelta, waited_s: int
) -> Row:
    level = levels.by_id.get(row.leaf_id)
    return Row(
        pk=row.pk,
        code=row.code,
        name=row.name,
        state=row.state,
        owner_id=row.owner_id,
        leaf=level,
        leaf_id=row.leaf_id,
        leaf_code=row.leaf.code,
        leaf_path=row.leaf.path,
        size_milli=row.size_milli,
        min_runtime_s=row.min_runtime_s,
        workload_class=row.workload_class,
        priority=row.priority,
        submitted_at=row.submitted_at,
        waited_s=waited_s,
        place=row.place if row.state == "queued" else None,
        path=levels.path(level.code)[1:] if level else (),
        reason_code=row.reason_code,
        reason_text=row.reason_text,
        reason_numbers=row.reason_numbers,
        earliest_start_at=row.earliest_start_at if row.state == "queued" else None,
        certain_at=promises[row.pk][1] + grace if row.pk in promises else None,
        promise=promises[row.pk][0] if row.pk in promises else None,
    )


def totals(cluster: Cluster, now: datetime) -> Totals:
    """The cluster in figures."""
    funded = Q(min_runtime_s__gt=0)
    queue = Workload.objects.filter(cluster=cluster, state="queued").aggregate(
        funded=Count("pk", filter=funded),
        funded_milli=Sum("size_milli", filter=funded),
        unallocated=Count("pk", filter=~funded),
        unallocated_milli=Sum("size_milli", filter=~funded),
    )
    held_count = Workload.objects.filter(cluster=cluster, state="held").exclude(reason_code__in=events.ASIDE).count()
    capacity_milli = healthy_milli = 0
    nodes = Node.objects.filter(cluster=cluster, retired_at=None).annotate(size=Count("devices"))
    for size, health, drains in nodes.values_list("size", "health", "drain_asked_at"):
        capacity_milli += size * WHOLE_DEVICE_MILLI
        healthy_milli += size * WHOLE_DEVICE_MILLI if health == "healthy" and drains is None else 0
    runs = Run.objects.filter(cluster=cluster).exclude(state="ended")
    protected = Q(funded=True) & (Q(contract_ends_at=None) | Q(contract_ends_at__gt=now))
    amounts = runs.aggregate(
        held=Sum("size_milli"),
        protected=Sum("size_milli", filter=protected),
        after=Sum("size_milli", filter=Q(funded=True, contract_ends_at__lte=now)),
        unallocated=Sum("size_milli", filter=Q(funded=False)),
    )
    longest = (
        Workload.objects.filter(cluster=cluster, state="queued", min_runtime_s__gt=0)
        .annotate(since=Greatest("submitted_at", Max("runs__ended_at")))
        .order_by("since", "code")
        .first()
    )
    return Totals(
        waiting_funded=queue["funded"],
        waiting_funded_milli=queue["funded_milli"] or 0,
        waiting_unallocated=queue["unallocated"],
        waiting_unallocated_milli=queue["unallocated_milli"] or 0,
        held_count=held_count,
        capacity_milli=capacity_milli,
        healthy_milli=healthy_milli,
        held_milli=amounts["held"] or 0,
        in_contract_milli=amounts["protected"] or 0,
        after_contract_milli=amounts["after"] or 0,
        unallocated_milli=amounts["unallocated"] or 0,
        longest_wait=longest,
        longest_wait_since=None if longest is None else longest.since,
    )


def nodes_of(run_ids: Sequence[int]) -> dict[int, list[str]]:
    """Names of the nodes on which runs hold, or held, devices; by run."""
    found: dict[int, list[str]] = {}
    rows = Holding.objects.filter(run__in=run_ids).order_by("run", "node__name").distinct()
    for run_id, name in rows.values_list("run_id", "node__name"):
        found.setdefault(run_id, []).append(name)
    return found
