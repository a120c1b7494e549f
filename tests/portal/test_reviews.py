"""Reviews on the pages: planning, the meeting that others follow, closing once, and a pack whose outputs agree."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pypdf import PdfReader

from budgets.models import BudgetNode, Person, Reallocation, Request, Review, Role, Share
from budgets.queries import in_force, midnight, today
from budgets.services import requests, review_closing, review_snapshots, reviews
from portal import formats, printing
from portal.pack import AMOUNTS, Facts
from portal.views.reviews import next_for
from scheduler.queries import review_figures, usage
from scheduler.services.usage import rebuild
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden, text_of

A_MINUTE = 16_000 * 60
"""What all devices give in a minute: a run that goes on is counted to the second, the books when they were made."""
TITLE = '=HYPERLINK("evil"), winter'


def planned(lab: Laboratory) -> Review:
    """A review of A by Mia: A1 asks for 3 % more, and has used little. It looks at two days."""
    request = requests.draft(
        node=lab.node["A1"], cluster=lab.cluster, more_basis_points=300, starts_on=today(),
        why="the <b>spring</b> runs", otherwise="they wait", by=lab.ada,
    )  # fmt: skip
    requests.submit(request=request, by=lab.ada)
    return reviews.plan(
        node=lab.node["A"], title=TITLE, period_from=today() - timedelta(days=2),
        period_until=today() + timedelta(days=1), meets_at=midnight(today()), applies_from=today(), by=lab.mia,
    )  # fmt: skip


def opened(lab: Laboratory, now: datetime | None = None) -> Review:
    """The same, open."""
    return reviews.open_review(review=planned(lab), by=lab.mia, figures_of=review_figures.of_lines, now=now)


def said(answer: Any) -> str:
    """What a page says, whatever its status."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def body(answer: Any) -> str:
    """A download's text."""
    return b"".join(answer.streaming_content).decode("utf-8-sig")


def form_at(client: Client, page: str, to: str, **fields: str) -> dict[str, str]:
    """What the form that goes to an address holds, with changes."""
    html = client.get(page).content.decode()
    [part] = re.findall(rf'<form method="post" action="{re.escape(to)}".*?</form>', html, re.DOTALL)
    known = dict(re.findall(r'<input type="hidden" name="(action|version)" value="([^"]*)"', part))
    return {**known, **fields}


# --- planning -----------------------------------------------------------------------------------------------------


