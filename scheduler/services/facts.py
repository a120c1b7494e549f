"""Between rows and nodes: what a node should make so, and what its agent says has really happened.

Only facts move a run to `running` or `ended`. A fact said twice, late, out of order, or about a rank that another run
has replaced changes nothing: every change is conditional on the state that it starts from. Facts carry ages, not
instants, and an age is bounded by what the database knows: no clock but the portal's own counts.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog
from django.db import connection
from django.utils import timezone

from budgets.models import Cluster
from budgets.sealing import CannotOpen
from scheduler.engine import Code
from scheduler.executors.base import LARGEST, Cause, DesiredRank, RankFact, RankState
from scheduler.models import WHOLE_DEVICE_MILLI, Holding, Node, Rank, Run
from scheduler.services import agents, events, kept, policies, runs, sessions, shifts, throughput
from scheduler.services.secret_variables import NOT_OPENED, variables_of

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
    saved = sessions.to_restore(ranks)
    devices: dict[int, dict[int, int]] = {}
    held = Holding.objects.filter(node=node, run__in=gangs, released_at=None).order_by("device__index")
    for run_id, index, milli in held.values_list("run_id", "device__index", "milli"):
        devices.setdefault(run_id, {})[index] = milli
    cluster = Cluster.objects.get(pk=node.cluster_id)
    grace_s = policies.as_policy(policies.latest(cluster)).grace_s
    wanted, keyless = [], []
    for rank in ranks:
        try:
            want = _wanted(rank, gangs[rank.run_id], devices.get(rank.run_id, {}), cluster.unit, grace_s, at)
        except CannotOpen:
            keyless.append(RankFact(rank.run_id, rank.index, RankState.FAILED, exited_age_s=0, message=NOT_OPENED))
        else:
            wanted.append(replace(want, **sessions.restoring(rank, saved)))
    if keyless:
        report(node=node, facts=keyless, now=at)
    return wanted


def _gangs(run_ids: Iterable[int]) -> dict[int, list[tuple[str, str]]]:
    """By run: (name, wake-up address) of its nodes, by rank."""
    found: dict[int, list[tuple[str, str]]] = {}
    rows = Rank.objects.filter(run__in=set(run_ids)).order_by("run", "index")
    for run_id, name, url in rows.values_list("run_id", "node__name", "node__wake_url"):
        found.setdefault(run_id, []).append((name, url))
    return found


def _wanted(
    rank: Rank, gang: list[tuple[str, str]], devices: Mapping[int, int], unit: str, grace_s: int, at: datetime
) -> DesiredRank:
    """`devices` are thousandths by index: whole ones, or a part of one."""
    run, workload = rank.run, rank.run.workload
    began = rank.state == Rank.State.RUNNING
    first_name, first_url = gang[0]
    stop_in_s = None
    if run.stop_asked_at is not None and run.leave_by is not None:
        stop_in_s = max(0, int((run.leave_by - at).total_seconds()))
    return DesiredRank(
        run=run.pk,
        workload=workload.code,
        rank=rank.index,
        nodes=[name for name, _url in gang],
        devices=list(devices),
        device_milli=min(devices.values(), default=WHOLE_DEVICE_MILLI),
        unit=unit,
        command=list(workload.command),
        environment=variables_of(workload, began=began) | shifts.variables_of(run),
        secrets=sorted(workload.secrets),
        save_command=list(workload.save_command),
        checkpoint_every_s=workload.checkpoint_every_s,
        checkpoint=workload.checkpoint,
        owner=workload.owner_id or 0,
        master=urlsplit(first_url).hostname or first_name,
        began=began,
        grace_s=grace_s,
        memory_mib=workload.memory_mib_per_rank,
        progress_s=workload.progress_s,
        stop_in_s=stop_in_s,
    )


# --- what happened ----------------------------------------------------------------------------------------------------


class Said(NamedTuple):
    """A fact, the node whose agent said it, and when, by the portal's clock."""

    node_id: int
    fact: RankFact
    at: datetime

    @property
    def key(self) -> tuple[int, int, int]:
        """Whom it is about: node, run and rank."""
        return self.node_id, self.fact.run, self.fact.rank


@dataclass(slots=True)
class _Rank:
    """A rank's row, with the start of its run."""

    pk: int
    node_id: int
    run_id: int
    index: int
    state: str
    pid: int | None
    began_at: datetime | None
    exited_at: datetime | None
    exit_code: int | None
    message: str
    run_started_at: datetime


