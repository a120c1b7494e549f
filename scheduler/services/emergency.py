"""An operator's emergency stop (fire, theft, a leak): of one run, of a node, of a whole cluster, also inside contracts.

On the record with a reason: each run's charge is given back (`usage_sql.CREDITED`), its owner is told when it has ended
(`bad_ends`), its workload says why, and the ledger of its leaf has it. A stopped run has its grace to save. A node that
was stopped drains until it is resumed; on a cluster that was stopped nothing starts until it is started again, and
what was promised there is not promised any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import BudgetNode, Cluster, Person
from budgets.services import ledger
from scheduler.engine import Action, Code, Reason
from scheduler.models import Claim, Decision, EmergencyStop, Node, Rank, Reservation, Run, Workload
from scheduler.services import agents, events, nodes, policies, rollout, runs
from scheduler.services.events import Entry, Kind
from scheduler.services.still_holds import Work

REASON_MAX_CHARS = 200
STOPPED = "cluster_stopped"
"""Reason code of a workload that waits on a stopped cluster."""
OUTCOME = "stopped"
"""Of claims and reservations that an emergency stop ended."""
LISTED_MAX = 100
"""Runs that one entry of the ledger names; beyond it counts them."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a stop did: how many runs were told to stop, and whether anything else changed."""

    runs: int
    is_news: bool = True


# --- stopping ---------------------------------------------------------------------------------------------------------


