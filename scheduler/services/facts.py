"""Between rows and nodes: what a node should make so, and what its agent says has really happened.

Only facts move a run to `running` or `ended`. A fact said twice, late, out of order, or about a rank that another run
has replaced changes nothing: every change is conditional on the state that it starts from. Facts carry ages, not
instants, and an age is bounded by what the database knows: no clock but the portal's own counts.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import structlog
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from budgets.models import Cluster
from scheduler.engine import Code
from scheduler.executors.base import LARGEST, Cause, DesiredRank, RankFact, RankState
from scheduler.models import Holding, Node, Rank, Run, Workload
from scheduler.services import agents, events, policies, runs

log = structlog.get_logger(__name__)

LIVE_STATES = (Rank.State.WANTED, Rank.State.RUNNING)
TOLD_TO_STOP = (-signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM)
"""Exit codes of ranks that were told to stop."""
OLDEST_AGE_S = 100 * 365 * 86_400


# --- what is wanted ---------------------------------------------------------------------------------------------------


def desired(node: Node, now: datetime | None = None) -> list[DesiredRank]:
    """What the node's agent should make so: every rank that is wanted here, and how soon those that leave must be gone.

    A number of queries that no number of ranks raises.
    """
    if node.health == Node.Health.DOWN:
        return []
    at = now or timezone.now()
    ranks = list(
        Rank.objects.filter(node=node, state__in=LIVE_STATES)
        .exclude(run__state=Run.State.ENDED)
        .select_related("run__workload")
        .order_by("run", "index")
    )
    if not ranks:
        return []
    gangs = _gangs([rank.run_id for rank in ranks])
    devices: dict[int, list[int]] = {}
    held = Holding.objects.filter(node=node, run__in=gangs, released_at=None).order_by("device__index")
    for run_id, index in held.values_list("run_id", "device__index"):
        devices.setdefault(run_id, []).append(index)
    cluster = Cluster.objects.get(pk=node.cluster_id)
    grace_s = policies.as_policy(policies.latest(cluster)).grace_s
    return [
        _wanted(rank, gangs[rank.run_id], devices.get(rank.run_id, []), cluster.unit, grace_s, at) for rank in ranks
    ]


def _gangs(run_ids: Iterable[int]) -> dict[int, list[tuple[str, str]]]:
    """By run: (name, wake-up address) of its nodes, by rank."""
    found: dict[int, list[tuple[str, str]]] = {}
    rows = Rank.objects.filter(run__in=set(run_ids)).order_by("run", "index")
    for run_id, name, url in rows.values_list("run_id", "node__name", "node__wake_url"):
        found.setdefault(run_id, []).append((name, url))
    return found


def _wanted(
    rank: Rank, gang: list[tuple[str, str]], devices: list[int], unit: str, grace_s: int, at: datetime
) -> DesiredRank:
    run, workload = rank.run, rank.run.workload
    first_name, first_url = gang[0]
    stop_in_s = None
    if run.stop_asked_at is not None and run.leave_by is not None:
        stop_in_s = max(0, int((run.leave_by - at).total_seconds()))
    return DesiredRank(
        run=run.pk,
        workload=workload.code,
        rank=rank.index,
        nodes=[name for name, _url in gang],
        devices=devices,
        unit=unit,
        command=list(workload.command),
        environment={str(name): str(value) for name, value in workload.environment.items()},
        checkpoint=workload.checkpoint,
        owner=workload.owner_id or 0,
        master=urlsplit(first_url).hostname or first_name,
        began=rank.state == Rank.State.RUNNING,
        grace_s=grace_s,
        memory_mib=workload.memory_mib_per_rank,
        progress_s=workload.progress_s,
        stop_in_s=stop_in_s,
    )


# --- what happened ----------------------------------------------------------------------------------------------------


def report(*, node: Node, facts: Sequence[RankFact], now: datetime | None = None) -> list[RankFact]:
    """Take what the agent of `node` says.

    Args:
        node: whose token the agent showed.
        facts: about ranks of that node.
        now: when the report came, by the portal's clock.

    Returns:
        the facts that name no rank of this node: they changed nothing.
    """
    if not facts:
        return []
    at = (now or timezone.now()).replace(microsecond=0)
    found = _ranks_of(node, facts)
    strange = [fact for fact in facts if (fact.run, fact.rank) not in found]
    for fact in strange:
        log.warning("fact_refused", node=node.name, run=fact.run, rank=fact.rank, state=fact.state)
    if not any(_is_news(found[fact.run, fact.rank], fact) for fact in facts if (fact.run, fact.rank) in found):
        return strange
    with events.changing(node.cluster_id):
        touched = set()
        for fact in facts:
            rank = found.get((fact.run, fact.rank))
            if rank is not None and _take(rank, fact, at):
                touched.add(rank.run_id)
        for run_id in sorted(touched):
            settle(run_id, at)
    return strange


def _ranks_of(node: Node, facts: Sequence[RankFact]) -> dict[tuple[int, int], Rank]:
    ids = {fact.run for fact in facts if fact.run <= LARGEST}
    rows = Rank.objects.filter(node=node, run__in=ids).select_related("run")
    return {(rank.run_id, rank.index): rank for rank in rows}


def _is_news(rank: Rank, fact: RankFact) -> bool:
    """Whether the fact can still change its rank."""
    return rank.state in (LIVE_STATES if fact.state == RankState.EXITED else (Rank.State.WANTED,))


def _take(rank: Rank, fact: RankFact, at: datetime) -> bool:
    """Write a fact into its rank; whether that changed it."""
    began_at = None if fact.began_age_s is None else _ago(fact.began_age_s, at, not_before=rank.run.started_at)
    row = Rank.objects.filter(pk=rank.pk)
    if fact.state == RankState.RUNNING:
        changed = row.filter(state=Rank.State.WANTED).update(state=Rank.State.RUNNING, began_at=began_at, pid=fact.pid)
        return bool(changed)
    exited_at = _ago(fact.exited_age_s or 0, at, not_before=rank.began_at or began_at or rank.run.started_at)
    ended = {"exited_at": exited_at, "message": fact.message}
    if fact.state == RankState.FAILED:
        return bool(row.filter(state=Rank.State.WANTED).update(state=Rank.State.FAILED, **ended))
    # No exit code says that nobody saw its end: its node took it along.
    exit_code = None if fact.cause == Cause.NODE else fact.exit_code
    return bool(
        row.filter(state__in=LIVE_STATES).update(
            state=Rank.State.EXITED,
            began_at=Coalesce(F("began_at"), began_at),
            pid=Coalesce(F("pid"), fact.pid),
            exit_code=exit_code,
            **ended,
        )
    )


def _ago(age_s: int, at: datetime, *, not_before: datetime) -> datetime:
    """The instant of something so old, neither before what must have come first nor in the future."""
    return max(min(at - timedelta(seconds=min(age_s, OLDEST_AGE_S)), at), min(not_before, at))


def give_up(*, node: Node, as_of: datetime, now: datetime) -> None:
    """The node is lost: its ranks are gone since `as_of`, and their runs end or are told to leave the other nodes."""
    with events.changing(node.cluster_id):
        gone = Rank.objects.filter(node=node, state__in=LIVE_STATES).exclude(run__state=Run.State.ENDED)
        for rank in gone.select_related("run").order_by("run"):
            Rank.objects.filter(pk=rank.pk, state__in=LIVE_STATES).update(
                state=Rank.State.GONE, exited_at=max(as_of, rank.began_at or rank.run.started_at)
            )
            settle(rank.run_id, now)


# --- what follows -----------------------------------------------------------------------------------------------------


def settle(run_id: int, now: datetime) -> None:
    """Move a run on by what its ranks are: it begins, is told to stop since a part of it is gone, or ends."""
    run = Run.objects.select_related("workload", "cluster").get(pk=run_id)
    if run.state == Run.State.ENDED:
        return
    ranks = list(run.ranks.select_related("node").order_by("index"))
    began = [rank.began_at for rank in ranks if rank.began_at is not None]
    if len(began) == len(ranks) and runs.begin(run=run, at=max(began)):
        events.wake(run.cluster_id)
    trouble = _first_trouble(ranks)
    code = runs.FINISHED
    if trouble is not None:
        is_own = trouble.state == Rank.State.FAILED or trouble.exit_code is not None
        code = runs.FAILED if is_own else Code.NODE_LOST
    if all(rank.state not in LIVE_STATES for rank in ranks):
        ends = [rank.exited_at for rank in ranks if rank.exited_at is not None]
        exit_code = 0 if trouble is None else trouble.exit_code
        if runs.end(run=run, at=max(ends), code=code, exit_code=exit_code):
            _say_why(run_id, trouble)
    elif trouble is not None:
        policy = policies.as_policy(policies.latest(run.cluster))
        if runs.tell_to_stop(run=run, code=code, at=now, policy=policy):
            agents.wake({rank.node_id for rank in ranks if rank.state in LIVE_STATES})


def _first_trouble(ranks: Sequence[Rank]) -> Rank | None:
    """The rank that first ended other than well; in one second, before those that it took along."""
    bad = [rank for rank in ranks if rank.state not in LIVE_STATES and rank.exit_code != 0]
    return min(bad, key=lambda rank: (rank.exited_at, rank.exit_code in TOLD_TO_STOP, rank.index), default=None)


def _say_why(run_id: int, trouble: Rank | None) -> None:
    """What the page of a workload that is over says. Everybody reads it: no command, and nothing that it printed."""
    run = Run.objects.get(pk=run_id)
    if run.end_reason == runs.TIME_LIMIT:
        text = "It had run for its whole time limit."
    elif run.end_reason not in (runs.FINISHED, runs.FAILED, Code.NODE_LOST):
        return  # whoever stopped it has said why
    elif trouble is None:
        text = "All ranks exited with status 0."
    elif trouble.state == Rank.State.FAILED:
        text = f"Rank {trouble.index} could not be started on {trouble.node.name}."
    elif trouble.exit_code is None:
        text = f"Node {trouble.node.name} was lost, and rank {trouble.index} with it."
    elif trouble.exit_code < 0:
        text = f"Rank {trouble.index} on {trouble.node.name} was ended by signal {-trouble.exit_code}."
    else:
        text = f"Rank {trouble.index} on {trouble.node.name} exited with status {trouble.exit_code}."
    over = (Workload.State.FINISHED, Workload.State.FAILED, Workload.State.LOST)
    Workload.objects.filter(pk=run.workload_id, state__in=over).update(
        reason_code=run.end_reason, reason_text=text, reason_numbers={}
    )
