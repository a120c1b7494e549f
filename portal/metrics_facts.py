"""Figures from the database for `/metrics`: every process gives the same, whichever is asked.

Labels are few by nature (clusters, classes, states, reasons) but for budgets: of these the ones nearest the root have
figures, ALLOTMENT_METRICS_BUDGETS of them, and `allotment_budgets_left_out` says how many have none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import F, Func
from prometheus_client.core import GaugeMetricFamily, Metric

from budgets.models import BudgetNode, Cluster
from budgets.services.sending import TRIES_MAX
from portal import metrics_sql as sql
from portal.health_database import answers
from scheduler.engine import Policy
from scheduler.models import Forecast, Node, Run, Simulation, Workload
from scheduler.queries import usage
from scheduler.services import cells

log = structlog.get_logger(__name__)

TIMEOUT_MS = 3_000
"""Of one statement; beyond it the part is left out."""
QUANTILES = ("0.5", "0.9", "1")
REASONS_MAX = 40
BUDGET_HOURS = 24
"""Delivery is over the last whole hours that the books have."""

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class Reading:
    """One part of the figures: whether it could be read, how long that took, and what it says."""

    part: str
    is_read: bool = False
    took_s: float = 0.0
    families: list[Metric] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asked:
    """The instant, and the clusters by name, so that what is 0 is said too."""

    now: datetime
    clusters: Sequence[str] = ()

    def rows(self, statement: str) -> Rows:
        """What a statement gives at this instant."""
        values: dict[str, Any] = {
            "now": self.now,
            "hour_ago": self.now - timedelta(hours=1),
            "day_ago": self.now - timedelta(days=1),
            "pass_every_s": Policy().pass_every_s,
            "heartbeat_timeout_s": Policy().heartbeat_timeout_s,
            "tries_max": TRIES_MAX,
        }
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall()


def read(now: datetime | None = None) -> list[Reading]:
    """Every part; one that fails does not take the others with it, but a database that is away fails all at once."""
    if not answers():
        return [Reading(name) for name in PARTS]
    asked, found = Asked(now or datetime.now(UTC)), []
    left = list(PARTS.items())
    while left:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {TIMEOUT_MS}")
            while left:
                reading = _read(*left.pop(0), asked)
                found.append(reading)
                if not reading.is_read:
                    transaction.set_rollback(True)  # the rest goes on in another transaction
                    break
                if reading.part == "clusters":
                    names = [sample.labels["cluster"] for sample in _samples(reading.families[:1])]
                    asked = Asked(asked.now, names)
    return found


def _read(name: str, part: Callable[[Asked], Iterable[Metric]], asked: Asked) -> Reading:
    began_s = time.perf_counter()
    reading = Reading(name)
    try:
        reading.families = list(part(asked))
        reading.is_read = True
    except Error as error:
        log.warning("metrics_not_read", part=name, error=" ".join(str(error).split()))
    reading.took_s = time.perf_counter() - began_s
    return reading


def _samples(families: Iterable[Metric]) -> Iterator[Any]:
    return (sample for family in families for sample in family.samples)


def gauge(name: str, words: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float | None]]) -> Metric:
    """A family of these rows; those without a value are left out."""
    family = GaugeMetricFamily(f"allotment_{name}", words, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric([str(each) for each in values], float(value))
    return family


def _filled(found: Mapping[Any, float], *axes: Iterable[str]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every combination of the labels, 0 where there is no row."""
    combinations: list[tuple[str, ...]] = [()]
    for axis in axes:
        values = list(axis)
        combinations = [(*before, value) for before in combinations for value in values]
    return ((labels, found.get(labels, 0.0)) for labels in combinations)


# --- the parts --------------------------------------------------------------------------------------------------------


