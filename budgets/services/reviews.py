"""Budget-review meetings: planned, opened on a frozen snapshot, and marked in pencil until they are closed.

Closing and applying is `review_closing`; what is frozen is `review_snapshots`.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext

from budgets import authority, queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import (
    WHOLE_BASIS_POINTS,
    BudgetNode,
    Cluster,
    Kind,
    Person,
    Request,
    Review,
    ReviewItem,
    Role,
    RoleGrant,
    State,
    Voice,
)
from budgets.sentences import said
from budgets.services import checks, ledger, messages
from budgets.services.review_snapshots import FiguresOf, Line, frozen, id_of, look
from budgets.services.review_totals import day_of, shares_on

TEXT_LENGTH = 2_000
TITLE_LENGTH = 120
LONGEST_DAYS = 366
ANSWERED_WITHIN = timedelta(days=1)
"""A request on the table of an open meeting does not go up by the clock for so long."""


def plan(
    *,
    node: BudgetNode,
    title: str,
    period_from: date,
    period_until: date,
    meets_at: datetime,
    applies_from: date,
    by: Person,
    hands_back_below_percent: int = 10,
    hands_back_percent: int = 25,
) -> Review:
    """Call a meeting about what the node's children got on the days [period_from, period_until), and get from
    `applies_from` on. Managers of the node may.

    Raises:
        InputError: no children, dates in no order or over, percentages out of bounds. NotAllowed: it isn't theirs.
    """
    with transaction.atomic():
        row = checks.locked(node)
        checks.allowed(by, "review.plan", row)
        if not row.children.filter(closed_at=None).exists():
            raise InputError("node", gettext("{row} has no children to share between").format(row=row.code))
        checks.days(
            period_from=period_from, period_until=period_until, meets_at=meets_at.date(), applies_from=applies_from
        )
        if not 1 <= (period_until - period_from).days <= LONGEST_DAYS:
            raise InputError(
                "period_until",
                gettext("must be 1 to {longest_days} days after the first day").format(longest_days=LONGEST_DAYS),
            )
        if applies_from < queries.today():
            raise InputError("applies_from", gettext("can't be a day that is over"))
        for field, value in (
            ("hands_back_below_percent", hands_back_below_percent),
            ("hands_back_percent", hands_back_percent),
        ):
            if type(value) is not int or not 0 <= value <= 100:
                raise InputError(field, gettext("must be a whole number from 0 to 100"))
        new = Review.objects.create(
            node=row, title=checks.line("title", title, length=TITLE_LENGTH), period_from=period_from,
            period_until=period_until, meets_at=meets_at, applies_from=applies_from, opened_by=by,
            hands_back_below_percent=hands_back_below_percent, hands_back_percent=hands_back_percent,
        )  # fmt: skip
        entry(new, "review.planned", by, None, _plain(new), new.title)
        at = timezone.localtime(meets_at, timezone.get_default_timezone())
        tell(new, f"{new.title}: budget review of {row.code} on {at:%Y-%m-%d, %H:%M %Z}", "planned")
        return new


def cancel(*, review: Review, by: Person, reason: str, version: int | None = None) -> Review:
    """Call a meeting off: nothing that was pencilled counts, and requests stay where they lie.

    Raises:
        ConflictError: it was closed or called off already, or changed since `version`. NotAllowed.
    """
    with transaction.atomic():
        row = locked(review, version, Review.State.PLANNED, Review.State.OPEN)
        checks.allowed(by, "review.decide", row)
        why = checks.reason(reason, by)
        before, row.state, row.closed_at, row.closed_by = row.state, Review.State.CANCELLED, timezone.now(), by
        save(row)
        entry(row, "review.cancelled", by, {"state": before}, {"state": row.state}, why)
        tell(row, f"{row.title}: the budget review of {row.node.code} was called off", "cancelled", why)
        return row


def open_review(
    *, review: Review, by: Person, figures_of: FiguresOf, version: int | None = None, now: datetime | None = None
) -> Review:
    """Begin the meeting: its figures and texts are frozen, and its agenda made of the open requests at the node's
    desk and the lines that the rules point at. Whoever manages the node and has a part in a line abstains from it.

    Raises:
        ConflictError: it is open, closed or called off already, changed, or another review of the node is open.
        InputError: the stated day is over. NotAllowed.
    """
    now = now or timezone.now()
    with transaction.atomic():
        checks.locked(review.node)
        row = locked(review, version, Review.State.PLANNED)
        checks.allowed(by, "review.decide", row)
        day = max(row.applies_from or queries.today(), queries.today())
        looked = look(row, figures_of, day, now)
        row.snapshot = frozen(row, looked, now)
        row.snapshot_id = id_of(row.snapshot)
        row.state, row.opened_at, row.applies_from, row.line = Review.State.OPEN, now, day, 0
        try:
            with transaction.atomic():
                save(row)
        except IntegrityError:
            raise ConflictError(
                gettext("another review of {node} is open; close it first").format(node=row.node.code)
            ) from None
        lines = [line for line in looked.lines if line.is_on_agenda]
        for position, line in enumerate(lines, 1):
            _add(row, line.node, line.cluster, position, line)
        asked = [line.request.pk for line in lines if line.request is not None]
        Request.objects.filter(pk__in=asked, answer_by__lt=now + ANSWERED_WITHIN).update(
            answer_by=now + ANSWERED_WITHIN, version=F("version") + 1
        )
        entry(row, "review.opened", by, None, {"snapshot_id": row.snapshot_id, "requests": asked}, "")
        return row


def take_up(*, review: Review, node: BudgetNode, cluster: Cluster, by: Person) -> ReviewItem:
    """Put another line on the agenda of an open meeting: what takes from it, or gives to it, has to name it.

    Raises:
        InputError: it is no open child. ConflictError: the meeting isn't open. NotAllowed.
    """
    with transaction.atomic():
        row = locked(review, None, Review.State.OPEN)
        checks.allowed(by, "review.present", row)
        child = row.node.children.filter(pk=node.pk, closed_at=None).first()
        if child is None:
            raise InputError(
                "node", gettext("{node} is no open child of {node_2}").format(node=node.code, node_2=row.node.code)
            )
        there = row.items.filter(node=child, cluster=cluster).first()
        if there is not None:
            return there
        item = _add(row, child, cluster, row.items.count() + 1, None)
        row.line = item.position
        save(row)
        return item


def show(*, review: Review, line: int, by: Person) -> Review:
    """Have everybody who follows see this item (from 1), or the agenda (0).

    Raises:
        InputError: there is no such item. ConflictError: the meeting isn't open. NotAllowed: they don't present.
    """
    with transaction.atomic():
        row = locked(review, None, Review.State.OPEN)
        checks.allowed(by, "review.present", row)
        count = row.items.count()
        if type(line) is not int or not 0 <= line <= count:
            raise InputError("line", gettext("must be a whole number from 0 to {count}").format(count=count))
        Review.objects.filter(pk=row.pk).update(line=line)
        row.line = line
        return row


def mark(
    *,
    item: ReviewItem,
    pencil: int | None,
    by: Person,
    reason: str = "",
    not_funded: str = "",
    look_again_on: date | None = None,
    version: int | None = None,
) -> ReviewItem:
    """Write in pencil what the line's share becomes, in basis points, and why; None takes the mark away, and leaves a
    request undecided. Nothing changes before the meeting is closed and applied.

    Raises:
        InputError: out of bounds, or a day to look again that is over. NotAllowed: no manager, or one who has a part in
            the line and so abstains. ConflictError: the meeting isn't open, or somebody marked it since `version`.
    """
    if pencil is not None and (type(pencil) is not int or not 0 <= pencil <= WHOLE_BASIS_POINTS):
        raise InputError("pencil", gettext("must be a whole number of basis points from 0 to 10,000"))
    with transaction.atomic():
        review = locked(item.review, None, Review.State.OPEN)
        checks.allowed(by, "review.decide", review)
        row = ReviewItem.objects.select_related("node", "cluster", "request").get(pk=item.pk)
        if version is not None and version != row.version:
            said = "as it is" if row.pencil is None else f"{row.pencil / 100:.2f} %"
            raise ConflictError(
                gettext("{node} was marked meanwhile, by {marked_by}: {said}").format(
                    node=row.node.code, marked_by=row.marked_by, said=said
                )
            )
        refuse_part(by, row)
        if look_again_on is not None and look_again_on <= day_of(review):
            raise InputError("look_again_on", gettext("must be later than the stated day"))
        row.now = shares_on(review, day_of(review)).get((row.node_id, row.cluster_id), 0)
        row.pencil, row.look_again_on, row.marked_by = pencil, look_again_on, by
        row.reason = checks.text("reason", reason, length=TEXT_LENGTH) if reason.strip() else ""
        row.not_funded = checks.text("not_funded", not_funded, length=TEXT_LENGTH) if not_funded.strip() else ""
        row.version += 1
        row.save()
        save(review)
        return row


def speak(*, item: ReviewItem, kind: str, by: Person, text: str = "") -> Voice | None:
    """Abstain or dissent, for the record; an empty kind takes one's voice back. Who presents or decides may.

    Raises:
        InputError: no such kind; a dissent without its reason; one's own part, from which one abstains.
        ConflictError: the meeting isn't open. NotAllowed.
    """
    with transaction.atomic():
        review = locked(item.review, None, Review.State.OPEN)
        checks.allowed(by, "review.present", review)
        if kind not in ("", *Voice.Kind.values):
            raise InputError("kind", gettext("must be one of {choices}").format(choices=", ".join(Voice.Kind.values)))
        row = ReviewItem.objects.select_related("node").get(pk=item.pk)
        if kind != Voice.Kind.ABSTAINS and authority.has_part_in(by, row.node):
            raise InputError("kind", gettext("you have a part in {node}, and abstain").format(node=row.node.code))
        said = checks.text("text", text, length=TEXT_LENGTH) if text.strip() else ""
        if kind == Voice.Kind.DISSENTS and not said:
            raise InputError("text", gettext("say why"))
        save(review)
        if not kind:
            row.voices.filter(person=by).delete()
            return None
        return row.voices.update_or_create(person=by, defaults={"kind": kind, "text": said})[0]


# --- shared with closing ------------------------------------------------------------------------------------------


def locked(review: Review, version: int | None, *among: str) -> Review:
    """The row as it is now, locked until the end of the transaction, without its snapshot.

    Raises:
        ConflictError: it is in none of these states (which says what happened), or was changed since `version`.
    """
    rows = Review.objects.select_for_update(of=("self",), no_key=True).defer("snapshot")
    row = rows.select_related("node", "opened_by", "closed_by").get(pk=review.pk)
    if row.state not in among:
        raise ConflictError(
            gettext("{title} {row}; nothing was changed").format(title=row.title, row=what_happened(row))
        )
    if version is not None and version != row.version:
        raise ConflictError(gettext("{title} was changed meanwhile; look at it again").format(title=row.title))
    return row


def what_happened(review: Review) -> str:
    """What became of a review, for whoever comes too late."""
    if review.closed_at is None:
        return gettext("is {state} now").format(state=said(review.state))
    at = timezone.localtime(review.closed_at, timezone.get_default_timezone())
    return gettext("was {state} on {day} at {time} by {person}").format(
        state=said(review.state), day=f"{at:%Y-%m-%d}", time=f"{at:%H:%M}", person=review.closed_by
    )


def refuse_part(by: Person, item: ReviewItem) -> None:
    """Nothing, if the person has no part in the line.

    Raises:
        NotAllowed: they have a role or submit workloads there, or asked for it themselves.
    """
    if item.request is not None and item.request.author_id == by.pk:
        raise NotAllowed(
            "review.mark", gettext("{request} is your own: another manager marks it").format(request=item.request)
        )
    if authority.has_part_in(by, item.node):
        raise NotAllowed(
            "review.mark",
            gettext("you have a part in {node}, and abstain: another manager marks it").format(node=item.node.code),
        )


def save(review: Review) -> None:
    """Store a locked review, and let everybody who follows see that something changed."""
    review.version += 1
    review.save()


def entry(
    review: Review, verb: str, by: Person | None, before: ledger.State | None, after: ledger.State | None, why: str
) -> None:
    """One entry about a review."""
    ledger.record(
        verb=verb, node=review.node, by=by, before=before, after=after, reason=why, about=ledger.About(review=review)
    )


def tell(review: Review, subject: str, happened: str, text: str = "") -> None:
    """Tell the managers and reviewers of the node; and, in one line and without a way in, the managers of its children,
    who may not read what is said there about the others.
    """
    grants = RoleGrant.objects.filter(queries.in_force(queries.today())).select_related("person")
    at = grants.filter(node=review.node, role__in=[Role.MANAGER, Role.REVIEWER])
    below = grants.filter(node__parent=review.node, node__closed_at=None, role=Role.MANAGER)
    inside = {grant.person_id: grant.person for grant in at}
    outside = {grant.person_id: grant.person for grant in below if grant.person_id not in inside}
    key = f"review:{review.pk}:{happened}"
    messages.tell(
        to=inside.values(), kind=Kind.REVIEW, subject=subject, text=text, path=f"/reviews/{review.pk}/", key=key
    )
    messages.tell(to=outside.values(), kind=Kind.REVIEW, subject=subject, path=f"/budget/{review.node.code}/", key=key)


def _add(review: Review, node: BudgetNode, cluster: Cluster, position: int, line: Line | None) -> ReviewItem:
    """Another item, with the abstentions of the managers of the node who have a part in it."""
    now = line.now if line else shares_on(review, day_of(review)).get((node.pk, cluster.pk), 0)
    item = ReviewItem.objects.create(
        review=review, position=position, node=node, cluster=cluster, request=line.request if line else None,
        rule=line.rule if line else "", now=now, proposed=line.proposed if line else now,
    )  # fmt: skip
    grants = RoleGrant.objects.filter(queries.in_force(queries.today()), node=review.node, role=Role.MANAGER)
    Voice.objects.bulk_create(
        Voice(item=item, person=grant.person, kind=Voice.Kind.ABSTAINS, text=f"has a part in {node.code}")
        for grant in grants.select_related("person").order_by("person")
        if authority.has_part_in(grant.person, node)
    )
    return item


def _plain(review: Review) -> ledger.State:
    return {
        "title": review.title,
        "period_from": review.period_from.isoformat(),
        "period_until": review.period_until.isoformat(),
        "meets_at": review.meets_at.isoformat(),
        "applies_from": review.applies_from.isoformat() if review.applies_from else None,
        "hands_back_below_percent": review.hands_back_below_percent,
        "hands_back_percent": review.hands_back_percent,
    }


def open_request(item: ReviewItem, review: Review) -> bool:
    """Whether the item's request still waits for this node's decision."""
    asked = item.request
    return asked is not None and asked.state == State.SUBMITTED and asked.desk_id == review.node_id
