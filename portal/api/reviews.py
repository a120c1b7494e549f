"""Budget reviews over the API: planned, opened, marked in pencil, spoken to, closed and applied."""

from __future__ import annotations

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import Review, ReviewItem
from budgets.services import review_closing, review_totals, reviews
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.given import Versioned, cluster_given, node_given, versioned
from portal.api.reviews_out import (
    CancelIn,
    ClosedOut,
    CloseIn,
    MarkIn,
    ReviewDetailOut,
    ReviewIn,
    ReviewItemOut,
    ReviewOut,
    ShowIn,
    SpeakIn,
    TakeUpIn,
    closed_out,
    detail_out,
    item_out,
    review_out,
)
from portal.api.scopes import DECIDE
from portal.views.meeting import item_at
from portal.views.reviews import opened, review_numbered, visible
from scheduler.queries import review_figures


class LatestMeetingFirst(Pages):
    """The latest meeting first."""

    ordering = ("-meets_at", "-pk")


class Reviews(Api):
    """Reviews: those that one may see, and planning another."""

    scopes = {"POST": DECIDE}
    filters = (
        filters.one_of("state", "in this state", Review.State.values),
        filters.text("node", "of this budget node, or of one below it", at_most=16),
    )
    out = ReviewOut
    pagination_class = LatestMeetingFirst

    @extend_schema(responses=ReviewOut(many=True))
    def get(self, request: Request) -> Response:
        """The latest meeting first."""
        rows, asked = visible(self.person()), self.asked()
        if asked["state"]:
            rows = rows.filter(state=asked["state"])
        if asked["node"] is not None:
            rows = rows.filter(node__path__contains=[node_given(asked["node"]).pk])
        return self.page(rows, lambda shown: map(review_out, shown))

    @extend_schema(request=ReviewIn, responses={201: ReviewDetailOut})
    def post(self, request: Request) -> Response:
        """Call a meeting; its people are told."""
        said = self.read(ReviewIn(data=request.data))
        made = reviews.plan(node=node_given(said.pop("node")), by=self.person(), **said)
        return shown_review(made, 201)


def shown_review(row: Review, status: int = 200) -> Response:
    """The review as it is now; a new one says where it is."""
    now = Review.objects.defer("snapshot").select_related("node", "opened_by", "closed_by").get(pk=row.pk)
    standing = review_totals.standing(now) if now.state == Review.State.OPEN else []
    headers = {"Location": reverse("api-review", args=[row.pk])} if status == 201 else {}
    return versioned(detail_out(now, _with_all(now.items.all()), standing), now.version, status=status, headers=headers)


def _with_all(rows: QuerySet[ReviewItem]) -> list[ReviewItem]:
    """The items with what is given of them."""
    found = rows.select_related("node", "cluster", "marked_by").prefetch_related("voices__person")
    return list(found.order_by("position"))


class OneReview(Api):
    """What the views of one review share."""

    out: type[serializers.Serializer] | None = ReviewDetailOut

    def row(self, number: int) -> Review:
        """The review, if the person may see it; else it is not there."""
        return review_numbered(self.person(), number)

    def item(self, number: int, position: int) -> ReviewItem:
        """The item at that place of its agenda."""
        return item_at(self.row(number), position)


class ReviewDetail(OneReview):
    """One review."""

    @extend_schema(responses=ReviewDetailOut)
    def get(self, request: Request, number: int) -> Response:
        """With its agenda, and the running totals while it is open."""
        return shown_review(self.row(number))


class Open(OneReview):
    """Opening a review."""

    scopes = {"POST": DECIDE}
    matches = ("POST",)

    @extend_schema(request=Versioned, responses=ReviewDetailOut)
    def post(self, request: Request, number: int) -> Response:
        """Begin the meeting: its figures are frozen, and its agenda is made."""
        row, said = self.row(number), self.read(Versioned(data=request.data))
        version = self.version_said(said, needed=False)
        reviews.open_review(review=row, by=self.person(), figures_of=review_figures.of_lines, version=version)
        return shown_review(row)


