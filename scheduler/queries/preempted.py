"""The runs of a workload, and why some were preempted: what was decided then, with the numbers that were stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db import connection

from budgets.models import Cluster
from scheduler.failures import ORIGINS, FailureClass, Origin
from scheduler.models import WHOLE_DEVICE_MILLI, Decision, Holding, Pass, Run, Workload
from scheduler.queries.levels import Levels, capacity_milli, latest_pass
from scheduler.queries.queue import nodes_of
from scheduler.services import policies

LARGE = ("made_in__figures", "made_in__order", "made_in__shadow")
"""What of a decision's pass is as large as the tree or the queue: only the figures of both sides are wanted."""
ENTITLED_SQL = """
SELECT t.pass, t.node, p.figures -> t.node -> 'entitlement'
FROM unnest(%s::bigint[], %s::text[]) AS t(pass, node) JOIN scheduler_pass p ON p.id = t.pass
"""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run with its contract and its charge. `charged_milli_s` is 0 for an unallocated run.

    `failure_line` was printed: it is for those who may see that. `device` is the index of the one of which it holds,
    or held, a part; None for whole ones.
    """

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
    saved: bool | None = None
    lost_s: int | None = None
    failure: FailureClass | None = None
    failure_line: str = ""
    device: int | None = None

    @property
    def failure_origin(self) -> Origin | None:
        """Whose its failure was; None for one that did not fail, or was not judged yet."""
        return None if self.failure is None else ORIGINS[self.failure]

    @property
    def lost_milli_s(self) -> int | None:
        """Device time that was worked and lost at its end; None where nobody knows."""
        return None if self.lost_s is None else self.lost_s * self.size_milli


@dataclass(frozen=True, slots=True)
class Names:
    """What budget nodes are called, by code, and all of the cluster in one lookback."""

    of: Mapping[str, str]
    whole_milli_s: Fraction


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a preemption by fair share, at that instant.

    `standing` are the numbers of an order by what is held now, {} where siblings were ordered by use.
    """

    code: str
    name: str
    used_milli_s: int
    committed_milli_s: int
    margin_milli_s: Fraction
    shares: int
    entitled_milli_s: Fraction
    standing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dominant(self) -> Fraction | None:
        """The largest part of any one resource, where the order goes by it."""
        part = self.standing.get("dominant_share")
        return None if part is None else Fraction(*part)

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
    `priorities` are (newcomer's, this one's) within one leaf; `pass_id` is the pass that decided it, None in an
    imported or invented history.
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
    pass_id: int | None


@dataclass(frozen=True, slots=True)
class Preempted:
    """Everything that the page of one preemption says.

    Attributes:
        workload, run, decision: what, which run, and the stored decision with its numbers.
        safe_s: how long it ran inside its contract, when nobody could take its devices; 0 for an unallocated run.
        open_s: how long it ran after that, until it was told to stop.
        saved_s: run time that its next run need not do again; 0 if it is not resumable.
        lost_milli_s: device time that it held for nothing: all of it but what was saved.
        next_run: the run that followed, if one did.
        window_s: the lookback that the numbers are of.
    """

    workload: Workload
    run: RunLine
    decision: Preemption
    safe_s: int
    open_s: int
    saved_s: int
    lost_milli_s: int
    next_run: RunLine | None
    window_s: int


def preempted(workload: Workload, number: int, now: datetime) -> Preempted | None:
    """One run that was told to leave by a decision of the scheduler; None where there is no such run.

    Args:
        workload: whose, with its cluster.
        number: of the run.
        now: the instant.
    """
    rows = list(Run.objects.filter(workload=workload).select_related("preempted_by").order_by("number"))
    decisions = list(
        Decision.objects.filter(workload=workload, action="preempt", run__number=number)
        .select_related("by", "run", "made_in__policy")
        .defer(*LARGE)
        .order_by("pk")
    )
    if not decisions:
        return None
    last = latest_pass(workload.cluster)
    decision = preemptions_of(decisions, rows, names_on(workload.cluster, last))[-1]
    lines = runs_of([row for row in rows if row.number in (number, number + 1)], now)
    run = lines[0]
    made_in = decisions[-1].made_in or last
    safe_s, open_s = _spans(run, decision.at)
    saved_s = safe_s + open_s if workload.resumable else 0
    return Preempted(
        workload=workload,
        run=run,
        decision=decision,
        safe_s=safe_s,
        open_s=open_s,
        saved_s=saved_s,
        lost_milli_s=max(0, run.held_milli_s - saved_s * run.size_milli),
        next_run=lines[1] if len(lines) > 1 else None,
        window_s=0 if made_in is None else policies.as_policy(made_in.policy).lookback_s,
    )


