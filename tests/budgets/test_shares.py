"""Shares: dates in any order, sums on every day, two changes at once, and who may."""

from __future__ import annotations

import threading
from datetime import date, timedelta
from itertools import pairwise

import pytest
from django.db import IntegrityError, connection, transaction

from budgets import queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import LedgerEntry, Share
from budgets.services import roles, shares, tree
from budgets.split import evenly
from tests.budgets.laboratory import FOUNDED, LONG_AGO, Lab

MARCH, APRIL, MAY, JUNE = (date(2026, month, 1) for month in (3, 4, 5, 6))


def rows(lab: Lab, node) -> list[tuple[int, date, date | None]]:
    return list(
        Share.objects.filter(node=node, cluster=lab.north).values_list("basis_points", "valid_from", "valid_until")
    )


def test_from_that_day_on_with_the_rest_unassigned(lab: Lab) -> None:
    lab.give(lab.root, {lab.a: 6000}, APRIL)
    assert rows(lab, lab.a) == [(7000, LONG_AGO, APRIL), (6000, APRIL, None)]
    assert rows(lab, lab.b) == [(3000, LONG_AGO, None)]
    by_code = {row.node.code: row for row in queries.tree_on(lab.north, APRIL)}
    assert by_code["LAB"].unassigned == 1000
    assert by_code["A"].unassigned == 5000
    assert by_code["A1"].unassigned == 0


def test_overlapping_and_gapped_dates_entered_in_any_order(lab: Lab) -> None:
    lab.give(lab.a, {lab.a2: 2000}, MAY, JUNE)
    lab.give(lab.a, {lab.a2: 1000}, MARCH, APRIL)
    lab.give(lab.a, {lab.a2: 3000}, date(2026, 3, 15), date(2026, 5, 15))
    assert rows(lab, lab.a2) == [
        (1000, MARCH, date(2026, 3, 15)),
        (3000, date(2026, 3, 15), date(2026, 5, 15)),
        (2000, date(2026, 5, 15), JUNE),
    ]
    lab.give(lab.a, {lab.a2: 0}, APRIL, MAY)
    assert rows(lab, lab.a2)[1:3] == [(3000, date(2026, 3, 15), APRIL), (3000, MAY, date(2026, 5, 15))]


def test_a_sum_over_the_whole_names_its_first_day_and_changes_nothing(lab: Lab) -> None:
    lab.give(lab.a, {lab.a2: 5000}, MAY, JUNE)
    before = (list(Share.objects.values()), LedgerEntry.objects.count())
    with pytest.raises(InputError) as refused:
        lab.give(lab.a, {lab.a1: 5001}, APRIL)
    assert refused.value.message == "the children of A would sum to 10,001 basis points on 2026-05-01, 1 too many"
    assert (list(Share.objects.values()), LedgerEntry.objects.count()) == before


def test_the_database_refuses_a_sum_over_the_whole_by_itself(lab: Lab) -> None:
    Share.objects.create(node=lab.a2, cluster=lab.north, basis_points=5001, valid_from=JUNE)
    with pytest.raises(IntegrityError, match="sum to 10001"), transaction.atomic():
        connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE")
    Share.objects.filter(node=lab.a2).delete()


def test_the_database_checks_again_what_changes_after_a_check(lab: Lab) -> None:
    """A parent and cluster are noted to be checked once a transaction; nothing of that is left behind."""

    def check() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
            cursor.execute("SELECT count(*) FROM budgets_sharestocheck")
            assert cursor.fetchone() == (0,)

    days = [JUNE + timedelta(days=number) for number in range(400)]
    Share.objects.bulk_create(
        Share(node=lab.a2, parent=lab.a, cluster=lab.north, basis_points=5000, valid_from=day, valid_until=after)
        for day, after in pairwise(days)
    )
    check()
    Share.objects.filter(node=lab.a2, valid_from=days[200]).update(basis_points=5001)
    Share.objects.filter(node=lab.a2, valid_from=days[201]).update(basis_points=0)
    with pytest.raises(IntegrityError, match=f"sum to 10001 basis points from {days[200]}"), transaction.atomic():
        check()
    Share.objects.filter(node=lab.a2, valid_from=days[200]).update(basis_points=5000)
    check()


def test_the_database_refuses_a_share_of_nothing(lab: Lab) -> None:
    with pytest.raises(IntegrityError, match="the root has no share"), transaction.atomic():
        Share.objects.create(node=lab.root, cluster=lab.north, basis_points=1, valid_from=JUNE)


def test_a_third_each(lab: Lab) -> None:
    third = tree.add_child(parent=lab.a, kind="project", code="A3", name="third", by=None, at=FOUNDED)
    lab.give(lab.a, dict(zip([lab.a1, lab.a2, third], evenly(10_000, 3), strict=True)), JUNE)
    by_code = {row.node.code: row for row in queries.tree_on(lab.north, JUNE)}
    assert [by_code[code].basis_points for code in ("A1", "A2", "A3")] == [3334, 3333, 3333]
    assert by_code["A"].unassigned == 0


