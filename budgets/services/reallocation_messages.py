"""Who is told what of a reallocation."""

from __future__ import annotations

from budgets import desks, queries
from budgets.models import (
    Kind,
    Person,
    Reallocation,
    ReallocationLine,
    Role,
)
from budgets.services import (
    messages,
)


def tell_desk(row: Reallocation, happened: str) -> None:
    """Tell who may decide it, and who stands in for them."""
    matter = desks.matter_of(row)
    managers = desks.sitting_at(row.desk, matter)
    to = {person.pk: person for person in [*managers, *desks.standing_in(managers, row.desk, matter)]}
    messages.tell(
        to=to.values(),
        kind=Kind.TO_DECIDE,
        subject=f"{row}: shares of {row.parent.code} on {row.cluster}, {happened}",
        text=row.reason,
        path=_path(row),
        key=f"reallocation:{row.pk}:desk:{row.version}",
    )


def tell_author(row: Reallocation, subject: str, happened: str) -> None:
    """Tell its author what became of it."""
    messages.tell(
        to=[row.author], kind=Kind.DECISION, subject=subject[:200], path=_path(row),
        key=f"reallocation:{row.pk}:{happened}",
    )  # fmt: skip


def tell_concerned(row: Reallocation, lines: list[ReallocationLine]) -> None:
    """Tell the managers of every child whose share changes, and the author where another decided."""
    people: dict[int, Person] = {}
    nodes = [line.node_id for line in lines]
    managers = Person.objects.filter(
        grants__role=Role.MANAGER, grants__node__in=nodes, grants__valid_from__lte=row.starts_on
    ).exclude(grants__valid_until__lte=queries.today())
    for person in [*managers, row.author]:
        if row.decided_by is None or person.pk != row.decided_by.pk:
            people[person.pk] = person
    changes = ", ".join(f"{line.node.code} {line.before / 100:.2f} > {line.after / 100:.2f} %" for line in lines)
    messages.tell(
        to=people.values(),
        kind=Kind.DECISION,
        subject=f"Shares of {row.parent.code} on {row.cluster} change on {row.starts_on}",
        text=f"{changes}\n\n{row.decision_reason}",
        path=_path(row),
        key=f"reallocation:{row.pk}:approved",
    )


def _path(row: Reallocation) -> str:
    return f"/reallocations/{row.pk}/"
