"""Requests and reallocations: their whole life, and every road by which one might decide one's own."""

from __future__ import annotations

import threading
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from budgets import desks
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import (
    BudgetNode,
    Delegation,
    House,
    LedgerEntry,
    Message,
    Person,
    Reallocation,
    Request,
    Role,
    Share,
    State,
)
from budgets.queries import in_force, midnight, today, tree_on
from budgets.services import (
    delegations,
    people,
    reallocation_deadlines,
    reallocations,
    request_deadlines,
    requests,
    roles,
)
from tests.budgets.laboratory import Lab


def asked(lab: Lab, *, by: Person | None = None, more: int = 500, **fields) -> Request:
    """A submitted request of A1 for more of A."""
    asks = {"starts_on": today(), "why": "the spring runs", "otherwise": "they wait", **fields}
    node = asks.pop("node", lab.a1)
    new = requests.draft(node=node, cluster=lab.north, more_basis_points=more, by=by or lab.member, **asks)
    return requests.submit(request=new, by=new.author)


def second_manager(lab: Lab, code: str = "root") -> Person:
    """Another manager of the root (or of A)."""
    person = Person.objects.create_user(f"second-{code}")
    roles.grant(person=person, node=getattr(lab, code), role=Role.MANAGER, valid_from=date(2026, 1, 1), by=None)
    return person


def shares_now(lab: Lab) -> dict[str, int]:
    """Basis points of all nodes in force today."""
    rows = Share.objects.filter(in_force(today())).select_related("node")
    return {share.node.code: share.basis_points for share in rows}


def verbs(subject: Request | Reallocation) -> list[str]:
    """What the ledger says of it, the oldest first."""
    key = "request_id" if isinstance(subject, Request) else "reallocation_id"
    return list(LedgerEntry.objects.filter(**{key: subject.pk}).order_by("id").values_list("verb", flat=True))


# --- a request's life ---------------------------------------------------------------------------------------------


def give(lab: Lab, shares: dict[BudgetNode, int], *, by: Person, **more: Any) -> Reallocation:
    """A decision on shares, of A on north from today on unless `more` says otherwise."""
    said = {"parent": lab.a, "starts_on": today(), "reason": "yes", **more}
    return reallocations.apply_directly(cluster=lab.north, shares=shares, by=by, **said)


def test_from_draft_to_applied(lab: Lab) -> None:
    draft = requests.draft(
        node=lab.a1,
        cluster=lab.north,
        more_basis_points=500,
        starts_on=today(),
        why="the spring runs",
        otherwise="they wait",
        by=lab.member,
    )
    assert (draft.state, verbs(draft)) == (State.DRAFT, [])
    request = requests.submit(request=draft, by=lab.member, figures={"owed": 12})
    assert (request.state, request.desk, request.figures) == (State.SUBMITTED, lab.a, {"owed": 12})
    assert [m.person for m in Message.objects.filter(kind="to_decide")] == [lab.pi]
    back = requests.give_back(request=request, by=lab.pi, reason="which runs?")
    requests.edit(
        request=back,
        node=lab.a1,
        cluster=lab.north,
        more_basis_points=400,
        starts_on=today(),
        why="runs 7 to 9",
        otherwise="they wait",
        by=lab.member,
    )
    again = requests.submit(request=back, by=lab.member)
    decision = give(lab, {lab.a1: 5400}, by=lab.pi, reason="agreed", request=again)
    again.refresh_from_db()
    assert (again.state, again.decided_by, decision.state) == (State.APPLIED, lab.pi, State.APPLIED)
    assert shares_now(lab)["A1"] == 5400
    assert verbs(request) == [
        "request.submitted",
        "request.returned",
        "request.submitted",
        "share.changed",
        "reallocation.approved",
        "request.approved",
        "reallocation.applied",
    ]
    told = Message.objects.filter(person=lab.member, kind="decision").values_list("subject", flat=True)
    assert any("approved" in subject for subject in told)


