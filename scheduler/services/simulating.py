"""What workers do with simulations: read a stretch of history, run one variant, look after what was left lying.

A part is taken by one worker at a time (a conditional update from waiting to running, which counts the attempt);
whoever finds that its attempt is no longer the one that counts stops. So a message that comes twice, a worker that was
given up too early, and a cancelled simulation do no harm.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import structlog
from celery import current_app, group
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from budgets.errors import InputError
from scheduler.models import Simulation, SimulationPart
from scheduler.queries import overviews, stretch
from scheduler.simulator import Scenario, ScenarioError, parse, policy_table, simulate
from scheduler.simulator.comparison import figures, wait_error, waits_by_workload
from scheduler.simulator.intervals import Again
from scheduler.simulator.lab import research_lab
from scheduler.simulator.measures import measure_history
from scheduler.simulator.named_policies import NamedPolicy
from scheduler.simulator.recorded import pack
from scheduler.simulator.variants import changed, with_more
from scheduler.simulator.written import as_file
from scheduler.snapshots.build import UNIT_NAMES

log = structlog.get_logger(__name__)

QUEUE = "simulations"
"""Of the workers' own; passes are on another one, so that they are never late."""
TIME_LIMIT_S = 900
"""No part may take longer."""
REPORT_EVERY_S = 0.5
"""How often a part says how far it is, and looks whether it was cancelled."""
LOST_AFTER = timedelta(seconds=120)
"""A part whose worker gave no sign for so long is taken to be lost, and one whose message was sent so long ago is sent
again when nobody works on any."""
MOST_ATTEMPTS = 3
KEPT_FOR = timedelta(days=60)
"""How long simulations that are over are kept."""
REALITY = "what really happened"
State = Simulation.State
OPEN = Simulation.OPEN_STATES


class Stopped(Exception):
    """The part is no longer this worker's: it was cancelled, or given to another one."""


# --- sending ----------------------------------------------------------------------------------------------------------


def send(simulation: Simulation) -> None:
    """Once the transaction is committed, have workers prepare it, or run its parts.

    Where no broker takes it, `look_after` sends it again later.
    """
    transaction.on_commit(lambda: _send_now(simulation.pk), robust=True)


def _send_now(simulation_id: int) -> None:
    row = Simulation.objects.only("state").filter(pk=simulation_id, state__in=OPEN).first()
    if row is None or not settings.CELERY_BROKER_URL:
        return
    is_prepared = Simulation.objects.filter(pk=simulation_id, scenario__isnull=False).exists()
    if not is_prepared:
        work = group(_task("scheduler.tasks.prepare_simulation", simulation_id))
    else:
        waiting = SimulationPart.objects.filter(simulation=simulation_id, state=State.WAITING)
        ids = list(waiting.order_by("number").values_list("pk", flat=True))
        waiting.update(sent_at=timezone.now())
        work = group(_task("scheduler.tasks.run_simulation_part", pk) for pk in ids)
    try:
        work.apply_async(retry=False)
    except Exception as error:  # whatever kombu or the socket raises: it is stored, and is sent again
        log.warning("simulation_not_sent", simulation=simulation_id, error=str(error))


def _task(name: str, pk: int) -> Any:
    return current_app.signature(name, args=[pk], queue=QUEUE, immutable=True)


# --- preparing --------------------------------------------------------------------------------------------------------


def prepare(simulation_id: int) -> bool:
    """Make a scenario of the stretch of history that a simulation is about. Says False where that is done, or over."""
    row = Simulation.objects.select_related("cluster").filter(pk=simulation_id, scenario=None, state__in=OPEN).first()
    if row is None or row.cluster is None or row.from_at is None or row.until_at is None:
        return False
    try:
        found = stretch.read(row.cluster, row.from_at, row.until_at)
        scenario = with_more(found.scenario, row.asked["more"]["content"]) if row.asked.get("more") else found.scenario
        for part in row.parts.all():
            changed(scenario, part.change, None)
    except InputError as error:
        return _fail_whole(row, error.message)
    except ScenarioError as error:
        return _fail_whole(row, str(error))
    except Exception:
        log.exception("simulation_not_prepared", simulation=simulation_id)
        return _fail_whole(row, "The history could not be read; the fault has been logged.")
    return _store_prepared(row, found, scenario)