def stop_run(*, run: Run, by: Person, reason: str, now: datetime | None = None) -> bool:
    """Stop one run. False: it is leaving or has ended already.

    Raises:
        InputError: no reason was given. NotAllowed: not theirs to decide.
    """
    _allowed(by, run.cluster, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(run.cluster_id):
        return bool(_stop(run.cluster, Run.objects.filter(pk=run.pk), by, reason.strip(), at))


def stop_workload(*, workload: Workload, by: Person, reason: str, now: datetime | None = None) -> bool:
    """Stop the run that a workload has; it returns to its place in the queue if it is resumable. False: it has none.

    Raises:
        InputError: no reason was given. NotAllowed: not theirs to decide.
    """
    _allowed(by, workload.cluster, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(workload.cluster_id):
        return bool(_stop(workload.cluster, Run.objects.filter(workload=workload), by, reason.strip(), at))


def stop_node(*, node: Node, by: Person, reason: str, now: datetime | None = None) -> Stopped:
    """Drain a node and stop every run that has a part on it; it takes work again once it is resumed.

    Raises:
        InputError: no reason was given. NotAllowed: not theirs to decide.
    """
    _allowed(by, node.cluster, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(node.cluster_id):
        is_news = nodes.ask_drain(node=node, by=by, reason=reason.strip(), now=at)
        on_it = Run.objects.filter(pk__in=Rank.objects.filter(node=node).values("run"))
        stopped = _stop(node.cluster, on_it, by, reason.strip(), at)
        if is_news or stopped:
            after = {"node": node.name, "runs": len(stopped)}
            ledger.record_of_all(
                verb="cluster.node_stopped",
                by=by,
                before=None,
                after=after,
                reason=reason.strip(),
                cluster=node.cluster,
            )
    return Stopped(len(stopped), is_news)


def stop_cluster(*, cluster: Cluster, by: Person, reason: str, now: datetime | None = None) -> Stopped:
    """Stop every run of a cluster, and let nothing start there until `start_cluster`.

    Raises:
        InputError: no reason was given. NotAllowed: not theirs to decide.
    """
    _allowed(by, cluster, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(cluster.pk):
        is_news = not EmergencyStop.objects.filter(cluster=cluster, ended_at=None).exists()
        if is_news:
            EmergencyStop.objects.create(cluster=cluster, started_at=at, started_by=by, reason=reason.strip())
        stopped = _stop(cluster, Run.objects.filter(cluster=cluster), by, reason.strip(), at)
        if is_news:
            _end_promises(cluster, at)
            ledger.record_of_all(
                verb="cluster.stopped",
                by=by,
                before=None,
                after={"runs": len(stopped)},
                reason=reason.strip(),
                cluster=cluster,
            )
        events.wake(cluster.pk)
    return Stopped(len(stopped), is_news)


def start_cluster(*, cluster: Cluster, by: Person, reason: str, now: datetime | None = None) -> bool:
    """Let a stopped cluster go on: its queue starts with the next pass. False: it was not stopped.

    Raises:
        InputError: no reason was given. NotAllowed: not theirs to decide.
    """
    _allowed(by, cluster, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(cluster.pk):
        stop = EmergencyStop.objects.filter(cluster=cluster, ended_at=None).first()
        if stop is None:
            return False
        ended = {"ended_at": max(at, stop.started_at), "ended_by": by, "end_reason": reason.strip()}
        EmergencyStop.objects.filter(pk=stop.pk).update(**ended)
        ledger.record_of_all(
            verb="cluster.started",
            by=by,
            before={"stopped": stop.started_at.isoformat()},
            after=None,
            reason=reason.strip(),
            cluster=cluster,
        )
        events.wake(cluster.pk)
    return True


def _allowed(by: Person, cluster: Cluster, reason: str) -> None:
    if not may(by, "node.operate", cluster):
        raise NotAllowed("node.operate")
    if not reason.strip():
        raise InputError("reason", gettext("say why, in a sentence: the owner reads it"))
    if len(reason) > REASON_MAX_CHARS:
        raise InputError("reason", gettext("must be at most {most} characters").format(most=REASON_MAX_CHARS))


def _stop(cluster: Cluster, among: QuerySet[Run], by: Person, reason: str, at: datetime) -> list[Run]:
    """Tell those to stop that go on; each has its decision, and its workload says why. A fixed number of statements,
    and an entry of the ledger for each leaf.
    """
    going = among.filter(state__in=runs.HOLDING_STATES, stop_asked_at=None)
    found = {run.pk: run for run in going.select_related("workload", "leaf")}
    policies.ensure(cluster)
    policy = policies.as_policy(policies.latest(cluster))
    told = runs.tell_all_to_stop(
        cluster_id=cluster.pk, stops=dict.fromkeys(found, (Code.STOPPED_BY_OPERATOR, at)), policy=policy, by=by
    )
    stopped = [found[pk] for pk in sorted(told)]
    text, numbers = f"Stopped by an operator: {reason}", {"person_id": by.pk}
    said: dict[str, Any] = {"code": Code.STOPPED_BY_OPERATOR, "text": text, "numbers": numbers}
    Decision.objects.bulk_create(
        Decision(workload_id=run.workload_id, run=run, at=at, action="stop", **said) for run in stopped
    )
    Workload.objects.filter(pk__in=[run.workload_id for run in stopped]).update(
        reason_code=Code.STOPPED_BY_OPERATOR, reason_text=text, reason_numbers=numbers
    )
    _record_by_leaf(cluster, stopped, by, reason)
    agents.wake(set(Rank.objects.filter(run__in=told).values_list("node_id", flat=True)))
    return stopped


def _record_by_leaf(cluster: Cluster, stopped: Sequence[Run], by: Person, reason: str) -> None:
    by_leaf: dict[BudgetNode, list[str]] = defaultdict(list)
    for run in stopped:
        by_leaf[run.leaf].append(str(run))
    for leaf, names in by_leaf.items():
        after: dict[str, Any] = {"runs": names[:LISTED_MAX]}
        if len(names) > LISTED_MAX:
            after["more"] = len(names) - LISTED_MAX
        ledger.record(verb="run.stopped", node=leaf, by=by, before=None, after=after, reason=reason, cluster=cluster)


def _end_promises(cluster: Cluster, at: datetime) -> None:
    """Nothing that was planned on the cluster can be kept."""
    entries = []
    for model, kind, name in (
        (Claim, Kind.CLAIM_ENDED, "claim"),
        (Reservation, Kind.RESERVATION_ENDED, "reservation"),
    ):
        rows = model.objects.filter(cluster=cluster, ended_at=None)
        for pk, workload_id in rows.order_by("pk").values_list("pk", "workload_id"):
            entries.append(Entry(kind, workload_id=workload_id, data={name: pk, "outcome": OUTCOME}))
        rows.update(ended_at=at, outcome=OUTCOME)
    events.record_all(cluster_id=cluster.pk, entries=entries, at=at)


# --- while it lasts ---------------------------------------------------------------------------------------------------


def standing(cluster: Cluster) -> EmergencyStop | None:
    """The stop that the cluster is under."""
    return EmergencyStop.objects.filter(cluster=cluster, ended_at=None).select_related("started_by").first()


def standing_everywhere() -> dict[int, EmergencyStop]:
    """Of every stopped cluster, by its id. One query."""
    rows = EmergencyStop.objects.filter(ended_at=None).select_related("started_by")
    return {row.cluster_id: row for row in rows}


def keep_still(work: Work, stop: EmergencyStop) -> list[dict[str, Any]]:
    """Have a pass of a stopped cluster start and promise nothing: what it would have done, as the pass keeps it.

    Whoever waits is told that the cluster is stopped, in the place that they have.
    """
    text = f"Waiting: an operator stopped this cluster ({stop.reason}). Nothing starts until it is started again."
    told = Reason(STOPPED, text, {"stop": stop.pk})
    would = [each for each in work.decisions if each.action not in rollout.CARRIED_OUT]
    work.decisions[:] = [
        replace(each, action=Action.WAIT, reason=told, holdings={}) if each.action in WAITING else each
        for each in work.decisions
        if each.action in WAITING or each.action in (Action.HOLD, Action.RELEASE)
    ]
    work.devices.clear()
    return [rollout.shown(each) for each in would[: rollout.SHOWN_MAX]]


WAITING = (Action.WAIT, Action.CLAIM, Action.START)