def test_a_manager_plans_and_opens_and_others_do_not(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    assert as_person(calm.ada).get("/reviews/new/").status_code == 403
    client = as_person(calm.mia)
    form = {
        "action": hidden(client.get("/reviews/new/?node=A"), "action"), "node": "A", "title": "Winter",
        "period_from": str(today() - timedelta(days=28)), "period_until": str(today()), "meets_at": f"{today()}T10:00",
        "applies_from": str(today()), "hands_back_below_percent": "10", "hands_back_percent": "25",
    }  # fmt: skip
    unknown = client.post("/reviews/new/", {**form, "state": "closed"})
    assert (unknown.status_code, "no field &#x27;state&#x27;" in unknown.content.decode()) == (400, True)
    for _ in range(2):  # the second time is the back button
        assert client.post("/reviews/new/", form).status_code == 302
    review = Review.objects.get()
    page = f"/reviews/{review.pk}/"
    assert "Agenda as it would be now" in text_of(client.get(page))
    for person in (calm.ada, calm.ben, calm.nil):
        assert as_person(person).get(page).status_code == 404
    assert "Freeze the figures" not in text_of(as_person(calm.ops).get(page))
    form = form_at(client, page, f"{page}open/")
    assert as_person(calm.ops).post(f"{page}open/", form).status_code == 403
    assert client.post(f"{page}open/", form).headers["Location"] == f"{page}meeting/"
    review.refresh_from_db()
    assert review.state == Review.State.OPEN
    assert client.post(f"{page}open/", {**form, "action": "0" * 32}).status_code == 409


# --- the meeting --------------------------------------------------------------------------------------------------


def test_others_follow_the_presenter(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    review = opened(calm)
    meeting, step = f"/reviews/{review.pk}/meeting/", f"/reviews/{review.pk}/step/"
    reviewer = calm.person("rev", "LAB", Role.REVIEWER)
    presenter, follower = as_person(reviewer), as_person(calm.ops)
    first = follower.get(meeting)
    assert "Next" not in text_of(first)
    seen = re.search(r'"seen": "([^"]+)"', first.content.decode())[1]  # type: ignore[index]
    htmx = {"HX-Request": "true"}
    assert follower.get(meeting, {"seen": seen}, headers=htmx).status_code == 204
    assert follower.post(step, {"to": "next"}).status_code == 403
    assert presenter.post(step, {"to": "next"}).status_code == 302
    part = follower.get(meeting, {"seen": seen}, headers=htmx)
    assert part.content.decode().lstrip().startswith('<div id="live"')
    assert "Asks for 3.00 % more of A" in text_of(part)
    assert "the &lt;b&gt;spring" in part.content.decode()
    presenter.post(step, {"to": "agenda"})
    for to, line in (("next", 1), ("next", 1), ("previous", 0), ("previous", 0), ("1", 1), ("7", 1), ("up", 1)):
        presenter.post(step, {"to": to})
        review.refresh_from_db()
        assert (to, review.line) == (to, line)
    reviews.cancel(review=review, by=calm.mia, reason="no quorum")
    ended = follower.get(meeting, {"seen": seen}, headers=htmx)
    assert ended.headers["HX-Redirect"] == f"/reviews/{review.pk}/"


def test_a_poll_that_finds_nothing_new_reads_no_snapshot(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    review = opened(calm)
    client = as_person(calm.ops)
    mark = f"open.0.{review.version}"
    with CaptureQueriesContext(connection) as queries:
        client.get(f"/reviews/{review.pk}/meeting/", {"seen": mark}, headers={"HX-Request": "true"})
    assert not [query for query in queries.captured_queries if '"snapshot"' in query["sql"]]
    assert len(queries) <= 5


def test_marks_are_pencil_until_closed_and_closing_is_once(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    review = opened(calm)
    at = f"/reviews/{review.pk}/"
    mia, reviewer = as_person(calm.mia), as_person(calm.person("rev", "LAB", Role.REVIEWER))
    item, mark = f"{at}items/1/", f"{at}items/1/mark/"
    assert "Mark in pencil" not in text_of(reviewer.get(item))
    form = form_at(mia, item, mark, pencil="73,00", reason="for the spring", not_funded="", look_again_on="")
    assert reviewer.post(mark, form).status_code == 403
    for wrong in ({"pencil": "173"}, {"pencil": "7.001"}, {"pencil": "many"}, {"status": "approved"}):
        assert mia.post(mark, {**form, **wrong}).status_code == 400
    old = form_at(mia, item, mark, pencil="99", reason="", not_funded="", look_again_on="")
    assert mia.post(mark, form).status_code == 302
    stale = mia.post(mark, old)
    assert (stale.status_code, "marked meanwhile" in said(stale)) == (409, True)
    assert Share.objects.filter(in_force(today()), node=calm.node["A1"]).get().basis_points == 7_000

    # A1 73 %, A2 25 %: fits. A2 goes up to 28 %, and it does not any more.
    take = form_at(mia, at, f"{at}take_up/", node="A2", cluster="north")
    assert mia.post(f"{at}take_up/", take).status_code == 302
    second = {"pencil": "28", "reason": "why not", "not_funded": "", "look_again_on": ""}
    assert (
        mia.post(f"{at}items/2/mark/", form_at(mia, f"{at}items/2/", f"{at}items/2/mark/", **second)).status_code == 302
    )
    assert "north is 1.00 % over" in text_of(mia.get(at))
    close = {"applies_from": str(today()), "reason": "as discussed"}
    over = mia.post(f"{at}close/", form_at(mia, at, f"{at}close/", **close))
    assert (over.status_code, "1.00 % too much" in said(over)) == (400, True)
    fits = {**second, "pencil": "27"}
    mia.post(f"{at}items/2/mark/", form_at(mia, f"{at}items/2/", f"{at}items/2/mark/", **fits))

    other_tab = form_at(as_person(calm.max), at, f"{at}close/", **close)
    form = form_at(mia, at, f"{at}close/", **close)
    assert reviewer.post(f"{at}close/", form).status_code == 403
    assert mia.post(f"{at}close/", form).status_code == 302
    again = mia.post(f"{at}close/", form, follow=True)
    assert "had been sent already" in text_of(again)
    late = as_person(calm.max).post(f"{at}close/", other_tab)
    assert (late.status_code, "was closed on" in said(late)) == (409, True)
    decided = Reallocation.objects.get()
    assert (decided.review, decided.state, Request.objects.get().state) == (review, "applied", "applied")
    shares = Share.objects.filter(in_force(today()), parent=calm.node["A"])
    assert dict(shares.values_list("node__code", "basis_points")) == {"A1": 7_300, "A2": 2_700}
    assert "What was decided" in text_of(mia.get(at))


def test_whoever_has_a_part_sees_that_they_abstain(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    both = calm.person("both", "A", Role.MANAGER)
    both.grants.create(node=calm.node["A1"], role=Role.MEMBER, valid_from=today() - timedelta(days=3))
    review = opened(calm)
    item = f"/reviews/{review.pk}/items/1/"
    seen = text_of(as_person(both).get(item))
    assert "You have a part in A1, and abstain." in seen
    assert "Both abstains" in seen
    form = form_at(as_person(calm.mia), item, f"{item}mark/", pencil="73", reason="", not_funded="", look_again_on="")
    refused = as_person(both).post(f"{item}mark/", form)
    assert (refused.status_code, review.items.get().pencil) == (403, None)
    dissent = form_at(as_person(calm.mia), item, f"{item}speak/", kind="dissents", text="")
    assert as_person(calm.mia).post(f"{item}speak/", dissent).status_code == 400
    assert as_person(calm.mia).post(f"{item}speak/", {**dissent, "text": "too early"}).status_code == 302
    assert "Mia dissents : too early" in text_of(as_person(calm.mia).get(item))


def test_the_agenda_asks_as_many_queries_for_many_lines(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    review = opened(calm)
    client = as_person(calm.max)
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/reviews/{review.pk}/").status_code == 200
        counts.append(len(queries))
        reviews.take_up(review=review, node=calm.node["A2"], cluster=calm.cluster, by=calm.mia)
    assert counts[0] == counts[1]


# --- the pack -----------------------------------------------------------------------------------------------------


@pytest.fixture
def held(lab: Laboratory) -> Review:
    """A closed review over real figures: B1 holds the cluster, A1 and A2 ask for it; whatever the minute, they reach to
    the end of this hour.
    """
    hour = lab.now.replace(minute=0, second=0) + timedelta(hours=1)
    rebuild(lab.cluster, hour - timedelta(days=3), hour)
    review = opened(lab, hour)
    reviews.take_up(review=review, node=lab.node["A2"], cluster=lab.cluster, by=lab.mia)
    reviews.mark(item=review.items.get(position=1), pencil=7_200, reason="@spring", not_funded="1.00 %", by=lab.mia)
    reviews.mark(item=review.items.get(position=2), pencil=2_800, reason="the rest", by=lab.mia)
    reviews.speak(item=review.items.get(position=1), kind="dissents", text="too early", by=lab.max)
    return review_closing.close_and_apply(review=review, by=lab.mia, applies_from=today(), reason="as discussed").review


def test_the_books_balance_hour_by_hour(lab: Laboratory, held: Review) -> None:
    snapshot = Review.objects.get(pk=held.pk).snapshot
    hours = 0
    for line in snapshot["lines"]:
        sums = dict.fromkeys(review_snapshots.BOOKS, 0)
        for _, *row in line["hours"]:
            books = dict(zip(review_snapshots.BOOKS, row, strict=True))
            parts = ("within", "not_asked", "not_delivered", "in_repair")
            assert books["entitled"] == sum(books[part] for part in parts)
            assert min(row) >= 0
            sums = {name: sums[name] + books[name] for name in sums}
            hours += 1
        assert {name: line["totals"][name] for name in sums} == sums
        assert sums["entitled"] == line["totals"]["planned"] + sums["moved_in"] - sums["moved_out"]
        assert 0 <= line["totals"]["useful"] <= sums["within"] + sums["borrowed"] + A_MINUTE
    assert hours > 40
    # ... and are those of the budget's own page.
    start, end = midnight(today() - timedelta(days=2)), lab.now
    own = usage.totals([lab.node["A1"]], lab.cluster, start, end)[lab.node["A1"].pk]
    [a1] = [line["totals"] for line in snapshot["lines"] if line["code"] == "A1"]
    assert (a1["entitled"], a1["owed"], a1["borrowed"]) == (
        own.entitled_milli_s, own.owed_milli_s, own.borrowed_milli_s,
    )  # fmt: skip
    assert own.within_milli_s == a1["within"] > 0
    assert a1["useful"] > 0


def test_page_pdf_and_csv_agree_and_carry_one_id(
    lab: Laboratory, held: Review, as_person: Callable[..., Client]
) -> None:
    client, at = as_person(lab.mia), f"/reviews/{held.pk}"
    BudgetNode.objects.filter(code="A1").update(name="Renamed since")  # what is frozen keeps the name it had
    page = text_of(client.get(f"{at}/pack/"))
    answer = client.get(f"{at}/pack.pdf")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/pdf")
    printed = " ".join(sheet.extract_text() for sheet in PdfReader(io.BytesIO(answer.content)).pages)
    answer = client.get(f"{at}/pack.csv")
    assert re.fullmatch(r'attachment; filename="review-a-[a-z0-9-]+\.csv"', answer.headers["Content-Disposition"])
    table = body(answer)
    assert not [cell for line in csv.reader(io.StringIO(table)) for cell in line if cell.startswith(("=", "+", "@"))]
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["node"] for row in rows] == ["A1", "A2"]
    on_page, on_paper = numbers(page), numbers(printed)
    shown = [name for name in AMOUNTS if name != "planned"]  # the page says it as the pace
    for row in rows:
        wanted = [formats.half_up(Fraction(row[f"{name}_hours"]), 1) for name in shown]
        assert set(wanted) <= set(on_page)
        assert set(wanted) <= set(on_paper)
        for name in ("share_percent", "marked_percent"):
            assert f"{Decimal(row[name]):.2f}" in on_page
            assert f"{Decimal(row[name]):.2f}" in on_paper
    snapshot = Review.objects.get(pk=held.pk).snapshot
    assert held.snapshot_id == review_snapshots.id_of(snapshot)
    assert all(held.snapshot_id in text for text in (page, printed, *(row["snapshot"] for row in rows)))
    assert "Renamed since" not in page + printed
    assert rows[0]["dissent"] == "Max: too early"
    assert rows[0]["reason"] == "'@spring"
    assert "Max dissents: too early" in page

    hours = list(csv.DictReader(io.StringIO(body(client.get(f"{at}/hours.csv")))))
    assert {hour["snapshot"] for hour in hours} == {held.snapshot_id}
    for row in rows:
        mine = [hour for hour in hours if hour["node"] == row["node"]]
        assert len(mine) == int(row["hours"])
        for name in ("entitled", "within", "not_asked", "not_delivered", "in_repair", "borrowed"):
            total = sum(Decimal(hour[f"{name}_hours"]) for hour in mine)
            assert abs(total - Decimal(row[f"{name}_hours"])) < Decimal("0.001")


def numbers(text: str) -> list[str]:
    """All numbers in a text."""
    return re.findall(r"\d[\d,]*\.?\d*", text)


def test_what_was_never_opened_has_no_pack(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    review = planned(calm)
    for name in ("pack/", "pack.pdf", "pack.csv", "hours.csv"):
        assert as_person(calm.mia).get(f"/reviews/{review.pk}/{name}").status_code == 404


def test_without_pango_and_chromium_it_says_what_is_missing(
    calm: Laboratory, as_person: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "BROWSERS", ("no-such-browser",))
    with pytest.raises(printing.NoPrinter, match="neither Pango"):
        printing.by_browser("<p>Entitled</p>")
    monkeypatch.setattr(printing, "pdf_of", printing.by_browser)
    answer = as_person(calm.mia).get(f"/reviews/{opened(calm).pk}/pack.pdf")
    assert (answer.status_code, "print it from your browser" in said(answer)) == (503, True)


@pytest.mark.browser
def test_a_browser_prints_the_same() -> None:
    by_pango = PdfReader(io.BytesIO(printing.pdf_of("<p>Entitled 12,345.6</p>")))
    by_chromium = PdfReader(io.BytesIO(printing.by_browser("<p>Entitled 12,345.6</p>")))
    for pdf in (by_pango, by_chromium):
        assert "12,345.6" in pdf.pages[0].extract_text()


def test_printing_fetches_nothing(tmp_path: Path) -> None:
    picture = tmp_path / "dot.svg"
    picture.write_text('<svg xmlns="http://www.w3.org/2000/svg"><text>secret</text></svg>')
    html = f'<p>seen</p><img alt="" src="{picture.as_uri()}"><link rel="stylesheet" href="{picture.as_uri()}">'
    assert PdfReader(io.BytesIO(printing.pdf_of(html))).pages[0].extract_text().strip() == "seen"


def test_facts_know_every_column_of_the_snapshot() -> None:
    columns = {*review_snapshots.BOOKS, "owed", "useful", "planned", "hours"}
    assert {field.name for field in fields(Facts)} == columns


def test_the_next_review_is_the_open_one(calm: Laboratory) -> None:
    other = planned_other(calm)
    review = opened(calm)
    for person, wanted in ((calm.mia, review), (calm.max, review), (calm.ada, None), (calm.nil, None)):
        assert next_for(Person.objects.get(pk=person.pk)) == wanted
    reviews.cancel(review=review, by=calm.mia, reason="no")
    assert next_for(Person.objects.get(pk=calm.mia.pk)) == other


def planned_other(lab: Laboratory) -> Review:
    """Another review of A, a week later."""
    return reviews.plan(
        node=lab.node["A"], title="Later", period_from=today() - timedelta(days=2), period_until=today(),
        meets_at=midnight(today() + timedelta(days=7)), applies_from=today(), by=lab.mia,
    )  # fmt: skip
