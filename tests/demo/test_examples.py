"""The numbers in the guides are those of the demo."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from django.utils import timezone

from budgets.models import BudgetNode, Cluster, Request, Review
from budgets.queries import today, tree_on
from portal.demo import examples, organisation, requests, reviews
from tests.conftest import REPOSITORY


@pytest.fixture
def lab(db: None) -> organisation.Laboratory:
    """The demo's people and budgets, as they are after its usual four weeks; nothing was ever submitted."""
    return organisation.found(Random(1), timezone.now() - timedelta(weeks=4), "for the tests")


def test_the_guides_have_the_examples_as_they_are_computed() -> None:
    for path, text in examples.guides(REPOSITORY / "docs"):
        assert path.read_text(encoding="utf-8") == text, "run manage.py documents"


def test_shares_and_entitlements_are_those_of_the_demo(lab: organisation.Laboratory) -> None:
    cluster = Cluster.objects.get(name=examples.CLUSTER)
    rows = {row.node.code: row for row in tree_on(cluster, today())}
    for path in (("A",), ("A", "A1"), ("A", "A2"), ("A", "A3"), ("A", "A1", "A1a")):
        assert examples.entitlement(*path) == rows[path[-1]].entitlement
        assert examples.NAMES[path[-1]] == rows[path[-1]].node.name
    assert examples.shares_of("LAB") == {code: rows[code].basis_points for code in organisation.PROGRAMS}


def test_requests_and_the_review_are_those_of_the_demo(lab: organisation.Laboratory) -> None:
    now = timezone.now()
    requests.ask(lab, now)
    reviews.hold(lab, now)
    mixtures = Request.objects.get(node__code="A1a")
    assert (mixtures.more_basis_points, mixtures.desk.code) == (requests.MIXTURES_MORE, "A")
    held = Review.objects.get(title=reviews.HELD_TITLE)
    marks = {item.node.code: (item.now, item.pencil) for item in held.items.select_related("node")}
    had, moved = examples.shares_of("A"), reviews.MOVED_BASIS_POINTS
    assert marks == {"A3": (had["A3"], had["A3"] + moved), "A1": (had["A1"], had["A1"] - moved)}
    assert held.state == Review.State.CLOSED
    asked = Request.objects.get(node=BudgetNode.objects.get(code="A3"))
    assert asked.more_basis_points == reviews.ASKED_BASIS_POINTS
