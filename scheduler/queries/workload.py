"""One workload explained: why it waits, from the root down; its runs and charges; who took what from whom.

What is said about an order or a preemption is what the engine decided, with the numbers that it stored. A fixed number
of queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from django.db.models import QuerySet
from django.utils import timezone

from budgets.models import Cluster
from scheduler.engine import Policy
from scheduler.models import Claim, Decision, Event, Pass, Reservation, Run, Workload
from scheduler.queries.ahead import MOST, Group, InOrder, before, groups, in_order, order_of, queued
from scheduler.queries.delays import Delay, of_workload
from scheduler.queries.levels import Level, Levels, latest_pass, levels_of
from scheduler.queries.preempted import Preemption, RunLine, names_in, preemptions_of, runs_of
from scheduler.services import policies

AHEAD_SHOWN = 10
EVENTS_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One level on the way from the root to the leaf: the node, and the child that leads on among its siblings.

    `siblings` are in the order in which they are served, those for whom nothing waits last.
    """

    node: Level
    mine: Level
    siblings: Sequence[Level]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another waiting workload, in the same leaf or ahead of it. `certain_at` is its latest start, if promised."""

    code: str
    name: str
    leaf: Level | None
    leaf_code: str
    priority: int
    submitted_at: datetime
    size_milli: int
    place: int | None
    certain_at: datetime | None


@dataclass(frozen=True, slots=True)
class EventLine:
    """Something that happened to it."""

    at: datetime
    kind: str
    run_number: int | None
    code: str
    by: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that the page of a workload says.

    `promised_at` is the instant of its reservation, from which on devices are its own; `certain_at` the latest start,
    when those who hold them have had their grace to leave. `others_promised_at` is the first instant that was
    promised to somebody else; `ahead` are the first of `ahead_count`, and `groups` tell of at most ahead.MOST of them.
    `delays` are what it has waited for, by cause.
    """

    workload: Workload
    now: datetime
    as_of: datetime | None
    leaf: Level | None
    policy: Policy
    window_s: int
    waiting_funded: int
    steps: Sequence[Step]
    same_leaf: Sequence[Neighbour]
    ahead: Sequence[Neighbour]
    ahead_count: int
    groups: Sequence[Group]
    promised_at: datetime | None
    certain_at: datetime | None
    others_promised_at: datetime | None
    claimed_nodes: Sequence[str]
    waits_for: Sequence[str]
    runs: Sequence[RunLine]
    preemptions: Sequence[Preemption]
    took_from: Sequence[str]
    events: Sequence[EventLine]
    delays: Sequence[Delay]

    @property
    def waits_since(self) -> datetime:
        """For one that waits: its submission or, where it has run before, the end of its last run."""
        return max((run.ended_at for run in self.runs if run.ended_at is not None), default=self.workload.submitted_at)

    @property
    def lost_milli_s(self) -> int | None:
        """Worked since their last checkpoints by runs that were ended, and lost; None where nobody knows of any."""
        known = [run.lost_milli_s for run in self.runs if run.lost_milli_s is not None]
        return sum(known) if known else None

    @property
    def charged_milli_s(self) -> int:
        """Over all its runs."""
        return sum(run.charged_milli_s for run in self.runs)

    @property
    def held_milli_s(self) -> int:
        """Over all its runs, charged or not."""
        return sum(run.held_milli_s for run in self.runs)


@dataclass(frozen=True, slots=True)
class Present:
    """What the explanations of all workloads of a cluster go by: its last pass, the levels, promises, the order, and
    the plans that wait for others to leave, by workload.
    """

    last: Pass | None
    levels: Levels
    promises: Sequence[Reservation]
    order: Sequence[InOrder]
    claims: Mapping[int, Claim]


def present_of(cluster: Cluster) -> Present:
    """As it is now."""
    last = latest_pass(cluster)
    promises = Reservation.objects.filter(cluster=cluster, ended_at=None).order_by("starts_at", "pk")
    claims = {each.workload_id: each for each in Claim.objects.filter(cluster=cluster, ended_at=None)}
    return Present(last, levels_of(cluster, last), list(promises), order_of(cluster), claims)


