"""The ledger's pages and files: who sees which entries, filters, names as they were, and the tick of the books."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest

from budgets.models import LedgerEntry, Share
from budgets.queries import today
from budgets.services import balances, shares, tree
from portal.csv_files import plain
from portal.ledger_words import VERBS, Diff, share_diffs
from tests.portal.test_imports import HYPERLINK, downloaded
from tests.portal.test_pages import queries_of, text_of


def changed(calm, by=None, points=6_000, reason="spring") -> None:
    """Let A1's share change."""
    shares.set_shares(
        parent=calm.node["A"],
        cluster=calm.cluster,
        shares={calm.node["A1"]: points},
        valid_from=today(),
        by=by,
        reason=reason,
    )


def rows_of(answer) -> list[dict[str, str]]:
    """The rows of a CSV file by column, without apostrophes."""
    rows = csv.reader(io.StringIO(downloaded(answer).decode("utf-8-sig"), newline=""))
    header, *body = [[plain(cell) for cell in row] for row in rows]
    return [dict(zip(header, row, strict=True)) for row in body]


def test_an_entry_says_who_what_from_what_to_what_and_why(calm, as_person):
    changed(calm, calm.mia)
    said = text_of(as_person(calm.mia).get("/audit/?node=A1"))
    for words in ("Mia", "Share changed", "A1 Team A1, north", "70.00 → 60.00 −10.00", "“spring”"):
        assert words in said


def test_each_sees_the_ledger_of_their_own_nodes(calm, as_person):
    changed(calm, calm.mia, reason="secret of A")
    for person, sees in ((calm.ada, True), (calm.mia, True), (calm.max, True), (calm.ops, True), (calm.ben, False)):
        client = as_person(person)
        assert ("secret of A" in text_of(client.get("/audit/"))) == sees
        assert any(row["reason"] == "secret of A" for row in rows_of(client.get("/audit/csv/"))) == sees
    nil = as_person(calm.nil)
    assert "You have no role at any node" in text_of(nil.get("/audit/"))
    assert rows_of(nil.get("/audit/csv/")) == []
    for path in ("/audit/?node=A1", "/audit/csv/?node=A1", "/audit/?request=1", "/audit/csv/?request=1"):
        assert as_person(calm.ben).get(path).status_code == 404


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ("who=mia", True), ("who=Mi", True), ("who=max", False), ("what=share.changed", True),
        ("what=node.renamed", False), ("node=A", True), ("node=A2", False), ("since={today}", True),
        ("since={tomorrow}", False), ("as_of={today}", True), ("as_of={yesterday}", False),
    ],
)  # fmt: skip
def test_filters(calm, as_person, query, there):
    changed(calm, calm.mia, reason="the one")
    day = today()
    query = query.format(today=day, tomorrow=day + timedelta(days=1), yesterday=day - timedelta(days=1))
    client = as_person(calm.max)
    assert ("the one" in text_of(client.get(f"/audit/?{query}"))) == there
    assert any(row["reason"] == "the one" for row in rows_of(client.get(f"/audit/csv/?{query}"))) == there


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("what=odd", 400), ("since=soon", 400), ("as_of=2026-13-01", 400), ("request=x", 400), ("page=0", 400),
        ("who=" + "x" * 81, 400), ("who=%00", 400), ("node=Z", 404), ("request=999", 404),
    ],
)  # fmt: skip
def test_what_a_url_cannot_mean(calm, as_person, query, status):
    for path in ("/audit/", "/audit/csv/"):
        answer = as_person(calm.max).get(f"{path}?{query}")
        if path == "/audit/" or not query.startswith("page"):
            assert answer.status_code == status


def test_names_stand_as_they_were(calm, as_person):
    changed(calm, reason="before")
    tree.rename(node=calm.node["A1"], name=HYPERLINK, by=calm.mia, reason="a joke")
    changed(calm, points=5_000, reason="after")
    by_reason = {row["reason"]: row for row in rows_of(as_person(calm.max).get("/audit/csv/?node=A1"))}
    assert by_reason["before"]["node name"] == "Team A1"
    assert by_reason["after"]["node name"] == HYPERLINK
    text = downloaded(as_person(calm.max).get("/audit/csv/?node=A1")).decode("utf-8-sig")
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert [cell for cell in cells if "HYPERLINK" in cell and not cell.startswith(("'=", "{"))] == []
    said = text_of(as_person(calm.max).get("/audit/?node=A1&what=node.renamed"))
    assert "name Team A1 →" in said


def test_every_verb_of_the_services_has_words(calm):
    written = set(LedgerEntry.objects.values_list("verb", flat=True))
    assert written <= set(VERBS)


def test_the_tick_and_what_differs(calm, as_person):
    client = as_person(calm.max)
    assert "They have not been checked yet" in text_of(client.get("/audit/"))
    balances.check()
    said = text_of(client.get("/audit/"))
    assert said.count("✓ agrees") == 3
    Share.objects.filter(node=calm.node["A1"]).update(basis_points=7_100)
    balances.check()
    said = text_of(client.get("/audit/"))
    assert "1 differs" in said
    assert "A1, a share of A on north" in said
    assert "the ledger says 70.00 %, and 71.00 % is in force" in said


def test_share_diffs_name_each_day_on_which_it_is_another_one():
    def spell(points, start, until=None):
        return {"basis_points": points, "from": start, "until": until}

    before = [spell(5000, "2026-01-01")]
    after = [
        spell(5000, "2026-01-01", "2026-03-01"),
        spell(4000, "2026-03-01", "2026-04-01"),
        spell(5000, "2026-04-01"),
    ]
    assert share_diffs(before, after) == [
        Diff("from Sun\u00a01\u00a0Mar\u00a02026", "50.00", "40.00", "\u221210.00"),
        Diff("from Wed\u00a01\u00a0Apr\u00a02026", "50.00", "50.00", "0"),
    ]
    assert share_diffs(before, before) == []
    assert [(diff.before, diff.after) for diff in share_diffs([], before)] == [("0.00", "50.00")]


def test_queries_do_not_grow_with_entries(calm, as_person):
    client = as_person(calm.max)
    changed(calm, calm.mia)
    client.get("/audit/")
    few = queries_of(client, "/audit/")
    for number in range(60):
        changed(calm, calm.mia, points=6_001 + number)
    assert queries_of(client, "/audit/") == few <= 14
    assert "Page 1 of 2" in text_of(client.get("/audit/"))
