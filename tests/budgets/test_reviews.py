"""Budget reviews: planning, the frozen snapshot, pencil marks, close and apply once, and "did it work?"."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import (
    BudgetNode,
    Cluster,
    FollowUp,
    LedgerEntry,
    Message,
    Person,
    Reallocation,
    Request,
    Review,
    ReviewItem,
    Role,
    Share,
    State,
    Voice,
)
from budgets.queries import in_force, today
from budgets.services import (
    follow_ups,
    reallocation_deadlines,
    reallocations,
    request_deadlines,
    requests,
    review_closing,
    review_totals,
    reviews,
    roles,
)
from budgets.services.review_snapshots import BOOKS, LineFigures, id_of
from tests.budgets.laboratory import Lab

HOUR = int(datetime(2026, 11, 2, 9, tzinfo=UTC).timestamp())


def figures_of(nodes: Sequence[BudgetNode], cluster: Cluster, start: datetime, end: datetime) -> list[LineFigures]:
    """A1 was busy and short, A2 asked for next to nothing; others have no figures."""
    known = {
        "A1": [[HOUR, 100, 80, 0, 20, 0, 0, 0, 0], [HOUR + 3600, 100, 100, 0, 0, 0, 0, 0, 30]],
        "A2": [[HOUR, 50, 2, 48, 0, 0, 0, 10, 0]],
    }
    return [LineFigures(node.pk, cluster.pk, known.get(node.code, []), 7, 5, 3) for node in nodes]


def asked(lab: Lab, node: BudgetNode, by: Person, more: int = 500, **fields) -> Request:
    """A submitted request."""
    asks = {"starts_on": today(), "why": "the spring runs", "otherwise": "they wait", **fields}
    new = requests.draft(node=node, cluster=lab.north, more_basis_points=more, by=by, **asks)
    return requests.submit(request=new, by=by)


def planned(lab: Lab, *, by: Person | None = None, **fields) -> Review:
    """A review of A by its PI, which applies from today."""
    said = {"period_from": date(2026, 10, 1), "period_until": date(2026, 12, 1), "applies_from": today(), **fields}
    return reviews.plan(
        node=said.pop("node", lab.a),
        title="Autumn review",
        meets_at=said.pop("meets_at", timezone.now()),
        by=by or lab.pi,
        **said,
    )


@pytest.fixture
def meeting(lab: Lab) -> Review:
    """Open, with A1's request for 5 % more and A2's rule on the agenda. A1 has 50 %, A2 40 %."""
    lab.give(lab.a, {lab.a2: 4000})
    asked(lab, lab.a1, lab.member)
    return reviews.open_review(review=planned(lab), by=lab.pi, figures_of=figures_of)


def item(meeting: Review, code: str) -> ReviewItem:
    return meeting.items.get(node__code=code)


def shares_on(lab: Lab, day: date) -> dict[str, int]:
    """Basis points of A's children."""
    rows = Share.objects.filter(in_force(day), parent=lab.a).select_related("node")
    return {share.node.code: share.basis_points for share in rows}


def close(meeting: Review, by: Person, **fields) -> review_closing.Closed:
    said = {"applies_from": today(), "reason": "as discussed", **fields}
    return review_closing.close_and_apply(review=meeting, by=by, **said)


# --- planning and opening -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("year", [1, 9999])
def test_a_meeting_is_in_years_that_can_be_counted_from(lab: Lab, year: int) -> None:
    with pytest.raises(InputError) as refused:
        planned(lab, meets_at=datetime(year, 12, 31, 23, 59, tzinfo=UTC))
    assert refused.value.field == "meets_at"
    assert Review.objects.count() == 0


def test_only_managers_plan_and_both_sides_are_told(lab: Lab) -> None:
    facilitator = Person.objects.create_user("facilitator")
    roles.grant(person=facilitator, node=lab.a, role=Role.REVIEWER, valid_from=today(), by=None)
    for person in (lab.lead, lab.member, facilitator, lab.stranger):
        with pytest.raises(NotAllowed):
            planned(lab, by=person)
    with pytest.raises(InputError, match="period_until"):
        planned(lab, period_until=date(2026, 10, 1))
    with pytest.raises(InputError, match="no children"):
        planned(lab, node=lab.a1)
    assert not Review.objects.exists()

    review = planned(lab)
    assert review.state == Review.State.PLANNED
    told = Message.objects.filter(kind="review").order_by("person__username")
    inside, outside = f"/reviews/{review.pk}/", "/budget/A/"  # the lead of a child may not read about the others
    assert [(message.person.username, message.path) for message in told] == [
        ("facilitator", inside), ("lead", outside), ("pi", inside),
    ]  # fmt: skip
    assert list(LedgerEntry.objects.filter(review_id=review.pk).values_list("verb", flat=True)) == ["review.planned"]


