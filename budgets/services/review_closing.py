"""Close and apply: the pencil marks of a meeting become decisions, all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import authority, desks, queries
from budgets.errors import ConflictError, InputError
from budgets.models import (
    BudgetNode,
    Person,
    Reallocation,
    Request,
    Review,
    ReviewItem,
    State,
    Voice,
)  # fmt: skip
from budgets.services import (
    checks,
    ledger,
    reallocations,
    request_messages,
    request_rows,
    requests,
    review_totals,
    reviews,
)

REASON_LENGTH = checks.REASON_LENGTH


@dataclass
class Closed:
    """What a closed meeting has done."""

    review: Review
    reallocations: list[Reallocation] = field(
        default_factory=list
    )  # one for each cluster that changes, see _reallocate
    approved: list[Request] = field(default_factory=list)
    denied: list[Request] = field(default_factory=list)
    undecided: list[Request] = field(default_factory=list)  # back on their desk
    elsewhere: list[Request] = field(default_factory=list)  # decided or withdrawn while the meeting went on

    def plain(self) -> ledger.State:
        """As the ledger keeps it: ids."""
        lists = ("reallocations", "approved", "denied", "undecided", "elsewhere")
        return {name: [each.pk for each in getattr(self, name)] for name in lists}


def close_and_apply(
    *, review: Review, by: Person, applies_from: date, reason: str, version: int | None = None
) -> Closed:
    """Make the marks count from `applies_from` on, in one transaction: one reallocation for each cluster that
    changes, requests approved where the mark gives more and denied where it doesn't; what has no mark stays open and
    goes back to its desk.

    Raises:
        InputError: a mark without a reason, a total over the whole, a day that is over; the cluster or line is named.
        NotAllowed: no manager of the node, or one who has a part in a line that would be raised.
        ConflictError: closed already (it says when and by whom), a mark made since `version`, or a share changed since
            it was marked.
    """
    with transaction.atomic():
        node = checks.locked(review.node)
        row = reviews.locked(review, version, Review.State.OPEN)
        checks.allowed(by, "review.decide", row)
        if applies_from < queries.today():
            raise InputError("applies_from", gettext("can't be a day that is over"))
        why = checks.reason(reason, by)
        row.applies_from = applies_from
        items = list(row.items.select_related("node", "cluster", "request__desk", "request__author"))
        _check(row, items, by)
        done = Closed(row)
        decided = _reallocate(row, node, items, by, why)
        done.reallocations += {each.pk: each for each in decided.values()}.values()
        for item in items:
            _answer(done, item, decided.get(item.pk), by)
        row.state, row.closed_at, row.closed_by = Review.State.CLOSED, timezone.now(), by
        reviews.save(row)
        reviews.entry(row, "review.closed", by, None, {**done.plain(), "from": applies_from.isoformat()}, why)
        reviews.tell(row, f"{row.title}: the budget review of {node.code} is closed", "closed", _sentence(done))
        return done


def _check(review: Review, items: Sequence[ReviewItem], by: Person) -> None:
    """Refuse what can't be closed, naming the line or the cluster."""
    day = review_totals.day_of(review)
    held = review_totals.shares_on(review, day)
    for item in items:
        if item.pencil is None:
            continue
        if not item.reason:
            raise InputError(
                "",
                gettext("item {position}, {node} on {cluster}: its mark has no reason yet").format(
                    position=item.position, node=item.node.code, cluster=item.cluster
                ),
            )
        until = _until(item)
        if until is not None and until <= day:
            raise InputError(
                "applies_from",
                gettext("{request} asks until {until} only; leave it undecided, or deny it").format(
                    request=item.request, until=until
                ),
            )
        has = held.get((item.node_id, item.cluster_id), 0)
        if has != item.now:
            raise ConflictError(
                gettext(
                    "{node} has {has:.2f} % of {node_2} on {cluster} on {day}, and had {now:.2f} % when it "
                    "was marked: mark it again"
                ).format(
                    node=item.node.code,
                    has=has / 100,
                    node_2=review.node.code,
                    cluster=item.cluster,
                    day=day,
                    now=item.now / 100,
                )
            )
    for standing in review_totals.standing(review, day):
        if standing.over and any(place.change for place in standing.places):
            raise InputError(
                "",
                gettext("{cluster}: the shares would sum to {total:.2f} %, {over:.2f} % too much").format(
                    cluster=standing.cluster, total=standing.total / 100, over=standing.over / 100
                ),
            )
    for item in items:
        if authority.has_part_in(by, item.node):
            item.voices.get_or_create(
                person=by, defaults={"kind": Voice.Kind.ABSTAINS, "text": f"has a part in {item.node.code}"}
            )