def _store_prepared(row: Simulation, found: stretch.Stretch, scenario: Scenario) -> bool:
    now = timezone.now()
    is_measured = row.kind == Simulation.Kind.POLICIES
    with transaction.atomic():
        is_first = Simulation.objects.filter(pk=row.pk, scenario=None, state__in=OPEN).update(
            asked=row.asked | how_again(row.kind, scenario, row.asked),
            scenario=zlib.compress(json.dumps(as_file(scenario)).encode()),
            measured=waits_by_workload(found.real),
            notes=list(found.notes),
        )
        if is_first:
            SimulationPart.objects.create(
                simulation=row,
                number=0,
                name=REALITY,
                state=State.FINISHED,
                progress_percent=100,
                started_at=now,
                ended_at=now,
                figures=measure_history(found.real) if is_measured else figures(found.real),
                runs=None if is_measured else pack(found.real),
            )
            send(row)
    return bool(is_first)


def _fail_whole(row: Simulation, message: str) -> bool:
    now = timezone.now()
    with transaction.atomic():
        if Simulation.objects.filter(pk=row.pk, state__in=OPEN).update(
            state=State.FAILED, ended_at=now, error=message[:300]
        ):
            row.parts.filter(state__in=OPEN).update(state=State.FAILED, ended_at=now, error=message[:300])
    return False


# --- running ----------------------------------------------------------------------------------------------------------


def run_part(part_id: int) -> bool:
    """Run one variant to its end. Says False where it was not this worker's to run, or did not finish."""
    now = timezone.now()
    taken = SimulationPart.objects.filter(pk=part_id, state=State.WAITING, simulation__scenario__isnull=False).update(
        state=State.RUNNING, started_at=now, touched_at=now, attempts=F("attempts") + 1
    )
    if not taken:
        return False
    part = SimulationPart.objects.select_related("simulation__cluster").defer("runs", "overview").get(pk=part_id)
    Simulation.objects.filter(pk=part.simulation_id, state=State.WAITING).update(state=State.RUNNING)
    began_s = time.monotonic()
    try:
        told, runs = _outcome(part)
    except Stopped:
        return False
    except ScenarioError as error:
        return _end(part, State.FAILED, error=str(error))
    except SoftTimeLimitExceeded:
        return _end(part, State.FAILED, error=f"It took longer than {TIME_LIMIT_S // 60} minutes.")
    except Exception:
        log.exception("simulation_part_broke", part=part_id)
        return _end(part, State.FAILED, error="It broke off; the fault has been logged.")
    took_ms = round(1_000 * (time.monotonic() - began_s))
    return _end(part, State.FINISHED, figures=told, runs=runs, took_ms=took_ms, progress_percent=100)


def _outcome(part: SimulationPart) -> tuple[Mapping[str, Any], bytes | None]:
    """Figures and packed runs of a part; in sweeps, which may have hundreds of parts, only the figures of the whole."""
    simulation = part.simulation
    if simulation.kind == Simulation.Kind.POLICIES:
        return _measured(part), None
    seed = part.change.get("seed", 0)
    scenario = changed(scenario_of(simulation), part.change, Random(seed) if seed else None)
    outcome = simulate(scenario, on_progress=_Reporter(part, scenario), is_explained=False)
    told = figures(outcome)
    if simulation.measured is not None and not part.change and not simulation.asked.get("more"):
        told["off"] = wait_error(simulation.measured, outcome)
    if simulation.kind == Simulation.Kind.SWEEP:
        del told["nodes"]
        return told, None
    return told, pack(outcome)


def _measured(part: SimulationPart) -> Mapping[str, Any]:
    """The measures of a policy on the work of a seed; seed 1 is the work as it is."""
    asked, seed = part.simulation.asked, part.change["seed"]
    if "lab" in asked:
        scenario = parse(laboratory(seed, **asked["lab"]))
    else:
        scenario = scenario_of(part.simulation)
        scenario = policy_table.again(scenario, Again(asked["again"]), Random(seed) if seed > 1 else None)
    policy = NamedPolicy(part.name, part.change["policy"], part.change.get("placement", {}))
    return policy_table.run(scenario, policy, _Reporter(part, scenario))


def laboratory(seed: int, *, days: int, gpus: int) -> str:
    """The scenario file of an invented laboratory."""
    return json.dumps(research_lab(Random(seed), seed=seed, days=days, gpus=gpus))


