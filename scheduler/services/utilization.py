"""What nodes measured of their devices' activity, kept by run and hour (semantics.md section 10: never assumed).

A sample says how old its stretch of time is; the portal's clock alone makes instants of that. For each rank there is a
mark up to which it has been measured: of a stretch that reaches behind the mark, or out of the run's life, only the
rest counts, in proportion. So a sample that is said twice counts once, and no device is ever busier than it was held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from django.db import connection, transaction
from django.db.models import Q, Sum

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.executors import simulated
from scheduler.executors.base import LARGEST, UtilizationSample
from scheduler.models import Holding, Node, Rank, Run, UtilizationMark
from scheduler.services.events import Second

HOUR_S = 3_600
OLDEST_S = 7 * 86_400
"""What is older is not taken any more."""
SLACK_S = 2
"""Ages are whole seconds: a stretch may really have been so much longer than its ages say."""
SAMPLES_MAX = 10_000
BATCH = 5_000


@dataclass(frozen=True, slots=True)
class _Life:
    """Of a rank, in Unix seconds: from when until when it held so much on its node, and how far it is measured."""

    held_milli: int
    start_s: int
    end_s: int
    mark_s: int


@dataclass(slots=True)
class Measured:
    """What was measured of one run in one hour (Unix seconds): device time, activity, and the most memory."""

    run_id: int
    hour_s: int
    measured_milli_s: int
    busy_milli_s: int
    memory_milli: int | None = None


def keep(*, node: Node, samples: Sequence[UtilizationSample], now: datetime) -> int:
    """Keep what the agent of `node` measured; all of it, or where something is wrong nothing.

    Args:
        node: whose token the agent showed.
        samples: in any order; those of one rank must not overlap.
        now: when the report came, by the portal's clock.

    Returns:
        how many of them told something new; the others had been said before, or lie outside their run's life.

    Raises:
        InputError: a run that is not on this node, more activity than devices, ages that cannot be, or two samples of
            one rank that overlap; its field names the sample, such as `utilization[3].busy_milli_s`.
    """
    if len(samples) > SAMPLES_MAX:
        raise InputError("utilization", f"has more than {SAMPLES_MAX:,} samples")
    keys = [_checked(sample, f"utilization[{number}]") for number, sample in enumerate(samples)]
    _refuse_overlaps(samples, keys)
    now_s = int(now.timestamp())
    with transaction.atomic():
        lives = _lives(node, set(keys), now_s)
        for number, (sample, key) in enumerate(zip(samples, keys, strict=True)):
            _check_against(lives.get(key), sample, f"utilization[{number}]", node)
        rows: dict[tuple[int, int], Measured] = {}
        marks: dict[tuple[int, int], int] = {}
        count = 0
        for sample, key in sorted(zip(samples, keys, strict=True), key=lambda each: -each[0].from_age_s):
            count += _count(sample, key, lives[key], now_s, rows, marks)
        add(node.cluster_id, list(rows.values()))
        _move_marks(marks)
    return count


def add(cluster_id: int, rows: Sequence[Measured]) -> None:
    """Add to the hours of runs, in the caller's transaction; what they already have stays."""
    if not rows:
        return
    ordered = sorted(
        rows, key=lambda row: (row.run_id, row.hour_s)
    )  # one order, so that writers never wait in a circle
    with connection.cursor() as cursor:
        cursor.execute(
            ADD_SQL,
            [
                cluster_id,
                [row.run_id for row in ordered],
                [row.hour_s for row in ordered],
                [row.measured_milli_s for row in ordered],
                [row.busy_milli_s for row in ordered],
                [row.memory_milli for row in ordered],
            ],
        )


ADD_SQL = """
INSERT INTO scheduler_utilizationhour AS u (cluster_id, run_id, hour, measured_milli_s, busy_milli_s, memory_milli)
SELECT %s, run, to_timestamp(hour), measured, busy, memory
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[]) AS t(run, hour, measured, busy, memory)
ON CONFLICT (run_id, hour) DO UPDATE SET
    measured_milli_s = u.measured_milli_s + excluded.measured_milli_s,
    busy_milli_s = u.busy_milli_s + excluded.busy_milli_s,
    memory_milli = greatest(u.memory_milli, excluded.memory_milli)
"""
LOCK_SQL = """
INSERT INTO scheduler_utilizationmark AS m (run_id, rank_index, until_at)
SELECT run, rank, to_timestamp(0) FROM unnest(%s::bigint[], %s::int[]) AS t(run, rank) ORDER BY run, rank
ON CONFLICT (run_id, rank_index) DO UPDATE SET until_at = m.until_at
RETURNING run_id, rank_index, extract(epoch FROM until_at)::bigint
"""
"""The marks of these ranks, theirs alone until the transaction ends."""
MARK_SQL = """
UPDATE scheduler_utilizationmark m SET until_at = to_timestamp(t.until)
FROM unnest(%s::bigint[], %s::int[], %s::bigint[]) AS t(run, rank, until)
WHERE m.run_id = t.run AND m.rank_index = t.rank
"""


