"""The pages of figures: what they say, who sees whose figures, what a wrong address gets, and what they cost."""

from __future__ import annotations

import csv
import io
import json
import zlib
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets.queries import today
from budgets.services import tree
from portal.charts import MARKS_MAX
from portal.pace import Span, span_around
from scheduler.models import Run, UtilizationHour, Workload
from tests.portal.conftest import Laboratory

PAGES = (
    "/clusters/north/pyramid/",
    "/clusters/north/fairness/",
    "/clusters/north/waits/",
    "/clusters/north/failures/",
    "/clusters/north/squatting/",
    "/budget/A/priorities/?cluster=north",
    "/budget/A/?cluster=north",
)
FILES = ("/clusters/north/fairness.csv", "/clusters/north/lent.csv", "/clusters/north/waits.csv")
API = (
    "/api/v1/clusters/north/pyramid/",
    "/api/v1/clusters/north/fairness/",
    "/api/v1/clusters/north/waits/",
    "/api/v1/clusters/north/failures/",
    "/api/v1/clusters/north/squatting/",
    "/api/v1/budget/A/priorities/",
    "/api/v1/budget/A/people/",
    "/api/v1/budget/A/pace/",
)
CHART_BYTES_MAX = 300_000


@pytest.fixture
def idle(lab: Laboratory) -> Laboratory:
    """Ben's workload held its devices and used none for an hour; Ada's is at 80 %."""
    for workload, percent in ((lab.holder, 0), (lab.taker, 80)):
        run = Run.objects.filter(workload=workload).order_by("number").first()
        assert run is not None
        UtilizationHour.objects.create(
            cluster=lab.cluster,
            run=run,
            hour=lab.now.replace(minute=0, second=0) - timedelta(hours=1),
            measured_milli_s=run.size_milli * 1_800,
            busy_milli_s=run.size_milli * 1_800 * percent // 100,
        )
    return lab


def rows_of(response) -> list[list[str]]:
    """A CSV file's rows."""
    text = b"".join(response.streaming_content).decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text)))


# --- what they say ----------------------------------------------------------------------------------------------------


def test_the_pyramid_says_its_figures_and_what_is_behind_them(idle, as_person) -> None:
    page = as_person(idle.max).get("/clusters/north/pyramid/?behind=utilization")
    text = page.content.decode()
    assert "of the usable GPUs were held" in page.context["sentence"]
    ratios = {layer.key: layer.ratio for layer in page.context["layers"]}
    assert ratios["utilization"] == pytest.approx(0.4)
    assert sum(phase.milli_s for phase in page.context["phases"]) == page.context["found"].activity.held_milli_s
    assert page.context["found"].activity.held_milli_s == page.context["found"].total.held_milli_s > 0
    assert [row.code for row in page.context["rows"]] == [idle.holder.code, idle.taker.code]
    assert "not measured" in text, "hours that nobody measured"
    waiting = idle.submit("A1", 16, owner=idle.ada, ago=170)
    for figure, expected in (("occupancy", idle.holder.code), ("impact", waiting.code)):
        assert expected in as_person(idle.nil).get(f"/clusters/north/pyramid/?behind={figure}").content.decode()
    assert as_person(idle.nil).get("/clusters/north/pyramid/?behind=availability").status_code == 200


def test_where_nobody_measured_no_figure_is_made_up(lab, as_person) -> None:
    page = as_person(lab.ada).get("/clusters/north/pyramid/")
    assert "how busy they were was not measured" in page.context["sentence"]
    assert page.context["layers"][-1].ratio is None
    assert "not measured" in as_person(lab.ada).get("/").content.decode()
    squatting = as_person(lab.ada).get("/clusters/north/squatting/?node=LAB")
    assert "was not measured: whether it was used is not known" in squatting.context["sentence"]


def test_fairness_shows_a_level_and_leads_to_the_next_and_files_say_the_same(lab, as_person) -> None:
    client = as_person(lab.nil)
    waiting = lab.submit("A1", 16, owner=lab.ada, ago=170)
    page = client.get("/clusters/north/fairness/")
    assert [row.line.node.code for row in page.context["level"].rows] == ["A", "B"]
    assert "?node=A" in page.content.decode()
    below = client.get("/clusters/north/fairness/?node=A")
    assert [row.line.node.code for row in below.context["level"].rows] == ["A1", "A2"]
    level = page.context["level"]
    assert sum(level.lent) == sum(row.total for row in level.borrowers) == level.matrix.total > 0
    assert [row.total for row in level.borrowers if row.party.node] == [
        row.line.books.borrowed_milli_s for row in level.rows if row.line.books.borrowed_milli_s
    ]
    assert page.context["longest"][0].code == waiting.code
    header, *rows = rows_of(client.get("/clusters/north/fairness.csv"))
    at = header.index("delivered")
    assert [(row[0], row[at]) for row in rows] == [
        (row.line.node.code, f"{row.line.books.charged_milli_s / 3_600_000:.6f}".rstrip("0").rstrip("."))
        for row in level.rows
    ]
    header, *rows = rows_of(client.get("/clusters/north/lent.csv"))
    assert sum(float(row[-1]) for row in rows) == pytest.approx(level.matrix.total / 3_600_000)
    header, *rows = rows_of(client.get("/clusters/north/waits.csv?node=A1"))
    assert [row[0] for row in rows] == ["debug", "standard", "large", "unallocated"]
    assert {row[1] for row in rows} == {"A1"}


