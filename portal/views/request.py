"""One request: what is asked, what is live against what would be, who said and did what, and what one may do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext, gettext_lazy

from budgets import desks
from budgets.authority import may
from budgets.models import Attachment, LedgerEntry, Person, Reallocation, Request, State
from budgets.queries import today
from budgets.services import comments, requests
from budgets.services.reallocation_rows import shares_on
from portal import formats
from portal.forms.requests import AnswerForm, AttachForm, CommentForm, PassUpForm, WithdrawForm
from portal.forms.strict import StrictForm
from portal.pages import Once, Page, new_action, render_page
from portal.views.requests import figures_of

VERBS = ("deny", "return", "pass_up", "withdraw", "submit", "comment", "attach")
DECIDING = {"deny", "return", "pass_up"}
DONE = {
    "deny": gettext_lazy("{} is denied."),
    "return": gettext_lazy("{} is returned to its author."),
    "pass_up": gettext_lazy("{} waits for {} now."),
    "withdraw": gettext_lazy("{} is withdrawn."),
    "submit": gettext_lazy("{} is submitted."),
    "comment": gettext_lazy("Your comment stands below."),
    "attach": gettext_lazy("The file stands below."),
}


def request_numbered(person: Person, number: int) -> Request:
    """The request, if the person may see it.

    Raises:
        Http404: there is none for them.
    """
    row = (
        Request.objects.select_related(
            "node", "parent__parent", "desk", "cluster", "author", "decided_by", "decided_for", "upper__desk"
        )
        .filter(pk=number)
        .first()
    )
    if row is None or not may(person, "request.see", row):
        raise Http404(gettext("There is no request R{number}.").format(number=number))
    return row


def answered_by(row: Request) -> Reallocation | None:
    """The reallocation that approved it: its own answer, or a review's, which may approve several."""
    entries = LedgerEntry.objects.filter(verb="request.approved", request_id=row.pk)
    return Reallocation.objects.filter(pk__in=entries.values("reallocation_id")).first()


