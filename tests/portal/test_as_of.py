"""As of a past date: pages, files, API and the pack of a review say the same; a rename or a move rewrites nothing."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from fractions import Fraction

import pytest

from budgets.models import BudgetNode, LedgerEntry
from budgets.queries import midnight, today
from budgets.services import people, reviews, shares, tree
from scheduler.models import UsageHour
from scheduler.queries import review_figures
from tests.portal.test_audit import rows_of
from tests.portal.test_imports import HYPERLINK
from tests.portal.test_pages import text_of

OLD, NEW = "Old name", HYPERLINK
USED_HOURS = 7
"""GPU-hours that A1 used in each hour of five days."""


@pytest.fixture
def moved(calm):
    """A1 was "Old name" below A up to three days ago; since then it is called like a formula, below B. It used 7 GPUs
    all through the five days that ended as yesterday began.
    """
    node, day = calm.node["A1"], today() - timedelta(days=3)
    for verb, key, before, after in (
        ("node.renamed", "name", OLD, NEW), ("node.moved", "parent", calm.node["A"].pk, calm.node["B"].pk),
    ):  # fmt: skip
        LedgerEntry.objects.create(
            at=midnight(day), verb=verb, node_id=node.pk, node_code="A1", node_name=OLD, before={key: before},
            after={key: after}, reason="reorganised",
        )  # fmt: skip
    node.name, node.parent, node.path = NEW, calm.node["B"], [*calm.node["B"].path, node.pk]
    node.save()
    shares.set_shares(
        parent=calm.node["B"], cluster=calm.cluster, shares={calm.node["B1"]: 0, node: 5_000}, valid_from=day, by=None
    )
    first, last = midnight(today() - timedelta(days=6)), midnight(today() - timedelta(days=1))
    hours = [first + timedelta(hours=number) for number in range(int((last - first) / timedelta(hours=1)))]
    UsageHour.objects.bulk_create(
        UsageHour(
            node=each, cluster=calm.cluster, hour=hour, charged_milli_s=USED_HOURS * 3_600_000,
            demand_milli_s=USED_HOURS * 3_600_000, entitled_milli_s=3_600_000, available_milli_s=3_600_000,
        )
        for hour in hours
        for each in (node, calm.node["LAB"])
    )  # fmt: skip
    calm.hours = len(hours)
    return calm


def test_four_outputs_agree_to_the_gpu_hour(moved, as_person):
    """The page, the CSV, the API and the pack of a review, across the rename and the move."""
    client = as_person(moved.max)
    wanted = USED_HOURS * moved.hours
    page = client.get("/budget/A1/?cluster=north&window=7d").content.decode()
    on_page = re.search(r">Delivered<.*?</dt><dd>([\d,]+)<", page)
    assert on_page is not None
    assert int(on_page[1].replace(",", "")) == wanted
    since = today() - timedelta(days=8)
    in_csv = [
        row for row in rows_of(client.get(f"/files/usage/?node=B&cluster=north&since={since}")) if row["node"] == "A1"
    ]
    assert sum(Fraction(row["delivered"]) for row in in_csv) == wanted
    in_api = client.get("/api/v1/budget/A1/usage/?cluster=north&days=7").json()
    assert in_api["total"]["within_milli_s"] + in_api["total"]["borrowed_milli_s"] == wanted * 3_600_000
    review = reviews.plan(
        node=moved.node["B"], title="Quarter", period_from=today() - timedelta(days=6), period_until=today(),
        meets_at=moved.now, applies_from=today(), by=moved.max,
    )  # fmt: skip
    reviews.open_review(review=review, by=moved.max, figures_of=review_figures.of_lines)
    answer = client.get(f"/reviews/{review.pk}/pack.csv")
    in_pack = [row for row in rows_of(answer) if row["node"] == "A1"]
    assert sum(Fraction(row["delivered_hours"]) for row in in_pack) == wanted


def test_each_day_has_the_name_and_the_parent_of_its_end(moved, as_person):
    client = as_person(moved.nil)
    since = today() - timedelta(days=6)
    rows = [
        row for row in rows_of(client.get(f"/files/usage/?node=B&cluster=north&since={since}")) if row["node"] == "A1"
    ]
    found = {row["day"]: (row["name"], row["parent"]) for row in rows}
    assert found == {
        (today() - timedelta(days=ago)).isoformat(): (OLD, "A") if ago > 3 else (NEW, "B") for ago in range(6, 1, -1)
    }


def test_pages_and_api_as_of_before_the_rename_and_the_move(moved, as_person):
    client, before = as_person(moved.nil), today() - timedelta(days=4)
    said = text_of(client.get(f"/budget/A1/?cluster=north&as_of={before}"))
    assert f"A1 {OLD}" in said
    assert "HYPERLINK" not in said
    assert "A Team A" in said
    assert "Entitled to 42.00" in said  # 70 % of 60 %
    now = text_of(client.get("/budget/A1/?cluster=north"))
    assert ("HYPERLINK" in now, OLD in now, "B Team B" in now) == (True, False, True)
    tree_then = text_of(client.get(f"/tree/north/?as_of={before}&open=A~LAB"))
    assert (OLD in tree_then, "HYPERLINK" in tree_then) == (True, False)
    api = {row["code"]: row for row in client.get(f"/api/v1/clusters/north/tree/?as_of={before}").json()}
    assert (api["A1"]["name"], api["A1"]["parent"]) == (OLD, "A")
    ledger = text_of(as_person(moved.max).get(f"/audit/?node=A1&as_of={before}"))
    assert "reorganised" not in ledger


def test_a_past_page_changes_nothing_and_keeps_its_date_in_its_links(moved, as_person):
    before = today() - timedelta(days=4)
    page = as_person(moved.max).get(f"/budget/A/?cluster=north&as_of={before}").content.decode()
    assert f'href="/budget/A1/?cluster=north&amp;window=7d&amp;as_of={before}"' in page
    assert "/budget/A/reallocate/" not in page
    assert "Ask for more" not in page


@pytest.mark.parametrize(
    ("as_of", "status"), [("soon", 400), ("2026-02-30", 400), ("9999-12-31", 400), ("2001-01-01", 404)]
)
def test_dates_that_there_are_not(calm, as_person, as_of, status):
    assert as_person(calm.max).get(f"/budget/A1/?cluster=north&as_of={as_of}").status_code == status


def test_a_project_and_its_pi_with_a_history_are_closed_never_deleted(calm, as_person):
    """Neither a project with a past can be deleted, nor the account of who decided: they are closed, and readable."""
    node = calm.node["A1"]
    for thing in (node, calm.mia):
        with pytest.raises(Exception, match=r"protected foreign keys|append-only|restrict"):
            thing.delete()
    tree.close(node=node, by=calm.mia, reason="ended")
    boss = calm.person("adm", "LAB", "administrator")
    people.disable(person=calm.mia, by=boss, reason="left")
    people.erase_name(person=calm.mia, by=boss, reason="asked for it")
    assert BudgetNode.objects.get(code="A1").is_closed
    said = text_of(as_person(calm.max).get("/audit/?node=A1&what=node.closed"))
    assert f"person {calm.mia.pk}" in said
    assert "Mia" not in said
    assert "closed" in text_of(as_person(calm.max).get("/budget/A1/?cluster=north"))
    yesterday = today() - timedelta(days=1)
    assert " closed " not in text_of(as_person(calm.max).get(f"/budget/A1/?cluster=north&as_of={yesterday}"))[:600]


def test_usage_of_a_node_is_a_file_of_numbers(moved, as_person):
    answer = as_person(moved.nil).get("/files/usage/?node=A1&cluster=north")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")
    header, first, *_ = list(csv.reader(io.StringIO(text, newline="")))
    assert header[:6] == ["day", "node", "name", "parent", "cluster", "in"]
    assert header[6:9] == ["entitled", "delivered", "delivered within"]
    assert first[5:9] == ["GPU-hours", "24", "168", "24"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("node=Z&cluster=north", 404), ("cluster=moon", 404), ("cluster=north&since=x", 400),
        ("cluster=north&since=2026-07-01&until=2026-07-01", 400), ("cluster=north&since=2020-01-01", 400),
    ],
)  # fmt: skip
def test_what_a_url_of_a_file_cannot_mean(calm, as_person, query, status):
    assert as_person(calm.nil).get(f"/files/usage/?{query}").status_code == status