def test_the_manager_is_told_where_priorities_order_nothing(lab, as_person) -> None:
    for _ in range(20):
        lab.submit("A1", 1, owner=lab.ada, priority=10, ago=1)
    page = as_person(lab.mia).get("/budget/A/priorities/?cluster=north")
    assert page.context["sentence"].startswith("In A1 nearly everything has a raised priority")
    assert "All raised" in page.content.decode()
    Workload.objects.filter(priority=10).update(priority=0)
    page = as_person(lab.mia).get("/budget/A/priorities/?cluster=north")
    assert page.context["sentence"] == "1 of 24 workloads had a raised priority: raising one still means something."


def test_a_budget_says_how_it_keeps_pace_and_of_whom(lab, as_person) -> None:
    page = as_person(lab.max).get("/budget/B/?cluster=north&pace=week")
    pace = page.context["pace"]
    assert (pace.gone, pace.end > pace.at) != (0, False)
    assert page.context["pace_sentence"].startswith("B has used ")
    assert "There is no forecast yet: it takes 7 days of known use." in page.content.decode()
    assert page.context["grown"][-1].delivered_milli_s == pace.books.charged_milli_s
    whole = page.context["books"]
    people = page.context["by_person"]
    assert [row.name for row in people] == ["Ben"]
    assert sum(row.charged_milli_s for row in people) == whole.charged_milli_s > 0
    over = as_person(lab.max).get(
        f"/budget/B/?cluster=north&pace_from={today() - timedelta(days=2)}&pace_until={today() - timedelta(days=1)}"
    )
    assert over.context["pace"].is_over
    assert over.context["pace_sentence"].startswith("B used ")


def test_children_over_time_lose_nothing_and_charts_are_small(lab, as_person) -> None:
    page = as_person(lab.nil).get("/budget/LAB/?cluster=north")
    rows = page.context["children_rows"]
    assert sum(sum(amounts) for _, amounts in rows) == sum(
        child.books.charged_milli_s for child in page.context["children"]
    )
    client = as_person(lab.max)
    for page in PAGES:
        context = client.get(f"{page}{'&' if '?' in page else '?'}window=7d").context
        for name in ("trend", "held", "chart", "pace_chart", "children_chart"):
            chart = context.get(name)
            if chart:
                assert len(zlib.compress(json.dumps(chart).encode())) < CHART_BYTES_MAX
                assert sum(len(trace.get("x", ())) for trace in chart["data"]) <= MARKS_MAX


@pytest.mark.parametrize(
    ("key", "day", "expected"),
    [
        ("week", "2026-07-02", ("2026-06-29", "2026-07-05")),
        ("month", "2026-02-10", ("2026-02-01", "2026-02-28")),
        ("month", "2026-12-31", ("2026-12-01", "2026-12-31")),
        ("quarter", "2026-11-29", ("2026-10-01", "2026-12-31")),
        ("quarter", "2026-03-31", ("2026-01-01", "2026-03-31")),
    ],
)
def test_periods_of_the_calendar(key: str, day: str, expected: tuple[str, str]) -> None:
    date = type(today()).fromisoformat
    assert span_around(key, date(day)) == Span(key, date(expected[0]), date(expected[1]))


# --- who sees whose figures -------------------------------------------------------------------------------------------


