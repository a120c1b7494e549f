"""A pass's plan, carried out on rows: one transaction of conditional changes.

Between loading and applying, rows may have changed: only what still holds is done (still_holds.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db import connection
from django.db.models import F, Max
from django.db.models.functions import Coalesce
from django.utils import timezone

from budgets.models import BudgetNode
from scheduler.engine import ENGINE_VERSION, Action, Decision, LevelFigures, Plan
from scheduler.models import Claim, Holding, Pass, Rank, Reservation, Run, Workload
from scheduler.services import agents, bulk, current, emergency, events, rollout, shifts
from scheduler.services.events import Entry, Kind
from scheduler.services.still_holds import PREEMPTIBLE, Work, choose
from scheduler.snapshots.build import Loaded

log = structlog.get_logger(__name__)

ORDER_KEPT = 200
"""How many places of the order a pass keeps."""


@dataclass(slots=True)
class Applied:
    """What became of a plan: the stored pass, whether it changed anything a pass sees, and what was dropped."""

    stored: Pass
    has_changed: bool
    dropped: Sequence[str] = ()


def new_id() -> int:
    """The number of a pass that is to be made, before there is a row: what it logs from its beginning can name it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [Pass._meta.db_table])
        (number,) = cursor.fetchone()
    return int(number)


def apply(
    loaded: Loaded, plan: Plan, *, timings: Mapping[str, int] | None = None, pass_id: int | None = None
) -> Applied:
    """Carry out a plan: start, claim, preempt, hold, release, reserve, and tell everybody who waits why.

    On a cluster that shadows, or that an operator has stopped, only the last: what the rest would have been is kept
    with the pass.

    Args:
        loaded: what the plan was made on.
        plan: the engine's.
        timings: `load_ms` and `decide_ms`, for the record.
        pass_id: its number, where that was drawn before (`new_id`).
    """
    with events.changing(loaded.cluster.pk):
        stored = _store(loaded, plan, timings or {}, pass_id)
        work = Work(loaded, plan, stored)
        dropped = choose(work)
        stop = emergency.standing(loaded.cluster)
        if stop is not None:
            Pass.objects.filter(pk=stored.pk).update(shadow=emergency.keep_still(work, stop))
        elif rollout.mode_of(loaded.cluster, loaded.now) is rollout.Mode.SHADOW:
            Pass.objects.filter(pk=stored.pk).update(shadow=rollout.shadow(work))
        _hold_and_release(work)
        _end_plans(work)
        _preempt(work)
        _start(work)
        _claim(work)
        _promise(work)
        current.tell(work)
        events.record_all(cluster_id=loaded.cluster.pk, entries=work.entries, at=work.at, made_in=stored)
        agents.wake(work.node_ids)
    for workload in dropped:
        log.info("decision_dropped", pass_id=stored.pk, workload=workload)
    return Applied(stored, bool(work.entries), dropped)


def _store(loaded: Loaded, plan: Plan, timings: Mapping[str, int], pass_id: int | None) -> Pass:
    return Pass.objects.create(
        pk=pass_id,
        cluster=loaded.cluster,
        at=loaded.now,
        event_mark=loaded.event_mark,
        policy=loaded.policy_version,
        tree=loaded.tree_version,
        engine_version=ENGINE_VERSION,
        order=list(plan.order[:ORDER_KEPT]),
        figures={name: figures_as_json(each) for name, each in plan.figures.items()},
        load_ms=timings.get("load_ms", 0),
        decide_ms=timings.get("decide_ms", 0),
    )


def figures_as_json(figures: LevelFigures) -> dict[str, Any]:
    """As `Pass.figures` holds them."""
    return {
        "used_milli_s": figures.used_milli_s,
        "committed_milli_s": figures.committed_milli_s,
        "uncharged_milli_s": figures.uncharged_milli_s,
        "shares": figures.shares,
        "entitlement": list(figures.entitlement),
        **({"standing": dict(figures.standing)} if figures.standing else {}),
    }


# --- changes ----------------------------------------------------------------------------------------------------------


def _hold_and_release(work: Work) -> None:
    for action, before, after, kind in (
        (Action.RELEASE, Workload.State.HELD, Workload.State.QUEUED, Kind.RELEASED),
        (Action.HOLD, Workload.State.QUEUED, Workload.State.HELD, Kind.HELD),
    ):
        ids = [work.pk(each) for each in work.of(action)]
        if ids:
            Workload.objects.filter(pk__in=ids, state=before).update(state=after)
            work.entries += [Entry(kind, workload_id=pk) for pk in ids]