class RequestPage(Once):
    """The page, and what one does on it: each button is a form of its own that comes here with its verb."""

    verbs = VERBS

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page."""
        row = request_numbered(request.user, number)  # type: ignore[arg-type]
        return self.show(request, row, {})

    def post(self, request: HttpRequest, number: int, verb: str) -> HttpResponse:
        """Do one thing, once."""
        person: Person = request.user  # type: ignore[assignment]
        row = request_numbered(person, number)
        if verb not in VERBS:
            raise Http404(gettext("A request can't be told to {verb!r}.").format(verb=verb))
        address = reverse("request", args=[row.pk])
        form: Any = self.forms(row, person, [verb], request)[verb]
        answer, status = self.once(
            request,
            form,
            address,
            lambda led_to: DONE[verb].format(row, led_to),
            lambda said: self.carry_out(verb, row, person, form, said),
        )
        return answer or self.show(request, request_numbered(person, number), {verb: form}, status)

    def carry_out(self, verb: str, row: Request, person: Person, form: Any, said: dict[str, Any]) -> object:
        """Ask the service."""
        does: dict[str, Callable[[], object]] = {
            "withdraw": lambda: requests.withdraw(request=row, by=person, version=said["version"]),
            "submit": lambda: self.submit(row, person, said["version"]),
            "comment": lambda: comments.say(on=row, by=person, text=said["text"], audience=said["audience"]),
            "attach": lambda: comments.attach(
                request=row, by=person, name=said["file"].name, content=said["file"].read(comments.MOST_BYTES + 1)
            ),
        }
        if verb in does:
            return does[verb]()
        answer = {"request": row, "by": person, "reason": said["reason"], "acting_for": form.acting()}
        if verb == "deny":
            return requests.deny(**answer, version=said["version"])
        if verb == "return":
            return requests.give_back(**answer, version=said["version"])
        return requests.pass_up(**answer, more_basis_points=said["more"], version=said["version"])

    def submit(self, row: Request, person: Person, version: int) -> Request:
        """Submit a draft as it stands, with the figures of now."""
        figures = figures_of(row.node, row.cluster).plain()
        return requests.submit(request=row, by=person, version=version, figures=figures)

    def forms(
        self,
        row: Request,
        person: Person,
        verbs: Collection[str],
        request: HttpRequest | None = None,
        ways: Sequence[Person | None] | None = None,
    ) -> dict[str, StrictForm]:
        """The forms of these verbs, bound where this is a post."""
        data = request.POST if request is not None else None
        first = {"action": new_action(), "version": row.version}
        if ways is None:
            ways = desks.ways_to_decide(person, desks.matter_of(row)) if DECIDING & set(verbs) else []
        files = request.FILES if request is not None else None
        make: dict[str, Callable[[], StrictForm]] = {
            "deny": lambda: AnswerForm(data, ways=ways, initial=first, auto_id="deny_%s"),
            "return": lambda: AnswerForm(data, ways=ways, initial=first, auto_id="return_%s"),
            "pass_up": lambda: PassUpForm(
                data, ways=ways, initial={**first, "more": self.upper_share(row)}, auto_id="pass_up_%s"
            ),
            "withdraw": lambda: WithdrawForm(data, initial=first, auto_id=False),
            "submit": lambda: WithdrawForm(data, initial=first, auto_id=False),
            "comment": lambda: CommentForm(
                data,
                may_whisper=may(person, "comment.see_reviewers", row),
                initial={**first, "audience": "all"},
                auto_id="comment_%s",
            ),
            "attach": lambda: AttachForm(data, files, initial=first, auto_id="attach_%s"),
        }
        return {verb: make[verb]() for verb in verbs}

    def upper_share(self, row: Request) -> str:
        """What passing it up would ask for."""
        return formats.share(requests.upper_share_for(row, max(row.starts_on, today())))

    def show(
        self, request: HttpRequest, row: Request, failed: dict[str, StrictForm], status: int = 200
    ) -> HttpResponse:
        """The page; a form that failed is open and says why."""
        person: Person = request.user  # type: ignore[assignment]
        ways = desks.ways_to_decide(person, desks.matter_of(row)) if row.state == State.SUBMITTED else []
        first = max(row.starts_on, today())
        lower = Request.objects.filter(upper=row).first()
        may_attach = row.is_open and (row.author_id == person.pk or bool(ways))
        context = {
            "here": "requests",
            "row": row,
            "forms": {**self.forms(row, person, self.offered(row, person, ways, may_attach), ways=ways), **failed},
            "failed": next(iter(failed), ""),
            "ways": ways,
            "is_mine": row.author_id == person.pk,
            "diff": diff(row, first),
            "upper": row.upper if row.upper and may(person, "request.see", row.upper) else None,
            "waits": row.upper is not None and row.upper.is_open,
            "lower": lower if lower and may(person, "request.see", lower) else None,
            "decision": answered_by(row),
            "comments": comments.visible(row, person),
            "attachments": list(row.attachments.select_related("author").defer("content")),
            "may_attach": may_attach,
            "history": history(request_id=row.pk),
            "may_whisper": may(person, "comment.see_reviewers", row),
            "is_too_late": row.useless_on is not None and row.useless_on <= today() and row.is_open,
        }
        return render_page(request, "request", context, status=status)

    def offered(self, row: Request, person: Person, ways: Sequence[Person | None], may_attach: bool) -> list[str]:
        """The verbs that the page has a form for."""
        found = ["comment"]
        if ways:
            found += ["deny", "return"]
            if row.parent.parent_id and row.desk_id == row.parent_id:
                found.append("pass_up")
        if row.author_id == person.pk and row.is_open:
            found += ["withdraw", "submit"]
        return [*found, "attach"] if may_attach else found


class Download(Page):
    """An attachment, as a download that no browser shows inside the portal."""

    def get(self, request: HttpRequest, number: int, attachment: int) -> HttpResponse:
        """The file, for whoever may see the request."""
        row = request_numbered(request.user, number)  # type: ignore[arg-type]
        found = row.attachments.filter(pk=attachment).first()
        if found is None:
            raise Http404(gettext("{row} has no file {attachment}.").format(row=row, attachment=attachment))
        return file_answer(found)


def file_answer(found: Attachment) -> HttpResponse:
    """An attachment, as a download that no browser shows inside the portal."""
    answer = HttpResponse(bytes(found.content), content_type=found.content_type)
    answer.headers["Content-Disposition"] = _as_download(found.name)
    answer.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return answer


def _as_download(name: str) -> str:
    return content_disposition_header(as_attachment=True, filename=name) or "attachment"


def diff(row: Request, day: date) -> dict[str, int]:
    """What is live on the day against what is asked: the node's share and unassigned, in basis points."""
    given = shares_on(row.parent, row.cluster, day)
    has, rest = given.get(row.node_id, 0), 10_000 - sum(given.values())
    covered = min(row.more_basis_points, rest)
    return {
        "now": has,
        "asked": has + row.more_basis_points,
        "rest_now": rest,
        "rest_after": rest - covered,
        "from_others": row.more_basis_points - covered,
    }


def history(**subject: int) -> list[tuple[LedgerEntry, Person | None, Person | None]]:
    """The ledger's entries about one request or reallocation, the oldest first, with who did it, and for whom."""
    entries = list(LedgerEntry.objects.filter(**subject).order_by("id"))
    people = Person.objects.in_bulk(
        {pk for each in entries for pk in (each.person_id, each.on_behalf_of_id) if pk is not None}
    )
    return [(each, people.get(each.person_id or 0), people.get(each.on_behalf_of_id or 0)) for each in entries]
