"""Asks for pages as a person would, and says what each cost: queries, time, bytes, marks."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection
from django.test import Client

from benchmarks.machine import yardstick_s
from budgets.models import LedgerEntry, Person, Reallocation, Request, Review, ShareImport
from scheduler.models import Workload
from tests.addresses import Values
from tests.load.world import World

TRIES = 6
QUERIES_MAX, TIME_MAX_MS, CHART_MAX_BYTES, MARKS_MAX = 30, 300, 300_000, 10_000
YARDSTICK_S = 0.104
"""What `slowness` counts from: of two quiet cores, on which the bounds were set."""
FILE_MAX_MS = 10_000
"""Of files to keep: a pack of a hundred lines as PDF, a ledger of tens of thousands of entries."""
CHART = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
DRAWING = re.compile(r"<svg.*?</svg>", re.DOTALL)
MARK = re.compile(r"<(?:rect|line|circle|polyline|polygon|use)\b|M-?[\d.]")
"""A mark of a drawing: a shape, or each piece of a path."""

PEOPLE = ("res0000", "pi00", "chief", "ops")
"""A researcher, the head of a program, the lead program manager, an operator."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one page took. `busy_ms` is processor time, of us and of the database, the least of some tries."""

    person: str
    path: str
    status: int
    queries: int
    busy_ms: float
    chart_bytes: int
    marks: int
    is_file: bool = False

    def too_much(self) -> list[str]:
        """What is beyond its bound, in words."""
        bounds = (
            ("queries", self.queries, QUERIES_MAX),
            ("ms", self.busy_ms, FILE_MAX_MS if self.is_file else TIME_MAX_MS),
            ("bytes of charts", self.chart_bytes, CHART_MAX_BYTES),
            ("marks", self.marks, MARKS_MAX),
        )
        return [
            f"{self.person} {self.path}: {value:,.0f} {what}, at most {most:,}"
            for what, value, most in bounds
            if value > most
        ]


@dataclass(slots=True)
class _Meter:
    """Counts a request's queries."""

    queries: int = 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Mapping[str, Any]) -> Any:
        self.queries += 1
        return execute(sql, params, many, context)


def database_busy_s() -> float:
    """Seconds of processor time that the server's process behind our connection has taken so far.

    By the clock a query takes as long as the machine is crowded.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [(pid,)] = cursor.fetchall()
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def signed_in(username: str) -> Client:
    """A client of one of PEOPLE."""
    client = Client()
    client.force_login(Person.objects.get(username=username), backend="django.contrib.auth.backends.ModelBackend")
    return client


def slowness() -> float:
    """How many times as long as on a quiet machine the yardstick takes here and now; at least 1.

    Even processor time grows where others share caches and cores.
    """
    return max(1.0, yardstick_s(time.thread_time) / YARDSTICK_S)


def measure(client: Client, person: str, path: str, tries: int = TRIES) -> Cost:
    """Ask until it was quick enough, or often enough: what else runs on the machine is no fault of the page."""
    best: Cost | None = None
    for _ in range(tries):
        meter = _Meter()
        began_s = time.thread_time() + database_busy_s()
        with connection.execute_wrapper(meter):
            answer = client.get(path)
            content = answer.getvalue() if answer.streaming else answer.content
        busy_ms = 1_000 * (time.thread_time() + database_busy_s() - began_s)
        if busy_ms > TIME_MAX_MS:
            busy_ms /= slowness()
        if best is None or busy_ms < best.busy_ms:
            is_page = answer.headers.get("Content-Type", "").startswith("text/html")
            charts, marks = charted(content.decode()) if is_page else (0, 0)
            is_file = "Content-Disposition" in answer.headers
            best = Cost(person, path, answer.status_code, meter.queries, busy_ms, charts, marks, is_file)
        if best.is_file or best.busy_ms <= TIME_MAX_MS:
            break
    assert best is not None
    return best


def charted(page: str) -> tuple[int, int]:
    """Bytes of all charts of a page, compressed, and how many marks the one with most of them has."""
    found = CHART.findall(page)
    drawings = DRAWING.findall(page)
    size = len(gzip.compress("".join([*found, *drawings]).encode())) if found or drawings else 0
    marks = [marks_of(json.loads(each)) for each in found] + [len(MARK.findall(each)) for each in drawings]
    return size, max(marks, default=0)


def marks_of(chart: Any) -> int:
    """How many points the traces of a figure have."""
    if not isinstance(chart, dict) or not isinstance(chart.get("data"), Sequence):
        return 0
    return sum(max((len(v) for v in trace.values() if isinstance(v, list)), default=0) for trace in chart["data"])


def values(world: World) -> Values:
    """What fills the addresses: of each kind the largest, and one of each state that looks different."""
    by_state = [
        Workload.objects.filter(state=state).order_by("-preemptions", "-submitted_at", "pk").first()
        for state in ("queued", "running", "finished", "held", "refused")
    ]
    taken = Workload.objects.filter(runs__preempted_by__isnull=False, decisions__made_in__isnull=False).first()
    codes = [row.code for row in [*by_state, taken] if row is not None]
    request = Request.objects.filter(state="submitted", comments__isnull=False).order_by("pk").first()
    done = Request.objects.filter(state="applied").order_by("pk").first()
    review = Review.objects.get(state="open")
    proposed = Reallocation.objects.filter(state="submitted").order_by("pk").first()
    decided = LedgerEntry.objects.filter(verb="reallocation.approved").order_by("pk").first()
    assert None not in (request, done, proposed, decided)
    return {
        "cluster": ["north", "south"],
        "code": ["LAB", "P00", "P00.00"],
        "workloads/<str:code>": codes,
        "nodes/<slug:cluster>/<str:name>": ["n000"],
        "requests/<int:number>": [request.pk, done.pk],
        "requests/<int:number>/files/<int:attachment>": [1],
        "requests/<int:number>/attachments/<int:attachment>": [1],
        "budget/<str:code>/roles/<int:grant>": [1],
        "reallocations/<int:number>": [proposed.pk, decided.reallocation_id],
        "reviews/<int:number>": [review.pk],
        "reviews/<int:number>/items/<int:position>": [1],
        "decisions/<int:number>": [decided.reallocation_id],
        "people/<int:number>": [world.house.people["lead000"].pk],
        "imports/<int:number>": [ShareImport.objects.order_by("-pk").values_list("pk", flat=True)[0]],
        "simulator/<int:number>": [world.simulation, world.large_simulation],
        "simulations/<int:number>": [world.simulation, world.large_simulation],
        "help/<slug:key>": ["manager"],
        "help/api/<slug:key>": ["requests_approve_create"],
        "help/pictures/<str:name>": ["queue.png"],
        "name": ["n000"],
        "delivery": [1],
        "number": [1],
        "verb": ["none"],
    }