def test_opening_freezes_figures_texts_and_agenda(lab: Lab, meeting: Review) -> None:
    snapshot = Review.objects.get(pk=meeting.pk).snapshot
    assert id_of(snapshot) == meeting.snapshot_id
    lines = {line["code"]: line for line in snapshot["lines"]}
    assert lines["A1"]["totals"] == {
        "entitled": 200, "within": 180, "not_asked": 0, "not_delivered": 20, "in_repair": 0, "moved_in": 0,
        "moved_out": 0, "borrowed": 30, "owed": 7, "useful": 5, "planned": 3, "hours": 2,
    }  # fmt: skip
    for line in lines.values():
        for _, *hour in line["hours"]:
            books = dict(zip(BOOKS, hour, strict=True))
            assert books["entitled"] == sum(books[part] for part in BOOKS[1:5])
    rows = [(i.node.code, i.now, i.proposed, bool(i.rule), i.request is not None) for i in meeting.items.all()]
    assert rows == [("A1", 5000, 5500, False, True), ("A2", 4000, 3000, True, False)]
    assert "4.0 % of its entitlement" in item(meeting, "A2").rule
    assert [request["why"] for request in snapshot["requests"]] == ["the spring runs"]

    # The frozen figures stay, whatever happens outside.
    lab.give(lab.a, {lab.a2: 3900})
    assert id_of(Review.objects.get(pk=meeting.pk).snapshot) == meeting.snapshot_id


def test_the_rule_fills_in_and_never_cuts(lab: Lab, meeting: Review) -> None:
    assert item(meeting, "A2").pencil is None
    done = close(meeting, lab.pi)
    assert (done.reallocations, shares_on(lab, today())) == ([], {"A1": 5000, "A2": 4000})


def test_one_open_review_of_a_node(lab: Lab, meeting: Review) -> None:
    other = planned(lab)
    with pytest.raises(ConflictError, match="another review"):
        reviews.open_review(review=other, by=lab.pi, figures_of=figures_of)
    with pytest.raises(ConflictError, match="is open now"):
        reviews.open_review(review=meeting, by=lab.pi, figures_of=figures_of)


# --- the meeting --------------------------------------------------------------------------------------------------


def test_who_presents_and_who_marks(lab: Lab, meeting: Review) -> None:
    facilitator = Person.objects.create_user("facilitator")
    roles.grant(person=facilitator, node=lab.root, role=Role.REVIEWER, valid_from=today(), by=None)
    assert reviews.show(review=meeting, line=2, by=facilitator).line == 2
    with pytest.raises(InputError, match="from 0 to 2"):
        reviews.show(review=meeting, line=3, by=lab.pi)
    for person in (facilitator, lab.lead, lab.member):
        with pytest.raises(NotAllowed):
            reviews.mark(item=item(meeting, "A2"), pencil=3000, by=person)
    for person in (lab.lead, lab.member):
        with pytest.raises(NotAllowed):
            reviews.show(review=meeting, line=1, by=person)


def test_whoever_has_a_part_abstains(lab: Lab) -> None:
    lab.give(lab.a, {lab.a2: 4000})
    both = Person.objects.create_user("both")
    for node, role in ((lab.a, Role.MANAGER), (lab.a2, Role.MEMBER)):
        roles.grant(person=both, node=node, role=role, valid_from=today(), by=None)
    meeting = reviews.open_review(review=planned(lab), by=lab.pi, figures_of=figures_of)
    a2 = item(meeting, "A2")
    assert [(voice.person, voice.kind) for voice in a2.voices.all()] == [(both, Voice.Kind.ABSTAINS)]
    with pytest.raises(NotAllowed, match="abstain"):
        reviews.mark(item=a2, pencil=5000, by=both)
    with pytest.raises(InputError, match="abstain"):
        reviews.speak(item=a2, kind="dissents", text="no", by=both)
    # Nor by closing what another marked: a raise of one's own is another's to apply.
    reviews.mark(item=a2, pencil=5000, reason="more", by=lab.pi)
    with pytest.raises(NotAllowed, match="part in A2"):
        close(meeting, both)
    assert shares_on(lab, today())["A2"] == 4000