def clusters(asked: Asked) -> Iterator[Metric]:
    """Which there are, and how often each is to be looked at."""
    rows = asked.rows(sql.CLUSTERS)
    yield gauge(
        "cluster_info", "A cluster: its unit, and what carries it out", ["cluster", "unit", "executor"],
        [(row[:3], 1) for row in rows],
    )  # fmt: skip
    every = [((name,), every_s) for name, _unit, _executor, every_s in rows]
    yield gauge("pass_interval_seconds", "How often a pass is due at least", ["cluster"], every)


def stops(asked: Asked) -> Iterator[Metric]:
    """Which clusters somebody has stopped."""
    rows = [((name,), is_stopped) for name, is_stopped in asked.rows(sql.STOPPED)]
    yield gauge("cluster_stopped", "Whether an emergency stop is in force on the cluster", ["cluster"], rows)


def queue(asked: Asked) -> Iterator[Metric]:
    """What is open, by state and class."""
    rows = asked.rows(sql.QUEUE)
    counts = {(name, state, kind): float(count) for name, state, kind, count, _size, _age in rows}
    waiting = {
        (name, kind): (float(size), float(age)) for name, state, kind, _n, size, age in rows if state == "queued"
    }
    kinds = Workload.Class.values
    yield gauge(
        "workloads", "Workloads that have not ended, by state and class", ["cluster", "state", "class"],
        _filled(counts, asked.clusters, Workload.OPEN_STATES, kinds),
    )  # fmt: skip
    yield gauge(
        "queue_devices", "Devices that queued workloads ask for", ["cluster", "class"],
        _filled({labels: size for labels, (size, _) in waiting.items()}, asked.clusters, kinds),
    )  # fmt: skip
    yield gauge(
        "queue_oldest_seconds", "How long the first of the queued workloads has waited since its submission",
        ["cluster", "class"],
        _filled({labels: max(0.0, age) for labels, (_, age) in waiting.items()}, asked.clusters, kinds),
    )  # fmt: skip


def waits(asked: Asked) -> Iterator[Metric]:
    """How long those waited that first started within a day."""
    rows = asked.rows(sql.WAITS)
    yield gauge(
        "starts_last_day", "Workloads that first started in the last 24 hours", ["cluster", "class"],
        _filled({(name, kind): count for name, kind, count, _ in rows}, asked.clusters, Workload.Class.values),
    )  # fmt: skip
    yield gauge(
        "wait_last_day_seconds", "Waits of workloads that first started in the last 24 hours",
        ["cluster", "class", "quantile"],
        [((name, kind, q), s) for name, kind, _n, each in rows for q, s in zip(QUANTILES, each, strict=True)],
    )  # fmt: skip


def nodes(asked: Asked) -> Iterator[Metric]:
    """Health of nodes, and what of their devices is held."""
    health: dict[tuple[str, ...], float] = {}
    draining: dict[tuple[str, ...], float] = {}
    devices: dict[tuple[str, ...], float] = {}
    held: dict[tuple[str, ...], float] = {}
    for name, well, state, drains, count, owned, taken in asked.rows(sql.NODES):
        for counts, labels, value in (
            (health, (name, well), count), (draining, (name,), count if drains else 0),
            (devices, (name, state), owned), (held, (name, state), taken),
        ):  # fmt: skip
            counts[labels] = counts.get(labels, 0.0) + float(value)
    states = ("healthy", "draining", "unreachable", "down")
    yield gauge("nodes", "Nodes by health", ["cluster", "health"], _filled(health, asked.clusters, Node.Health.values))
    yield gauge("nodes_draining", "Nodes that somebody asked to empty", ["cluster"], _filled(draining, asked.clusters))
    yield gauge(
        "devices", "Devices by what their node is fit for", ["cluster", "state"],
        _filled(devices, asked.clusters, states),
    )  # fmt: skip
    yield gauge(
        "devices_held", "Devices that runs hold, by what their node is fit for", ["cluster", "state"],
        _filled(held, asked.clusters, states),
    )  # fmt: skip
    ratios = []
    for name in asked.clusters:
        taken = sum(held.get((name, state), 0) for state in states)
        fit = devices.get((name, "healthy"), 0) + sum(held.get((name, state), 0) for state in states[1:])
        ratios.append(((name,), taken / fit if fit else None))
    yield gauge("occupancy_ratio", "Held devices over healthy ones and those held on unfit nodes", ["cluster"], ratios)