END_SQL = """
UPDATE {table} p SET ended_at = %s, outcome = t.outcome
FROM unnest(%s::bigint[], %s::text[]) AS t(workload, outcome)
WHERE p.workload_id = t.workload AND p.ended_at IS NULL
RETURNING p.id, p.workload_id, p.outcome
"""


def _end_plans(work: Work) -> None:
    """Claims and reservations end: by the engine's word, and claims of what starts or is claimed anew."""
    claimless = {work.pk(each): each.reason.code for each in work.of(Action.END_CLAIM)}
    claimless |= {
        work.pk(each): each.reason.code for action in (Action.START, Action.CLAIM) for each in work.of(action)
    }
    unreserved = {work.pk(each): each.reason.code for each in work.of(Action.END_RESERVATION)}
    unreserved |= {work.pk(each): "moved earlier" for each in work.of(Action.RESERVE)}
    for model, outcomes, kind, name in (
        (Claim, claimless, Kind.CLAIM_ENDED, "claim"),
        (Reservation, unreserved, Kind.RESERVATION_ENDED, "reservation"),
    ):
        if not outcomes:
            continue
        values: list[Any] = [work.at, list(outcomes), [str(outcome)[:20] for outcome in outcomes.values()]]
        with connection.cursor() as cursor:
            cursor.execute(END_SQL.format(table=model._meta.db_table), values)
            ended = sorted(cursor.fetchall())
        work.entries += [
            Entry(kind, workload_id=workload_id, data={name: pk, "outcome": outcome})
            for pk, workload_id, outcome in ended
        ]


PREEMPT_SQL = """
UPDATE scheduler_run r
SET state = 'leaving', stop_asked_at = %(at)s, leave_by = %(leave_by)s, end_reason = t.code, preempted_by_id = t.by
FROM unnest(%(ids)s::bigint[], %(codes)s::text[], %(by)s::bigint[]) AS t(id, code, by)
WHERE r.id = t.id AND r.state = ANY(%(states)s) AND r.stop_asked_at IS NULL
"""


def _preempt(work: Work) -> None:
    """Tell runs to leave within the grace."""
    stops = [(work.loaded.runs[each.run], each) for each in work.of(Action.PREEMPT) if each.run is not None]
    if not stops:
        return
    ids = [run.pk for run, _each in stops]
    values: dict[str, Any] = {
        "ids": ids,
        "codes": [str(each.reason.code) for _run, each in stops],
        "by": [None if each.by is None else work.loaded.workloads[each.by].pk for _run, each in stops],
        "at": work.at,
        "leave_by": work.at + timedelta(seconds=work.loaded.policy.grace_s),
        "states": [str(state) for state in PREEMPTIBLE],
    }
    with connection.cursor() as cursor:
        cursor.execute(PREEMPT_SQL, values)
        assert cursor.rowcount == len(stops), "runs changed under their locks"
    Workload.objects.filter(
        pk__in=[run.workload_id for run, _each in stops], state__in=(Workload.State.STARTING, Workload.State.RUNNING)
    ).update(state=Workload.State.LEAVING)
    work.entries += [
        Entry(
            Kind.RUN_STOPPING,
            workload_id=run.workload_id,
            run_id=run.pk,
            data={"code": each.reason.code, "by": each.by},
        )
        for run, each in stops
    ]
    work.node_ids |= set(Rank.objects.filter(run__in=ids).order_by().values_list("node_id", flat=True).distinct())


def _start(work: Work) -> None:
    """Runs with their holdings and ranks."""
    starts = work.of(Action.START)
    if not starts:
        return
    ids = [work.pk(each) for each in starts]
    Workload.objects.filter(pk__in=ids, state=Workload.State.QUEUED).update(
        state=Workload.State.STARTING, first_started_at=Coalesce(F("first_started_at"), work.at), place=None
    )
    _forgive(work, starts)
    keys = bulk.keys(Run, len(starts))
    bulk.copy(Run, RUN, _runs_of(work, starts, ids, keys))
    bulk.copy(
        Holding,
        ("run_id", "node_id", "device_id", "milli"),
        ((run, *held) for run, each in zip(keys, starts, strict=True) for held in work.devices[each.workload]),
    )
    bulk.copy(
        Rank,
        ("run_id", "node_id", "index", "state", "message"),
        (
            (run, work.loaded.nodes[name], index, "wanted", "")
            for run, each in zip(keys, starts, strict=True)
            for index, name in enumerate(sorted(each.holdings))
        ),
    )
    shifts.hand_out(cluster_id=work.loaded.cluster.pk, started=keys, policy=work.loaded.policy)
    work.entries += [
        Entry(Kind.RUN_STARTED, workload_id=workload_id, run_id=run) for workload_id, run in zip(ids, keys, strict=True)
    ]
    work.node_ids |= {node_id for each in starts for node_id, *_device in work.devices[each.workload]}


