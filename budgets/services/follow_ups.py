"""Did it work? Asked of each decision some weeks after its first day, and answered once, with the figures of then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from budgets import authority, desks, queries
from budgets.errors import ConflictError, InputError
from budgets.models import BudgetNode, Cluster, FollowUp, Kind, Person, Role, State
from budgets.services import checks, ledger, messages

TEXT_LENGTH = 2_000

FiguresOf = Callable[[Sequence[BudgetNode], Cluster, date, date], dict[int, dict[str, int]]]
"""The books of these nodes on the cluster over the organisation's days [start, end), by node id, in plain numbers."""


def due(on: date) -> QuerySet[FollowUp]:
    """What is to be asked by that day and has no answer yet: decisions that are in force, the longest due first."""
    rows = FollowUp.objects.filter(answered_at=None, due_on__lte=on, reallocation__state=State.APPLIED)
    return rows.select_related("reallocation__parent", "reallocation__cluster", "reallocation__decided_by")


def due_for(person: Person) -> QuerySet[FollowUp]:
    """What is due and this person may answer, since they manage the node whose children were changed."""
    managed = authority.nodes_with(person, [Role.MANAGER])
    return due(queries.today()).filter(reallocation__parent__path__overlap=managed)


def windows(follow_up: FollowUp) -> tuple[tuple[date, date], tuple[date, date]]:
    """The days that are compared, equally many before the decision's first day and from it on: up to the day on which
    it was to be looked at, or today if that comes first.
    """
    first = follow_up.reallocation.starts_on
    last = max(min(follow_up.due_on, queries.today()), first + timedelta(days=1))
    return (first - (last - first), first), (first, last)


def figures_of(follow_up: FollowUp, books_of: FiguresOf) -> dict[str, Any]:
    """Then against before, for each child whose share was changed: plain numbers, as they are kept with the answer."""
    decision = follow_up.reallocation
    nodes = [line.node for line in decision.lines.select_related("node")]
    before, after = windows(follow_up)
    books = [books_of(nodes, decision.cluster, *window) for window in (before, after)]
    return {
        "before": [day.isoformat() for day in before],
        "after": [day.isoformat() for day in after],
        "nodes": {node.code: {"before": books[0][node.pk], "after": books[1][node.pk]} for node in nodes},
    }


def answer(
    *, follow_up: FollowUp, verdict: str, text: str, by: Person, books_of: FiguresOf, now: datetime | None = None
) -> FollowUp:
    """Say whether it worked, once, for good. Managers of the node whose children were changed may, once it is due.

    Raises:
        InputError: no such verdict, no words, or it isn't due yet. NotAllowed. ConflictError: it was answered already.
    """
    if verdict not in FollowUp.Verdict.values:
        raise InputError(
            "verdict", gettext("must be one of {choices}").format(choices=", ".join(FollowUp.Verdict.values))
        )
    with transaction.atomic():
        row = FollowUp.objects.select_related("reallocation__parent", "reallocation__cluster").get(pk=follow_up.pk)
        decision = row.reallocation
        checks.allowed(by, "share.change", decision.parent)
        said = checks.text("text", text, length=TEXT_LENGTH)
        if row.due_on > queries.today():
            raise InputError(
                "", gettext("it is asked on {due_on}, when there is something to look at").format(due_on=row.due_on)
            )
        figures = figures_of(row, books_of)
        changed = FollowUp.objects.filter(pk=row.pk, answered_at=None).update(
            verdict=verdict, text=said, figures=figures, answered_at=now or timezone.now(), answered_by=by
        )
        row.refresh_from_db()
        if not changed:
            raise ConflictError(
                gettext("it was answered already, by {answered_by}: {get_verdict_display}").format(
                    answered_by=row.answered_by, get_verdict_display=row.get_verdict_display()
                )
            )
        ledger.record(
            verb="follow_up.answered", node=decision.parent, cluster=decision.cluster, by=by, before=None,
            after={"verdict": verdict}, reason=said,
            about=ledger.About(reallocation=decision, review=decision.review, evidence=figures),
        )  # fmt: skip
        return row


def ask_due() -> int:
    """Beat's: ask the managers once of each decision whose day has come. How many decisions."""
    asked = 0
    for pk in due(queries.today()).filter(asked_at=None).order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            if not FollowUp.objects.filter(pk=pk, asked_at=None).update(asked_at=timezone.now()):
                continue
            row = FollowUp.objects.select_related("reallocation__parent", "reallocation__cluster").get(pk=pk)
            decision = row.reallocation
            messages.tell(
                to=_managers(decision.parent),
                kind=Kind.FOLLOW_UP,
                subject=f"Did it work? {decision}: shares of {decision.parent.code} on {decision.cluster} since "
                f"{decision.starts_on}",
                text=decision.decision_reason,
                path=f"/decisions/{decision.pk}/",
                key=f"follow_up:{row.pk}",
            )
            asked += 1
    return asked


def _managers(node: BudgetNode) -> list[Person]:
    """The managers of the node, or of the nearest above it that has some."""
    nobody = desks.Matter(node, frozenset(), (), 0)
    return desks.sitting_at(desks.nearest_desk(node, nobody), nobody)