def private_cells(_asked: Asked) -> Iterator[Metric]:
    """Whole nodes and racks that budgets have of their own, and how many of them there are no fit nodes for."""
    granted: list[tuple[tuple[str, str], float]] = []
    missing: list[tuple[tuple[str, str], float]] = []
    for cluster in cells.clusters_with_cells():
        holders = cells.holders_on(cluster).values()
        for level in cells.LEVELS:
            count = sum(getattr(holder.cells, level) for holder in holders)
            granted.append(((cluster.name, level), count))
        found = dict.fromkeys(cells.LEVELS, 0) | {fault.level: fault.missing for fault in cells.faults_of(cluster)}
        missing += [((cluster.name, level), count) for level, count in found.items()]
    labels = ["cluster", "level"]
    yield gauge("cells_granted", "Whole nodes and racks that are budgets' own", labels, granted)
    yield gauge("cells_missing", "How many of these there are not enough fit nodes for", labels, missing)


def heartbeats(asked: Asked) -> Iterator[Metric]:
    """How old the last signs of life of nodes are."""
    rows = asked.rows(sql.HEARTBEATS)
    yield gauge(
        "heartbeat_age_seconds", "Age of the nodes' last heartbeats", ["cluster", "quantile"],
        [((name, q), age) for name, each, _ in rows for q, age in zip(QUANTILES, each, strict=True)],
    )  # fmt: skip
    silent = {(name,): float(count) for name, _ages, count in rows}
    yield gauge(
        "nodes_silent", "Nodes without a heartbeat for longer than heartbeat_timeout_s", ["cluster"],
        _filled(silent, asked.clusters),
    )  # fmt: skip


def runs(asked: Asked) -> Iterator[Metric]:
    """What runs, and how runs ended lately."""
    rows = asked.rows(sql.RUNS)
    states = [state for state in Run.State.values if state != Run.State.ENDED]
    counts = {(name, state, str(funded).lower()): float(count) for name, state, funded, count, _ in rows}
    sizes: dict[tuple[str, ...], float] = {}
    for name, _state, funded, _count, size in rows:
        labels = (name, str(funded).lower())
        sizes[labels] = sizes.get(labels, 0.0) + float(size)
    yield gauge(
        "runs", "Runs that have not ended, by state", ["cluster", "state", "funded"],
        _filled(counts, asked.clusters, states, ("true", "false")),
    )  # fmt: skip
    yield gauge(
        "run_devices", "Devices that runs hold, funded and unallocated", ["cluster", "funded"],
        _filled(sizes, asked.clusters, ("true", "false")),
    )  # fmt: skip
    ends = sorted(asked.rows(sql.ENDS), key=lambda row: (-row[2], row[0], row[1]))[:REASONS_MAX]
    yield gauge(
        "runs_ended_last_hour", "Runs that ended in the last hour, by reason", ["cluster", "reason"],
        [((name, reason), count) for name, reason, count in ends],
    )  # fmt: skip