def _forgive(work: Work, starts: Sequence[Decision]) -> None:
    """What those have executed that had to wait for too long counts no more for the order inside their leaf."""
    snapshot = work.loaded.snapshot
    order = snapshot.leaf_order
    if order is None:
        return
    forgiven = [
        work.pk(each) for each in starts if order.forgives(snapshot.queued[each.workload].service, snapshot.now_s)
    ]
    if forgiven:
        Workload.objects.filter(pk__in=forgiven).update(forgiven_s=F("progress_s"))


RUN = (
    "id",
    "workload_id",
    "number",
    "cluster_id",
    "leaf_id",
    "path",
    "size_milli",
    "funded",
    "min_runtime_s",
    "state",
    "started_at",
    "started_in_id",
    "end_reason",
)


def _runs_of(
    work: Work, starts: Sequence[Decision], ids: Sequence[int], keys: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """The values of RUN's columns."""
    numbers = dict(
        Run.objects.filter(workload__in=ids).order_by().values_list("workload_id").annotate(last=Max("number"))
    )
    waiting = [work.loaded.workloads[each.workload] for each in starts]
    paths = dict(BudgetNode.objects.filter(pk__in={row.leaf_id for row in waiting}).values_list("pk", "path"))
    for key, each, row in zip(keys, starts, waiting, strict=True):
        yield (
            key,
            row.pk,
            numbers.get(row.pk, 0) + 1,
            work.loaded.cluster.pk,
            row.leaf_id,
            paths[row.leaf_id],
            sum(each.holdings.values()),
            each.funded,
            row.min_runtime_s,
            "starting",
            work.at,
            work.stored.pk,
            "",
        )


def _claim(work: Work) -> None:
    """Claims for those whose devices are still being left."""
    claims = Claim.objects.bulk_create(
        Claim(
            workload_id=work.pk(each),
            cluster=work.loaded.cluster,
            holdings=dict(each.holdings),
            waits_for=[work.loaded.runs[run].pk for run in each.reason.numbers["waits_for"] if run in work.loaded.runs],
            made_in=work.stored,
            made_at=work.at,
        )
        for each in work.of(Action.CLAIM)
    )
    work.entries += [Entry(Kind.CLAIM_MADE, workload_id=each.workload_id, data={"claim": each.pk}) for each in claims]


def _promise(work: Work) -> None:
    for each in work.of(Action.RESERVE):
        numbers: Mapping[str, Any] = each.reason.numbers
        row = Reservation.objects.create(
            workload_id=work.pk(each),
            cluster=work.loaded.cluster,
            starts_at=datetime.fromtimestamp(numbers["at_s"], UTC),
            holdings=dict(each.holdings),
            counts_on=[work.loaded.runs[run].pk for run in numbers["counts_on"] if run in work.loaded.runs],
            made_in=work.stored,
            made_at=work.at,
        )
        work.entries.append(Entry(Kind.RESERVATION_MADE, workload_id=row.workload_id, data={"reservation": row.pk}))


def note_apply_time(stored: Pass, apply_ms: int) -> None:
    """Write down how long carrying out took, after it was committed."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduler_pass SET apply_ms = %s WHERE id = %s", [apply_ms, stored.pk])


QUIET_FOR = timedelta(hours=1)
"""Passes that changed nothing and told nobody anything new are kept this long."""

FORGET_SQL = """
DELETE FROM scheduler_pass p WHERE p.at < %(before)s
AND EXISTS (SELECT 1 FROM scheduler_pass later WHERE later.cluster_id = p.cluster_id AND later.id > p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_event e WHERE e.made_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_decision d WHERE d.made_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_run r WHERE r.started_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_claim c WHERE c.made_in_id = p.id)
AND NOT EXISTS (SELECT 1 FROM scheduler_reservation v WHERE v.made_in_id = p.id)
"""


def forget_quiet(now: datetime | None = None) -> int:
    """Drop old passes that nothing refers to; the last one of a cluster stays. How many were dropped."""
    before = (now or timezone.now()) - QUIET_FOR
    with connection.cursor() as cursor:
        cursor.execute(FORGET_SQL, {"before": before})
        return cursor.rowcount