def test_every_plus_names_its_minus(lab: Lab) -> None:
    lab.give(lab.a, {lab.a1: 5000, lab.a2: 5000})
    request = asked(lab)
    with pytest.raises(InputError, match="500 too many"):
        give(lab, {lab.a1: 5500}, by=lab.pi, request=request)
    give(lab, {lab.a1: 5500, lab.a2: 4500}, by=lab.pi, request=request)
    assert (shares_now(lab)["A1"], shares_now(lab)["A2"]) == (5500, 4500)


def test_approving_must_raise_who_asked(lab: Lab) -> None:
    request = asked(lab)
    with pytest.raises(InputError, match="gives it none"):
        give(lab, {lab.a2: 100}, by=lab.pi, reason="no", request=request)
    request.refresh_from_db()
    assert request.state == State.SUBMITTED
    assert not Reallocation.objects.exists()


def test_a_decision_is_made_once(lab: Lab) -> None:
    request = asked(lab)
    requests.deny(request=request, by=lab.pi, reason="not now")
    for late in (
        lambda: requests.deny(request=request, by=lab.pi, reason="not now"),
        lambda: requests.withdraw(request=request, by=lab.member),
        lambda: requests.give_back(request=request, by=lab.pi, reason="why?"),
        lambda: give(lab, {lab.a1: 5500}, by=lab.pi, request=request),
    ):
        with pytest.raises(ConflictError, match=r"was denied on 20\d\d-.* by .*nothing was changed"):
            late()
    assert shares_now(lab)["A1"] == 5000
    assert verbs(request) == ["request.submitted", "request.denied"]


def test_it_takes_effect_on_its_first_day_and_not_before(lab: Lab) -> None:
    first = today() + timedelta(days=3)
    request = asked(lab, starts_on=first)
    decision = give(lab, {lab.a1: 5500}, by=lab.pi, starts_on=first, request=request)
    assert (decision.state, shares_now(lab)["A1"]) == (State.APPROVED, 5000)
    assert reallocation_deadlines.apply_due(now=timezone.now()) == 0
    later = timezone.now() + timedelta(days=3)
    assert [reallocation_deadlines.apply_due(now=later) for _ in range(2)] == [1, 0]
    request.refresh_from_db()
    assert request.state == State.APPLIED
    assert verbs(decision).count("reallocation.applied") == 1


def test_for_a_time_only(lab: Lab) -> None:
    start, end = today(), today() + timedelta(days=14)
    request = asked(lab, ends_on=end)
    give(lab, {lab.a1: 5500}, by=lab.pi, starts_on=start, ends_on=end, request=request)
    after = (
        Share.objects.filter(node=lab.a1)
        .order_by("valid_from")
        .values_list("basis_points", "valid_from", "valid_until")
    )
    assert list(after)[-2:] == [(5500, start, end), (5000, end, None)]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("more_basis_points", 0, "1 to 10,000"),
        ("more_basis_points", 2.5, "whole number"),
        ("starts_on", date(2020, 1, 1), "over"),
        ("starts_on", date(9999, 12, 31), "2000 to 2999"),
        ("ends_on", date(2020, 1, 1), "later"),
        ("useless_on", date(2020, 1, 1), "to come"),
        ("why", "  ", "empty"),
        ("otherwise", "\x00", "U\\+0000"),
    ],
)
def test_bad_input_stores_nothing(lab: Lab, field: str, value: object, message: str) -> None:
    fields = {"more_basis_points": 100, "starts_on": today(), "why": "w", "otherwise": "o", field: value}
    with pytest.raises(InputError, match=message) as fault:
        requests.draft(node=lab.a1, cluster=lab.north, by=lab.member, **fields)
    assert fault.value.field == field
    assert not Request.objects.exists()


# --- nobody decides their own -------------------------------------------------------------------------------------


def test_not_ones_own_by_a_second_role(lab: Lab) -> None:
    roles.grant(person=lab.pi, node=lab.a1, role=Role.MEMBER, valid_from=today(), by=None)
    request = asked(lab, by=Person.objects.get(pk=lab.pi.pk))
    assert request.desk == lab.root  # nobody else sits at A
    with pytest.raises(NotAllowed, match="their own"):
        requests.deny(request=request, by=Person.objects.get(pk=lab.pi.pk), reason="mine")


