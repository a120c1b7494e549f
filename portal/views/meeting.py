"""The meeting itself: one item on each screen; whoever presents goes on, and the others follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext
from django_htmx.http import HttpResponseClientRedirect

from budgets.authority import has_part_in, may
from budgets.models import Person, Review, ReviewItem
from budgets.services import review_totals, reviews
from portal import formats, pack
from portal.forms.reviews import MarkForm, VoiceForm
from portal.forms.strict import StrictForm
from portal.pages import Once, Page, new_action, render_page
from portal.views.reviews import review_numbered

NOTHING_NEW = 204


class Meeting(Page):
    """What the presenter shows. The part asks again every two seconds, and answers "nothing new" while it is so."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The screen of now."""
        person: Person = request.user  # type: ignore[assignment]
        htmx = request.htmx  # type: ignore[attr-defined]
        seen = request.GET.get("seen", "")
        if seen and htmx:
            row = Review.objects.defer("snapshot").select_related("node").filter(pk=number).first()
            if row is not None and may(person, "review.see", row) and seen == mark_of(row):
                return HttpResponse(status=NOTHING_NEW)
        row = review_numbered(person, number)
        if row.state != Review.State.OPEN:
            address = reverse("review", args=[row.pk])
            return HttpResponseClientRedirect(address) if htmx else HttpResponseRedirect(address)
        return screen(request, row, row.line, {}, follows=True)


class Item(Once):
    """One item, for whoever looks at another than the presenter shows; marking it and speaking to it come here."""

    verbs = ("mark", "speak")

    def get(self, request: HttpRequest, number: int, position: int) -> HttpResponse:
        """Its screen."""
        row = review_numbered(request.user, number)  # type: ignore[arg-type]
        item_at(row, position)
        return screen(request, row, position, {}, follows=False)

    def post(self, request: HttpRequest, number: int, position: int, verb: str) -> HttpResponse:
        """Mark or speak, once, and go back to the meeting."""
        person: Person = request.user  # type: ignore[assignment]
        row = review_numbered(person, number)
        item = item_at(row, position)
        follows = row.line == position
        led_to = reverse("meeting", args=[number]) if follows else reverse("review_item", args=[number, position])
        forms = forms_of(item, person, request)
        if verb not in forms:
            raise Http404(gettext("An item can't be told to {verb!r}.").format(verb=verb))
        service: Callable[..., Any] = reviews.mark if verb == "mark" else reviews.speak
        answer, status = self.once(
            request,
            forms[verb],
            led_to,
            "",
            lambda said: service(item=item, by=person, **{name: said[name] for name in said if name != "action"}),
        )
        if answer is not None:
            return answer
        row = review_numbered(person, number)
        return screen(request, row, position, {verb: forms[verb]}, follows=False, status=status)


def item_at(row: Review, position: int) -> ReviewItem:
    """The item at that place of the agenda.

    Raises:
        Http404: there is none.
    """
    item = row.items.select_related("node", "cluster", "request").filter(position=position).first()
    if item is None:
        raise Http404(gettext("{title} has no item {position}.").format(title=row.title, position=position))
    item.review = row
    return item


def mark_of(row: Review) -> str:
    """What stands for all that a screen shows: it changes when the presenter goes on or something is marked or said."""
    return f"{row.state}.{row.line}.{row.version}"


def screen(
    request: HttpRequest,
    row: Review,
    position: int,
    failed: dict[str, StrictForm],
    *,
    follows: bool,
    status: int = 200,
) -> HttpResponse:
    """The screen of an item (or of the agenda, 0); `follows` is whether it is what the presenter shows."""
    person: Person = request.user  # type: ignore[assignment]
    whole = pack.pack_of(row)
    line = whole.at(position)
    standing = review_totals.standing(row) if row.state == Review.State.OPEN else []
    context: dict[str, Any] = {
        "here": "reviews",
        "row": row,
        "pack": whole,
        "line": line,
        "position": position,
        "count": len(whole.agenda),
        "follows": follows,
        "seen": mark_of(row),
        "standing": standing,
        "over": [each for each in standing if each.over],
        "may_present": row.state == Review.State.OPEN and may(person, "review.present", row),
        "may_mark": False,
    }
    if line is not None and line.item is not None:
        item = line.item
        item.review = row
        is_open = row.state == Review.State.OPEN
        context["item"] = item
        context["total"] = next((each for each in standing if each.cluster.pk == item.cluster_id), None)
        context["has_part"] = has_part_in(person, item.node)
        context["may_mark"] = is_open and may(person, "review.decide", row) and not context["has_part"]
        context["live"] = next(
            (place.now for each in standing for place in each.places if place.item and place.item.pk == item.pk),
            item.now,
        )
        context["forms"] = {**forms_of(item, person), **failed}
        context["failed"] = next(iter(failed), "")
    return render_page(request, "meeting", context, part="_live", status=status)


def forms_of(item: ReviewItem, person: Person, request: HttpRequest | None = None) -> dict[str, StrictForm]:
    """What one may write on an item, bound where this is a post. An unmarked item offers what is proposed."""
    data = request.POST if request is not None else None
    voice = next((each for each in item.voices.all() if each.person_id == person.pk), None)
    is_fresh = item.pencil is None and item.marked_by_id is None
    pencil = item.proposed if is_fresh else item.pencil
    return {
        "mark": MarkForm(
            data,
            initial={
                "action": new_action(),
                "version": item.version,
                "pencil": "" if pencil is None else formats.share(pencil),
                "reason": item.reason,
                "not_funded": item.not_funded,
                "look_again_on": item.look_again_on,
            },
        ),
        "speak": VoiceForm(
            data,
            initial={
                "action": new_action(), "kind": voice.kind if voice else "", "text": voice.text if voice else "",
            },
        ),
    }  # fmt: skip
