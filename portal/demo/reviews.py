"""The demo's budget reviews: one that was held and closed with the demo's making, and one that is planned."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from django.utils import timezone

from budgets import queries
from budgets.models import Person, Review, Role
from budgets.services import requests, review_closing, reviews
from portal.demo.organisation import Laboratory
from scheduler.queries import review_figures

LOOKS_BACK = timedelta(weeks=4)
MEETS_IN = timedelta(days=6)
HELD_TITLE = "Language, review of the autumn"
ASKED_BASIS_POINTS = 500
"""What A3 asks of A."""
MOVED_BASIS_POINTS = 300
"""What it gets, and A1 gives."""


def hold(lab: Laboratory, now: datetime) -> None:
    """Program A has met, and gives to A3 what A1 left; the laboratory meets next week, with program B's request.

    What was decided counts from the next Monday on, so that the pages show a change that is still to come.
    """
    _held(lab, now)
    _planned(lab, now)


def _held(lab: Laboratory, now: datetime) -> Review:
    day = queries.day_of(now)
    monday = day + timedelta(days=7 - day.weekday())
    pi, chief = _manager(lab, "A"), _manager(lab, "LAB")
    request = requests.draft(
        node=lab.nodes["A3"],
        cluster=lab.clusters["north"],
        more_basis_points=ASKED_BASIS_POINTS,
        starts_on=monday,
        why="The winter release has to pass the long evaluations twice before it goes out: 40 runs of 16 GPUs.",
        otherwise="They run one after the other, and the release waits until the end of January.",
        by=_manager(lab, "A3"),
    )
    requests.submit(request=request, by=request.author)
    review = reviews.plan(
        node=lab.nodes["A"],
        title=HELD_TITLE,
        period_from=day - LOOKS_BACK,
        period_until=day,
        meets_at=now,
        applies_from=monday,
        by=pi,
    )
    review = reviews.open_review(review=review, by=pi, figures_of=review_figures.of_lines, now=now)
    reviews.take_up(review=review, node=lab.nodes["A1"], cluster=lab.clusters["north"], by=pi)
    asks = review.items.get(request=request)
    gives = review.items.get(node=lab.nodes["A1"], cluster=lab.clusters["north"])
    reviews.mark(
        item=asks,
        pencil=asks.now + MOVED_BASIS_POINTS,
        reason="The release is what the program is measured by. The second pass can use what others leave at night.",
        not_funded="2.00 % of the 5.00 %: the second pass of the long evaluations.",
        look_again_on=monday + LOOKS_BACK,
        by=pi,
    )
    reviews.mark(
        item=gives,
        pencil=gives.now - MOVED_BASIS_POINTS,
        reason="Its large run of the autumn is over; the next one starts in February.",
        by=pi,
    )
    text = "A1 should keep a reserve for restarts of the large run; this takes all of it."
    reviews.speak(item=gives, kind="dissents", text=text, by=chief)
    done = review_closing.close_and_apply(
        review=review, by=pi, applies_from=monday, reason="Evaluation comes first until the release is out."
    )
    return done.review


def _planned(lab: Laboratory, now: datetime) -> Review:
    day = queries.day_of(now)
    meets_on = day + MEETS_IN
    request = requests.draft(
        node=lab.nodes["B"],
        cluster=lab.clusters["north"],
        more_basis_points=250,
        starts_on=meets_on + timedelta(days=1),
        ends_on=meets_on + timedelta(days=92),
        useless_on=meets_on + timedelta(days=45),
        why="The robots come back from the field with 900 hours of video; training on it has to begin this quarter.",
        otherwise="We train on a third of it, and the grant's midterm report says so.",
        by=_manager(lab, "B"),
    )
    requests.submit(request=request, by=request.author)
    return reviews.plan(
        node=lab.nodes["LAB"],
        title="Laboratory, winter review",
        period_from=day - LOOKS_BACK,
        period_until=meets_on,
        meets_at=timezone.make_aware(datetime.combine(meets_on, time(10)), timezone.get_default_timezone()),
        applies_from=meets_on + timedelta(days=1),
        by=_manager(lab, "LAB"),
    )


def _manager(lab: Laboratory, code: str) -> Person:
    """Who has managed the node for longest."""
    return lab.nodes[code].grants.filter(role=Role.MANAGER).earliest("pk").person
