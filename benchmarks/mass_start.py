"""How long it takes until 4,000 workloads really run, and until all of them have ended: what nodes report, on rows.

    python -m benchmarks.mass_start

4,000 workloads wait for an empty cluster of 512 nodes and 4,096 GPUs; one pass starts them all. First the nodes are
invented ones, which report within the loop (`loop.live_on`); then the same with each node's agent reporting its
ranks for itself, one report a node, as over HTTP. On a PostgreSQL that keeps what it is told.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from benchmarks import Row, at_most, plain
from benchmarks.database import own_database

# What is of Django is imported inside the functions: it needs the settings of a database that is started first.

SEED = 1
NOW = datetime.fromisoformat("2026-03-02T12:00:00+00:00")
STARTUP_S = 20
DURATION_S = 600
LIVES = {"SIM_STARTUP_S": str(STARTUP_S), "SIM_DURATION_S": str(DURATION_S)}
START_S = 10
"""Target: such a start is seen by its users within a pass and a heartbeat."""
END_S = 10
REPORT_MS = 25


def measure() -> list[Row]:
    """Seconds by step, first with invented nodes, then with reports of 512 agents."""
    with own_database():
        from benchmarks.full_cluster import Size, make_cluster

        cluster, leaves = make_cluster(Size().nodes, NOW)
        return [*by_invented_nodes(cluster, leaves, NOW), *by_agents(cluster, leaves, NOW + timedelta(hours=1))]


def by_invented_nodes(cluster: Any, leaves: Any, now: datetime) -> list[Row]:
    """They start and end as time goes on."""
    from scheduler import loop

    submit(cluster, leaves, now)
    pass_s = seconds(lambda: loop.run_pass(cluster.pk, now=now))
    expect(cluster, "starting", 4_000)
    began_s = seconds(lambda: loop.live_on(cluster, now + timedelta(seconds=STARTUP_S)))
    expect(cluster, "running", 4_000)
    over = now + timedelta(seconds=STARTUP_S + DURATION_S)
    ended_s = seconds(lambda: loop.live_on(cluster, over))
    expect(cluster, "finished", 4_000)
    return [
        plain("mass start: the pass that starts 4,000 runs", pass_s, "s"),
        at_most("mass start: from the pass until all 4,000 run, invented nodes", pass_s + began_s, "s", START_S),
        at_most("mass end: 4,000 runs end, invented nodes", ended_s, "s", END_S),
    ]


def by_agents(cluster: Any, leaves: Any, now: datetime) -> list[Row]:
    """Each node reports its own ranks."""
    from scheduler import loop

    submit(cluster, leaves, now)
    loop.run_pass(cluster.pk, now=now)
    expect(cluster, "starting", 4_000)
    begins = [seconds(each) for each in reports(cluster, now + timedelta(seconds=STARTUP_S), is_exit=False)]
    expect(cluster, "running", 4_000)
    ends = [seconds(each) for each in reports(cluster, now + timedelta(seconds=DURATION_S), is_exit=True)]
    expect(cluster, "finished", 8_000)
    return [
        at_most("mass start: 512 agents report that their ranks run", sum(begins), "s", START_S),
        at_most("mass start: the median report", 1_000 * sorted(begins)[len(begins) // 2], "ms", REPORT_MS),
        at_most("mass end: 512 agents report that their ranks have exited", sum(ends), "s", END_S),
        at_most("mass end: the median report", 1_000 * sorted(ends)[len(ends) // 2], "ms", REPORT_MS),
    ]


def submit(cluster: Any, leaves: Any, now: datetime) -> None:
    """4,000 workloads wait."""
    from benchmarks.full_cluster import RUNNING_GPUS
    from scheduler.services import history

    chance = random.Random(SEED)
    history.add(
        cluster,
        [
            history.PastWorkload(
                leaf=chance.choice(leaves),
                owner=None,
                size_milli=gpus * 1_000,
                min_runtime_s=600,
                state="queued",
                submitted_at=now,
                ended_at=None,
                environment=LIVES,
            )
            for gpus in RUNNING_GPUS
        ],
    )


def reports(cluster: Any, now: datetime, *, is_exit: bool) -> Iterator[Callable[[], object]]:
    """One report a node, about all its ranks, as calls that are yet to be made."""
    from scheduler.executors.base import RankFact, RankState
    from scheduler.models import Node, Rank
    from scheduler.services import facts

    ranks: dict[int, list[tuple[int, int]]] = {}
    rows = Rank.objects.filter(run__cluster=cluster).exclude(run__state="ended")
    for node_id, run_id, index in rows.values_list("node_id", "run_id", "index"):
        ranks.setdefault(node_id, []).append((run_id, index))
    state = RankState.EXITED if is_exit else RankState.RUNNING
    for node in Node.objects.filter(cluster=cluster):
        said = [
            RankFact(
                run_id, index, state, 7, DURATION_S if is_exit else 0, 0 if is_exit else None, 0 if is_exit else None
            )
            for run_id, index in ranks.get(node.pk, ())
        ]
        yield lambda node=node, said=said: facts.report(node=node, facts=said, now=now)


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


def expect(cluster: Any, state: str, amount: int) -> None:
    """So many workloads are in that state; else nothing was measured."""
    from scheduler.models import Workload

    found = Workload.objects.filter(cluster=cluster, state=state).count()
    assert found == amount, f"{found} workloads are {state}, not {amount}"


if __name__ == "__main__":
    for each in measure():
        print(each.name, round(each.value, 2), each.unit, each.target)
