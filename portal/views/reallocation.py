"""One reallocation: its lines, its state, and, where it waits for somebody else, the answer to it."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets import desks
from budgets.authority import may
from budgets.errors import InputError
from budgets.models import Person, Reallocation, State
from budgets.services import comments, reallocations
from portal.forms.requests import AnswerForm, CommentForm, WithdrawForm
from portal.forms.strict import StrictForm
from portal.pages import Page, new_action, render_page, spend, spent_on, status_of
from portal.views.request import history

DONE = {
    "approve": gettext_lazy("{} is approved."),
    "deny": gettext_lazy("{} is denied."),
    "withdraw": gettext_lazy("{} is withdrawn."),
    "comment": gettext_lazy("Your comment stands below."),
}


def reallocation_numbered(person: Person, number: int) -> Reallocation:
    """The reallocation, if the person may see it.

    Raises:
        Http404: there is none for them.
    """
    rows = Reallocation.objects.select_related(
        "parent", "cluster", "author", "author_for", "desk", "decided_by", "decided_for", "request", "review"
    )
    row = rows.filter(pk=number).first()
    if row is None or not may(person, "reallocation.see", row):
        raise Http404(gettext("There is no reallocation D{number}.").format(number=number))
    return row


class ReallocationPage(Page):
    """The page, and approving, denying, withdrawing or commenting on it."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page."""
        return self.show(request, reallocation_numbered(request.user, number), {})  # type: ignore[arg-type]

    def post(self, request: HttpRequest, number: int, verb: str) -> HttpResponse:
        """Do one thing, once."""
        person: Person = request.user  # type: ignore[assignment]
        row = reallocation_numbered(person, number)
        if verb not in DONE:
            raise Http404(gettext("A reallocation can't be told to {verb!r}.").format(verb=verb))
        address = reverse("reallocation", args=[row.pk])
        if spent_on(request, request.POST.get("action", "")) is not None:
            messages.info(request, gettext("This had been sent already; nothing was changed again."))
            return HttpResponseRedirect(address)
        form = self.forms(row, person, request)[verb]
        status = 400
        if form.is_valid():
            try:
                self.carry_out(verb, row, person, form)
            except InputError as error:
                form.take(error)
                status = status_of(error)
                row = reallocation_numbered(person, number)
            else:
                spend(request, form.cleaned_data["action"], address)
                messages.info(request, DONE[verb].format(row))
                return HttpResponseRedirect(address)
        return self.show(request, row, {verb: form}, status)

    def carry_out(self, verb: str, row: Reallocation, person: Person, form: StrictForm) -> None:
        """Ask the service."""
        said = form.cleaned_data
        if verb == "withdraw":
            reallocations.withdraw(reallocation=row, by=person, version=said["version"])
        elif verb == "comment":
            comments.say(on=row, by=person, text=said["text"], audience=said["audience"])
        else:
            assert isinstance(form, AnswerForm)
            answer = reallocations.approve if verb == "approve" else reallocations.deny
            answer(
                reallocation=row, by=person, reason=said["reason"], acting_for=form.acting(), version=said["version"]
            )

    def forms(self, row: Reallocation, person: Person, request: HttpRequest | None = None) -> dict[str, StrictForm]:
        """All forms of the page, bound where this is a post."""
        data = request.POST if request is not None else None
        first = {"action": new_action(), "version": row.version}
        ways = desks.ways_to_decide(person, desks.matter_of(row))
        return {
            "approve": AnswerForm(data, ways=ways, initial=first, auto_id="approve_%s"),
            "deny": AnswerForm(data, ways=ways, initial=first, auto_id="deny_%s"),
            "withdraw": WithdrawForm(data, initial=first, auto_id=False),
            "comment": CommentForm(
                data,
                may_whisper=may(person, "comment.see_reviewers", row),
                initial={**first, "audience": "all"},
                auto_id="comment_%s",
            ),
        }

    def show(
        self, request: HttpRequest, row: Reallocation, failed: dict[str, StrictForm], status: int = 200
    ) -> HttpResponse:
        """The page; a form that failed says why."""
        person: Person = request.user  # type: ignore[assignment]
        lines = list(row.lines.select_related("node"))
        is_open = row.state == State.SUBMITTED
        asked = row.request if row.request is not None and may(person, "request.see", row.request) else None
        context = {
            "here": "tree",
            "row": row,
            "lines": lines,
            "unassigned": -sum(line.change for line in lines),
            "forms": {**self.forms(row, person), **failed},
            "failed": next(iter(failed), ""),
            "ways": desks.ways_to_decide(person, desks.matter_of(row)) if is_open else [],
            "is_mine": row.author_id == person.pk,
            "asked": asked,
            "comments": comments.visible(row, person),
            "may_whisper": may(person, "comment.see_reviewers", row),
            "history": history(reallocation_id=row.pk) if may(person, "node.see_ledger", row.parent) else [],
        }
        return render_page(request, "reallocation", context, status=status)