def report(*, node: Node, facts: Sequence[RankFact], now: datetime | None = None) -> list[RankFact]:
    """Take what the agent of `node` says.

    Args:
        node: whose token the agent showed.
        facts: about ranks of that node.
        now: when the report came, by the portal's clock.

    Returns:
        the facts that name no rank of this node: they changed nothing.
    """
    at = (now or timezone.now()).replace(microsecond=0)
    strange = report_all(cluster_id=node.cluster_id, said=[Said(node.pk, fact, at) for fact in facts])
    for each in strange:
        log.warning("fact_refused", node=node.name, run=each.fact.run, rank=each.fact.rank, state=each.fact.state)
    return [each.fact for each in strange]


def report_all(*, cluster_id: int, said: Sequence[Said]) -> list[Said]:
    """Take what agents of one cluster's nodes say, in this order; one transaction, whatever its length.

    Returns:
        what names no rank of its node: that changed nothing.
    """
    kept.note(said)
    throughput.keep(said)
    found = _ranks_of(said)
    strange = [each for each in said if each.key not in found]
    if not any(_is_news(found[each.key], each.fact) for each in said if each.key in found):
        return strange  # most reports are repetitions: these need not wait for other writers
    with events.changing(cluster_id):
        found = _ranks_of(said)
        changed: dict[int, _Rank] = {}
        at_of: dict[int, datetime] = {}
        for each in said:
            rank = found.get(each.key)
            if rank is not None and _is_news(rank, each.fact):
                _take(rank, each.fact, each.at)
                changed[rank.pk] = rank
                at_of[rank.run_id] = each.at
        _store(list(changed.values()))
        settle(cluster_id=cluster_id, at_of=at_of)
    return strange


def _ranks_of(said: Sequence[Said]) -> dict[tuple[int, int, int], _Rank]:
    runs = {each.fact.run for each in said if each.fact.run <= LARGEST}
    rows = Rank.objects.filter(node__in={each.node_id for each in said}, run__in=runs).order_by()
    columns = ("pk", "node_id", "run_id", "index", "state", "pid", "began_at", "exited_at", "exit_code", "message")
    ranks = (_Rank(*row) for row in rows.values_list(*columns, "run__started_at"))
    return {(rank.node_id, rank.run_id, rank.index): rank for rank in ranks}


def _is_news(rank: _Rank, fact: RankFact) -> bool:
    """Whether the fact can still change its rank."""
    return rank.state in (LIVE_STATES if fact.state == RankState.EXITED else (Rank.State.WANTED,))


def _take(rank: _Rank, fact: RankFact, at: datetime) -> None:
    """What a fact makes of its rank."""
    began_at = None if fact.began_age_s is None else _ago(fact.began_age_s, at, not_before=rank.run_started_at)
    if fact.state == RankState.RUNNING:
        rank.state, rank.began_at, rank.pid = Rank.State.RUNNING, began_at, fact.pid
        return
    not_before = rank.began_at or began_at or rank.run_started_at
    rank.exited_at, rank.message = _ago(fact.exited_age_s or 0, at, not_before=not_before), fact.message
    if fact.state == RankState.FAILED:
        rank.state = Rank.State.FAILED
        return
    rank.state = Rank.State.EXITED
    rank.began_at = rank.began_at or began_at
    rank.pid = fact.pid if rank.pid is None else rank.pid
    # No exit code says that nobody saw its end: its node took it along.
    rank.exit_code = None if fact.cause == Cause.NODE else fact.exit_code


def _ago(age_s: int, at: datetime, *, not_before: datetime) -> datetime:
    """The instant of something so old, neither before what must have come first nor in the future."""
    return max(min(at - timedelta(seconds=min(age_s, OLDEST_AGE_S)), at), min(not_before, at))


STORE_SQL = """
UPDATE scheduler_rank k SET state = t.state, pid = t.pid, began_at = t.began_at, exited_at = t.exited_at,
    exit_code = t.exit_code, message = t.message
FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::timestamptz[], %s::timestamptz[], %s::int[], %s::text[])
    AS t(id, state, pid, began_at, exited_at, exit_code, message)
WHERE k.id = t.id AND k.state IN ('wanted', 'running')
"""


def _store(ranks: Sequence[_Rank]) -> None:
    """Write them into their rows, which nobody changed since: all who do hold the cluster's writers' lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            STORE_SQL,
            [
                [rank.pk for rank in ranks],
                [str(rank.state) for rank in ranks],
                [rank.pid for rank in ranks],
                [rank.began_at for rank in ranks],
                [rank.exited_at for rank in ranks],
                [rank.exit_code for rank in ranks],
                [rank.message for rank in ranks],
            ],
        )
        assert cursor.rowcount == len(ranks), "ranks changed under the writers' lock"


GIVE_UP_SQL = """
UPDATE scheduler_rank k SET state = 'gone', exited_at = greatest(%s, coalesce(k.began_at, r.started_at))
FROM scheduler_run r
WHERE r.id = k.run_id AND k.node_id = %s AND k.state IN ('wanted', 'running') AND r.state <> 'ended'
RETURNING k.run_id
"""


def give_up(*, node: Node, as_of: datetime, now: datetime) -> None:
    """The node is lost: its ranks are gone since `as_of`, and their runs end or are told to leave the other nodes."""
    with events.changing(node.cluster_id):
        with connection.cursor() as cursor:
            cursor.execute(GIVE_UP_SQL, [as_of, node.pk])
            affected = {run_id for (run_id,) in cursor.fetchall()}
        settle(cluster_id=node.cluster_id, at_of=dict.fromkeys(affected, now))


# --- what follows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What has become of one rank, with its node, and since when its run is known to really run."""

    run_running_at: datetime | None
    index: int
    node_id: int
    node: str
    state: str
    began_at: datetime | None
    exited_at: datetime | None
    exit_code: int | None


