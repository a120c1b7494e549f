"""What a past pass saw, from rows and the event log: what never changes stands in the rows, the rest in the events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Q

from scheduler.engine import Policy, decayed_milli_s
from scheduler.models import Claim, Event, Node, Pass, Reservation, Run, Workload
from scheduler.services import events, policies
from scheduler.services.events import Kind, Second
from scheduler.services.usage_sql import CREDITED

from . import crowds, senders
from .build import Loaded, Seen, SeenNode, SeenPlan, SeenRun, SeenWorkload, UseRow, build
from .crowds import Presence
from .present import RUN, holdings_of, use_since

LATEST_REPORT = timedelta(days=2)
"""An end may be reported late, and be dated before a pass that still saw the run: by this much at most."""

LAST_SQL = """
SELECT DISTINCT ON ({column}) {column}, data->%(key)s::text FROM scheduler_event
WHERE cluster_id = %(cluster)s AND id <= %(mark)s AND {column} = ANY(%(ids)s) AND data ? %(key)s::text
ORDER BY {column}, id DESC
"""


def snapshot_at(past: Pass) -> Loaded:
    """What that pass loaded, rebuilt. `engine.decide` makes the same plan of it, with the same engine version."""
    seen = Seen(
        cluster=past.cluster,
        now_s=int(past.at.timestamp()),
        event_mark=past.event_mark,
        policy=policies.as_policy(past.policy),
        tree_nodes=past.tree.nodes,
    )
    _rebuild(seen, past)
    return Loaded(
        cluster=past.cluster,
        now=past.at.astimezone(UTC),
        now_s=seen.now_s,
        event_mark=past.event_mark,
        policy=seen.policy,
        policy_version=past.policy,
        tree_version=past.tree,
        snapshot=build(seen),
        workloads={row.code: row for row in seen.workloads},
        runs={row.id: row for row in seen.runs},
        nodes={row.name: row.pk for row in seen.nodes},
    )


def _rebuild(seen: Seen, past: Pass) -> None:
    seen.workloads = _workloads(past)
    seen.runs, seen.use = _runs(past, seen.policy)
    if seen.policy.leaf_order != "priority":
        seen.runs = _with_progress_then(past, seen.runs)
    seen.holdings, seen.fractions = holdings_of([row.pk for row in seen.runs])
    if crowds.asks(seen.policy):
        crowds.see(seen, _presences(past))
    senders.see(seen)
    seen.nodes = _nodes(past)
    seen.claims = [
        SeenPlan(row.pk, row.workload_id, row.holdings, row.waits_for, made_s, made_s)
        for row in _standing(Claim.objects.all(), past, Kind.CLAIM_ENDED, "claim")
        for made_s in [int(row.made_at.timestamp())]
    ]
    seen.reservations = [
        SeenPlan(
            row.pk,
            row.workload_id,
            row.holdings,
            row.counts_on,
            int(row.starts_at.timestamp()),
            int(row.made_at.timestamp()),
        )
        for row in _standing(Reservation.objects.all(), past, Kind.RESERVATION_ENDED, "reservation")
    ]


def _last(past: Pass, column: str, key: str, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """What the last event up to the mark says of each of these rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            LAST_SQL.format(column=column),
            {"key": key, "cluster": past.cluster_id, "mark": past.event_mark, "ids": list(ids)},
        )
        return {pk: json.loads(values) for pk, values in cursor.fetchall()}


def _open_then(past: Pass, since: datetime) -> Q:
    return Q(cluster=past.cluster_id) & (Q(ended_at=None) | Q(ended_at__gt=since - LATEST_REPORT))


def _workloads(past: Pass) -> list[SeenWorkload]:
    rows = {row.pk: row for row in Workload.objects.filter(_open_then(past, past.at)).exclude(state="refused")}
    last = _last(past, "workload_id", "workload", rows)
    pins: dict[int | None, str] = dict(Node.objects.filter(cluster=past.cluster_id).values_list("pk", "name"))
    found = [
        SeenWorkload(
            pk,
            rows[pk].code,
            values["leaf"],
            rows[pk].size_milli,
            rows[pk].min_runtime_s,
            values["submitted_s"],
            values["priority"],
            pins.get(rows[pk].node_id),
            values["state"] == "held",
            values.get("progress_s", 0),
            values.get("first_started_s"),
            rows[pk].predicted_s,
            rows[pk].cpu_milli_per_rank,
            rows[pk].memory_mib_per_rank,
            values.get("forgiven_s", 0),
            values.get("requeued_s"),
            rows[pk].gpu_classes,
            rows[pk].needs_fast,
            rows[pk].locality,
        )
        for pk, values in last.items()
        if values["state"] in ("queued", "held")
    ]
    return sorted(found, key=lambda row: (row.submitted_s, row.code))