def test_an_old_tab_does_not_overwrite_a_mark(lab: Lab, meeting: Review) -> None:
    a1 = item(meeting, "A1")
    reviews.mark(item=a1, pencil=5200, by=lab.pi, version=a1.version)
    with pytest.raises(ConflictError, match=r"marked meanwhile, by .*52\.00 %"):
        reviews.mark(item=a1, pencil=5300, by=lab.chief, version=a1.version)
    assert item(meeting, "A1").pencil == 5200


def test_dissent_says_why_and_is_taken_back(lab: Lab, meeting: Review) -> None:
    a1 = item(meeting, "A1")
    with pytest.raises(InputError, match="say why"):
        reviews.speak(item=a1, kind="dissents", by=lab.chief)
    reviews.speak(item=a1, kind="dissents", text="too early", by=lab.chief)
    assert [(v.person, v.text) for v in a1.voices.all()] == [(lab.chief, "too early")]
    reviews.speak(item=a1, kind="", by=lab.chief)
    assert not a1.voices.exists()


# --- closing ------------------------------------------------------------------------------------------------------


def test_close_and_apply_in_one_transaction(lab: Lab, meeting: Review) -> None:
    again = today() + timedelta(days=20)
    reviews.mark(item=item(meeting, "A2"), pencil=3000, reason="went unused", by=lab.pi)
    reviews.mark(
        item=item(meeting, "A1"), pencil=5300, reason="for the spring", not_funded="2.00 % of the 5.00 %",
        look_again_on=again, by=lab.pi,
    )  # fmt: skip
    assert [(each.total, each.over, each.unassigned) for each in review_totals.standing(meeting)] == [(8300, 0, 1700)]
    done = close(meeting, lab.pi)
    decided = Reallocation.objects.get()
    assert [each.pk for each in done.reallocations] == [decided.pk]
    assert (decided.state, decided.review, decided.decided_by) == (State.APPLIED, meeting, lab.pi)
    assert {line.node.code: (line.before, line.after) for line in decided.lines.all()} == {
        "A1": (5000, 5300), "A2": (4000, 3000),
    }  # fmt: skip
    assert "A1: for the spring" in decided.decision_reason
    assert decided.evidence["snapshot_id"] == meeting.snapshot_id
    assert decided.evidence["items"]["A1"]["borrowed"] == 30
    assert shares_on(lab, today()) == {"A1": 5300, "A2": 3000}
    request = Request.objects.get()
    assert (request.state, request.decided_by, request.decision_reason) == (State.APPLIED, lab.pi, "for the spring")
    assert FollowUp.objects.get().due_on == again
    meeting.refresh_from_db()
    assert (meeting.state, meeting.closed_by, meeting.applies_from) == (Review.State.CLOSED, lab.pi, today())


def test_it_counts_from_the_stated_day_on(lab: Lab, meeting: Review) -> None:
    later = today() + timedelta(days=7)
    reviews.mark(item=item(meeting, "A1"), pencil=5500, reason="yes", by=lab.pi)
    close(meeting, lab.pi, applies_from=later)
    assert (shares_on(lab, today())["A1"], shares_on(lab, later)["A1"]) == (5000, 5500)
    assert Request.objects.get().state == State.APPROVED
    reallocation_deadlines.apply_due(now=datetime.combine(later, datetime.min.time(), UTC) + timedelta(hours=1))
    assert (Request.objects.get().state, Reallocation.objects.get().state) == (State.APPLIED, State.APPLIED)


def test_a_request_for_a_while_is_given_for_a_while(lab: Lab) -> None:
    until = today() + timedelta(days=30)
    lab.give(lab.a, {lab.a2: 5000})
    asked(lab, lab.a1, lab.member, ends_on=until)
    meeting = reviews.open_review(review=planned(lab), by=lab.pi, figures_of=figures_of)
    reviews.mark(item=item(meeting, "A1"), pencil=5500, reason="for a while", by=lab.pi)
    reviews.mark(item=item(meeting, "A2"), pencil=4500, reason="went unused", by=lab.pi)
    close(meeting, lab.pi)
    assert shares_on(lab, today()) == {"A1": 5500, "A2": 4500}
    assert shares_on(lab, until) == {"A1": 5000, "A2": 4500}


