"""Makes the demo in an empty database: the laboratory, its past, its hourly figures and its log-ins."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from random import Random

from django.db import transaction

from budgets.models import BudgetNode
from portal.demo import advised, organisation, past, requests, reviews
from portal.demo.feed import FOUNDED
from portal.demo.organisation import Laboratory
from portal.supervisor.processes import end_with_parent
from scheduler.services import history, policies, timeline, usage, utilization
from scheduler.simulator import Scenario, simulate
from scheduler.simulator.records import Outcome

HERE_KNOBS = {"min_runtime_min_s": 60, "grace_s": 20, "pass_every_s": 5, "fraction_min_milli": 100}
"""On this machine's cluster things happen within minutes, so that they can be watched, and notebooks share GPUs."""
LEAD_TIME = timedelta(days=7)
"""The laboratory was founded so long before its first workload."""

Say = Callable[[str], None]


def is_there() -> bool:
    """Whether there is an organisation: then nothing is made."""
    return BudgetNode.objects.exists()


def build(*, seed: int, weeks: int, log_ins: Path, say: Say, now: datetime | None = None) -> Laboratory:
    """Make everything, or, where something fails, nothing. The names and passwords are written to `log_ins`."""
    chance = Random(seed)
    end = (now or datetime.now(UTC)).replace(microsecond=0)
    start = end - timedelta(weeks=weeks)
    with transaction.atomic():
        lab = organisation.found(chance, start - LEAD_TIME, f"{FOUNDED}{seed}")
        policies.change(cluster=lab.clusters["here"], knobs=HERE_KNOBS, reason="so that the demo can be watched")
        plans = past.plans(lab, chance, start, end)
        say(f"living through {weeks} weeks of {' and '.join(plan.hall.cluster for plan in plans)}")
        outcomes = _live_through([plan.scenario for plan in plans])
        for plan, outcome in zip(plans, outcomes, strict=True):
            cluster = lab.clusters[plan.hall.cluster]
            history.add_nodes(cluster, past.nodes(plan, start))
            added = history.add(cluster, past.workloads(lab, plan, outcome, chance))
            usage.rebuild(cluster, start, end, now=end)
            timeline.fill(cluster, end)
            utilization.invent_past(cluster, end)
            advised.read(cluster, Random(f"{seed} {cluster.name}"))
            say(f"{cluster.name}: {added.workloads:,} workloads, {added.runs:,} runs")
        requests.ask(lab, end)
        reviews.hold(lab, end)
        _draw_log_ins(lab, log_ins)
    return lab


def _live_through(scenarios: Sequence[Scenario]) -> list[Outcome]:
    """Run each in a process of its own, which ends with this one and shares nothing with it."""
    with ProcessPoolExecutor(
        len(scenarios),
        mp_context=get_context("spawn"),
        initializer=end_with_parent,
        initargs=(os.getpid(), signal.SIGKILL),
    ) as pool:
        return list(pool.map(simulate, scenarios))


def _draw_log_ins(lab: Laboratory, path: Path) -> None:
    """Give those who can sign in a password each, and write them down for this account's eyes only."""
    lines = []
    for person, title in lab.log_ins:
        password = secrets.token_urlsafe(9)
        person.set_password(password)
        if title.startswith("administrator"):
            person.is_staff = person.is_superuser = True  # Django's own screens; they give no right here
        person.save()
        lines.append(f"{person.username:<12} {password}  {title}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.writelines(lines)