def test_what_a_person_left_idle_is_shown_to_that_person_and_those_who_manage_them(idle, as_person) -> None:
    """Max manages all, Mia manages A, Ada is Ben's peer, Ops operates, Nil is nobody: Ben works in B1."""
    sees = {
        person.username: idle.holder.code in page.content.decode() or "Ben" in page.content.decode()
        for person in (idle.max, idle.ben, idle.mia, idle.ada, idle.ops, idle.nil)
        for page in [as_person(person).get("/clusters/north/squatting/")]
    }
    assert sees == {"max": True, "ben": True, "mia": False, "ada": False, "ops": False, "nil": False}
    behind = {
        person.username: [row.code for row in as_person(person).get(url).context["rows"]]
        for url in ["/clusters/north/pyramid/?behind=utilization"]
        for person in (idle.max, idle.ben, idle.ada, idle.ops, idle.nil)
    }
    assert behind == {
        "max": [idle.holder.code, idle.taker.code],
        "ben": [idle.holder.code],
        "ada": [idle.taker.code],
        "ops": [],
        "nil": [],
    }
    api = {
        person.username: [
            row["name"] for row in as_person(person).get("/api/v1/clusters/north/squatting/").json()["people"]
        ]
        for person in (idle.max, idle.ben, idle.mia, idle.ops, idle.nil)
    }
    assert api == {"max": ["Ben"], "ben": ["Ben"], "mia": [], "ops": [], "nil": []}
    teams = as_person(idle.nil).get("/clusters/north/squatting/").context["teams"]
    assert [(team.node.code, team.idle.idle_milli_s) for team in teams] == [("A", 0), ("B", 8_000 * 1_800)]
    leaf = as_person(idle.nil).get("/clusters/north/squatting/?node=B1")
    assert "Team B1" in leaf.content.decode(), "a leaf has its own line"
    assert "No child of B1 held anything" not in leaf.content.decode()


def test_use_and_priorities_by_person_are_for_the_person_and_those_who_manage_the_node(lab, as_person) -> None:
    def names(person, key: str, url: str) -> list[str]:
        page = as_person(person).get(url)
        return [row.name for row in page.context[key] if row.name] if page.status_code == 200 else ["404"]

    Run.objects.filter(workload=lab.taker).update(started_at=lab.now - timedelta(minutes=150))
    usage, order = "/budget/LAB/?cluster=north", "/budget/LAB/priorities/?cluster=north"
    cal = lab.person("cal", "LAB", "reviewer")
    assert names(lab.max, "by_person", usage) == ["Ben", "Ada"]
    assert names(lab.ben, "by_person", usage) == ["Ben"]
    assert names(lab.mia, "by_person", usage) == names(lab.ops, "by_person", usage) == []
    assert names(lab.mia, "by_person", "/budget/A/?cluster=north") == ["Ada"]
    assert sorted(names(lab.max, "people", order)[:2]) == ["Ada", "Ben"]
    assert names(cal, "people", order) == names(lab.ops, "people", order) == []
    assert names(lab.ada, "people", "/budget/A1/priorities/") == ["Ada"]
    assert names(lab.ben, "people", "/budget/A1/priorities/") == ["404"]
    assert as_person(lab.ben).get("/api/v1/budget/A1/priorities/").status_code == 404
    people = [row["name"] for row in as_person(lab.ben).get("/api/v1/budget/LAB/people/").json()["people"]]
    assert people == ["Ben"]


# --- wrong addresses, empty states ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("window=2d", "window"),
        ("from=2026-01-01", "from and until"),
        ("from=2026-01-01&until=2026-01-02&window=7d", "from and until"),
        ("from=2026-01-03&until=2026-01-02", "from: 2026-01-03 is not a day up to 2026-01-02"),
        ("from=2026-01-01&until=2026-06-01", "more than 92 days before"),
        ("from=2026-01-01&until=2999-01-01", "until: 2999-01-01 is not a day of the past"),
        ("from=x&until=2026-01-01", "is not a date"),
        ("as_of=2999-01-01", "as_of: 2999-01-01 is not a day of the past"),
        ("as_of=0001-01-01", "as_of: 0001-01-01 is not of the years 2000 to 2999"),
        ("as_of=yesterday", "is not a date"),
    ],
)
def test_a_time_that_cannot_be_gets_one_clear_line(calm, as_person, query: str, expected: str) -> None:
    client = as_person(calm.max)
    for page in (*PAGES, *FILES):
        answer = client.get(f"{page}{'&' if '?' in page else '?'}{query}")
        assert (answer.status_code, expected in answer.content.decode()) == (400, True), page
    answer = client.get(f"/api/v1/clusters/north/pyramid/?{query}")
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/clusters/nowhere/pyramid/", 404),
        ("/clusters/north/pyramid/?behind=luck", 400),
        ("/clusters/north/pyramid/?page=2", 404),
        ("/clusters/north/pyramid/?page=-1", 400),
        ("/clusters/north/fairness/?node=ZZ", 404),
        ("/clusters/north/fairness/?node=A1", 404),
        ("/clusters/north/waits/?node=ZZ", 404),
        ("/clusters/north/squatting/?page=9", 404),
        ("/clusters/north/squatting/?node=ZZ", 404),
        ("/budget/ZZ/priorities/", 404),
        ("/budget/A/priorities/?cluster=nowhere", 404),
        ("/budget/A/?cluster=north&pace=year", 400),
        ("/budget/A/?cluster=north&pace_from=2026-03-01&pace_until=2026-02-01", 400),
        ("/budget/A/?cluster=north&pace_from=2020-03-01&pace_until=2026-02-01", 400),
        ("/budget/A/?cluster=north&pace_from=9999-12-30&pace_until=9999-12-31", 400),
        ("/api/v1/clusters/north/fairness/?node=A1", 404),
        ("/api/v1/clusters/north/fairness/?level=3", 400),
        ("/api/v1/budget/A/pace/?pace=year", 400),
    ],
)
def test_what_is_not_there_or_cannot_be_is_said(calm, as_person, path: str, status: int) -> None:
    assert as_person(calm.max).get(path).status_code == status


