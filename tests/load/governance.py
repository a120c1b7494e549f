"""What was asked, decided, said and told in the load laboratory: 500 requests and all that hangs on them."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from budgets.models import (
    BudgetNode,
    Comment,
    Delegation,
    FollowUp,
    LedgerEntry,
    Message,
    Person,
    Reallocation,
    ReallocationLine,
    Request,
    Review,
    ShareImport,
    Threshold,
)
from budgets.queries import today
from budgets.services import reviews
from scheduler.queries import review_figures
from tests.load.people import PROJECTS, House

REQUESTS, MESSAGES, ENTRIES = 500, 20_000, 20_000
STATES = (
    "submitted",
    "applied",
    "denied",
    "draft",
    "applied",
    "approved",
    "returned",
    "withdrawn",
    "applied",
    "denied",
)
WHY = "We have to repeat the ablations of the autumn on the new data before the grant's report is due."
TO_CHIEF = 2_000
"""So many messages are the lead program manager's."""


def govern(house: House, now: datetime, chance: Random) -> None:
    """Everything, in bulk."""
    asked = _requests(house, now)
    _decide(house, asked, now)
    _say(asked, house)
    _tell(house, chance, now)
    _log(house, chance, now)
    _rest(house, now)


def _requests(house: House, now: datetime) -> list[Request]:
    rows = []
    for number in range(REQUESTS):
        project = (number * 37) % len(house.projects) if number % 5 else number % PROJECTS
        node, state = house.projects[project], STATES[number % len(STATES)]
        parent = house.programs[project // PROJECTS]
        is_decided = state in ("applied", "approved", "denied")
        at = now - timedelta(hours=number)
        rows.append(
            Request(
                node=node, parent=parent, desk=parent, cluster=house.clusters[0], author=house.leads[project],
                more_basis_points=50 + number % 100, starts_on=today() + timedelta(days=number % 20 - 3), why=WHY,
                otherwise="The paper waits.", state=state, submitted_at=None if state == "draft" else at,
                decided_at=now - timedelta(hours=number // 2) if is_decided else None,
                decided_by=house.people[f"pi{project // PROJECTS:02d}"] if is_decided else None,
                decision_reason="As discussed." if is_decided else "", created_at=at - timedelta(hours=1),
                answer_by=now + timedelta(days=5) if state == "submitted" else None,
            )
        )  # fmt: skip
    return Request.objects.bulk_create(rows)


def _decide(house: House, asked: list[Request], now: datetime) -> None:
    """A reallocation for each request that was granted, and half as many that others proposed."""
    rows = [
        Reallocation(
            parent=row.parent, cluster=row.cluster, author=row.decided_by, starts_on=row.starts_on, reason=WHY,
            base_version=1, state=row.state, desk=row.parent, request=row, submitted_at=row.submitted_at,
            decided_at=row.decided_at, decided_by=row.decided_by, decision_reason="As discussed.",
            applied_at=row.decided_at if row.state == "applied" else None,
        )
        for row in asked
        if row.state in ("applied", "approved")
    ]  # fmt: skip
    pis = [house.people[f"pi{number:02d}"] for number in range(len(house.programs))]
    rows += [
        Reallocation(
            parent=house.programs[n % 20], cluster=house.clusters[n % 2], author=pis[n % 20], starts_on=today(),
            reason=WHY, base_version=1, state="submitted" if n % 2 else "draft", desk=house.root,
            submitted_at=now if n % 2 else None, answer_by=now + timedelta(days=3) if n % 2 else None,
        )
        for n in range(60)
    ]  # fmt: skip
    stored = Reallocation.objects.bulk_create(rows)
    children = {
        program.pk: house.projects[number * PROJECTS : (number + 1) * PROJECTS]
        for number, program in enumerate(house.programs)
    }
    ReallocationLine.objects.bulk_create(
        ReallocationLine(reallocation=row, node=child, before=90, after=90 + step)
        for row in stored
        for child, step in zip(children[row.parent_id], (60, -30, -30), strict=False)
    )
    done = [row for row in stored if row.state in ("applied", "approved")]
    FollowUp.objects.bulk_create(FollowUp(reallocation=row, due_on=today() - timedelta(days=1)) for row in done)
    answers = [(row, {"reallocation_id": row.pk, "request_id": row.request_id}) for row in done]
    LedgerEntry.objects.bulk_create(
        _entry("reallocation.approved", row.parent, row.decided_by, row.decided_at, **about) for row, about in answers
    )
    LedgerEntry.objects.bulk_create(
        _entry("request.approved", row.request.node, row.decided_by, row.decided_at, **about) for row, about in answers
    )
    LedgerEntry.objects.bulk_create(
        _entry("request.submitted", row.node, row.author, row.submitted_at, request_id=row.pk)
        for row in asked
        if row.submitted_at
    )


def _entry(verb: str, node: BudgetNode, by: Person | None, at: datetime | None, **more: object) -> LedgerEntry:
    return LedgerEntry(
        verb=verb, node_id=node.pk, node_code=node.code, node_name=node.name, cluster_name="north",
        person_id=by.pk if by else None, at=at, reason=WHY, after={"state": "so"}, **more,
    )  # fmt: skip


def _say(asked: list[Request], house: House) -> None:
    """Two comments on each; forty on the first."""
    chief = house.people["chief"]
    Comment.objects.bulk_create(
        Comment(request=row, author=author, text=f"{WHY} ({number})")
        for place, row in enumerate(asked)
        for number in range(20 if not place else 1)
        for author in (row.author, chief)
    )


def _tell(house: House, chance: Random, now: datetime) -> None:
    people = list(house.people.values())
    chief = house.people["chief"]
    Message.objects.bulk_create(
        Message(
            key=f"load:{number}", person=chief if number < TO_CHIEF else chance.choice(people),
            kind=("decision", "comment", "workload", "to_decide")[number % 4], subject=f"R{number} was decided",
            text=WHY, path="/requests/1/", mode="now", emailed_at=now, sent_at=now,
            at=now - timedelta(minutes=number), read_at=now if number % 3 else None,
        )
        for number in range(MESSAGES)
    )  # fmt: skip


def _log(house: House, chance: Random, now: datetime) -> None:
    people = list(house.people.values())
    LedgerEntry.objects.bulk_create(
        LedgerEntry(
            verb=("share.changed", "role.granted", "role.ended", "share.changed")[number % 4],
            node_id=node.pk, node_code=node.code, node_name=node.name, cluster_name="north",
            person_id=chance.choice(people).pk, at=now - timedelta(minutes=3 * number), reason=WHY,
            before={"shares": [{"from": "2026-01-01", "until": None, "basis_points": 80}]},
            after={"shares": [{"from": "2026-01-01", "until": None, "basis_points": 90}]},
        )
        for number, node in enumerate(chance.choices(house.projects, k=ENTRIES))
    )  # fmt: skip


def _rest(house: House, now: datetime) -> None:
    """Delegations, marks, imports, and reviews: one open at the first program, twenty that were called off."""
    pis = [house.people[f"pi{number:02d}"] for number in range(len(house.programs))]
    chief = house.people["chief"]
    Delegation.objects.bulk_create(
        Delegation(
            giver=pi, delegate=chief, node=program, limit_basis_points=100, valid_from=today(),
            valid_until=today() + timedelta(days=9),
        )
        for pi, program in zip(pis, house.programs, strict=True)
    )  # fmt: skip
    Threshold.objects.bulk_create(
        Threshold(node=node, cluster=house.clusters[0], percent=80) for node in house.projects[:500]
    )
    ShareImport.objects.bulk_create(
        ShareImport(author=chief, name=f"shares-{number}.csv", sha256=f"{number:064d}", rows=[]) for number in range(60)
    )
    period = {"period_from": today() - timedelta(days=28), "period_until": today()}
    Review.objects.bulk_create(
        Review(
            node=program, title=f"Review {number} of {program.name}", meets_at=now - timedelta(days=number),
            state="cancelled", opened_by=chief, **period,
        )
        for number in range(4)
        for program in house.programs
    )  # fmt: skip
    review = reviews.plan(
        node=house.programs[0], title="Winter review", meets_at=now, applies_from=today(), by=pis[0], **period
    )
    reviews.open_review(review=review, by=pis[0], figures_of=review_figures.of_lines)