def test_not_what_one_has_a_part_in(lab: Lab) -> None:
    roles.grant(person=lab.pi, node=lab.a1, role=Role.MEMBER, valid_from=today(), by=None)
    request = asked(lab)
    assert request.desk == lab.root
    with pytest.raises(NotAllowed, match="part in A1"):
        requests.deny(request=request, by=Person.objects.get(pk=lab.pi.pk), reason="mine")
    requests.deny(request=request, by=lab.chief, reason="not now")


def test_not_by_a_delegate_of_the_author(lab: Lab) -> None:
    request = asked(lab, by=lab.pi, node=lab.a, more=100)
    delegations.give(
        giver=lab.chief,
        delegate=lab.pi,
        node=lab.root,
        limit_basis_points=5000,
        valid_from=today(),
        valid_until=today() + timedelta(days=9),
    )
    with pytest.raises(NotAllowed, match="their own"):  # acting for somebody else
        requests.deny(request=request, by=lab.pi, reason="mine", acting_for=lab.chief)
    other = asked(lab, node=lab.a1, by=lab.lead)
    Delegation.objects.all().delete()
    second_manager(lab, "a")
    delegations.give(
        giver=lab.lead,
        delegate=lab.stranger,
        node=lab.a1,
        limit_basis_points=5000,
        valid_from=today(),
        valid_until=today() + timedelta(days=9),
    )
    with pytest.raises(NotAllowed, match="their own"):  # the delegate whom the author appointed
        requests.deny(request=other, by=lab.stranger, reason="for a friend", acting_for=lab.lead)


def test_the_database_refuses_it_too(lab: Lab) -> None:
    request = asked(lab)
    with pytest.raises(IntegrityError, match="not_decided_by_its_author"), transaction.atomic():
        Request.objects.filter(pk=request.pk).update(decided_by=lab.member)


def test_a_direct_change_of_ones_own_goes_up(lab: Lab) -> None:
    roles.grant(person=lab.pi, node=lab.a1, role=Role.MEMBER, valid_from=today(), by=None)
    pi = Person.objects.get(pk=lab.pi.pk)
    with pytest.raises(NotAllowed, match="part in A1"):
        give(lab, {lab.a1: 6000}, by=pi, reason="mine")
    draft = reallocations.draft(
        parent=lab.a, cluster=lab.north, shares={lab.a1: 6000}, starts_on=today(), by=pi, reason="mine"
    )
    proposed = reallocations.propose(reallocation=draft, by=pi)
    assert proposed.desk == lab.root
    with pytest.raises(NotAllowed):
        reallocations.approve(reallocation=proposed, by=pi, reason="mine")
    done = reallocations.approve(reallocation=proposed, by=lab.chief, reason="they need it")
    assert (done.state, shares_now(lab)["A1"], done.decided_by) == (State.APPLIED, 6000, lab.chief)


def test_at_the_root_another_manager_decides(lab: Lab) -> None:
    roles.grant(person=lab.chief, node=lab.b, role=Role.MEMBER, valid_from=today(), by=None)
    chief = Person.objects.get(pk=lab.chief.pk)
    draft = reallocations.draft(
        parent=lab.root,
        cluster=lab.north,
        shares={lab.a: 6000, lab.b: 4000},
        starts_on=today(),
        by=chief,
        reason="mine",
    )
    with pytest.raises(InputError, match="nobody but those"):
        reallocations.propose(reallocation=draft, by=chief)
    other = second_manager(lab)
    proposed = reallocations.propose(reallocation=draft, by=chief)
    reallocations.approve(reallocation=proposed, by=other, reason="fine")
    assert shares_now(lab)["B"] == 4000


