"""The portal under the load of many: researchers who poll, submissions without a pause, a thousand agents.

    python -m benchmarks.portal_load

All of it on one machine: PostgreSQL, web server, worker with its passes, and from another process those who ask. The
laboratory is that of tests/load: 2,000 projects, 50,000 workloads, 128 nodes. Times are what clients met, counted from
when they should have been answered first; "alone" is the same page with one client and nothing else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import Row, at_most, plain
from benchmarks.whole_portal import Portal, drive, own_portal, quantile

# What is of Django is imported inside the functions: it needs the settings of a database that is started first.

RESEARCHERS, POLL_S = 200, 10.0
SUBMISSIONS_A_MINUTE, SUBMITTERS = 1_000, 20
AGENTS, HEARTBEAT_S = 1_000, 10.0
RESEARCH_S, SUBMIT_S, AGENTS_S = 60, 600, 60
SETTLE_S = 75
"""So long they ask before it counts: in the first minute after a start all that comes by the clock comes at once."""
ALONE_S, ALONE_EVERY_S = 18, 0.5
SHORT_S, SHORT_ALONE_S, SHORT_WORKLOADS = 15, 6, 3_000
KINDS = ("queue page", "queue part", "workload page", "workload part")
PAGE_MS, LATE_S = 300.0, 2.0
PART = {"HX-Request": "true"}
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """What a stretch of load came to."""

    measured: Mapping[str, Any]
    length_s: float = 0.0
    cores: float = 0.0
    gaps_s: list[float] = field(default_factory=list)

    def seconds(self, *kinds: str) -> list[float]:
        """Of all requests of these kinds, sorted."""
        return sorted(each for kind in kinds or self.measured for each in self.measured[kind]["seconds"])

    def bad(self) -> int:
        """Requests that were not answered as they should have been."""
        return sum(
            count
            for found in self.measured.values()
            for status, count in found["statuses"].items()
            if status not in ("200", "201", "286")
        )


def measure() -> list[Row]:
    """All three loads, one after the other."""
    loads = play()
    alone = loads.pop("alone")
    return [
        *rows_of_researchers(
            loads["researchers"], {kind: 1_000 * quantile(alone.seconds(kind), 0.5) for kind in KINDS}
        ),
        *rows_of_agents(loads["agents"]),
        *rows_of_submissions(loads["submissions"]),
    ]


def play(*, is_short: bool = False) -> dict[str, Load]:
    """The loads by name; the short ones are on a small laboratory, where each page is as many queries as on a large."""
    lengths = (SHORT_S, SHORT_S, SHORT_S) if is_short else (RESEARCH_S, AGENTS_S, SUBMIT_S)
    with own_portal() as portal:
        from budgets.models import Cluster
        from scheduler.models import Node
        from scheduler.services import usage
        from tests.load import work
        from tests.load.world import build

        if is_short:
            work.WORKLOADS = SHORT_WORKLOADS
        build()
        for cluster in Cluster.objects.all():  # as they would have been by now, minute by minute
            usage.roll_up(cluster)
        agents = make_agents()
        people = sign_in(RESEARCHERS)
        with portal.running(passes=True):
            wait_for_passes()
            loads = {"alone": alone(portal, people[0], SHORT_ALONE_S if is_short else ALONE_S)}
            under(portal, researchers(people), 1 if is_short else SETTLE_S)
            for name, clients, seconds in zip(
                ("researchers", "agents", "submissions"),
                (researchers(people), agents, submitters(people)),
                lengths,
                strict=True,
            ):
                loads[name] = under(portal, clients, seconds)
                # Before they have spoken for the first time, and after the last, they are no silent nodes.
                Node.objects.filter(cluster__name="agents").update(heartbeat_at=None)
    return loads


# --- who asks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Somebody:
    """Somebody who is signed in, with a workload of theirs to look at, and a project to submit to."""

    cookie: str
    token: str
    code: str
    leaf: str


def sign_in(count: int) -> list[Somebody]:
    """Researchers with sessions; each looks at a workload that waits or runs."""
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

    from budgets.models import Person, Role, RoleGrant
    from budgets.services import tokens
    from scheduler.models import Workload

    store = import_module(settings.SESSION_ENGINE).SessionStore
    open_ones = list(
        Workload.objects.filter(state__in=("queued", "running")).order_by("pk").values_list("code", flat=True)
    )
    found = []
    for number, person in enumerate(Person.objects.filter(username__startswith="res").order_by("pk")[:count]):
        session = store()
        session[SESSION_KEY], session[HASH_SESSION_KEY] = str(person.pk), person.get_session_auth_hash()
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session.save()
        grant = RoleGrant.objects.filter(person=person, role=Role.MEMBER).select_related("node").first()
        assert grant is not None
        _token, secret = tokens.create(person=person, name="load", scopes=["read", "submit"], days=1)
        code = open_ones[number * 7 % len(open_ones)]
        found.append(Somebody(f"sessionid={session.session_key}", secret, code, grant.node.code))
    return found


def researchers(people: list[Somebody]) -> list[dict[str, Any]]:
    """Each polls the queue and a workload in turn, mostly the parts that refresh themselves."""
    return [
        {
            "kind": "page",
            "every_s": POLL_S,
            "headers": {"Cookie": each.cookie, "Accept-Encoding": "gzip"},
            "requests": [
                *({"kind": "queue part", "method": "GET", "path": "/queue/north/", "headers": PART},) * 2,
                *({"kind": "workload part", "method": "GET", "path": f"/workloads/{each.code}/", "headers": PART},) * 2,
                {"kind": "queue page", "method": "GET", "path": "/queue/north/"},
                {"kind": "workload page", "method": "GET", "path": f"/workloads/{each.code}/"},
            ],
        }
        for each in people
    ]


def submitters(people: list[Somebody]) -> list[dict[str, Any]]:
    """They submit by the API, one after the other, as scripts do."""
    body = {
        "cluster": "north",
        "size_milli": 1_000,
        "min_runtime_s": 600,
        "command": ["train"],
        "environment": {"SIM_STARTUP_S": "0", "SIM_DURATION_S": "60", "SIM_EXIT_DELAY_S": "0"},
        "idempotency_key": "load-{n}",
    }
    return [
        {
            "kind": "submission",
            "every_s": 60 * SUBMITTERS / SUBMISSIONS_A_MINUTE,
            "headers": {"Authorization": f"Bearer {each.token}", "Content-Type": "application/json"},
            "requests": [
                {"method": "POST", "path": "/api/v1/workloads/", "body": json.dumps(body | {"leaf": each.leaf})}
            ],
        }
        for each in people[:SUBMITTERS]
    ]


def make_agents() -> list[dict[str, Any]]:
    """A cluster whose nodes have agents, each with a rank that runs; and those agents."""
    from budgets.models import BudgetNode, Cluster
    from scheduler.models import Node, Rank
    from scheduler.services import clusters, history, nodes
    from scheduler.services.history import PastNode, PastRun, PastWorkload

    cluster = clusters.create(name="agents", executor=Cluster.Executor.AGENT)
    now = datetime.now(UTC).replace(microsecond=0)
    long_ago, names = now - timedelta(days=9), [f"a{number:04d}" for number in range(AGENTS)]
    history.add_nodes(cluster, [PastNode(name, 8, [("healthy", long_ago, None)], "r0") for name in names])
    leaf = BudgetNode.objects.filter(kind="project").order_by("code").first()
    assert leaf is not None
    began = now - timedelta(minutes=5)
    history.add(
        cluster,
        [
            PastWorkload(
                leaf=leaf, owner=None, size_milli=8_000, min_runtime_s=28_800, state="running",
                submitted_at=began,
                ended_at=None,
                runs=[PastRun(began, None, 8_000, True, running_at=began, holdings={name: 8_000},
                              contract_ends_at=now + timedelta(hours=8))],
            )
            for name in names
        ],
    )  # fmt: skip
    Rank.objects.filter(run__cluster=cluster).update(state="running", began_at=began, pid=1)
    secret = "s" * 40
    Node.objects.filter(cluster=cluster).update(
        token_hash=nodes.digest(secret), heartbeat_at=None, agent_epoch=1, health="healthy"
    )
    return [
        {
            "kind": "heartbeat",
            "every_s": HEARTBEAT_S,
            "fresh": True,
            "headers": {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"},
            "requests": [
                {
                    "method": "POST",
                    "path": "/api/v1/agent/sync",
                    "body": json.dumps({"cluster": "agents", "node": name, "epoch": 1, "facts": [], "problems": []}),
                }
            ],
        }
        for name in names
    ]


# --- measuring --------------------------------------------------------------------------------------------------------


def wait_for_passes() -> None:
    """Until passes are made as often as they should be."""
    from scheduler.models import Pass

    before = Pass.objects.count()
    until_s = time.monotonic() + 120
    while Pass.objects.count() < before + 3:
        assert time.monotonic() < until_s, "no passes are made"
        time.sleep(0.5)


def alone(portal: Portal, person: Somebody, seconds: int) -> Load:
    """One who asks alone, one page after the other."""
    [client] = researchers([person])
    return under(portal, [client | {"every_s": ALONE_EVERY_S}], seconds)


def under(portal: Portal, clients: list[dict[str, Any]], seconds: int) -> Load:
    """So much load for so long."""
    from scheduler.models import Pass

    began = datetime.now(UTC)
    with cores_used() as cores:
        measured = drive({"host": "127.0.0.1", "port": portal.port, "seconds": seconds, "clients": clients})
    rows = Pass.objects.filter(cluster__name="north").order_by("pk")
    before = rows.filter(at__lte=began).values_list("at", flat=True).last()
    instants = [*([] if before is None else [before]), *rows.filter(at__gt=began).values_list("at", flat=True)]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise([*instants, datetime.now(UTC)])]
    return Load(measured, seconds, cores[0], gaps)


@contextmanager
def cores_used() -> Iterator[list[float]]:
    """How many cores all processes but those of others took inside the block: of this process and all it started."""
    found = [0.0]
    before, began_s = ticks(), time.monotonic()
    yield found
    after = ticks()
    spent = sum(max(0, value - before.get(pid, 0)) for pid, value in after.items())
    found[0] = spent / TICKS_A_SECOND / (time.monotonic() - began_s)


def ticks() -> dict[int, int]:
    """Processor time of each process below this one, in clock ticks."""
    from portal.supervisor.processes import descendants

    found = {}
    for pid in descendants(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        found[pid] = int(fields[11]) + int(fields[12])
    return found


def late_s(load: Load, every_s: int = 10) -> float:
    """By how much the latest pass was late."""
    return max(0.0, max(load.gaps_s) - every_s)


def rows_of_researchers(load: Load, alone: Mapping[str, float]) -> list[Row]:
    """200 of them."""
    every = load.seconds()
    name = f"{RESEARCHERS} researchers polling"
    rows = [
        at_most(f"{name}: p95 of all", 1_000 * quantile(every, 0.95), "ms", PAGE_MS),
        plain(f"{name}: requests", len(every) / load.length_s, "per s"),
        plain(f"{name}: refused or failed", load.bad(), ""),
        at_most(f"{name}: the latest pass, after its time", late_s(load), "s", LATE_S),
        plain(f"{name}: cores in use", load.cores, ""),
    ]
    for kind in sorted(load.measured):
        p50, p95 = (1_000 * quantile(load.seconds(kind), part) for part in (0.5, 0.95))
        rows.append(plain(f"{kind}: alone, p50", alone[kind], "ms"))
        rows.append(plain(f"{kind}: among {RESEARCHERS}, p50", p50, "ms"))
        rows.append(plain(f"{kind}: among {RESEARCHERS}, p95", p95, "ms"))
        rows.append(plain(f"{kind}: among {RESEARCHERS}, p95: times that alone", p95 / alone[kind], "x"))
    return rows


def rows_of_agents(load: Load) -> list[Row]:
    """A thousand of them."""
    every, name = load.seconds(), f"{AGENTS:,} agents, each {HEARTBEAT_S:.0f} s"
    return [
        at_most(f"{name}: p95 of heartbeats", 1_000 * quantile(every, 0.95), "ms", PAGE_MS),
        plain(f"{name}: p50", 1_000 * quantile(every, 0.5), "ms"),
        plain(f"{name}: refused or failed", load.bad(), ""),
        at_most(f"{name}: the latest pass, after its time", late_s(load), "s", LATE_S),
        plain(f"{name}: cores in use", load.cores, ""),
    ]


def rows_of_submissions(load: Load) -> list[Row]:
    """A thousand a minute."""
    every, name = load.seconds(), f"{SUBMISSIONS_A_MINUTE:,} submissions a minute"
    return [
        at_most(f"{name}: p95", 1_000 * quantile(every, 0.95), "ms", PAGE_MS),
        plain(f"{name}: p50", 1_000 * quantile(every, 0.5), "ms"),
        plain(f"{name}: taken", 60 * len(every) / load.length_s, "per min"),
        plain(f"{name}: refused or failed", load.bad(), ""),
        at_most(f"{name}: the latest pass, after its time", late_s(load), "s", LATE_S),
        plain(f"{name}: cores in use", load.cores, ""),
    ]


if __name__ == "__main__":
    for each in measure():
        print(f"{each.name}: {each.value:,.1f} {each.unit} {each.target}")
