"""Lists that are empty, that have one row, that have a thousand, and names that are as long as they may be, without a
space, or written from right to left: each fits, at desk and at phone width, also on a page that reads from the right.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page

from budgets.models import BudgetNode, LedgerEntry, Message, Person, Request, Role, RoleGrant
from budgets.queries import today
from scheduler.models import Workload
from scheduler.services import clusters
from tests.browser.looks import SIZES, faults, shoot
from tests.portal.conftest import Laboratory

LONG = "Unteilbarerforschungsgruppenname" * 4
FROM_THE_RIGHT = (
    "\u0645\u062e\u062a\u0628\u0631 \u0627\u0644\u0631\u0624\u064a\u0629 (3) \u05de\u05e2\u05d1\u05d3\u05d4"
)
ROWS = 1_000
LISTS = (
    "/",
    "/tree/north/",
    "/queue/north/",
    "/workloads/",
    "/nodes/north/",
    "/people/",
    "/requests/",
    "/desk/",
    "/decisions/",
    "/audit/",
    "/messages/",
    "/reviews/",
    "/simulator/",
    "/delegations/",
    "/imports/",
    "/search/?find=a",
)
IN_ARABIC = "document.documentElement.dir = 'rtl'"


@pytest.fixture
def lab(transactional_db: None) -> Laboratory:
    """Nothing has happened yet."""
    return Laboratory()


def looked_at(page: Page, url: str, paths: tuple[str, ...], name: str, *, turned: bool = False) -> str:
    """What does not fit, a line each; the pages are also turned to read from the right where that is asked for."""
    found = []
    for path in paths:
        for size, viewport in SIZES.items():
            page.set_viewport_size(viewport)  # type: ignore[arg-type]
            page.goto(f"{url}{path}")
            if turned:
                page.evaluate(IN_ARABIC)
            found += [f"{path}, {size}: {each}" for each in faults(page)]
            shoot(page, f"{name}-{path}-{size}")
    return "\n".join(found)


@pytest.mark.long
def test_nothing_yet(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    assert looked_at(desk(lab.max), live_server.url, LISTS, "empty") == ""
    clusters.create(name="bare")
    paths = ("/queue/bare/", "/tree/bare/", "/nodes/bare/", "/clusters/bare/timeline/")
    assert looked_at(desk(lab.max), live_server.url, paths, "bare") == ""


@pytest.mark.long
def test_names_that_are_long_or_read_from_the_right(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    made = busy_with_names(lab)
    asked = Request.objects.earliest("pk")
    of_one = (f"/workloads/{made.code}/", f"/people/{lab.ada.pk}/", f"/requests/{asked.pk}/")
    paths = (*LISTS, "/budget/A/", "/budget/A1/", *of_one)
    found = looked_at(desk(lab.max), live_server.url, paths, "names")
    found += looked_at(desk(lab.max), live_server.url, paths, "turned", turned=True)
    assert not found, found


@pytest.mark.long
def test_a_thousand_rows(lab: Laboratory, desk: Callable[..., Page], live_server) -> None:
    many(lab)
    assert looked_at(desk(lab.max), live_server.url, LISTS, "many") == ""


def busy_with_names(lab: Laboratory) -> Workload:
    """One of each kind, with the names that are hardest to lay out."""
    BudgetNode.objects.filter(code="A").update(name=LONG[:120])
    BudgetNode.objects.filter(code="A1").update(name=FROM_THE_RIGHT)
    Person.objects.filter(pk=lab.ada.pk).update(display_name=LONG[:120])
    Person.objects.filter(pk=lab.mia.pk).update(display_name=FROM_THE_RIGHT)
    made = lab.submit("A1", 8, owner=lab.ada, name=LONG[:120])
    lab.submit("A1", 4, owner=lab.ada, name=FROM_THE_RIGHT)
    lab.submit("A2", 1, minutes=0)
    lab.step()
    asks(lab, 1, LONG[:120])
    told(lab, 2, LONG[:120])
    return made


def many(lab: Laboratory) -> None:
    """A thousand of everything that lists show."""
    people = Person.objects.bulk_create(
        Person(username=f"p{number}", display_name=f"Person {number}", password="!") for number in range(ROWS)
    )
    RoleGrant.objects.bulk_create(
        RoleGrant(person=each, node=lab.node["A1"], role=Role.MEMBER, valid_from=today()) for each in people
    )
    asks(lab, ROWS, "many")
    told(lab, ROWS, "many")
    Workload.objects.bulk_create(
        Workload(
            code=f"A1-{number + 5_000}", cluster=lab.cluster, leaf=lab.node["A1"], owner=lab.ada, size_milli=1_000,
            min_runtime_s=3_600, workload_class="standard", submitted_at=lab.now - timedelta(minutes=number),
        )
        for number in range(ROWS)
    )  # fmt: skip
    lab.step()


def asks(lab: Laboratory, count: int, words: str) -> None:
    """So many requests, with an entry in the ledger each."""
    rows = Request.objects.bulk_create(
        Request(
            node=lab.node["A1"], parent=lab.node["A"], desk=lab.node["LAB"], cluster=lab.cluster, author=lab.ada,
            more_basis_points=100, starts_on=today(), why=words, otherwise=words, state="submitted",
            submitted_at=timezone.now(), answer_by=timezone.now(),
        )
        for _ in range(count)
    )  # fmt: skip
    LedgerEntry.objects.bulk_create(
        LedgerEntry(
            verb="request.submitted", person_id=lab.ada.pk, node_id=row.node_id, node_code="A1", node_name=words[:120],
            cluster_name="north", reason=words, request_id=row.pk,
        )
        for row in rows
    )  # fmt: skip


def told(lab: Laboratory, count: int, words: str) -> None:
    """So many messages to the manager of all."""
    Message.objects.bulk_create(
        Message(key=f"{words[:9]}:{n}", person=lab.max, kind="comment", subject=words, text=words, mode="off")
        for n in range(count)
    )