def _until(item: ReviewItem) -> date | None:
    """When what the item gives ends: with what was asked for. What is taken is taken for good."""
    gives = item.pencil is not None and item.pencil > item.now
    return item.request.ends_on if gives and item.request is not None else None


def _reallocate(
    review: Review, node: BudgetNode, items: Sequence[ReviewItem], by: Person, why: str
) -> dict[int, Reallocation]:
    """The decisions, by item: one for each cluster that changes, and one more where a request asked for a while only.

    Those that take come first, so that what the others give is there.
    """
    together: dict[tuple[int, date | None], list[ReviewItem]] = {}
    for item in items:
        if item.pencil is not None and item.pencil != item.now:
            together.setdefault((item.cluster_id, _until(item)), []).append(item)
    found = {}
    for (_, until), changed in sorted(together.items(), key=lambda each: (each[0][0], _net(each[1]))):
        lines = [f"{item.node.code}: {item.reason}" for item in changed]
        again = [item.look_again_on for item in changed if item.look_again_on is not None]
        assert review.applies_from is not None
        decided = reallocations.apply_directly(
            parent=node,
            cluster=changed[0].cluster,
            shares={item.node: item.pencil for item in changed if item.pencil is not None},
            starts_on=review.applies_from,
            ends_on=until,
            by=by,
            reason="\n".join([why, *lines])[:REASON_LENGTH],
            review=review,
            evidence=_evidence(review, changed),
            look_again_on=min(again) if again else None,
        )
        found.update(dict.fromkeys((item.pk for item in changed), decided))
    return found


def _net(items: Sequence[ReviewItem]) -> int:
    return sum((item.pencil or 0) - item.now for item in items)


def _evidence(review: Review, changed: Sequence[ReviewItem]) -> dict[str, Any]:
    """What was looked at: the frozen totals of the lines that change."""
    snapshot = Review.objects.values_list("snapshot", flat=True).get(pk=review.pk) or {"lines": []}
    totals = {(line["node"], line["cluster"]): line["totals"] for line in snapshot["lines"]}
    return {
        "review": review.pk,
        "snapshot_id": review.snapshot_id,
        "items": {item.node.code: totals.get((item.node_id, item.cluster_id)) for item in changed},
    }


def _answer(done: Closed, item: ReviewItem, decided: Reallocation | None, by: Person) -> None:
    """What becomes of the item's request."""
    if item.request is None:
        return
    if not reviews.open_request(item, done.review):
        done.elsewhere.append(item.request)
        return
    if item.pencil is None:
        row = request_rows.locked(item.request, None, among=(State.SUBMITTED,))
        row.answer_by = timezone.now() + timedelta(days=requests.house().answer_days)
        checks.save_changed(row)
        request_messages.tell_desk(row, "undecided in the review", key=f"request:{row.pk}:review:{done.review.pk}")
        done.undecided.append(row)
        return
    given = item.pencil - item.now
    about = ledger.About(review=done.review, reallocation=decided)
    if given <= 0:
        done.denied.append(requests.deny(request=item.request, by=by, reason=item.reason, about=about))
        return
    row = request_rows.locked(item.request, None, among=(State.SUBMITTED,))
    matter = desks.matter_of(row)
    desks.check_decider(by, None, desks.Matter(matter.desk, matter.authors, matter.raised, given))
    requests.approved(row, by, None, item.reason, about, given)
    if decided is not None and decided.state == State.APPLIED:
        request_rows.applied(row)
    done.approved.append(row)


def _sentence(done: Closed) -> str:
    """What was done, for a message."""
    lines = []
    for decided in done.reallocations:
        changes = ", ".join(
            f"{line.node.code} {line.before / 100:.2f} > {line.after / 100:.2f} %"
            for line in decided.lines.select_related("node")
        )
        lines.append(f"{decided} on {decided.cluster} from {decided.starts_on}: {changes}")
    for word in ("approved", "denied", "undecided", "elsewhere"):
        if rows := getattr(done, word):
            said = "decided elsewhere meanwhile" if word == "elsewhere" else word
            lines.append(f"{said}: {', '.join(str(row) for row in rows)}")
    return "\n".join(lines) or "Nothing was changed."
