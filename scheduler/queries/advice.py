"""What the advisor found in a workload's program, what was measured of it, and how often each rule was right.

A rule is right where what it warned of left GPUs idle. What can be seen of that is the utilization that nodes measured
later, of the whole submission (all tasks of an array are one), against the study's bound of 50 %. It says that the
program was one of those, not that the rule named the reason. What was not measured is neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.db import connection
from django.db.models import Max, Sum

from budgets.models import Cluster
from scheduler.advisor import RULES, Finding
from scheduler.advisor.measured import LOW_PERCENT, after_the_fact, wilson
from scheduler.models import AdviceFinding, UtilizationHour, Workload
from scheduler.services.advice import UNREAD

MEASURED_MIN_S = 600
"""Less is start-up, and says nothing: as in `squatting`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Of all runs of a workload: activity, the device time over which it was measured, and the most memory in use."""

    busy_milli_s: int
    measured_milli_s: int
    memory_milli: int | None

    @property
    def findings(self) -> list[Finding]:
        """What that says after the fact."""
        return after_the_fact(
            busy_milli_s=self.busy_milli_s, measured_milli_s=self.measured_milli_s, memory_milli=self.memory_milli
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Of so many submissions that were measured, so many had at most half of their GPUs' time used."""

    low: int
    measured: int

    @property
    def fraction(self) -> Fraction | None:
        """The share of them; None where nothing was measured."""
        return Fraction(self.low, self.measured) if self.measured else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Between which the share lies that these are a sample of, at 95 % (Wilson)."""
        return wilson(self.low, self.measured)


@dataclass(frozen=True, slots=True)
class RuleRecord:
    """How a rule did on what was submitted in a time.

    Attributes:
        warned: submissions in which it found something.
        unknown: those where it could not tell, which count as neither.
        with_warning: of the warned ones, as far as they were measured.
        without: of those that it was silent about.
    """

    rule: str
    warned: int
    unknown: int
    with_warning: Share
    without: Share

    @property
    def is_telling(self) -> bool | None:
        """Whether low utilization follows its warning more often than its silence; None: too few to say."""
        warned, silent = self.with_warning.bounds, self.without.bounds
        if warned is None or silent is None or (warned[0] <= silent[1] and silent[0] <= warned[1]):
            return None
        return warned[0] > silent[1]


@dataclass(frozen=True, slots=True)
class Record:
    """What the advisor read on a cluster in a time, and what came of it; `rules` in the catalogue's order."""

    read: int
    all: Share
    rules: Sequence[RuleRecord]


def findings_of(workload: Workload) -> list[AdviceFinding]:
    """What was found in its program when it was submitted, the worst first."""
    return list(AdviceFinding.objects.filter(advice=workload.advice_id).order_by("position"))


def measured_of(workload: Workload) -> Measured | None:
    """What nodes measured of it; None while it is open, and where they measured it for less than MEASURED_MIN_S."""
    if workload.state in Workload.OPEN_STATES:
        return None
    found = UtilizationHour.objects.filter(run__workload=workload).aggregate(
        busy=Sum("busy_milli_s"), measured=Sum("measured_milli_s"), memory=Max("memory_milli")
    )
    if (found["measured"] or 0) < workload.size_milli * MEASURED_MIN_S:
        return None
    return Measured(found["busy"], found["measured"], found["memory"])


JUDGED_SQL = f"""
WITH judged AS (
    SELECT a.id, coalesce(m.measured >= m.size_milli * {MEASURED_MIN_S}, false) AS is_measured,
        coalesce(m.busy * 100 <= m.measured * {LOW_PERCENT}, false) AS is_low
    FROM scheduler_advice a CROSS JOIN LATERAL (
        SELECT sum(u.measured_milli_s) AS measured, sum(u.busy_milli_s) AS busy, max(w.size_milli) AS size_milli
        FROM scheduler_workload w JOIN scheduler_run r ON r.workload_id = w.id
            JOIN scheduler_utilizationhour u ON u.run_id = r.id
        WHERE w.advice_id = a.id AND w.ended_at IS NOT NULL
    ) m
    WHERE a.cluster_id = %(cluster)s AND a.files > 0 AND a.read_at >= %(start)s AND a.read_at < %(end)s
), found AS (
    SELECT j.id, f.rule, bool_or(f.severity <> 'unknown') AS is_warned
    FROM judged j JOIN scheduler_advicefinding f ON f.advice_id = j.id GROUP BY j.id, f.rule
)
SELECT '', true, count(*), count(*) FILTER (WHERE is_measured), count(*) FILTER (WHERE is_measured AND is_low)
FROM judged
UNION ALL
SELECT f.rule, f.is_warned, count(*), count(*) FILTER (WHERE j.is_measured),
    count(*) FILTER (WHERE j.is_measured AND j.is_low)
FROM found f JOIN judged j ON j.id = f.id GROUP BY f.rule, f.is_warned"""
"""Submissions: all of them, and by rule, and whether it warned or could not tell."""


def record(cluster: Cluster, start: datetime, end: datetime) -> Record:
    """How the rules did on programs that were submitted in [start, end). One query.

    Of what was refused nothing ran, so it is not among them; nor is what was not given to be read.
    """
    rows: dict[tuple[str, bool], tuple[int, int, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(JUDGED_SQL, {"cluster": cluster.pk, "start": start, "end": end})
        for rule, is_warned, count, measured, low in cursor.fetchall():
            rows[rule, is_warned] = (count, measured, low)
    read, measured, low = rows["", True]
    found = []
    for rule in RULES:
        if rule == UNREAD:
            continue
        warned, unknown = rows.get((rule, True), (0, 0, 0)), rows.get((rule, False), (0, 0, 0))
        silent = Share(low - warned[2] - unknown[2], measured - warned[1] - unknown[1])
        found.append(RuleRecord(rule, warned[0], unknown[0], Share(warned[2], warned[1]), silent))
    return Record(read, Share(low, measured), found)
