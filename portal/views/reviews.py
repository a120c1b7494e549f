"""Budget reviews: the list, planning one, its agenda with the running total, the meeting, and its pack."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext

from budgets.authority import INSIDE_ROLES, has_part_in, may, nodes_with, roles_of
from budgets.errors import InputError, NotAllowed
from budgets.models import BudgetNode, Cluster, Person, Review, Role
from budgets.queries import today
from budgets.services import review_closing, review_snapshots, review_totals, reviews
from portal import pack, printing
from portal.csv_files import csv_response
from portal.forms.reviews import CallOffForm, CloseForm, PlanForm, StepForm, TakeUpForm, VersionForm
from portal.forms.strict import StrictForm
from portal.pages import Once, Page, new_action, prefilled, render_page, whole_number
from scheduler.queries import review_figures

PER_PAGE = 30


def visible(person: Person) -> QuerySet[Review]:
    """The reviews that the person may see, without their snapshots. No query yet."""
    rows = Review.objects.defer("snapshot").select_related("node", "opened_by", "closed_by")
    if Role.OPERATOR in {role for _, role in roles_of(person)}:
        return rows
    return rows.filter(node__path__overlap=nodes_with(person, INSIDE_ROLES))


def next_for(person: Person) -> Review | None:
    """The review that is open, or comes next, of those the person may see: for the home page."""
    rows = visible(person).filter(state__in=[Review.State.OPEN, Review.State.PLANNED])
    return rows.order_by("state", "meets_at", "pk").first()  # "open" comes before "planned"


def review_numbered(person: Person, number: int) -> Review:
    """The review, if the person may see it.

    Raises:
        Http404: there is none for them.
    """
    row = Review.objects.select_related("node", "opened_by", "closed_by").filter(pk=number).first()
    if row is None or not may(person, "review.see", row):
        raise Http404(gettext("There is no review {number}.").format(number=number))
    return row


def plannable(person: Person) -> QuerySet[BudgetNode]:
    """The nodes with children of which the person may call a review."""
    managed = nodes_with(person, [Role.MANAGER])
    rows = BudgetNode.objects.filter(path__overlap=managed, closed_at=None, children__closed_at=None)
    return rows.filter(children__isnull=False).distinct().order_by("path")


class Reviews(Page):
    """All reviews that one may see, the latest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """A page of them."""
        person: Person = request.user  # type: ignore[assignment]
        pages = Paginator(visible(person).order_by("-meets_at", "-pk"), PER_PAGE)
        number = whole_number(request, "page", 1)
        if number > max(1, pages.num_pages):
            raise Http404(gettext("There is no such page of reviews."))
        context = {
            "here": "reviews",
            "rows": pages.page(number).object_list,
            "number": number,
            "pages": pages.num_pages,
            "count": pages.count,
            "may_plan": plannable(person).exists(),
        }
        return render_page(request, "reviews", context)