def settle(*, cluster_id: int, at_of: Mapping[int, datetime]) -> None:
    """Move runs on by what their ranks are: they begin, are told to stop since a part of them is gone, or end.

    Args:
        cluster_id: whose writers' lock the caller holds.
        at_of: the runs, and when there was news of each.
    """
    going = Run.objects.filter(pk__in=at_of).exclude(state=Run.State.ENDED)
    gangs = _outcomes(going.order_by("pk").values_list("pk", flat=True))
    began = {}
    endings = []
    stops: dict[int, tuple[str, datetime]] = {}
    for run_id, ranks in gangs.items():
        starts = [rank.began_at for rank in ranks if rank.began_at is not None]
        if len(starts) == len(ranks) and ranks[0].run_running_at is None:
            began[run_id] = max(starts)
        trouble = _first_trouble(ranks)
        code = _code_of(trouble)
        if all(rank.state not in LIVE_STATES for rank in ranks):
            last = max(rank.exited_at for rank in ranks if rank.exited_at is not None)
            exit_code = 0 if trouble is None else trouble.exit_code
            endings.append(runs.Ending(run_id, last, code, exit_code, _why(trouble), known_at=at_of[run_id]))
        elif trouble is not None:
            stops[run_id] = (code, at_of[run_id])
    if runs.begin(cluster_id=cluster_id, began=began):
        events.wake(cluster_id)
    runs.end_all(cluster_id=cluster_id, endings=endings)
    if stops:
        _stop_the_rest(cluster_id, stops, gangs)


def _outcomes(run_ids: Iterable[int]) -> dict[int, list[_Outcome]]:
    """The ranks of these runs, by run."""
    found: dict[int, list[_Outcome]] = {}
    columns = ("run__running_at", "index", "node_id", "node__name", "state", "began_at", "exited_at", "exit_code")
    rows = Rank.objects.filter(run__in=run_ids).order_by("run_id", "index")
    for run_id, *values in rows.values_list("run_id", *columns):
        found.setdefault(run_id, []).append(_Outcome(*values))
    return found


def _first_trouble(ranks: Sequence[_Outcome]) -> _Outcome | None:
    """The rank that first ended other than well; in one second, before those that it took along."""
    bad = [rank for rank in ranks if rank.state not in LIVE_STATES and rank.exit_code != 0]
    return min(bad, key=lambda rank: (rank.exited_at, rank.exit_code in TOLD_TO_STOP, rank.index), default=None)


def _code_of(trouble: _Outcome | None) -> str:
    """What a run ends as whose first trouble this is."""
    if trouble is None:
        return runs.FINISHED
    is_own = trouble.state == Rank.State.FAILED or trouble.exit_code is not None
    return runs.FAILED if is_own else Code.NODE_LOST


def _stop_the_rest(
    cluster_id: int, stops: Mapping[int, tuple[str, datetime]], gangs: Mapping[int, Sequence[_Outcome]]
) -> None:
    """Have the other ranks of gangs leave of which one has gone."""
    policy = policies.as_policy(policies.latest(Cluster.objects.get(pk=cluster_id)))
    told = runs.tell_all_to_stop(cluster_id=cluster_id, stops=stops, policy=policy)
    agents.wake({rank.node_id for run_id in told for rank in gangs[run_id] if rank.state in LIVE_STATES})


def _why(trouble: _Outcome | None) -> str:
    """Why a run that nobody stopped is over, in one sentence that everybody may read."""
    if trouble is None:
        return "All ranks exited with status 0."
    if trouble.state == Rank.State.FAILED:
        return f"Rank {trouble.index} could not be started on {trouble.node}."
    if trouble.exit_code is None:
        return f"Node {trouble.node} was lost, and rank {trouble.index} with it."
    if trouble.exit_code < 0:
        return f"Rank {trouble.index} on {trouble.node} was ended by signal {-trouble.exit_code}."
    return f"Rank {trouble.index} on {trouble.node} exited with status {trouble.exit_code}."