def test_no_more_gives_a_denial_and_no_mark_leaves_it_open(lab: Lab) -> None:
    lab.give(lab.a, {lab.a2: 4000})
    researcher = Person.objects.create_user("researcher")
    roles.grant(person=researcher, node=lab.a2, role=Role.MEMBER, valid_from=today(), by=None)
    denied, undecided = asked(lab, lab.a1, lab.member), asked(lab, lab.a2, researcher)
    Request.objects.filter(pk=undecided.pk).update(answer_by=timezone.now())
    meeting = reviews.open_review(review=planned(lab), by=lab.pi, figures_of=figures_of)
    assert request_deadlines.escalate() == 0  # it lies on the table
    reviews.mark(item=item(meeting, "A1"), pencil=5000, reason="not now", by=lab.pi)
    done = close(meeting, lab.pi)
    assert (done.denied, done.undecided, done.reallocations) == ([denied], [undecided], [])
    denied.refresh_from_db()
    undecided.refresh_from_db()
    assert (denied.state, denied.decision_reason) == (State.DENIED, "not now")
    assert (undecided.state, undecided.desk) == (State.SUBMITTED, lab.a)
    assert undecided.answer_by > timezone.now() + timedelta(days=6)


@pytest.mark.parametrize("fault", ["over", "no reason", "stale", "a day that is over", "changed"])
def test_what_can_not_be_closed_changes_nothing(lab: Lab, meeting: Review, fault: str) -> None:
    reviews.mark(item=item(meeting, "A1"), pencil=5500, reason="yes", by=lab.pi)
    more, error, said = {}, InputError, "applies_from"
    if fault == "over":
        reviews.mark(item=item(meeting, "A2"), pencil=4501, reason="yes", by=lab.pi)
        said = r"north: the shares would sum to 100\.01 %, 0\.01 % too much"
    elif fault == "no reason":
        reviews.mark(item=item(meeting, "A2"), pencil=4000, by=lab.pi)
        said = "item 2, A2 on north: its mark has no reason yet"
    elif fault == "stale":
        lab.give(lab.a, {lab.a1: 4800}, today())
        error, said = ConflictError, r"A1 has 48\.00 %"
    elif fault == "a day that is over":
        more["applies_from"] = today() - timedelta(days=1)
    else:
        more["version"] = meeting.version
        error, said = ConflictError, "changed meanwhile"
    before = shares_on(lab, today())
    with pytest.raises(error, match=said):
        close(meeting, lab.pi, **more)
    meeting.refresh_from_db()
    assert (meeting.state, shares_on(lab, today())) == (Review.State.OPEN, before)
    assert Request.objects.get().state == State.SUBMITTED
    assert not Reallocation.objects.exists()


def test_a_second_time_says_what_happened(lab: Lab, meeting: Review) -> None:
    reviews.mark(item=item(meeting, "A1"), pencil=5500, reason="yes", by=lab.pi)
    close(meeting, lab.pi)
    with pytest.raises(ConflictError, match=r"was closed on .* by .*; nothing was changed"):
        close(meeting, lab.chief)
    with pytest.raises(ConflictError, match="was closed"):
        reviews.mark(item=item(meeting, "A1"), pencil=5600, by=lab.pi)
    with pytest.raises(ConflictError, match="was closed"):
        reviews.cancel(review=meeting, by=lab.pi, reason="no")
    assert Reallocation.objects.count() == 1


def test_a_request_that_was_decided_meanwhile_is_left_alone(lab: Lab, meeting: Review) -> None:
    request = Request.objects.get()
    reviews.mark(item=item(meeting, "A1"), pencil=5000, reason="not now", by=lab.pi)
    requests.deny(request=request, by=lab.chief, reason="no")
    done = close(meeting, lab.pi)
    assert (done.elsewhere, done.denied) == ([request], [])
    request.refresh_from_db()
    assert request.decided_by == lab.chief


def test_a_cancelled_review_changes_nothing(lab: Lab, meeting: Review) -> None:
    reviews.mark(item=item(meeting, "A1"), pencil=5500, reason="yes", by=lab.pi)
    reviews.cancel(review=meeting, by=lab.pi, reason="no quorum")
    assert shares_on(lab, today()) == {"A1": 5000, "A2": 4000}
    assert Request.objects.get().state == State.SUBMITTED
    with pytest.raises(ConflictError, match="was cancelled"):
        close(meeting, lab.pi)