def _presences(past: Pass) -> list[Presence]:
    """Who was in the leaves then, and who had been."""
    rows = {row.pk: row for row in Workload.objects.filter(_open_then(past, past.at)).exclude(state="refused")}
    last = _last(past, "workload_id", "workload", rows)
    open_states = (*Workload.OPEN_STATES, events.UNJUDGED, events.ALIKE)
    is_open = {pk: values for pk, values in last.items() if values["state"] in open_states}
    if not is_open:
        return []
    there = [Presence(pk, values["leaf"], values["submitted_s"], None) for pk, values in is_open.items()]
    first_s = min(each.from_s for each in there)
    since = max(datetime.fromtimestamp(first_s, UTC), past.at - crowds.BACK)
    ended = crowds.ended_since(past.cluster, since)
    return there + [each for each in ended if each.workload_id not in is_open]


def _with_progress_then(past: Pass, runs: Sequence[SeenRun]) -> list[SeenRun]:
    """What their workloads had executed before, as the log says it."""
    then = _last(past, "workload_id", "workload", [run.workload_id for run in runs])
    found = []
    for run in runs:
        values = then.get(run.workload_id, {})
        found.append(run._replace(progress_s=values.get("progress_s", 0), forgiven_s=values.get("forgiven_s", 0)))
    return found


def _runs(past: Pass, policy: Policy) -> tuple[list[SeenRun], list[UseRow]]:
    """Those that had not ended, and the use of those that had."""
    start = use_since(past.at, policy)
    half_life_s = policy.decay_s
    rows = list(
        Run.objects.filter(_open_then(past, start))
        .order_by("pk")
        .values_list(*RUN, "size_milli", Second("ended_at"), "end_reason")
    )
    last = _last(past, "run_id", "run", [row[0] for row in rows])
    known = _with_events(past, [row[0] for row in rows])
    later = _later_history(past)
    now_s, start_s = int(past.at.timestamp()), int(start.timestamp())
    runs: list[SeenRun] = []
    use: dict[tuple[tuple[int, ...], bool], float] = {}
    for *columns, size_milli, ended_s, end_reason in rows:
        run = SeenRun(*columns)
        values = last.get(run.pk)
        if values is None:
            if run.pk in known or any(first <= run.pk <= final for first, final in later) or ended_s is None:
                continue
        elif values["ended_s"] is None:
            runs.append(run._replace(running_s=values["running_s"], leave_by_s=values["leave_by_s"]))
            continue
        else:
            ended_s = values["ended_s"]
        until_s = min(ended_s, now_s)
        if until_s > max(run.started_s, start_s):
            key = (tuple(run.path), run.funded and end_reason not in CREDITED)
            if half_life_s is None:
                counts: float = (until_s - max(run.started_s, start_s)) * size_milli
            else:
                counts = decayed_milli_s(size_milli, run.started_s, until_s, now_s, half_life_s)
            use[key] = use.get(key, 0) + counts
    return runs, [(path, is_charged, use[path, is_charged]) for path, is_charged in sorted(use)]


def _with_events(past: Pass, ids: Sequence[int]) -> set[int]:
    """Runs that have any event, also a later one."""
    rows = Event.objects.filter(cluster=past.cluster_id, run__in=ids, id__gt=past.event_mark)
    return set(rows.values_list("run_id", flat=True))


def _later_history(past: Pass) -> list[tuple[int, int]]:
    """First and last ids of runs that were added as history after the pass."""
    rows = Event.objects.filter(cluster=past.cluster_id, kind=Kind.HISTORY_ADDED, id__gt=past.event_mark)
    return [(data["first_run"], data["last_run"]) for data in rows.values_list("data", flat=True)]


def _nodes(past: Pass) -> list[SeenNode]:
    rows = {row.pk: row for row in Node.objects.filter(cluster=past.cluster_id).order_by("name")}
    last = _last(past, "node_id", "node", rows)
    later = set(
        Event.objects.filter(cluster=past.cluster_id, node__in=rows, id__gt=past.event_mark).values_list(
            "node_id", flat=True
        )
    )
    untouched = events.seen_nodes(pk for pk in rows if pk not in last and pk not in later)
    found = [(pk, row.name, last.get(pk) or untouched.get(pk)) for pk, row in rows.items()]
    return [SeenNode(pk, name, values) for pk, name, values in found if values is not None]


def _standing(plans: Any, past: Pass, kind: Kind, key: str) -> list[Any]:
    """Plans made by an earlier pass, whose end was not in the log yet."""
    rows = plans.filter(cluster=past.cluster_id, made_in__lt=past.pk).filter(
        Q(ended_at=None) | Q(ended_at__gt=past.at - LATEST_REPORT)
    )
    ended = Event.objects.filter(cluster=past.cluster_id, kind=kind, id__lte=past.event_mark)
    gone = set(ended.values_list(f"data__{key}", flat=True))
    return [row for row in rows.order_by("pk") if row.pk not in gone]