def test_pages_of_a_cluster_on_which_nothing_happened_yet(calm, as_person) -> None:
    client = as_person(calm.max)
    for page in (*PAGES, *FILES, *API):
        assert client.get(page).status_code == 200, page
    assert "Nothing is known of north in this time" in client.get(PAGES[0]).content.decode()


def test_permalinks_mean_the_same_time_later(lab, as_person) -> None:
    client = as_person(lab.max)
    yesterday = today() - timedelta(days=1)
    for page in PAGES:
        mark = "&" if "?" in page else "?"
        found = client.get(f"{page}{mark}window=7d&as_of={yesterday}").context["period"]
        again = client.get(f"{page}{mark}{found.keeps}").context["period"]
        assert (again.start, again.end) == (found.start, found.end)
        days = client.get(f"{page}{mark}from={yesterday - timedelta(days=2)}&until={yesterday}").context["period"]
        again = client.get(f"{page}{mark}{days.keeps}").context["period"]
        assert (again.start, again.end) == (days.start, days.end)
        assert days.end - days.start == timedelta(days=3)


# --- cost -------------------------------------------------------------------------------------------------------------


def queries(client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


def test_query_counts_do_not_grow_with_rows(idle, as_person) -> None:
    client = as_person(idle.max)
    paths = [*PAGES, "/clusters/north/pyramid/?behind=utilization", "/clusters/north/squatting/?node=B", *API]
    for path in paths:
        client.get(path)
    before = {path: queries(client, path) for path in paths}
    for number in range(3):
        node = tree.add_child(
            parent=idle.node["B"], kind="project", code=f"B{number + 2}", name="Team", by=None,
            at=idle.now - timedelta(days=40),
        )  # fmt: skip
        idle.node[node.code] = node
        workload = idle.submit("B1", 1, minutes=60, owner=idle.ben, ago=30)
        Run.objects.filter(workload=workload).exists()
        run = Run.objects.filter(workload=idle.holder).first()
        assert run is not None
        UtilizationHour.objects.create(
            cluster=idle.cluster,
            run=run,
            hour=idle.now.replace(minute=0, second=0) - timedelta(hours=2 + number),
            measured_milli_s=run.size_milli * 3_000,
            busy_milli_s=0,
        )
    idle.step(ago=0)
    idle.close_books()
    assert {path: queries(client, path) for path in paths} == before
    assert max(before.values()) <= 30


def test_the_api_gives_what_the_pages_say(idle, as_person) -> None:
    client = as_person(idle.max)
    found = client.get("/clusters/north/pyramid/").context["found"]
    told = client.get("/api/v1/clusters/north/pyramid/").json()
    assert told["layers"]["utilization"] == [found.activity.busy_milli_s, found.activity.measured_milli_s]
    assert sum(told["phases_milli_s"].values()) == found.activity.held_milli_s
    level = client.get("/clusters/north/fairness/").context["level"]
    told = client.get("/api/v1/clusters/north/fairness/").json()
    assert [
        row["charged_milli_s"] if "charged_milli_s" in row else row["within_milli_s"] + row["borrowed_milli_s"]
        for row in told["nodes"]
    ] == [row.line.books.charged_milli_s for row in level.rows]
    assert sum(row["milli_s"] for row in told["lent"]) == level.matrix.total
    pace = client.get("/budget/B/?cluster=north").context["pace"]
    told = client.get("/api/v1/budget/B/pace/?cluster=north").json()
    assert (told["entitled_milli_s"], told["forecast"]) == (pace.entitled_milli_s, None)
    assert all(earlier["end"] == later["start"] for earlier, later in pairwise(client.get(API[0]).json()["points"]))