@pytest.mark.parametrize("objects", [False, True])
def test_at_the_root_with_three_days_notice(lab: Lab, objects: bool) -> None:
    delegations.change_house(
        root=lab.root,
        root_rule=House.RootRule.NOTICE,
        answer_days=7,
        look_again_weeks=4,
        by=lab.chief,
        reason="we trust",
        version=1,
    )
    other = second_manager(lab)
    roles.grant(person=lab.chief, node=lab.b, role=Role.MEMBER, valid_from=today(), by=None)
    chief = Person.objects.get(pk=lab.chief.pk)
    draft = reallocations.draft(
        parent=lab.root,
        cluster=lab.north,
        shares={lab.a: 6000, lab.b: 4000},
        starts_on=today(),
        by=chief,
        reason="mine",
    )
    proposed = reallocations.propose(reallocation=draft, by=chief)
    assert Message.objects.filter(person=other, subject__contains="unless one of you objects").exists()
    if objects:
        reallocations.deny(reallocation=proposed, by=other, reason="not so fast")
    before = timezone.now() + timedelta(days=3, seconds=-5)
    assert reallocation_deadlines.settle(now=before) == 0
    assert reallocation_deadlines.settle(now=timezone.now() + timedelta(days=3, seconds=5)) == (0 if objects else 1)
    assert shares_now(lab)["B"] == (3000 if objects else 4000)


# --- escalation, absence, delegation ------------------------------------------------------------------------------


def test_unanswered_it_goes_up_and_no_further_than_the_root(lab: Lab) -> None:
    request = asked(lab)
    due = request.answer_by
    assert due is not None
    assert request_deadlines.escalate(now=due - timedelta(seconds=1)) == 0
    assert [request_deadlines.escalate(now=due), request_deadlines.escalate(now=due)] == [1, 0]
    request.refresh_from_db()
    assert request.desk == lab.root
    with pytest.raises(NotAllowed, match="managers of LAB"):
        requests.deny(request=request, by=lab.pi, reason="too late")
    assert request.answer_by is not None
    assert request_deadlines.escalate(now=request.answer_by) == 0
    request.refresh_from_db()
    assert request.desk == lab.root
    assert verbs(request) == ["request.submitted", "request.went_up"]


def test_whoever_is_disabled_leaves_nothing_waiting(lab: Lab) -> None:
    request = asked(lab)
    admin = Person.objects.create_user("admin")
    roles.grant(person=admin, node=lab.root, role=Role.ADMINISTRATOR, valid_from=date(2026, 1, 1), by=None)
    held = delegations.give(
        giver=lab.pi,
        delegate=lab.stranger,
        node=lab.a,
        limit_basis_points=500,
        valid_from=today(),
        valid_until=today() + timedelta(days=9),
    )
    people.disable(person=lab.pi, by=admin, reason="left the laboratory")
    request.refresh_from_db()
    held.refresh_from_db()
    assert request.desk == lab.root
    assert held.ended_at is not None
    with pytest.raises(NotAllowed):
        requests.deny(request=request, by=lab.stranger, reason="no", acting_for=Person.objects.get(pk=lab.pi.pk))


def test_whoever_is_made_inactive_elsewhere_is_swept(lab: Lab, client) -> None:
    request = asked(lab)
    client.force_login(lab.pi, backend="django.contrib.auth.backends.ModelBackend")
    Person.objects.filter(pk=lab.pi.pk).update(is_active=False)
    assert [people.sweep(), people.sweep()] == [1, 0]
    request_deadlines.escalate()
    request.refresh_from_db()
    assert request.desk == lab.root
    from django.contrib.sessions.models import Session

    assert not Session.objects.exists()


def test_a_delegate_decides_for_who_is_away(lab: Lab) -> None:
    delegations.give(
        giver=lab.pi,
        delegate=lab.stranger,
        node=lab.a,
        limit_basis_points=500,
        valid_from=today(),
        valid_until=today() + timedelta(days=1),
    )
    request = asked(lab)
    give(lab, {lab.a1: 5500}, by=lab.stranger, reason="agreed", request=request, acting_for=lab.pi)
    entry = LedgerEntry.objects.filter(request_id=request.pk, verb="request.approved").get()
    assert (entry.person_id, entry.on_behalf_of_id) == (lab.stranger.pk, lab.pi.pk)


def test_not_from_a_day_that_cannot_be_meant(lab: Lab) -> None:
    with pytest.raises(InputError, match="2000 to 2999"):  # weeks are counted from it, for "did it work?"
        give(lab, {lab.a1: 5500}, by=lab.pi, starts_on=date(9999, 12, 31))
    assert not Reallocation.objects.exists()


