"""One workload explained: why it waits, from the root down; its runs and charges; who took what from whom.

What is said about an order or a preemption is what the engine decided, with the numbers that it stored. A fixed number
of queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from django.utils import timezone

from scheduler.models import Claim, Decision, Event, Reservation, Run, Workload
from scheduler.queries.levels import Level, Levels, latest_pass, levels_of
from scheduler.queries.queue import nodes_of, waiting
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
    """Another waiting workload, in the same leaf or ahead of this one."""

    code: str
    name: str
    leaf: Level | None
    leaf_code: str
    priority: int
    submitted_at: datetime
    size_milli: int
    place: int | None
    earliest_start_at: datetime | None
    is_promised: bool


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run with its contract and its charge. `charged_milli_s` is 0 for an unallocated run."""

    pk: int
    number: int
    state: str
    size_milli: int
    funded: bool
    min_runtime_s: int
    nodes: Sequence[str]
    started_at: datetime
    running_at: datetime | None
    contract_ends_at: datetime | None
    stop_asked_at: datetime | None
    leave_by: datetime | None
    ended_at: datetime | None
    end_reason: str
    exit_code: int | None
    preempted_by: str | None
    held_milli_s: int
    charged_milli_s: int


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a preemption by fair share, at that instant."""

    code: str
    name: str
    used_milli_s: int
    committed_milli_s: int
    margin_milli_s: Fraction
    shares: int
    entitled_milli_s: Fraction

    @property
    def served(self) -> Fraction | None:
        """(used + committed + margin) / entitled."""
        if not self.entitled_milli_s:
            return None
        return (self.used_milli_s + self.committed_milli_s + self.margin_milli_s) / self.entitled_milli_s


@dataclass(frozen=True, slots=True)
class Preemption:
    """A run that was told to leave: by whom, under which rule, with which numbers.

    `took` and `gave` are the two sides where they were compared (rules (a) and (b) of semantics.md section 4);
    `priorities` are (newcomer's, this one's) within one leaf.
    """

    at: datetime
    run_number: int
    run_size_milli: int
    code: str
    text: str
    by: str | None
    left_at: datetime | None
    leave_by: datetime | None
    contract_over_for_s: int | None
    took: Side | None
    gave: Side | None
    priorities: Sequence[int] | None
    newcomer_protected_until: datetime | None
    newcomer_size_milli: int
    newcomer_min_runtime_s: int


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
    """Everything that the page of a workload says."""

    workload: Workload
    now: datetime
    as_of: datetime | None
    leaf: Level | None
    window_s: int
    waiting_funded: int
    steps: Sequence[Step]
    same_leaf: Sequence[Neighbour]
    ahead: Sequence[Neighbour]
    ahead_count: int
    promised_at: datetime | None
    claimed_nodes: Sequence[str]
    waits_for: Sequence[str]
    runs: Sequence[RunLine]
    preemptions: Sequence[Preemption]
    took_from: Sequence[str]
    decisions: Sequence[Decision]
    events: Sequence[EventLine]

    @property
    def waits_since(self) -> datetime:
        """For one that waits: its submission or, where it has run before, the end of its last run."""
        return max((run.ended_at for run in self.runs if run.ended_at is not None), default=self.workload.submitted_at)

    @property
    def charged_milli_s(self) -> int:
        """Over all its runs."""
        return sum(run.charged_milli_s for run in self.runs)

    @property
    def held_milli_s(self) -> int:
        """Over all its runs, charged or not."""
        return sum(run.held_milli_s for run in self.runs)


def explanation(workload: Workload, now: datetime | None = None) -> Explanation:
    """Explain a workload (with its cluster and leaf)."""
    instant = now or timezone.now()
    last = latest_pass(workload.cluster)
    levels = levels_of(workload.cluster, last)
    leaf = levels.by_id.get(workload.leaf_id)
    is_waiting = workload.state == Workload.State.QUEUED
    same_leaf, ahead, ahead_count = _neighbours(workload, levels) if is_waiting else ([], [], 0)
    rows = list(Run.objects.filter(workload=workload).select_related("preempted_by").order_by("number"))
    claim = Claim.objects.filter(workload=workload, ended_at=None).first()
    promise = Reservation.objects.filter(workload=workload, ended_at=None).first()
    decisions = list(
        Decision.objects.filter(workload=workload).select_related("by", "run", "made_in__policy").order_by("pk")
    )
    numbers = {run.pk: run.number for run in rows}
    root = levels.rows[0] if levels.rows else None
    return Explanation(
        workload=workload,
        now=instant,
        as_of=None if last is None else last.at,
        leaf=leaf,
        window_s=policies.as_policy(last.policy).lookback_s if last is not None else 0,
        waiting_funded=root.waiting if root is not None else 0,
        steps=_steps(levels, leaf),
        same_leaf=same_leaf,
        ahead=ahead,
        ahead_count=ahead_count,
        promised_at=None if promise is None else promise.starts_at,
        claimed_nodes=[] if claim is None else sorted(claim.holdings),
        waits_for=_codes_of([] if claim is None else claim.waits_for),
        runs=_runs(rows, instant),
        preemptions=_preemptions(decisions, rows, levels),
        took_from=_codes_of(list(Run.objects.filter(preempted_by=workload).values_list("pk", flat=True))),
        decisions=decisions,
        events=_events(workload, numbers),
    )


def _steps(levels: Levels, leaf: Level | None) -> list[Step]:
    path = levels.path(leaf.code) if leaf is not None else []
    return [Step(node, child, levels.children(node.code)) for node, child in pairwise(path)]


def _neighbours(workload: Workload, levels: Levels) -> tuple[list[Neighbour], list[Neighbour], int]:
    """Those of its leaf, in the leaf's order; the first who are ahead of it in the queue; how many these are."""
    funded = {"min_runtime_s__gt": 0} if workload.min_runtime_s else {"min_runtime_s": 0}
    queue = waiting(workload.cluster).filter(state="queued")
    leaf_rows = queue.filter(leaf=workload.leaf_id, **funded).order_by("-priority", "submitted_at", "code")[
        :AHEAD_SHOWN
    ]
    ahead_rows = queue.filter(place__lt=workload.place) if workload.place is not None else queue.none()
    promised = set(
        Reservation.objects.filter(cluster=workload.cluster_id, ended_at=None).values_list("workload_id", flat=True)
    )

    def neighbour(row: Workload) -> Neighbour:
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
            earliest_start_at=row.earliest_start_at,
            is_promised=row.pk in promised,
        )

    same_leaf = [neighbour(row) for row in leaf_rows]
    return same_leaf, [neighbour(row) for row in ahead_rows[:AHEAD_SHOWN]], ahead_rows.count()


