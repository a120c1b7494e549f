"""The decision log: all decisions, by whatever road, for whoever may see them; and whether they worked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from budgets.models import FollowUp, Reallocation
from budgets.queries import midnight, today
from budgets.services import delegations, reallocations, requests, review_closing, reviews, shares
from scheduler.queries import review_figures
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden, text_of
from tests.portal.test_reviews import said

LOG = "/decisions/"


def decided(lab: Laboratory, a1: int = 6_500, **more) -> Reallocation:
    """Mia gives A1 another share from today on."""
    return reallocations.apply_directly(
        parent=lab.node["A"], cluster=lab.cluster, shares={lab.node["A1"]: a1}, starts_on=today(), by=lab.mia,
        **{"reason": "the spring runs", **more},
    )  # fmt: skip


def denied(lab: Laboratory) -> None:
    """Ada asked for A1, and Mia said no."""
    asked = requests.draft(
        node=lab.node["A1"], cluster=lab.cluster, more_basis_points=300, starts_on=today(), why="w", otherwise="o",
        by=lab.ada,
    )  # fmt: skip
    requests.submit(request=asked, by=lab.ada)
    requests.deny(request=asked, by=lab.mia, reason="not before summer")


def reviewed(lab: Laboratory) -> None:
    """A review of A gave A1 half of what it asked for; Max dissented."""
    asked = requests.draft(
        node=lab.node["A1"], cluster=lab.cluster, more_basis_points=400, starts_on=today(), why="w", otherwise="o",
        by=lab.ada,
    )  # fmt: skip
    requests.submit(request=asked, by=lab.ada)
    review = reviews.plan(
        node=lab.node["A"], title="Winter", period_from=today() - timedelta(days=2), period_until=today(),
        meets_at=midnight(today()), applies_from=today(), by=lab.mia,
    )  # fmt: skip
    review = reviews.open_review(review=review, by=lab.mia, figures_of=review_figures.of_lines)
    item = review.items.get()
    reviews.mark(item=item, pencil=item.now + 200, reason="half of it", not_funded="the other half", by=lab.mia)
    reviews.speak(item=item, kind="dissents", text="give all of it", by=lab.max)
    review_closing.close_and_apply(review=review, by=lab.mia, applies_from=today(), reason="as discussed")


def test_decisions_of_every_road_stand_in_it(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    decided(calm)
    denied(calm)
    reviewed(calm)
    shares.set_shares(
        parent=calm.node["B"], cluster=calm.cluster, shares={calm.node["B1"]: 9_000}, valid_from=today(), by=calm.max,
        reason="from the planning file",
    )  # fmt: skip
    log = text_of(as_person(calm.max).get(LOG))
    for words in (
        "the spring runs", "70.00 → 65.00 −5.00",
        "not before summer",
        "answers R", "A1: half of it",
        "65.00 → 67.00 +2.00", "Max dissents (A1): give all of it", "Not funded (A1): the other half",
        "from the planning file", "100.00 → 90.00 −10.00",
    ):  # fmt: skip
        assert words in log, words

    # What was said inside is for those inside; what is in force everybody sees.
    outside = text_of(as_person(calm.ben).get(LOG))
    assert "65.00 → 67.00" in outside
    for words in ("not before summer", "dissents", "Not funded", "Winter"):
        assert words not in outside
    assert "not before summer" in text_of(as_person(calm.ada).get(LOG))


def test_b_for_a(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    stand_in = calm.person("stan")
    delegations.give(
        giver=calm.mia, delegate=stand_in, node=calm.node["A"], limit_basis_points=100, valid_from=today(),
        valid_until=today() + timedelta(days=2),
    )  # fmt: skip
    reallocations.apply_directly(
        parent=calm.node["A"], cluster=calm.cluster, shares={calm.node["A2"]: 2_600}, starts_on=today(), by=stand_in,
        acting_for=calm.mia, reason="as agreed",
    )  # fmt: skip
    assert "Stan for Mia" in text_of(as_person(calm.ben).get(LOG))


def test_filters(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    decided(calm)
    reallocations.apply_directly(
        parent=calm.node["LAB"], cluster=calm.cluster, shares={calm.node["B"]: 3_000}, starts_on=today(), by=calm.max,
        reason="of the whole",
    )  # fmt: skip
    client = as_person(calm.ben)

    def found(**filters: object) -> tuple[bool, bool]:
        log = text_of(client.get(LOG, filters))
        return "the spring runs" in log, "of the whole" in log

    assert found() == (True, True)
    assert found(node="A") == (True, False)
    assert found(node="LAB") == (True, True)
    assert found(by=calm.max.pk) == (False, True)
    assert found(**{"from": today() + timedelta(days=1)}) == (False, False)
    assert found(until=today()) == (True, True)
    assert found(until=today() - timedelta(days=1)) == (False, False)
    for bad in ({"by": "x"}, {"by": "999999"}, {"from": "yesterday"}, {"page": "0"}):
        assert client.get(LOG, bad).status_code == 400
    for missing in ({"node": "Z"}, {"page": "9"}):
        assert client.get(LOG, missing).status_code == 404


def test_entries_of_one_transaction_are_one_decision(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    before = text_of(as_person(calm.max).get(LOG))
    shares.set_shares(
        parent=calm.node["A"], cluster=calm.cluster, shares={calm.node["A1"]: 5_000, calm.node["A2"]: 4_000},
        valid_from=today(), by=calm.mia, reason="both at once",
    )  # fmt: skip
    log = text_of(as_person(calm.max).get(LOG))
    assert (before.count("both at once"), log.count("both at once")) == (0, 1)
    assert "A1 70.00 → 50.00" in log
    assert "A2 25.00 → 40.00" in log


def test_the_log_asks_as_many_queries_for_many_rows(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.max)
    counts = []
    for share in range(6_500, 6_000, -100):
        decided(calm, share)
        if share in (6_500, 6_100):
            with CaptureQueriesContext(connection) as queries:
                client.get(LOG)
            counts.append(len(queries))
    assert counts[0] == counts[1]


# --- did it work? -------------------------------------------------------------------------------------------------


@pytest.fixture
def due(calm: Laboratory) -> Reallocation:
    """A decision whose day to look again has come."""
    row = decided(calm)
    Reallocation.objects.filter(pk=row.pk).update(starts_on=today() - timedelta(days=28))
    FollowUp.objects.update(due_on=today())
    return row


def test_it_is_asked_of_the_managers_there_and_answered_once(
    calm: Laboratory, due: Reallocation, as_person: Callable[..., Client]
) -> None:
    page = f"{LOG}{due.pk}/"
    assert "Decisions of your nodes whose day to look again has come" in text_of(as_person(calm.mia).get(LOG))
    assert "look again has come" not in text_of(as_person(calm.ada).get(LOG))
    client, other = as_person(calm.mia), as_person(calm.max)
    shown = text_of(client.get(page))
    assert "Then against before" in shown
    assert "Answer, for good" in shown
    assert "Answer, for good" not in text_of(as_person(calm.ada).get(page))
    form = {"action": hidden(client.get(page), "action"), "verdict": "partly", "text": "half of it"}
    late = {**form, "action": hidden(other.get(page), "action"), "verdict": "worked"}
    assert as_person(calm.ada).post(page, form).status_code == 403
    for wrong in ({"verdict": "splendid"}, {"text": ""}, {"answered_by": "1"}):
        assert client.post(page, {**form, **wrong}).status_code == 400
    assert client.post(page, form).status_code == 302
    assert "had been sent already" in text_of(client.post(page, form, follow=True))
    refused = other.post(page, late)
    assert (refused.status_code, "answered already, by Mia: Partly" in said(refused)) == (409, True)
    assert FollowUp.objects.get().verdict == "partly"
    assert "Did it work? Partly : half of it" in text_of(as_person(calm.ben).get(LOG))


def test_what_is_no_decision_yet_is_not_there(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    draft = reallocations.draft(
        parent=calm.node["A"], cluster=calm.cluster, shares={calm.node["A1"]: 6_000}, starts_on=today(), by=calm.mia
    )
    assert as_person(calm.mia).get(f"{LOG}{draft.pk}/").status_code == 404


def test_home_asks_and_names_the_next_review(
    calm: Laboratory, due: Reallocation, as_person: Callable[..., Client]
) -> None:
    reviews.plan(
        node=calm.node["A"], title="Winter", period_from=today() - timedelta(days=2), period_until=today(),
        meets_at=midnight(today()), applies_from=today(), by=calm.mia,
    )  # fmt: skip
    home = text_of(as_person(calm.mia).get("/"))
    assert "Did it work?" in home
    assert "The next review" in home
    assert "Winter" in home
    for words in ("Did it work?", "Winter"):
        assert words not in text_of(as_person(calm.ada).get("/"))


def test_a_request_names_the_review_s_decision(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    reviewed(calm)
    [asked] = calm.ada.requests.all()
    assert f"Answered by reallocation {Reallocation.objects.get()}" in text_of(
        as_person(calm.ada).get(f"/requests/{asked.pk}/")
    )