class PlanReview(Once):
    """Calling a meeting; its managers may."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form: by default the last four weeks, a week from now."""
        nodes = self.nodes(request)
        wanted = prefilled(request, "node", [node.code for node in nodes], nodes[0].code)
        day = today()
        meets = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=7)
        initial = {
            "action": new_action(),
            "node": wanted,
            "period_from": day - timedelta(weeks=4),
            "period_until": day + timedelta(days=7),
            "meets_at": meets,
            "applies_from": day + timedelta(days=8),
            "hands_back_below_percent": 10,
            "hands_back_percent": 25,
        }
        return self.show(request, PlanForm(nodes=nodes, initial=initial))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Plan it, once."""
        nodes = self.nodes(request)
        form = PlanForm(request.POST, nodes=nodes)

        def plan(said: dict[str, Any]) -> Review:
            more = {name: value for name, value in said.items() if name not in ("action", "node")}
            node = next(each for each in nodes if each.code == said["node"])
            return reviews.plan(node=node, by=request.user, **more)  # type: ignore[arg-type]

        answer, status = self.once(
            request,
            form,
            lambda row: reverse("review", args=[row.pk]),
            lambda row: gettext("{title} is planned. Its people have been told.").format(title=row.title),
            plan,
        )
        return answer or self.show(request, form, status)

    def nodes(self, request: HttpRequest) -> list[BudgetNode]:
        """Whose reviews the person may call.

        Raises:
            PermissionDenied: none.
        """
        nodes = list(plannable(request.user))  # type: ignore[arg-type]
        if not nodes:
            raise PermissionDenied(gettext("A budget review is called by the managers of a node that has children."))
        return nodes

    def show(self, request: HttpRequest, form: PlanForm, status: int = 200) -> HttpResponse:
        """The page."""
        return render_page(request, "review_plan", {"here": "reviews", "form": form}, status=status)


class ReviewPage(Once):
    """A review: what it will look at, its agenda with the running total, or what came of it; and what one does."""

    verbs = ("open", "cancel", "close", "take_up")

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page."""
        return self.show(request, review_numbered(request.user, number), {})  # type: ignore[arg-type]

    def post(self, request: HttpRequest, number: int, verb: str) -> HttpResponse:
        """Do one thing, once."""
        person: Person = request.user  # type: ignore[assignment]
        row = review_numbered(person, number)
        does = {"open": self.open, "cancel": self.cancel, "close": self.close, "take_up": self.take_up}.get(verb)
        if does is None:
            raise Http404(gettext("A review can't be told to {verb!r}.").format(verb=verb))
        form = self.forms(row, request)[verb]
        answer, status = self.once(request, form, str, "", lambda said: does(request, row, person, said))
        return answer or self.show(request, review_numbered(person, number), {verb: form}, status)

    def open(self, request: HttpRequest, row: Review, person: Person, said: dict[str, Any]) -> str:
        """Freeze the figures and begin."""
        reviews.open_review(review=row, by=person, figures_of=review_figures.of_lines, version=said["version"])
        return reverse("meeting", args=[row.pk])

    def cancel(self, request: HttpRequest, row: Review, person: Person, said: dict[str, Any]) -> str:
        """Call it off."""
        reviews.cancel(review=row, by=person, reason=said["reason"], version=said["version"])
        messages.info(request, gettext("{title} is called off. Nothing was changed.").format(title=row.title))
        return reverse("review", args=[row.pk])

    def close(self, request: HttpRequest, row: Review, person: Person, said: dict[str, Any]) -> str:
        """Make the marks count."""
        done = review_closing.close_and_apply(
            review=row, by=person, applies_from=said["applies_from"], reason=said["reason"], version=said["version"]
        )
        messages.info(request, gettext("{title} is closed. {done}").format(title=row.title, done=sentence(done)))
        return reverse("review", args=[row.pk])

    def take_up(self, request: HttpRequest, row: Review, person: Person, said: dict[str, Any]) -> str:
        """Put another line on the agenda, and show it."""
        node = BudgetNode.objects.filter(code=said["node"]).first()
        cluster = Cluster.objects.filter(name=said["cluster"]).first()
        if node is None or cluster is None:
            raise InputError("", gettext("there is no such line"))
        reviews.take_up(review=row, node=node, cluster=cluster, by=person)
        return reverse("meeting", args=[row.pk])

    def forms(self, row: Review, request: HttpRequest | None = None) -> dict[str, StrictForm]:
        """All forms of the page, bound where this is a post."""
        data = request.POST if request is not None else None
        first = {"action": new_action(), "version": row.version}
        return {
            "open": VersionForm(data, initial=first),
            "cancel": CallOffForm(data, initial=first),
            "close": CloseForm(data, initial={**first, "applies_from": review_totals.day_of(row)}),
            "take_up": TakeUpForm(data, initial={"action": new_action()}),
        }

    def show(self, request: HttpRequest, row: Review, failed: dict[str, StrictForm], status: int = 200) -> HttpResponse:
        """The page of its state; a form that failed says why."""
        person: Person = request.user  # type: ignore[assignment]
        context: dict[str, Any] = {
            "here": "reviews",
            "row": row,
            "forms": {**self.forms(row), **failed},
            "failed": next(iter(failed), ""),
            "may_decide": may(person, "review.decide", row),
            "may_present": may(person, "review.present", row),
        }
        has_place = {"planned": ("cancel",), "open": ("close", "cancel")}.get(row.state, ())
        if not context["may_decide"] or context["failed"] not in has_place:
            context["refused"] = next(iter(failed.values()), None)  # its form isn't on the page, or has no place there
        if row.state == Review.State.PLANNED:
            look: Callable[..., review_snapshots.Looked] = review_snapshots.look
            looked = look(row, review_figures.of_lines, review_totals.day_of(row), datetime.now(UTC))
            context["agenda"] = [line for line in looked.lines if line.is_on_agenda]
            context["others"] = len(looked.lines) - len(context["agenda"])
        elif row.snapshot_id:
            context["pack"] = pack.pack_of(row)
        if row.state == Review.State.OPEN:
            standing = review_totals.standing(row)
            context["standing"] = standing
            context["over"] = [each for each in standing if each.over]
            context["parts"] = {place.node.pk for each in standing for place in each.places if place.change > 0 and
                                has_part_in(person, place.node)}  # fmt: skip
        return render_page(request, "review", context, status=status)


