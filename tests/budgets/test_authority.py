"""Who may: every action of this package against every person of the laboratory."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from django.utils import timezone

from budgets import authority, queries
from budgets.models import Person
from budgets.services import roles, tree
from tests.budgets.laboratory import LONG_AGO, Lab

NODE_ACTIONS = ["node.see_inside", "node.see_ledger", "node.add_child", "node.rename", "node.close", "share.change"]


def allowed(person, node) -> set[str]:
    return {action for action in NODE_ACTIONS if authority.may(person, action, node)}


def test_every_action_on_nodes(lab: Lab) -> None:
    see = {"node.see_inside", "node.see_ledger"}
    manage = see | {"node.add_child", "node.rename", "share.change"}
    others = {role: Person.objects.create_user(role) for role in ("reviewer", "operator", "administrator")}
    for role, person in others.items():
        roles.grant(person=person, node=lab.root, role=role, valid_from=LONG_AGO, by=None)
    table = {
        "chief": (lab.chief, manage, manage | {"node.close"}, manage | {"node.close"}),
        "pi": (lab.pi, set(), manage, manage | {"node.close"}),
        "lead": (lab.lead, set(), set(), manage),
        "member": (lab.member, set(), set(), see),
        "stranger": (lab.stranger, set(), set(), set()),
        "reviewer": (others["reviewer"], see, see, see),
        "operator": (others["operator"], see, see, see),
        "administrator": (others["administrator"], {"node.see_ledger"}, {"node.see_ledger"}, {"node.see_ledger"}),
    }
    for who, (person, at_root, at_a, at_a1) in table.items():
        got = (allowed(person, lab.root), allowed(person, lab.a), allowed(person, lab.a1))
        assert got == (at_root, at_a, at_a1), who
        assert authority.may(person, "tree.see")
    assert allowed(lab.pi, lab.b) == set()


def test_nobody_signed_out_disabled_or_merely_superuser(lab: Lab) -> None:
    lab.chief.is_active = False
    boss = Person.objects.create_superuser("boss")
    assert not authority.may(AnonymousUser(), "tree.see")
    assert not authority.may(None, "tree.see")
    assert not authority.may(lab.chief, "tree.see")
    assert allowed(boss, lab.root) == set()


def test_an_unknown_action_is_an_error(lab: Lab) -> None:
    with pytest.raises(authority.UnknownAction, match=r"share\.chaneg"):
        authority.may(lab.chief, "share.chaneg", lab.root)
    with pytest.raises(KeyError):
        authority.register("share.change", authority.signed_in)


def test_roles_are_read_once_however_many_things_are_asked_about(lab: Lab, django_assert_num_queries) -> None:
    person = Person.objects.get(pk=lab.pi.pk)
    with django_assert_num_queries(1):
        for node in (lab.root, lab.a, lab.a1, lab.a2) * 10:
            allowed(person, node)
        assert authority.nodes_with(person, authority.INSIDE_ROLES) == [lab.a.pk]


def test_members_submit_in_the_open_leaves_below_their_node(lab: Lab, django_assert_num_queries) -> None:
    assert [leaf.code for leaf in queries.submittable_leaves(lab.member)] == ["A1"]
    assert list(queries.submittable_leaves(lab.lead)) == []
    roles.grant(person=lab.lead, node=lab.a, role="member", valid_from=LONG_AGO, by=None)
    tree.add_child(parent=lab.a1, kind="member", code="A1x", name="x", by=None)
    tree.close(node=tree.add_child(parent=lab.a1, kind="member", code="A1y", name="y", by=None), by=None)
    with django_assert_num_queries(2):
        assert [leaf.code for leaf in queries.submittable_leaves(lab.lead)] == ["A1x", "A2"]


@pytest.mark.parametrize("count", [3, 40])
def test_the_tree_takes_as_many_queries_whatever_its_size(lab: Lab, count: int, django_assert_num_queries) -> None:
    for number in range(count):
        tree.add_child(parent=lab.b, kind="project", code=f"B{number}", name="x", by=None)
    day = queries.today()
    with django_assert_num_queries(2):
        assert len(queries.tree_on(lab.north, day)) == 5 + count
    with django_assert_num_queries(2):
        queries.all_entitlement_steps(lab.north, LONG_AGO, day)


def test_the_administration_screen_only_shows_governance(lab: Lab) -> None:
    boss = Person.objects.create_superuser("boss")
    request = RequestFactory().get("/")
    request.user = boss
    for model in admin.site._registry:
        if model._meta.app_label == "budgets" and model is not Person:
            shown = admin.site._registry[model].get_model_perms(request)
            assert shown == {"add": False, "change": False, "delete": False, "view": True}, model


def test_the_day_is_the_organisations_whatever_the_reader_chose(settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    instant = datetime(2026, 3, 1, 15, 30, tzinfo=UTC)
    with timezone.override("America/Los_Angeles"):
        assert queries.day_of(instant) == date(2026, 3, 2)
        assert queries.midnight(date(2026, 3, 2)) == datetime(2026, 3, 1, 15, tzinfo=UTC)