def passes(asked: Asked) -> Iterator[Metric]:
    """When each cluster's last pass was, and how long passes take."""
    rows = asked.rows(sql.LAST_PASSES)
    stamps = [((name,), at.timestamp()) for name, at, *_ in rows]
    yield gauge("last_pass_timestamp_seconds", "Instant of the last pass", ["cluster"], stamps)
    ages = [((name,), max(0.0, asked.now.timestamp() - at.timestamp())) for name, at, *_ in rows]
    yield gauge("last_pass_age_seconds", "How long ago the last pass was", ["cluster"], ages)
    phases = ("load", "decide", "apply")
    yield gauge(
        "last_pass_duration_seconds", "How long each phase of the last pass took", ["cluster", "phase"],
        [((name, phase), ms / 1_000) for name, _at, *each in rows for phase, ms in zip(phases, each, strict=True)],
    )  # fmt: skip
    recent = asked.rows(sql.RECENT_PASSES)
    yield gauge(
        "recent_pass_duration_seconds", "How long the last 100 passes took", ["cluster", "quantile"],
        [((name, q), ms / 1_000) for name, each in recent for q, ms in zip(QUANTILES, each, strict=True)],
    )  # fmt: skip


def executors(asked: Asked) -> Iterator[Metric]:
    """What went wrong where decisions are carried out."""
    failed = {(name,): float(count) for name, count in asked.rows(sql.FAILED_RANKS)}
    yield gauge(
        "ranks_failed_last_hour", "Ranks that could not be started, of runs that ended in the last hour", ["cluster"],
        _filled(failed, asked.clusters),
    )  # fmt: skip
    slurms = asked.rows(sql.SLURMS)
    yield gauge(
        "slurm_up", "Whether the last look at the Slurm below succeeded", ["cluster"], [((r[0],), r[1]) for r in slurms]
    )
    yield gauge(
        "slurm_contact_age_seconds", "How long ago the Slurm below was last read whole", ["cluster"],
        [((row[0],), row[2]) for row in slurms],
    )  # fmt: skip
    yield gauge("slurm_troubles", "What the Slurm below refused", ["cluster"], [((r[0],), r[3]) for r in slurms])
    open_repairs = {(name, state): float(count) for name, state, count in asked.rows(sql.REPAIRS)}
    states = ("draining", "repairing", "checking", "person")
    yield gauge(
        "repairs", "Nodes out of service, by how far their repair is; person: one is needed", ["cluster", "state"],
        _filled(open_repairs, asked.clusters, states),
    )  # fmt: skip


def simulator(asked: Asked) -> Iterator[Metric]:
    """Forecasts and simulations that wait or run."""
    rows = asked.rows(sql.FORECASTS)
    is_open = {(name, state): 1.0 for name, state, _age in rows}
    yield gauge(
        "forecasts_open", "Forecasts that wait for a worker or are being made", ["cluster", "state"],
        _filled(is_open, asked.clusters, Forecast.OPEN_STATES),
    )  # fmt: skip
    ages = [((name,), max(0.0, age)) for name, state, age in rows if state == Forecast.State.FINISHED]
    yield gauge("forecast_age_seconds", "Age of the last forecast, where it has finished", ["cluster"], ages)
    parts = {state: (float(count), float(age)) for state, count, age in asked.rows(sql.SIMULATIONS)}
    yield gauge(
        "simulation_parts_open", "Variants of simulations that wait or run", ["state"],
        [((state,), parts.get(state, (0.0, 0.0))[0]) for state in Simulation.OPEN_STATES],
    )  # fmt: skip
    oldest = max(0.0, parts.get("waiting", (0.0, 0.0))[1])
    yield gauge(
        "simulation_oldest_waiting_seconds", "How long the first waiting variant has waited", [], [((), oldest)]
    )


