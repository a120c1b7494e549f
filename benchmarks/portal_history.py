"""What a year of history costs pages and passes: a million stored runs and ten million usage-hours behind a laboratory.

    python -m benchmarks.portal_history

Each page, and each step of the loop, is measured before the year is added and after, by processor time (of the process
and of the database for it), the least of some tries: what else runs on the machine counts for nothing. What it should
cost is nothing: pages and passes look at what they show.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import Row, at_most, plain
from benchmarks.whole_portal import own_portal

# What is of Django is imported inside the functions: it needs the settings of a database that is started first.

TIMES_MAX, PAGE_MS = 1.5, 300.0
TRIES = 7
PAGES = {
    "home": "/",
    "queue": "/queue/north/",
    "nodes": "/nodes/north/",
    "all workloads": "/workloads/",
    "finished workloads": "/workloads/?state=finished",
    "a search": "/search/?find=P00",
    "a program's books": "/budget/P00/?cluster=north",
    "the whole tree": "/tree/north/",
    "the timeline of a week": "/clusters/north/timeline/?window=7d",
    "fairness": "/clusters/north/fairness/",
    "waits": "/clusters/north/waits/",
    "pyramid": "/clusters/north/pyramid/",
    "squatting": "/clusters/north/squatting/",
}


def measure() -> list[Row]:
    """Before and after."""
    with own_portal():
        from budgets.models import Cluster
        from scheduler.models import Run, UsageHour
        from tests.load.large import add_year
        from tests.load.world import build

        world = build()
        cluster = Cluster.objects.get(name="north")
        before = {**pages(), **steps(cluster, world.now)}
        took = add_year(cluster, world.now)
        runs, hours = Run.objects.count(), UsageHour.objects.count()
        after = {**pages(), **steps(cluster, world.now + timedelta(minutes=5))}
    rows = [
        plain("a year is added: runs stored", runs, ""),
        plain("a year is added: usage-hours stored", hours, ""),
        *(plain(f"a year is added: {part}", seconds, "s") for part, seconds in took.items()),
    ]
    for name, ms in after.items():
        times = ms / before[name] if before[name] else 1.0
        if name in PAGES or name == "a workload":
            rows.append(at_most(f"{name}, with a year behind it", ms, "ms", PAGE_MS))
        else:
            rows.append(plain(f"{name}, with a year behind it", ms, "ms"))
        rows.append(at_most(f"{name}: times that with 30 days", times, "x", TIMES_MAX))
    return rows


def pages() -> dict[str, float]:
    """Milliseconds of each page, as the lead program manager."""
    from django.conf import settings

    from scheduler.models import Workload
    from tests.load import walk

    settings.ALLOWED_HOSTS = ["*"]
    code = (
        Workload.objects.filter(cluster__name="north", state="queued").order_by("pk").values_list("code", flat=True)[0]
    )
    client = walk.signed_in("chief")
    found = {}
    for name, path in {**PAGES, "a workload": f"/workloads/{code}/"}.items():
        costs = [walk.measure(client, "chief", path, tries=1) for _ in range(TRIES)]
        assert {cost.status for cost in costs} == {200}, (path, costs)
        found[name] = min(cost.busy_ms for cost in costs)
    return found


def steps(cluster: Any, now: datetime) -> dict[str, float]:
    """Milliseconds of what a worker does again and again."""
    from scheduler import loop
    from scheduler.services import passes, usage

    later = iter(now.astimezone(UTC) + timedelta(seconds=10 * number) for number in range(1, 1_000))
    for _ in range(4):  # what the first passes tell everybody is told
        loop.run_pass(cluster.pk, now=next(later))
    return {
        "a pass": least(lambda: loop.run_pass(cluster.pk, now=next(later))),
        "what is due each second": least(lambda: loop.live_on(cluster, next(later))),
        "the minute's figures": least(lambda: usage.roll_up(cluster, next(later))),
        "the hour's check of figures": least(lambda: usage.check(cluster, now - usage.CHECKED, now), tries=2),
        "forgetting quiet passes": least(lambda: passes.forget_quiet()),
    }


def least(call: Callable[[], object], tries: int = TRIES) -> float:
    """Milliseconds of processor time, of us and of the database."""
    from tests.load.walk import database_busy_s

    best_s = float("inf")
    for _ in range(tries):
        began_s = time.thread_time() + database_busy_s()
        call()
        best_s = min(best_s, time.thread_time() + database_busy_s() - began_s)
    return 1_000 * best_s


if __name__ == "__main__":
    for each in measure():
        print(f"{each.name}: {each.value:,.1f} {each.unit} {each.target}")
