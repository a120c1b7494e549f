"""The price of spreading: on the form before it is asked for, in the API's answer, and on the page while it waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import translation

from budgets import sentences
from portal import formats, spread_words
from scheduler.models import Node
from scheduler.queries.forecast import Foretold
from scheduler.queries.spreading import Look, Spreading
from scheduler.sentences import LOCALITY
from scheduler.services import policies
from tests.portal.conftest import Laboratory
from tests.portal.test_api import send

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DEAR = Spreading(2, 2, 8, 0.4366 / 0.2856, 11_400)


def words(answer: Any) -> str:
    """A page without its marks."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))  # hard blanks are plain then


def said(told: Spreading, foretold: Foretold | None = None) -> list[str]:
    found = spread_words.said_of(told, NOW, foretold)
    return [] if found is None else [re.sub(r"\s", " ", each) for each in found.sentences]


def test_the_price_is_said_before_it_is_paid_with_the_wait_that_is_worth_it() -> None:
    assert said(DEAR) == [
        "On 8 servers in place of 2 the same work takes 1.53 times the GPU-hours.",
        "Waiting up to 3 h 10 min for the fewest would still finish earlier.",
    ]
    assert said(Spreading(2, 1, 2, 1.0, 0)) == ["On 2 servers in place of 1 the same work takes as many GPU-hours."]
    assert said(Spreading(1, 2, 2, 1.0, None)) == []


@pytest.mark.parametrize(
    ("hours", "advice"),
    [
        (3, "It is likely to wait for 3 h more: that is better than being spread."),
        (4, "It is likely to wait for 4 h more: being spread finishes earlier."),
    ],
)
def test_relaxing_is_advised_only_where_the_wait_is_longer_than_it_is_worth(hours: int, advice: str) -> None:
    assert said(DEAR, Foretold(middle_at=NOW + timedelta(hours=hours)))[-1] == advice


def test_after_a_start_it_says_what_it_costs() -> None:
    held = Spreading(2, 2, 8, 0.4366 / 0.2856, 11_400, is_held=True)
    assert said(held) == ["It is spread over 8 servers, where 2 would do: 1.53 times the GPU-hours."]


@pytest.mark.parametrize(
    ("look", "sentence"),
    [
        (Look(0, 2, NOW + timedelta(minutes=32), 1, 2), "It asks for 2 nodes of one rack until {}, then of any rack."),
        (Look(0, 2, NOW + timedelta(minutes=32), 2, 4), "It asks for 2 nodes of one rack until {}, then for up to 4."),
        (Look(0, 2, None, None, None), "It asks for 2 nodes of one rack, and for no others."),
        (Look(1, 2, NOW + timedelta(minutes=32), 2, 4), "It asks for 2 nodes until {}, then for up to 4."),
        (
            Look(2, 4, NOW + timedelta(minutes=32), 3, 16),
            "It may be spread over up to 4 nodes until {}, then over up to 16.",
        ),
        (Look(3, 16, None, None, None), "It may be spread over up to 16 nodes."),
    ],
)
def test_how_far_it_looks_and_until_when(look: Look, sentence: str) -> None:
    at = "" if look.relaxes_at is None else re.sub(r"\s", " ", formats.near_instant(look.relaxes_at, NOW))
    assert said(Spreading(1, 2, 2, 1.0, None, look)) == [sentence.format(at)]


@pytest.mark.parametrize("pattern", LOCALITY)
def test_what_is_added_to_reasons_has_spanish_behind_whatever_it_stands(pattern: str) -> None:
    added = pattern.format(number=2, number_2=4)
    before = "Started with 16 GPUs on h1, h2, charged to its project."
    with translation.override("es"):
        assert sentences.said(f"{before} {added}") == f"{sentences.said(before)} {sentences.said(added)}"
        assert sentences.said(added) != added
    assert sentences.said(f"{before} {added}") == f"{before} {added}"


@pytest.fixture
def laboratory(transactional_db: None) -> Laboratory:
    """Two nodes in one rack, and nothing submitted yet."""
    return Laboratory()


def test_from_the_form_to_the_page(laboratory: Laboratory, as_person: Callable) -> None:
    policies.change(cluster=laboratory.cluster, knobs={"locality_waits_s": [60, 120, 180]})
    client = as_person(laboratory.ada)
    typed = {"cluster": "north", "size": "16", "locality": "3", "time_limit": "6 h", "name": ""}
    alone = words(client.get(reverse("spreading"), typed))
    assert "servers in place of" not in alone, "there are but two nodes"
    Node.objects.bulk_create(Node(cluster=laboratory.cluster, name=f"d{each}", health="down") for each in range(14))
    assert "takes 1.53 times the GPU-hours" in words(client.get(reverse("spreading"), typed))
    assert "Waiting up to 3 h 10 min" in words(client.get(reverse("spreading"), typed))
    for nothing in (typed | {"locality": "1"}, typed | {"size": "x"}, {}):
        assert words(client.get(reverse("spreading"), nothing, headers={"HX-Request": "true"})).strip() == ""
    by_hand = client.get(reverse("spreading"), typed | {"size": "x"})
    assert (by_hand.status_code, "is not a number such as 8" in words(by_hand)) == (400, True)
    form = words(client.get(reverse("submit")))
    assert "Up to twice the nodes" in form
    laboratory.submit("B1", 15)
    laboratory.step()
    asks = {"cluster": "north", "leaf": "A1", "size_milli": 16_000, "min_runtime_s": 3_600, "command": ["train"]}
    (row,) = send(client, "/api/v1/workloads/", asks | {"locality": 3, "time_limit_s": 21_600}).json()
    assert row["locality"] == 3
    assert row["spreading"]["price"] == 1.529
    assert row["spreading"]["worth_waiting_s"] == 11_420
    assert row["spreading"]["sentences"][0].endswith("takes 1.53 times the GPU-hours.")
    laboratory.step()
    assert "takes 1.53 times the GPU-hours" in words(client.get(f"/workloads/{row['code']}/"))
    refused = send(client, "/api/v1/workloads/", asks | {"locality": 4})
    assert refused.status_code == 400
    assert "locality" in refused.content.decode()