def _codes_of(run_ids: Sequence[int]) -> list[str]:
    """Codes of the workloads whose runs these are."""
    rows = Run.objects.filter(pk__in=run_ids).order_by("workload__code")
    return list(rows.values_list("workload__code", flat=True).distinct())


def _runs(rows: Sequence[Run], now: datetime) -> list[RunLine]:
    nodes = nodes_of([run.pk for run in rows])
    found = []
    for run in rows:
        held_s = max(0, int(((run.ended_at or now) - run.started_at).total_seconds()))
        found.append(
            RunLine(
                pk=run.pk,
                number=run.number,
                state=run.state,
                size_milli=run.size_milli,
                funded=run.funded,
                min_runtime_s=run.min_runtime_s,
                nodes=nodes.get(run.pk, []),
                started_at=run.started_at,
                running_at=run.running_at,
                contract_ends_at=run.contract_ends_at,
                stop_asked_at=run.stop_asked_at,
                leave_by=run.leave_by,
                ended_at=run.ended_at,
                end_reason=run.end_reason,
                exit_code=run.exit_code,
                preempted_by=run.preempted_by.code if run.preempted_by else None,
                held_milli_s=held_s * run.size_milli,
                charged_milli_s=held_s * run.size_milli if run.funded else 0,
            )
        )
    return found


# --- preemptions ------------------------------------------------------------------------------------------------------


def _preemptions(decisions: Sequence[Decision], rows: Sequence[Run], levels: Levels) -> list[Preemption]:
    runs = {run.pk: run for run in rows}
    made = [each for each in decisions if each.action == "preempt" and each.run_id in runs]
    newcomers = Run.objects.filter(workload__in=[each.by_id for each in made if each.by_id]).order_by("number")
    starts = list(newcomers.values_list("workload_id", "started_at", "contract_ends_at"))
    found = []
    for each in made:
        run = runs[each.run_id or 0]
        until = next(
            (ends for workload_id, began, ends in starts if workload_id == each.by_id and began >= each.at), None
        )
        took, gave = _sides(each, levels)
        found.append(
            Preemption(
                at=each.at,
                run_number=run.number,
                run_size_milli=run.size_milli,
                code=each.code,
                text=each.text,
                by=each.by.code if each.by else None,
                left_at=run.ended_at,
                leave_by=run.leave_by,
                contract_over_for_s=each.numbers.get("contract_over_for_s"),
                took=took,
                gave=gave,
                priorities=each.numbers.get("priorities"),
                newcomer_protected_until=until,
                newcomer_size_milli=each.by.size_milli if each.by else 0,
                newcomer_min_runtime_s=each.by.min_runtime_s if each.by else 0,
            )
        )
    return found


def _sides(decision: Decision, levels: Levels) -> tuple[Side | None, Side | None]:
    """Both sides' numbers as they were stored; entitlements as the deciding pass had them."""
    sides = decision.numbers.get("sides")
    if not sides or decision.made_in is None:
        return None, None
    margin = Fraction(*decision.numbers.get("margin_milli_s", (0, 1)))
    whole_milli_s = _whole_milli_s(levels)
    took, gave = (
        _side(side, decision, levels, whole_milli_s, added)
        for side, added in zip(sides, (margin, Fraction(0)), strict=True)
    )
    return took, gave


def _whole_milli_s(levels: Levels) -> Fraction:
    """All of the cluster in one lookback."""
    return levels.rows[0].entitled_milli_s if levels.rows else Fraction(0)


def _side(
    side: Mapping[str, Any], decision: Decision, levels: Levels, whole_milli_s: Fraction, margin: Fraction
) -> Side:
    assert decision.made_in is not None
    level = levels.of.get(side["node"])
    entitlement = Fraction(*decision.made_in.figures.get(side["node"], {}).get("entitlement", (0, 1)))
    return Side(
        code=side["node"],
        name=level.name if level else side["node"],
        used_milli_s=side["used_milli_s"],
        committed_milli_s=side["committed_milli_s"],
        margin_milli_s=margin,
        shares=side["shares"],
        entitled_milli_s=entitlement * whole_milli_s,
    )


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