@pytest.mark.django_db(transaction=True)
def test_two_facilitators_close_at_once(transactional_db: None) -> None:
    from tests.budgets.laboratory import build

    lab = build()
    lab.give(lab.a, {lab.a2: 4000})
    asked(lab, lab.a1, lab.member)
    meeting = reviews.open_review(review=planned(lab), by=lab.pi, figures_of=figures_of)
    reviews.mark(item=item(meeting, "A1"), pencil=5500, reason="yes", by=lab.pi)
    said: list[str] = []
    start = threading.Barrier(2)

    def one(person: Person) -> None:
        start.wait()
        try:
            close(meeting, person)
            said.append("closed")
        except ConflictError as error:
            said.append(error.message)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(person,)) for person in (lab.pi, lab.chief)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(word.split(" ")[0] for word in said) == ["Autumn", "closed"]
    assert Reallocation.objects.count() == FollowUp.objects.count() == 1
    assert shares_on(lab, today()) == {"A1": 5500, "A2": 4000}


# --- did it work? -------------------------------------------------------------------------------------------------


def books_of(nodes: Sequence[BudgetNode], cluster: Cluster, start: date, end: date) -> dict[int, dict[str, int]]:
    """As many as there are days."""
    return {node.pk: {"entitled_milli_s": (end - start).days} for node in nodes}


def applied(lab: Lab, days_ago: int) -> FollowUp:
    """A decision whose first day was so many days ago."""
    decided = reallocations.apply_directly(
        parent=lab.a, cluster=lab.north, shares={lab.a2: 1000}, starts_on=today(), by=lab.pi, reason="try it"
    )
    Reallocation.objects.filter(pk=decided.pk).update(starts_on=today() - timedelta(days=days_ago))
    FollowUp.objects.update(due_on=today() - timedelta(days=days_ago - 28))
    return FollowUp.objects.get()


def test_it_is_asked_once_when_it_is_due(lab: Lab) -> None:
    row = applied(lab, 27)
    assert (follow_ups.ask_due(), list(follow_ups.due_for(lab.pi))) == (0, [])
    with pytest.raises(InputError, match="it is asked on"):
        follow_ups.answer(follow_up=row, verdict="worked", text="well", by=lab.pi, books_of=books_of)
    FollowUp.objects.update(due_on=today())
    assert (follow_ups.ask_due(), follow_ups.ask_due()) == (1, 0)
    assert [message.person for message in Message.objects.filter(kind="follow_up")] == [lab.pi]
    assert (list(follow_ups.due_for(lab.pi)), list(follow_ups.due_for(lab.lead))) == ([row], [])


def test_it_is_answered_once_by_a_manager_there_with_the_figures(lab: Lab) -> None:
    row = applied(lab, 30)
    for person in (lab.lead, lab.member):
        with pytest.raises(NotAllowed):
            follow_ups.answer(follow_up=row, verdict="worked", text="well", by=person, books_of=books_of)
    for bad in ({"verdict": "splendid", "text": "x"}, {"verdict": "worked", "text": " "}):
        with pytest.raises(InputError):
            follow_ups.answer(follow_up=row, by=lab.pi, books_of=books_of, **bad)
    done = follow_ups.answer(follow_up=row, verdict="partly", text="half of it", by=lab.pi, books_of=books_of)
    assert done.figures["nodes"] == {"A2": {"before": {"entitled_milli_s": 28}, "after": {"entitled_milli_s": 28}}}
    assert (done.answered_by, done.verdict) == (lab.pi, "partly")
    with transaction.atomic(), pytest.raises(ConflictError, match=r"answered already, by .*: Partly"):
        follow_ups.answer(follow_up=row, verdict="worked", text="well", by=lab.chief, books_of=books_of)
    assert LedgerEntry.objects.filter(verb="follow_up.answered").count() == 1


def test_the_database_keeps_what_is_frozen_and_what_is_over(lab: Lab, meeting: Review) -> None:
    a1 = item(meeting, "A1")
    reviews.speak(item=a1, kind="dissents", text="too early", by=lab.chief)

    def refused(change) -> bool:
        try:
            with transaction.atomic():
                change()
        except IntegrityError:
            return True
        return False

    here = Review.objects.filter(pk=meeting.pk)
    assert refused(lambda: here.update(snapshot={}))
    assert refused(lambda: here.update(snapshot_id="0" * 16))
    assert not refused(lambda: a1.voices.update(text="too soon"))
    close(meeting, lab.pi)
    assert refused(lambda: here.update(title="another"))
    assert refused(lambda: here.delete())
    assert refused(lambda: ReviewItem.objects.filter(pk=a1.pk).update(pencil=1))
    assert refused(lambda: a1.voices.update(text="never mind"))
    assert refused(lambda: a1.voices.all().delete())
    assert refused(lambda: Voice.objects.create(item=a1, person=lab.pi, kind="abstains"))