def _checked(sample: UtilizationSample, where: str) -> tuple[int, int]:
    """The rank that it is about: run and index.

    Raises:
        InputError: what cannot be, whatever the run.
    """
    run_id = str(sample.run_id)
    if not (run_id.isascii() and run_id.isdigit() and int(run_id) <= LARGEST):
        raise InputError(f"{where}.run_id", f"{run_id[:40]!r} is not a run's number")
    if not 0 <= sample.rank_index < 2**31:
        raise InputError(f"{where}.rank_index", f"{sample.rank_index} is not a rank's index")
    if not 0 <= sample.until_age_s < sample.from_age_s <= OLDEST_S:
        raise InputError(
            f"{where}.from_age_s",
            f"from {sample.from_age_s} s to {sample.until_age_s} s ago is not a stretch of the last {OLDEST_S:,} s",
        )
    if sample.busy_milli_s < 0:
        raise InputError(f"{where}.busy_milli_s", f"{sample.busy_milli_s} is negative")
    if sample.memory_milli is not None and not 0 <= sample.memory_milli <= 1_000:
        raise InputError(f"{where}.memory_milli", f"{sample.memory_milli} is not 0 to 1,000")
    return int(run_id), sample.rank_index


def _refuse_overlaps(samples: Sequence[UtilizationSample], keys: Sequence[tuple[int, int]]) -> None:
    """Of one rank and one report, all ages are by one clock: stretches that overlap were not measured."""
    spans = sorted(
        (key, -sample.from_age_s, -sample.until_age_s, number)
        for number, (sample, key) in enumerate(zip(samples, keys, strict=True))
    )
    for (key, start, end, _), (next_key, next_start, next_end, number) in pairwise(spans):
        if key == next_key and next_start < end and (start, end) != (next_start, next_end):
            raise InputError(f"utilization[{number}].from_age_s", "overlaps another stretch of the same rank")


def _check_against(life: _Life | None, sample: UtilizationSample, where: str, node: Node) -> None:
    """Raise where the rank is not on the node, or its devices cannot have been as busy."""
    if life is None:
        raise InputError(f"{where}.run_id", f"rank {sample.rank_index} of run {sample.run_id} is not on {node.name}")
    most = life.held_milli * (sample.from_age_s - sample.until_age_s + SLACK_S)
    if sample.busy_milli_s > most:
        raise InputError(
            f"{where}.busy_milli_s",
            f"{sample.busy_milli_s} is more than {life.held_milli} thousandths of a device can do in that time",
        )


def _lives(node: Node, keys: set[tuple[int, int]], now_s: int) -> dict[tuple[int, int], _Life]:
    """Of those ranks that are this node's, with their marks locked."""
    run_ids = {run_id for run_id, _ in keys}
    held = dict(
        Holding.objects.filter(node=node, run__in=run_ids).order_by().values("run").annotate(sum=Sum("milli"))
        .values_list("run", "sum")
    )  # fmt: skip
    rows = Rank.objects.filter(node=node, run__in=run_ids).order_by()
    columns = ("run_id", "index", Second("began_at"), Second("exited_at"), Second("run__started_at"))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for run_id, index, began_s, exited_s, started_s, ended_s in rows.values_list(*columns, Second("run__ended_at")):
        if (run_id, index) in keys and held.get(run_id):
            ends = [end for end in (exited_s, ended_s, now_s) if end is not None]
            found[run_id, index] = (began_s if began_s is not None else started_s, min(ends))
    marks = _locked_marks(sorted(found))
    return {key: _Life(held[key[0]], start, end, marks[key]) for key, (start, end) in found.items()}


