"""Who is told what of a request."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from budgets import desks, queries
from budgets.models import (
    BudgetNode,
    Kind,
    Person,
    Request,
    State,
)
from budgets.services import checks, messages, request_rows


def tell_desk(row: Request, happened: str, *, key: str) -> None:
    """Tell who may decide it, and who stands in for them."""
    matter = desks.matter_of(row)
    sitting = desks.sitting_at(row.desk, matter)
    to = {person.pk: person for person in [*sitting, *desks.standing_in(managers(row.desk), row.desk, matter)]}
    said = f" ({happened})" if happened else ""
    messages.tell(
        to=to.values(),
        kind=Kind.TO_DECIDE,
        subject=f"{row}{said}: {row.node.code} asks for {per_cent(row.more_basis_points)} more of {row.parent.code}",
        text=row.why,
        path=f"/requests/{row.pk}/",
        key=key,
    )


def tell_author(row: Request, subject: str, key: str, kind: Kind = Kind.DECISION) -> None:
    """Tell its author what became of it."""
    messages.tell(to=[row.author], kind=kind, subject=subject[:200], path=f"/requests/{row.pk}/", key=key)


def tell_lower(row: Request) -> None:
    """Whoever waits for this answer at a lower desk can go on."""
    lower = Request.objects.filter(upper=row, state=State.SUBMITTED).select_related("node", "parent", "desk").first()
    if lower is None:
        return
    lower.answer_by = timezone.now() + timedelta(days=request_rows.house().answer_days)
    checks.save_changed(lower)
    tell_desk(lower, f"{row} was {row.state}", key=f"request:{lower.pk}:upper:{row.pk}")


def managers(desk: BudgetNode) -> list[Person]:
    """Whoever manages the desk or a node above it, by whose right a delegate may stand in."""
    people = Person.objects.filter(grants__node__in=desk.path, grants__role="manager", is_active=True)
    return list(people.filter(grants__valid_from__lte=queries.today()).distinct())


def per_cent(basis_points: int) -> str:
    """Basis points as people say them."""
    return f"{basis_points // 100}.{basis_points % 100:02d} %"
