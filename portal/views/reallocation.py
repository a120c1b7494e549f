"""One reallocation: its lines, its state, and, where it waits for somebody else, the answer to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets import desks
from budgets.authority import may
from budgets.models import Person, Reallocation, State
from budgets.services import comments, reallocations
from portal.forms.requests import AnswerForm, CommentForm, WithdrawForm
from portal.forms.strict import StrictForm
from portal.pages import Once, new_action, render_page
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


class ReallocationPage(Once):
    """The page, and approving, denying, withdrawing or commenting on it."""

    verbs = frozenset(DONE)

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
        ways = desks.ways_to_decide(person, desks.matter_of(row))
        form = self.forms(row, person, ways, request)[verb]
        answer, status = self.once(
            request,
            form,
            address,
            DONE[verb].format(row),
            lambda said: self.carry_out(verb, row, person, form, said),
        )
        return answer or self.show(request, reallocation_numbered(person, number), {verb: form}, status)

    def carry_out(self, verb: str, row: Reallocation, person: Person, form: StrictForm, said: dict[str, Any]) -> None:
        """Ask the service."""
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

    def forms(
        self, row: Reallocation, person: Person, ways: Sequence[Person | None], request: HttpRequest | None = None
    ) -> dict[str, StrictForm]:
        """All forms of the page, bound where this is a post. `ways`: for whom the person may decide it."""
        data = request.POST if request is not None else None
        first = {"action": new_action(), "version": row.version}
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
        ways = desks.ways_to_decide(person, desks.matter_of(row)) if row.state == State.SUBMITTED else []
        asked = row.request if row.request is not None and may(person, "request.see", row.request) else None
        context = {
            "here": "tree",
            "row": row,
            "lines": lines,
            "unassigned": -sum(line.change for line in lines),
            "forms": {**self.forms(row, person, ways), **failed},
            "failed": next(iter(failed), ""),
            "ways": ways,
            "is_mine": row.author_id == person.pk,
            "asked": asked,
            "comments": comments.visible(row, person),
            "may_whisper": may(person, "comment.see_reviewers", row),
            "history": history(reallocation_id=row.pk) if may(person, "node.see_ledger", row.parent) else [],
        }
        return render_page(request, "reallocation", context, status=status)