def _locked_marks(keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(LOCK_SQL, [list(column) for column in zip(*keys, strict=True)])
        return {(run_id, index): until_s for run_id, index, until_s in cursor.fetchall()}


def _move_marks(marks: Mapping[tuple[int, int], int]) -> None:
    if marks:
        rows = [(run_id, index, until_s) for (run_id, index), until_s in marks.items()]
        with connection.cursor() as cursor:
            cursor.execute(MARK_SQL, [list(column) for column in zip(*rows, strict=True)])


def _count(
    sample: UtilizationSample,
    key: tuple[int, int],
    life: _Life,
    now_s: int,
    rows: dict[tuple[int, int], Measured],
    marks: dict[tuple[int, int], int],
) -> bool:
    """Add what is new in a sample to `rows`, and move its mark; whether anything was."""
    start_s, end_s = now_s - sample.from_age_s, now_s - sample.until_age_s
    first_s = max(start_s, life.start_s, marks.get(key, life.mark_s))
    last_s = min(end_s, life.end_s)
    if first_s >= last_s:
        return False
    length_s = end_s - start_s
    busy_milli_s = min(sample.busy_milli_s, life.held_milli * length_s)
    for part_start_s, part_end_s, hour_s in hours_of(first_s, last_s):
        # differences of what had been done by each instant, so that the parts of a stretch sum up to it
        busy = busy_milli_s * (part_end_s - start_s) // length_s - busy_milli_s * (part_start_s - start_s) // length_s
        measured = life.held_milli * (part_end_s - part_start_s)
        row = rows.setdefault((key[0], hour_s), Measured(key[0], hour_s, 0, 0))
        row.measured_milli_s += measured
        row.busy_milli_s += min(busy, measured)
        if sample.memory_milli is not None:
            row.memory_milli = max(row.memory_milli or 0, sample.memory_milli)
    marks[key] = last_s
    return True


def hours_of(start_s: int, end_s: int) -> Iterator[tuple[int, int, int]]:
    """[start, end) cut at whole hours: (start, end, the hour) of each piece, in Unix seconds."""
    at_s = start_s
    while at_s < end_s:
        hour_s = at_s // HOUR_S * HOUR_S
        until_s = min(end_s, hour_s + HOUR_S)
        yield at_s, until_s, hour_s
        at_s = until_s


# --- invented nodes ---------------------------------------------------------------------------------------------------


def invent(cluster: Cluster, now: datetime) -> int:
    """What the agents of a simulated cluster would have measured since it was last asked; runs that got something.

    An attribute of invented work (scheduler.executors.simulated), told like any other. From a run's first rank running
    on to its end; nothing of the time before, which is start-up, and nothing older than OLDEST_S.
    """
    if cluster.executor != Cluster.Executor.SIMULATED:
        return 0
    since = now - timedelta(seconds=OLDEST_S)
    return _invent(cluster, now, Q(ended_at=None) | Q(ended_at__gt=since), not_before_s=int(since.timestamp()))


def invent_past(cluster: Cluster, now: datetime) -> int:
    """The same for a whole history that has just been added (scheduler.services.history): of every run up to `now`."""
    if cluster.executor != Cluster.Executor.SIMULATED:
        return 0
    return _invent(cluster, now, Q(), not_before_s=0)


def _invent(cluster: Cluster, now: datetime, which: Q, *, not_before_s: int) -> int:
    now_s = int(now.timestamp())
    rows: list[Measured] = []
    moved: dict[tuple[int, int], int] = {}
    with transaction.atomic():
        Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)  # one at a time
        found = Run.objects.filter(which, cluster=cluster, running_at__isnull=False).order_by("pk")
        marks = UtilizationMark.objects.filter(run__in=found.order_by().values("pk"))
        known = dict(marks.values_list("run_id", Second("until_at")))
        columns = ("pk", "size_milli", Second("running_at"), Second("ended_at"), "workload__code")
        for run_id, size_milli, running_s, ended_s, code, said in found.values_list(*columns, "workload__environment"):
            start_s = max(running_s, not_before_s, known.get(run_id, 0))
            end_s = now_s if ended_s is None else min(now_s, ended_s)
            if start_s >= end_s:
                continue
            moved[run_id, 0] = end_s
            for first_s, last_s, hour_s in hours_of(start_s, end_s):
                held = size_milli * (last_s - first_s)
                activity = simulated.activity_milli(code, said, hour_s // HOUR_S)
                rows.append(Measured(run_id, hour_s, held, held * activity // 1_000))
        _locked_marks(sorted(moved))
        _move_marks(moved)
        for first in range(0, len(rows), BATCH):
            add(cluster.pk, rows[first : first + BATCH])
    return len(moved)