@pytest.mark.parametrize("basis_points", [-1, 10_001, 2.0, True, "5"])
def test_no_whole_number_of_basis_points(lab: Lab, basis_points) -> None:
    with pytest.raises(InputError) as refused:
        lab.give(lab.a, {lab.a2: basis_points})
    assert (refused.value.field, refused.value.message) == (
        "shares[A2]",
        "must be a whole number of basis points from 0 to 10,000",
    )


def test_what_is_no_child_or_closed_gets_nothing(lab: Lab) -> None:
    with pytest.raises(InputError, match="B is no child of A"):
        lab.give(lab.a, {lab.b: 1})
    closed = tree.close(node=lab.a2, by=None)
    with pytest.raises(InputError, match="A2 is closed"):
        lab.give(lab.a, {closed: 1})


def test_an_entry_says_before_and_after(lab: Lab) -> None:
    shares.set_shares(
        parent=lab.a, cluster=lab.north, shares={lab.a1: 4000}, valid_from=queries.today(), by=lab.pi, reason=" less "
    )
    entry = LedgerEntry.objects.first()
    assert (entry.verb, entry.person_id, entry.node_code, entry.node_name, entry.cluster_name, entry.reason) == (
        "share.changed",
        lab.pi.pk,
        "A1",
        "name of A1",
        "north",
        "less",
    )
    today = queries.today().isoformat()
    assert entry.before == {"parent": lab.a.pk, "shares": [{"basis_points": 5000, "from": "2026-01-01", "until": None}]}
    assert entry.after == {
        "parent": lab.a.pk,
        "shares": [
            {"basis_points": 5000, "from": "2026-01-01", "until": today},
            {"basis_points": 4000, "from": today, "until": None},
        ],
    }


def test_the_same_again_writes_nothing(lab: Lab) -> None:
    count = LedgerEntry.objects.count()
    lab.a.refresh_from_db()
    version = lab.a.version
    lab.give(lab.a, {lab.a1: 5000}, JUNE)
    lab.a.refresh_from_db()
    assert (LedgerEntry.objects.count(), lab.a.version) == (count, version)


def change(lab: Lab, by, parent, wanted, **more) -> None:
    more = {"valid_from": queries.today(), "reason": "because", **more}
    shares.set_shares(parent=parent, cluster=lab.north, shares=wanted, by=by, **more)


def test_only_managers_here_or_above_and_no_superuser(lab: Lab) -> None:
    for person in (lab.chief, lab.pi):
        change(lab, person, lab.a, {lab.a2: 100})
    lab.stranger.is_superuser = lab.stranger.is_staff = True
    lab.stranger.save()
    for person in (lab.stranger, lab.member, lab.lead):
        with pytest.raises(NotAllowed):
            change(lab, person, lab.a, {lab.a2: 200})
    with pytest.raises(NotAllowed):
        change(lab, lab.pi, lab.root, {lab.a: 100})


def test_nobody_raises_what_they_have_a_part_in(lab: Lab) -> None:
    roles.grant(person=lab.pi, node=lab.a2, role="member", valid_from=LONG_AGO, by=None)
    with pytest.raises(NotAllowed, match="you have a part in A2"):
        change(lab, lab.pi, lab.a, {lab.a2: 1})
    with pytest.raises(NotAllowed, match="you have a part in A2"):
        change(lab, lab.pi, lab.a, {lab.a2: 1}, valid_until=queries.today() + timedelta(days=1))
    change(lab, lab.chief, lab.a, {lab.a2: 1000})
    change(lab, lab.pi, lab.a, {lab.a2: 500})  # less is theirs to decide
    with pytest.raises(NotAllowed, match="you have a part in A2"):
        change(lab, lab.pi, lab.a, {lab.a2: 501, lab.a1: 0}, valid_from=queries.today() + timedelta(days=9))


def test_a_person_gives_a_reason_and_leaves_the_past_alone(lab: Lab) -> None:
    with pytest.raises(InputError, match="reason: must not be empty"):
        change(lab, lab.pi, lab.a, {lab.a2: 1}, reason="  ")
    with pytest.raises(InputError, match="valid_from: can't be a day that is over"):
        change(lab, lab.pi, lab.a, {lab.a2: 1}, valid_from=queries.today() - timedelta(days=1))


def test_a_change_from_an_old_version_is_refused(lab: Lab) -> None:
    lab.a.refresh_from_db()
    version = lab.a.version
    change(lab, lab.pi, lab.a, {lab.a2: 1}, version=version)
    with pytest.raises(ConflictError, match="A was changed by somebody else meanwhile"):
        change(lab, lab.pi, lab.a, {lab.a2: 2}, version=version)


@pytest.mark.django_db(transaction=True)
def test_two_changes_at_once_never_exceed_the_whole(transactional_db: None, lab: Lab) -> None:
    outcomes: list[str] = []
    ready = threading.Barrier(2)

    def give(node) -> None:
        ready.wait(10)
        try:
            lab.give(lab.a, {node: 6000}, JUNE)
            outcomes.append("given")
        except InputError as error:
            outcomes.append(error.field)
        finally:
            connection.close()

    threads = [threading.Thread(target=give, args=[node]) for node in (lab.a1, lab.a2)]
    lab.give(lab.a, {lab.a1: 0, lab.a2: 0}, JUNE)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["given", "shares"]
    assert sum(share.basis_points for share in Share.objects.filter(parent=lab.a, valid_until=None)) == 6000