def test_one_point_over_the_limit(lab: Lab) -> None:
    delegations.give(
        giver=lab.pi,
        delegate=lab.stranger,
        node=lab.a,
        limit_basis_points=499,
        valid_from=today(),
        valid_until=today() + timedelta(days=1),
    )
    request = asked(lab)
    for directly in (None, request):
        with pytest.raises(NotAllowed, match="499 basis points at once; this is 1 more"):
            give(lab, {lab.a1: 5500}, by=lab.stranger, reason="a", request=directly, acting_for=lab.pi)


@pytest.mark.parametrize("days", [-1, 1])
def test_not_before_the_first_and_not_after_the_last_day(lab: Lab, days: int, settings) -> None:
    start = today() + timedelta(days=max(days, 0)) if days > 0 else today() - timedelta(days=5)
    Delegation.objects.create(
        giver=lab.pi,
        delegate=lab.stranger,
        node=lab.a,
        limit_basis_points=500,
        valid_from=start,
        valid_until=start + timedelta(days=5),
    )
    request = asked(lab)
    with pytest.raises(NotAllowed, match="no delegate"):
        requests.deny(request=request, by=lab.stranger, reason="no", acting_for=lab.pi)


def test_a_delegation_is_never_passed_on(lab: Lab) -> None:
    later, third = today() + timedelta(days=5), Person.objects.create_user("third")
    terms = {"node": lab.a, "limit_basis_points": 500, "valid_from": today(), "valid_until": later}
    delegations.give(giver=lab.pi, delegate=lab.stranger, **terms)
    with pytest.raises(NotAllowed, match="only a manager of A"):
        delegations.give(giver=lab.stranger, delegate=third, **terms)
    Delegation.objects.create(giver=lab.stranger, delegate=third, **terms)  # whatever a row says
    request = asked(lab)
    with pytest.raises(NotAllowed, match="no delegate"):
        requests.deny(request=request, by=third, reason="no", acting_for=lab.stranger)


# --- passed up ----------------------------------------------------------------------------------------------------


def test_more_than_the_node_has_goes_up_as_a_linked_request(lab: Lab) -> None:
    request = asked(lab, more=1000)
    assert requests.upper_share_for(request, today()) == 700  # a tenth of A's 70 %
    upper = requests.pass_up(request=request, more_basis_points=700, by=lab.pi, reason="A is full")
    assert (upper.node, upper.parent, upper.desk, upper.author) == (lab.a, lab.root, lab.root, lab.pi)
    request.refresh_from_db()
    assert request.answer_by is not None
    assert (
        request_deadlines.escalate(now=request.answer_by + timedelta(days=1)) == 0
    )  # it waits for the upper one, at the root
    request.refresh_from_db()
    assert (request.upper, request.desk, request.state) == (upper, lab.a, State.SUBMITTED)
    with pytest.raises(ConflictError, match="passed up already"):
        requests.pass_up(request=request, more_basis_points=700, by=lab.pi, reason="again")
    give(lab, {lab.a: 7700, lab.b: 2300}, by=lab.chief, parent=lab.root, request=upper)
    give(lab, {lab.a1: 6000}, by=lab.pi, reason="as asked", request=request)
    assert (shares_now(lab)["A"], shares_now(lab)["B"], shares_now(lab)["A1"]) == (7700, 2300, 6000)


def test_at_the_root_there_is_nobody_above(lab: Lab) -> None:
    request = asked(lab, node=lab.a, by=lab.pi)
    with pytest.raises(InputError, match="nobody above"):
        requests.pass_up(request=request, more_basis_points=10, by=lab.chief, reason="full")