class Step(Page):
    """The presenter goes to the next item, the previous one, the agenda, or one by its number."""

    def post(self, request: HttpRequest, number: int) -> HttpResponse:
        """Go there; whoever follows sees it within two seconds."""
        person: Person = request.user  # type: ignore[assignment]
        row = review_numbered(person, number)
        form = StepForm(request.POST)
        if form.is_valid():
            to, count = form.cleaned_data["to"], row.items.count()
            steps = {"next": min(count, row.line + 1), "previous": max(0, row.line - 1), "agenda": 0}
            try:
                reviews.show(review=row, line=steps[to] if to in steps else int(to), by=person)
            except NotAllowed as error:
                raise PermissionDenied(error.message) from None
            except InputError as error:
                messages.warning(request, str(error))
        else:
            messages.warning(request, gettext("There is no such step."))
        return HttpResponseRedirect(reverse("meeting", args=[row.pk]))


class PackPage(Page):
    """The pack as a page, for reading and for printing."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page."""
        row = opened(request.user, number)  # type: ignore[arg-type]
        return render_page(request, "pack", {"here": "reviews", "row": row, "pack": pack.pack_of(row)})


class PackPdf(Page):
    """The pack as PDF."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """A download, or one clear line where this server can't print."""
        row = opened(request.user, number)  # type: ignore[arg-type]
        html = render_to_string("pack/print.html", {"row": row, "pack": pack.pack_of(row)})
        try:
            content = printing.pdf_of(html)
        except printing.NoPrinter as error:
            messages.warning(request, str(error))
            return render_page(request, "pack", {"here": "reviews", "row": row, "pack": pack.pack_of(row)}, status=503)
        response = HttpResponse(content, content_type="application/pdf")
        response.headers["Content-Disposition"] = f'attachment; filename="{file_name(row)}.pdf"'
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


class PackCsv(Page):
    """The pack as CSV: a row for each line, or (`hours`) for each line and hour."""

    hours = False

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """A download."""
        row = opened(request.user, number)  # type: ignore[arg-type]
        if self.hours:
            return csv_response(f"{file_name(row)}-hours", pack.HOURS_HEADER, pack.hour_rows(row))  # type: ignore[return-value]
        return csv_response(file_name(row), pack.HEADER, pack.rows(pack.pack_of(row)))  # type: ignore[return-value]


def opened(person: Person, number: int) -> Review:
    """The review, if the person may see it and it has a snapshot.

    Raises:
        Http404: there is none for them, or it was never opened.
    """
    row = review_numbered(person, number)
    if not row.snapshot_id:
        raise Http404(gettext("{title} has no pack: its figures are frozen when it is opened.").format(title=row.title))
    return row


def file_name(row: Review) -> str:
    """review-lab-winter-quarter-3f9a0c..."""
    return f"review-{slugify(row.node.code)}-{slugify(row.title)}-{row.snapshot_id}".replace("--", "-")


def sentence(done: review_closing.Closed) -> str:
    """What closing did."""
    changes = [f"{decided} changes {decided.cluster} from {decided.starts_on}" for decided in done.reallocations]
    words = {
        "approved": "approved",
        "denied": "denied",
        "undecided": gettext("back on its desk"),
        "elsewhere": gettext("decided elsewhere"),
    }
    for name, said in words.items():
        changes += [f"{row} {said}" for row in getattr(done, name)]
    return f"{'; '.join(changes)}." if changes else gettext("No share changes.")