def _spans(run: RunLine, told_at: datetime) -> tuple[int, int]:
    """Seconds inside its contract, and after it, until it was told to stop."""
    if run.running_at is None:
        return 0, 0
    ran_s = max(0, int((told_at - run.running_at).total_seconds()))
    if not run.funded or run.contract_ends_at is None:
        return 0, ran_s
    safe_s = min(ran_s, max(0, int((run.contract_ends_at - run.running_at).total_seconds())))
    return safe_s, ran_s - safe_s


def names_in(levels: Levels) -> Names:
    """Those of levels that are known already."""
    whole_milli_s = levels.rows[0].entitled_milli_s if levels.rows else Fraction(0)
    return Names({code: level.name for code, level in levels.of.items()}, whole_milli_s)


def names_on(cluster: Cluster, last: Pass | None) -> Names:
    """Those of a pass. One query."""
    if last is None:
        return Names({}, Fraction(0))
    lookback_s = policies.as_policy(last.policy).lookback_s
    return Names({row["id"]: row["name"] for row in last.tree.nodes}, Fraction(capacity_milli(cluster) * lookback_s))


def runs_of(rows: Sequence[Run], now: datetime) -> list[RunLine]:
    """What each run held and was charged by now. One query, and one more where any had a part of a device."""
    nodes = nodes_of([run.pk for run in rows])
    parts = [run.pk for run in rows if run.size_milli < WHOLE_DEVICE_MILLI]
    shared = Holding.objects.filter(run__in=parts).values_list("run", "device__index")
    devices = dict(shared) if parts else {}
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
                saved=run.saved,
                lost_s=run.lost_s,
                failure=FailureClass(run.failure_class) if run.failure_class else None,
                failure_line=run.failure_line,
                device=devices.get(run.pk),
            )
        )
    return found


# --- preemptions ------------------------------------------------------------------------------------------------------


def preemptions_of(decisions: Sequence[Decision], rows: Sequence[Run], names: Names) -> list[Preemption]:
    """The decisions that told these runs to leave, the first first. Two queries at most."""
    runs = {run.pk: run for run in rows}
    made = [each for each in decisions if each.action == "preempt" and each.run_id in runs]
    newcomers = Run.objects.filter(workload__in=[each.by_id for each in made if each.by_id]).order_by("number")
    starts = list(newcomers.values_list("workload_id", "started_at", "contract_ends_at")) if made else []
    entitled = _entitled(made)
    found = []
    for each in made:
        run = runs[each.run_id or 0]
        until = next(
            (ends for workload_id, began, ends in starts if workload_id == each.by_id and began >= each.at), None
        )
        took, gave = _sides(each, names, entitled)
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
                pass_id=each.made_in_id,
            )
        )
    return found


def _entitled(decisions: Sequence[Decision]) -> dict[tuple[int, str], Fraction]:
    """What both sides of these decisions were entitled to, by the deciding pass and the node. One query at most."""
    sides = [(each.made_in_id, side["node"]) for each in decisions for side in each.numbers.get("sides") or ()]
    wanted = sorted({(made_in, node) for made_in, node in sides if made_in is not None})
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(ENTITLED_SQL, [[made_in for made_in, _ in wanted], [node for _, node in wanted]])
        return {(made_in, node): Fraction(*json.loads(said)) for made_in, node, said in cursor if said is not None}


def _sides(
    decision: Decision, names: Names, entitled: Mapping[tuple[int, str], Fraction]
) -> tuple[Side | None, Side | None]:
    """Both sides' numbers as they were stored; entitlements as the deciding pass had them."""
    sides = decision.numbers.get("sides")
    if not sides or decision.made_in_id is None:
        return None, None
    margin = Fraction(*decision.numbers.get("margin_milli_s", (0, 1)))
    took, gave = (
        _side(side, entitled.get((decision.made_in_id, side["node"]), Fraction(0)), names, added)
        for side, added in zip(sides, (margin, Fraction(0)), strict=True)
    )
    return took, gave


def _side(side: Mapping[str, Any], entitlement: Fraction, names: Names, margin: Fraction) -> Side:
    return Side(
        code=side["node"],
        name=names.of.get(side["node"], side["node"]),
        used_milli_s=side["used_milli_s"],
        committed_milli_s=side["committed_milli_s"],
        margin_milli_s=margin,
        shares=side["shares"],
        standing=side if "held_milli" in side else {},
        entitled_milli_s=entitlement * names.whole_milli_s,
    )