def how_again(kind: str, scenario: Scenario, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is remembered of how the work of the seeds after the first comes, where there are any."""
    if kind != Simulation.Kind.POLICIES:
        return {}
    if "lab" in asked:
        return {"again": Again.INVENTED if asked["seeds"] > 1 else Again.ALONE}
    return {"again": policy_table.how_again(scenario, asked["seeds"])}


def scenario_of(simulation: Simulation) -> Scenario:
    """The scenario that its variants are made of, in the words of its cluster."""
    assert simulation.scenario is not None
    scenario = parse(zlib.decompress(bytes(simulation.scenario)).decode())
    return scenario if simulation.cluster is None else replace(scenario, unit=UNIT_NAMES[simulation.cluster.unit])


class _Reporter:
    """Writes down, not too often, how far a part is."""

    def __init__(self, part: SimulationPart, scenario: Scenario) -> None:
        self._part = part
        self._until_s = scenario.until_s
        self._jobs = len(scenario.jobs)
        self._next_s = time.monotonic() + REPORT_EVERY_S

    def __call__(self, now_s: int, ended: int) -> None:
        """Told by the simulator now and then.

        Raises:
            Stopped: the part is no longer ours.
        """
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + REPORT_EVERY_S
        done, whole = (now_s, self._until_s) if self._until_s else (ended, self._jobs)
        percent = min(99, 100 * done // max(1, whole))
        if not _ours(self._part).update(progress_percent=percent, touched_at=timezone.now()):
            raise Stopped


def _ours(part: SimulationPart) -> Any:
    return SimulationPart.objects.filter(pk=part.pk, state=State.RUNNING, attempts=part.attempts)


def _end(part: SimulationPart, state: str, **values: Any) -> bool:
    """Store how a part ended, and with its last part how the whole did."""
    if "error" in values:
        values["error"] = values["error"][:300]
    now = timezone.now()
    with transaction.atomic():
        Simulation.objects.select_for_update().only("pk").get(pk=part.simulation_id)
        if not _ours(part).update(state=state, ended_at=now, touched_at=now, **values):
            return False
        is_over = _settle(part.simulation_id, now)
    if is_over:
        _keep_overviews(part.simulation_id)
    return state == State.FINISHED


def _keep_overviews(simulation_id: int) -> None:
    """So that the first look at its timelines takes no time; without them it takes some."""
    row = Simulation.objects.only("pk", "from_at", "state").get(pk=simulation_id)
    try:
        overviews.keep(row)
    except Exception:
        log.exception("overviews_not_kept", simulation=simulation_id)


def _settle(simulation_id: int, now: datetime) -> bool:
    """The whole is over when all its parts are; failed if one of them is. Its row is locked. Whether it is over."""
    parts = SimulationPart.objects.filter(simulation=simulation_id)
    if parts.filter(state__in=OPEN).exists():
        return False
    failed = parts.filter(state=State.FAILED).order_by("number").first()
    ends: Mapping[str, Any] = {"state": State.FINISHED}
    if failed is not None:
        ends = {"state": State.FAILED, "error": f"{failed.name}: {failed.error}"[:300]}
    Simulation.objects.filter(pk=simulation_id, state__in=OPEN).update(ended_at=now, **ends)
    return True


# --- looking after ----------------------------------------------------------------------------------------------------


def look_after(now: datetime | None = None) -> int:
    """Give up workers that were lost, and send again what nobody works on. How many simulations were sent."""
    at = now or timezone.now()
    lost = SimulationPart.objects.filter(state=State.RUNNING, touched_at__lt=at - LOST_AFTER)
    for part in lost.select_related("simulation").defer("runs", "overview", "simulation__scenario"):
        if part.attempts >= MOST_ATTEMPTS:
            _end(part, State.FAILED, error=f"Its worker was lost {part.attempts} times.")
        else:
            _ours(part).update(state=State.WAITING, sent_at=None, progress_percent=0)
    if SimulationPart.objects.filter(state=State.RUNNING).exists():
        return 0
    late = Q(parts__state=State.WAITING) & (Q(parts__sent_at=None) | Q(parts__sent_at__lt=at - LOST_AFTER))
    waiting = Simulation.objects.filter(late, state__in=OPEN, made_at__lt=at - timedelta(seconds=10)).distinct()
    ids = list(waiting.order_by("pk").values_list("pk", flat=True))
    for pk in ids:
        _send_now(pk)
    return len(ids)


def forget_old(now: datetime | None = None) -> int:
    """Drop simulations that have been over for a long time. How many were dropped."""
    before = (now or timezone.now()) - KEPT_FOR
    _, by_model = Simulation.objects.filter(ended_at__lt=before).delete()
    return by_model.get("scheduler.Simulation", 0)