class Cancel(OneReview):
    """Calling a review off."""

    scopes = {"POST": DECIDE}
    matches = ("POST",)

    @extend_schema(request=CancelIn, responses=ReviewDetailOut)
    def post(self, request: Request, number: int) -> Response:
        """Nothing that was pencilled counts, and requests stay where they lie."""
        row, said = self.row(number), self.read(CancelIn(data=request.data))
        version = self.version_said(said, needed=False)
        reviews.cancel(review=row, by=self.person(), reason=said["reason"], version=version)
        return shown_review(row)


class TakeUp(OneReview):
    """Another line for the agenda."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=TakeUpIn, responses={201: ReviewItemOut})
    def post(self, request: Request, number: int) -> Response:
        """What takes from a line, or gives to it, has to name it. One that is there already is given as it is."""
        row, said = self.row(number), self.read(TakeUpIn(data=request.data))
        node, cluster = node_given(said["node"]), cluster_given(said["cluster"])
        item = reviews.take_up(review=row, node=node, cluster=cluster, by=self.person())
        return shown_item(item, 201)


class Show(OneReview):
    """Which item everybody sees."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=ShowIn, responses=ReviewDetailOut)
    def post(self, request: Request, number: int) -> Response:
        """Whoever follows sees it within two seconds."""
        row, said = self.row(number), self.read(ShowIn(data=request.data))
        return shown_review(reviews.show(review=row, line=said["line"], by=self.person()))


class Close(OneReview):
    """Closing and applying a review."""

    scopes = {"POST": DECIDE}
    matches = ("POST",)

    @extend_schema(request=CloseIn, responses=ClosedOut)
    def post(self, request: Request, number: int) -> Response:
        """Make the marks decisions, all of them or none."""
        row, said = self.row(number), self.read(CloseIn(data=request.data))
        done = review_closing.close_and_apply(
            review=row,
            by=self.person(),
            applies_from=said["applies_from"],
            reason=said["reason"],
            version=self.version_said(said),
        )
        return Response(closed_out(done))


def shown_item(item: ReviewItem, status: int = 200) -> Response:
    """The item as it is now, under its own version."""
    [now] = _with_all(ReviewItem.objects.filter(pk=item.pk))
    return versioned(item_out(now), now.version, status=status)


class Item(OneReview):
    """One item of the agenda."""

    out = ReviewItemOut

    @extend_schema(responses=ReviewItemOut)
    def get(self, request: Request, number: int, position: int) -> Response:
        """As it is now."""
        return shown_item(self.item(number, position))


class Mark(OneReview):
    """A mark in pencil."""

    scopes = {"POST": DECIDE}
    matches = ("POST",)

    @extend_schema(request=MarkIn, responses=ReviewItemOut)
    def post(self, request: Request, number: int, position: int) -> Response:
        """What the line's share becomes, and why; it counts once the review is closed and applied."""
        item, said = self.item(number, position), self.read(MarkIn(data=request.data))
        version = self.version_said(said)
        return shown_item(reviews.mark(item=item, by=self.person(), **{**said, "version": version}))


class Speak(OneReview):
    """A voice, for the record."""

    scopes = {"POST": DECIDE}

    @extend_schema(request=SpeakIn, responses=ReviewItemOut)
    def post(self, request: Request, number: int, position: int) -> Response:
        """Abstain or dissent, or take that back."""
        item, said = self.item(number, position), self.read(SpeakIn(data=request.data))
        reviews.speak(item=item, by=self.person(), **said)
        return shown_item(item)


class Snapshot(OneReview):
    """The figures that were frozen when a review was opened."""

    out = None

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, number: int) -> Response:
        """Every line with its hours; pages, PDF and CSV of the pack come from it. It never changes."""
        row = opened(self.person(), number)
        return self.tagged(row.snapshot, f'"{row.snapshot_id}"')