# --- two at once --------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_two_approvals_at_once_that_would_exceed_the_parent() -> None:
    from tests.budgets.laboratory import build

    lab = build()
    other = second_manager(lab, "a")
    lab.give(lab.a, {lab.a1: 4800, lab.a2: 4800})
    first, second = asked(lab), asked(lab, node=lab.a2, by=_member_of(lab))
    outcomes: list[str] = []
    together = threading.Barrier(2)

    def decide(request: Request, node, by: Person) -> None:
        together.wait()
        try:
            give(lab, {node: 5200}, by=by, request=request)
            outcomes.append("applied")
        except InputError as fault:
            outcomes.append(str(fault))
        finally:
            connection.close()

    threads = [
        threading.Thread(target=decide, args=(first, lab.a1, Person.objects.get(pk=lab.pi.pk))),
        threading.Thread(target=decide, args=(second, lab.a2, other)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes)[0] == "applied"
    assert any("too many" in outcome for outcome in outcomes)
    assert shares_now(lab)["A1"] + shares_now(lab)["A2"] == 10_000
    assert Request.objects.filter(state=State.SUBMITTED).count() == 1


def _member_of(lab: Lab) -> Person:
    person = Person.objects.create_user("member-a2")
    roles.grant(person=person, node=lab.a2, role=Role.MEMBER, valid_from=date(2026, 1, 1), by=None)
    return person


def test_a_stale_form_overwrites_nothing(lab: Lab) -> None:
    lab.a.refresh_from_db()
    read = lab.a.version
    give(lab, {lab.a1: 5100}, by=lab.pi, reason="first", version=read)
    with pytest.raises(ConflictError, match="changed by somebody else"):
        give(lab, {lab.a1: 4000}, by=lab.pi, reason="second", version=read)
    assert shares_now(lab)["A1"] == 5100


def test_a_proposal_whose_shares_changed_meanwhile_is_made_again(lab: Lab) -> None:
    roles.grant(person=lab.pi, node=lab.a1, role=Role.MEMBER, valid_from=today(), by=None)
    pi = Person.objects.get(pk=lab.pi.pk)
    draft = reallocations.draft(
        parent=lab.a, cluster=lab.north, shares={lab.a1: 6000}, starts_on=today(), by=pi, reason="mine"
    )
    proposed = reallocations.propose(reallocation=draft, by=pi)
    give(lab, {lab.a1: 4000}, by=lab.chief, reason="meanwhile")
    with pytest.raises(ConflictError, match="4,000 basis points now, and had 5,000"):
        reallocations.approve(reallocation=proposed, by=lab.chief, reason="yes")
    assert shares_now(lab)["A1"] == 4000


# --- days, and who is gone ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "decides"), [(-1, False), (0, True), (86_399, True), (86_400, False)])
def test_a_delegate_decides_from_the_first_second_to_the_last(
    lab: Lab, second: int, decides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = today() + timedelta(days=3)
    delegations.give(
        giver=lab.pi, delegate=lab.stranger, node=lab.a, limit_basis_points=500, valid_from=first,
        valid_until=first + timedelta(days=1),
    )  # fmt: skip
    request = asked(lab)
    at = midnight(first) + timedelta(seconds=second)
    monkeypatch.setattr(timezone, "now", lambda: at)
    ways = desks.ways_to_decide(lab.stranger, desks.matter_of(request))
    assert ways == ([lab.pi] if decides else [])


def test_a_budget_past_its_end_while_its_renewal_is_pending(lab: Lab) -> None:
    ended = today()
    lab.give(lab.a, {lab.a1: 5000}, start=today() - timedelta(days=30), end=ended)
    lab.give(lab.a, {lab.a1: 0}, start=ended)
    request = asked(lab, more=5000)
    assert "A1" not in shares_now(lab)  # nothing is kept by a status: the date has come
    assert tree_on(lab.north, today())[1].unassigned == 10_000
    give(lab, {lab.a1: 5000}, by=lab.pi, reason="renewed", request=request)  # fmt: skip
    assert shares_now(lab)["A1"] == 5000


def test_overlapping_and_gapped_dates_in_any_order(lab: Lab) -> None:
    day = today() + timedelta(days=10)
    for first, last, points in ((0, 5, 3000), (20, None, 1000), (2, 4, 4000)):
        give(
            lab,
            {lab.a2: points},
            by=lab.pi,
            starts_on=day + timedelta(days=first),
            ends_on=None if last is None else day + timedelta(days=last),
            reason="r",
        )
    held = Share.objects.filter(node=lab.a2).order_by("valid_from")
    assert list(held.values_list("basis_points", "valid_from", "valid_until")) == [
        (3000, day, day + timedelta(days=2)),
        (4000, day + timedelta(days=2), day + timedelta(days=4)),
        (3000, day + timedelta(days=4), day + timedelta(days=5)),
        (1000, day + timedelta(days=20), None),
    ]