def explanation(workload: Workload, now: datetime | None = None, present: Present | None = None) -> Explanation:
    """Explain a workload (with its cluster and leaf); `present` where that is known already."""
    instant = now or timezone.now()
    at = present or present_of(workload.cluster)
    last, levels, promises = at.last, at.levels, at.promises
    leaf = levels.by_id.get(workload.leaf_id)
    is_waiting = workload.state == Workload.State.QUEUED
    policy = Policy() if last is None else policies.as_policy(last.policy)
    promise = next((each for each in promises if each.workload_id == workload.pk), None)
    others = [each.starts_at for each in promises if each.workload_id != workload.pk]
    certain = {each.workload_id: each.starts_at + timedelta(seconds=policy.grace_s) for each in promises}
    ahead = before(at.order, workload)
    rows = list(Run.objects.filter(workload=workload).select_related("preempted_by").order_by("number"))
    claim = at.claims.get(workload.pk)
    told = Decision.objects.filter(workload=workload, action="preempt").select_related("by", "run").order_by("pk")
    decisions = list(told) if rows else []
    numbers = {run.pk: run.number for run in rows}
    root = levels.rows[0] if levels.rows else None
    return Explanation(
        workload=workload,
        now=instant,
        as_of=None if last is None else last.at,
        leaf=leaf,
        policy=policy,
        window_s=policy.lookback_s if last is not None else 0,
        waiting_funded=root.waiting if root is not None else 0,
        steps=_steps(levels, leaf),
        same_leaf=[_neighbour(row, levels, certain) for row in _of_same_leaf(workload)] if is_waiting else [],
        ahead=[_neighbour(row, levels, certain) for row in ahead[:AHEAD_SHOWN]],
        ahead_count=len(ahead) if len(ahead) < MOST else _count_ahead(workload),
        groups=groups(workload, ahead, levels, certain),
        promised_at=None if promise is None else promise.starts_at,
        certain_at=certain.get(workload.pk),
        others_promised_at=min(others, default=None),
        claimed_nodes=[] if claim is None else sorted(claim.holdings),
        waits_for=[] if claim is None else _codes_of(Run.objects.filter(pk__in=claim.waits_for)),
        runs=runs_of(rows, instant),
        preemptions=preemptions_of(decisions, rows, names_in(levels)) if decisions else [],
        took_from=_codes_of(Run.objects.filter(preempted_by=workload)) if rows or claim is not None else [],
        events=_events(workload, numbers),
        delays=of_workload(workload, instant),
    )


def _steps(levels: Levels, leaf: Level | None) -> list[Step]:
    path = levels.path(leaf.code) if leaf is not None else []
    return [Step(node, child, levels.children(node.code)) for node, child in pairwise(path)]


def _of_same_leaf(workload: Workload) -> list[InOrder]:
    """The first who wait in its leaf, in the leaf's order."""
    funded = {"min_runtime_s__gt": 0} if workload.min_runtime_s else {"min_runtime_s": 0}
    rows = queued(workload.cluster).filter(leaf=workload.leaf_id, **funded)
    return in_order(rows.order_by("-priority", "submitted_at", "code")[:AHEAD_SHOWN])


def _count_ahead(workload: Workload) -> int:
    """All of them, where they are more than were looked at."""
    return queued(workload.cluster).filter(place__lt=workload.place).count()


def _neighbour(row: InOrder, levels: Levels, certain: Mapping[int, datetime]) -> Neighbour:
    level = levels.by_id.get(row.leaf_id)
    return Neighbour(
        code=row.code,
        name=row.name,
        leaf=level,
        leaf_code=level.code if level else "",
        priority=row.priority,
        submitted_at=row.submitted_at,
        size_milli=row.size_milli,
        place=row.place,
        certain_at=certain.get(row.pk),
    )


def _codes_of(runs: QuerySet[Run]) -> list[str]:
    """Codes of the workloads whose runs these are."""
    return list(runs.order_by("workload__code").values_list("workload__code", flat=True).distinct())


def _events(workload: Workload, numbers: Mapping[int, int]) -> list[EventLine]:
    rows = Event.objects.filter(workload=workload).order_by("-pk")[:EVENTS_SHOWN]
    return [
        EventLine(
            at=row.at,
            kind=row.kind,
            run_number=numbers.get(row.run_id) if row.run_id else None,
            code=row.data.get("code", ""),
            by=row.data.get("by"),
        )
        for row in reversed(rows)
    ]