def telling(asked: Asked) -> Iterator[Metric]:
    """Letters and posts that have not gone out."""
    rows = asked.rows(sql.MESSAGES)
    unsent = {mode: (float(count), float(age)) for mode, is_over, count, age in rows if not is_over}
    yield gauge(
        "messages_unsent", "Messages that are to go out, at once or in a digest", ["mode"],
        [((mode,), unsent.get(mode, (0.0, 0.0))[0]) for mode in ("now", "digest")],
    )  # fmt: skip
    oldest = max(0.0, unsent.get("now", (0.0, 0.0))[1])
    yield gauge("messages_oldest_unsent_seconds", "Age of the first message that is due at once", [], [((), oldest)])
    over = sum(count for _mode, is_over, count, _age in rows if is_over)
    yield gauge("messages_given_up", "Messages that could not be sent in any try", [], [((), over)])
    ((waiting, age),) = asked.rows(sql.DELIVERIES)
    yield gauge("webhook_deliveries_waiting", "Posts to webhooks that are to be tried, or again", [], [((), waiting)])
    yield gauge("webhook_oldest_waiting_seconds", "Age of the first of these posts", [], [((), max(0.0, age or 0.0))])
    hooks = {(scope, "off" if is_off else "on"): float(n) for scope, is_off, n in asked.rows(sql.WEBHOOKS)}
    yield gauge(
        "webhooks", "Webhooks, and whether they are turned off", ["scope", "state"],
        _filled(hooks, ("person", "organisation"), ("on", "off")),
    )  # fmt: skip


def governance(asked: Asked) -> Iterator[Metric]:
    """What waits for a decision, and whether the books agree."""
    yield gauge(
        "decisions_waiting", "Requests and reallocations that wait for an answer", ["kind"],
        [((kind,), count) for kind, count in asked.rows(sql.DECISIONS_WAITING)],
    )  # fmt: skip
    rows = asked.rows(sql.BOOKS)
    yield gauge(
        "books_differing", "What differed in the last check", ["book", "cluster"], [(r[:2], r[2]) for r in rows]
    )
    yield gauge(
        "books_checked_timestamp_seconds", "When the books were last checked", ["book", "cluster"],
        [(row[:2], row[3]) for row in rows],
    )  # fmt: skip


def budgets(asked: Asked) -> Iterator[Metric]:
    """What was owed and delivered to the budgets nearest the root, over the last whole hours."""
    open_nodes = BudgetNode.objects.filter(closed_at=None)
    depth = Func(F("path"), 1, function="array_length")
    shown = list(open_nodes.order_by(depth, "code")[: settings.METRICS_BUDGETS])
    yield gauge(
        "budgets_left_out", "Open budgets that have no figures here", [], [((), open_nodes.count() - len(shown))]
    )
    where = list(Cluster.objects.all())
    end = asked.now.replace(minute=0, second=0, microsecond=0)
    books = usage.totals_on_each(shown, where, end - timedelta(hours=BUDGET_HOURS), end)
    named = {(n.pk, c.pk): (c.name, n.code) for n in shown for c in where}
    known = [(named[key], each) for key, each in sorted(books.items()) if each.entitled_milli_s or each.charged_milli_s]
    share = BUDGET_HOURS * 3_600 * 1_000
    for name, words, amounts in (
        ("entitled", "was entitled to", [each.entitled_milli_s for _, each in known]),
        ("owed", "was owed: entitled to, asked for, and to be had", [each.owed_milli_s for _, each in known]),
        ("delivered", "was given and charged", [each.charged_milli_s for _, each in known]),
    ):
        rows = [(labels, amount / share) for (labels, _), amount in zip(known, amounts, strict=True)]
        yield gauge(
            f"budget_{name}_devices",
            f"Devices that a budget {words}, averaged over the last {BUDGET_HOURS} whole hours",
            ["cluster", "budget"],
            rows,
        )
    yield gauge(
        "budget_delivery_ratio", f"Delivered over owed in the last {BUDGET_HOURS} whole hours, at most 1",
        ["cluster", "budget"], [(labels, each.delivery) for labels, each in known],
    )  # fmt: skip


PARTS: dict[str, Callable[[Asked], Iterable[Metric]]] = {
    part.__name__: part
    for part in (
        clusters, stops, queue, waits, nodes, private_cells, heartbeats, runs, passes, executors, simulator, telling,
        governance, budgets,
    )
}  # fmt: skip
"""In this order, since `clusters` says for which the others say 0."""
