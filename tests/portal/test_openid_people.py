"""Who people are here when they sign in with an OpenID provider, and the roles that its groups give them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from budgets.errors import ConflictError
from budgets.models import ClaimedRole, Identity, LedgerEntry, Person, Role, RoleGrant
from budgets.queries import today
from budgets.services import identities, people, roles, tokens
from tests.portal.openid_elsewhere import EVA, come, configure, held, is_signed_in, way_back
from tests.portal.test_pages import hidden
from tests.portal.test_tokens import words_of

# --- who they are here ------------------------------------------------------------------------------------------------


def test_unknown_people_are_refused_where_that_is_configured(elsewhere, settings):
    configure(settings, unknown="refuse")
    client = Client()
    answer = come(client)
    assert (answer.status_code, "Nobody here is linked" in words_of(answer)) == (403, True)
    assert (is_signed_in(client), Person.objects.filter(username="eva").exists()) == (False, False)


def test_disabled_people_are_refused(elsewhere, calm):
    come()
    eva = Person.objects.get(username="eva")
    RoleGrant.objects.create(person=calm.nil, node=calm.node["LAB"], role=Role.ADMINISTRATOR, valid_from=today())
    client = Client()
    come(client)
    assert is_signed_in(client)
    people.disable(person=eva, by=calm.nil, reason="left")
    assert is_signed_in(client) is False
    answer = come(client)
    assert (answer.status_code, "disabled" in words_of(answer)) == (403, True)
    assert is_signed_in(client) is False


def test_an_account_is_not_taken_over_by_its_name_or_address(elsewhere, calm):
    type(calm.ada).objects.filter(pk=calm.ada.pk).update(email="ada@example.org")
    elsewhere.tell(preferred_username="ada", email="ada@example.org", email_verified=True)
    answer = come()
    assert (answer.status_code, "nobody has said that it is yours" in words_of(answer)) == (403, True)
    elsewhere.tell(preferred_username="ADA")
    assert come().status_code == 403
    assert Identity.objects.count() == 0


@pytest.mark.parametrize(
    ("link_by", "claims", "is_linked"),
    [
        ("username", {"preferred_username": "ada"}, True),
        ("username", {"preferred_username": "ADA"}, False),
        ("email", {"email": "Ada@example.org", "email_verified": True}, True),
        ("email", {"email": "ada@example.org", "email_verified": False}, False),
        ("email", {"email": "ada@example.org", "email_verified": "true"}, False),
        ("email", {"email": "two@example.org", "email_verified": True}, False),
        ("email", {"email": "", "email_verified": True}, False),
    ],
)
def test_an_account_is_linked_as_configured(elsewhere, calm, settings, link_by, claims, is_linked):
    Person.objects.filter(pk=calm.ada.pk).update(email="ada@example.org")
    Person.objects.filter(pk__in=[calm.ben.pk, calm.mia.pk]).update(email="two@example.org")
    configure(settings, link_by=link_by, unknown="refuse")
    elsewhere.tell(**claims)
    client = Client()
    assert come(client).status_code == (302 if is_linked else 403)
    assert is_signed_in(client) is is_linked
    assert Identity.objects.filter(person=calm.ada).exists() is is_linked


def test_who_is_linked_already_is_not_linked_again(elsewhere, calm, settings):
    configure(settings, link_by="username", unknown="refuse")
    identities.link(person=calm.ada, issuer=elsewhere.issuer, subject="first", by=None)
    elsewhere.tell(preferred_username="ada")
    assert come().status_code == 403
    with pytest.raises(ConflictError, match="this subject is linked to Ada"):
        identities.link(person=calm.ben, issuer=elsewhere.issuer, subject="first", by=None)
    identities.link(person=calm.ada, issuer=elsewhere.issuer, subject=str(EVA["sub"]), by=None)
    assert come().status_code == 302
    assert list(Identity.objects.values_list("person", "subject")) == [(calm.ada.pk, EVA["sub"])]


def test_people_link_their_own_account_from_both_sides(elsewhere, calm, settings, as_person):
    configure(settings, unknown="refuse")
    client = as_person(calm.ada)
    assert "not linked" in words_of(client.get("/password/"))
    asked = client.get(way_back(client, "/password/&link=yes"))
    assert (asked.status_code, "you are eva@example.org" in words_of(asked)) == (200, True)
    assert Identity.objects.count() == 0
    shown = hidden(asked, "shown")
    assert "Your account is linked" in words_of(client.post("/login/openid/link/", {"shown": shown}, follow=True))
    assert list(Identity.objects.values_list("person", "subject")) == [(calm.ada.pk, EVA["sub"])]
    entry = LedgerEntry.objects.get(verb="person.linked")
    assert (entry.person_id, entry.after) == (calm.ada.pk, {"person": calm.ada.pk, "issuer": elsewhere.issuer})
    mine = Client()
    assert come(mine).status_code == 302
    assert mine.get("/api/v1/me/").json()["username"] == "ada"
    ben = as_person(calm.ben)
    late = ben.post(
        "/login/openid/link/", {"shown": hidden(ben.get(way_back(ben, "/&link=yes")), "shown")}, follow=True
    )
    assert "this subject is linked to Ada" in words_of(late)


def test_nobody_links_for_somebody_else(elsewhere, calm, settings, as_person):
    configure(settings, unknown="refuse")
    ada, ben = as_person(calm.ada), as_person(calm.ben)
    shown = hidden(ada.get(way_back(ada, "/&link=yes")), "shown")
    for strange in (shown, shown[:-1], "", "x:y:z"):
        assert "not yours to link" in words_of(ben.post("/login/openid/link/", {"shown": strange}, follow=True))
    back = way_back(ada, "/&link=yes")
    ada.force_login(calm.ben, backend="django.contrib.auth.backends.ModelBackend")
    assert ada.get(back).status_code == 400
    assert Client().get("/login/openid/?link=yes").headers["Location"] == "/login/?next=/password/"
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(calm.ada, backend="django.contrib.auth.backends.ModelBackend")
    assert strict.post("/login/openid/link/", {"shown": shown}).status_code == 403
    assert Identity.objects.count() == 0


def test_an_operator_links_on_the_command_line(elsewhere, calm, settings, capsys):
    configure(settings, unknown="refuse")
    said = []
    for arguments in (["ada"], ["ada", str(EVA["sub"])], ["ada", str(EVA["sub"])], ["ada", "--unlink"]):
        call_command("link_person", *arguments)
        said.append(capsys.readouterr().out.strip())
        if len(said) == 2:
            assert come().status_code == 302
    known, unknown = f"ada is {EVA['sub']} at {elsewhere.issuer}", f"ada is nobody at {elsewhere.issuer}"
    assert said == [unknown, known, known, unknown]
    assert come().status_code == 403
    identities.link(person=calm.ben, issuer=elsewhere.issuer, subject="s", by=None)
    for wrong in (["nobody", "s"], ["ada", "s"], ["ada", "s", "--unlink"]):
        with pytest.raises(CommandError):
            call_command("link_person", *wrong)


@pytest.mark.parametrize(
    ("claims", "username", "name"),
    [
        ({"preferred_username": "a b<script>"}, None, "Eva Lund"),
        ({"preferred_username": None}, None, "Eva Lund"),
        ({"preferred_username": "x" * 151}, None, "Eva Lund"),
        ({"name": 7}, "eva", "eva"),
        ({"name": "E\x07va"}, "eva", "eva"),
        ({"name": "Eva\n  Lund"}, "eva", "Eva Lund"),
        ({"email": "not an address"}, "eva", "Eva Lund"),
    ],
)
def test_strange_names_are_no_trouble(elsewhere, claims, username, name):
    elsewhere.tell(**claims)
    assert come().status_code == 302
    person = Identity.objects.get().person
    assert (person.username if username else person.username[:7], person.display_name) == (username or "openid-", name)


# --- roles by groups --------------------------------------------------------------------------------------------------


def test_groups_give_roles_and_end_them_when_they_are_gone(elsewhere):
    elsewhere.tell(groups=["team-a1", "leads", "something else"])
    come()
    assert held() == {("member", "A1"), ("manager", "A"), ("reviewer", "LAB")}
    elsewhere.tell(groups=["team-a1", "gpu ops"])
    come()
    assert held() == {("member", "A1"), ("operator", "LAB")}
    elsewhere.tell()
    client = Client()
    come(client)
    assert (held(), is_signed_in(client), ClaimedRole.objects.count()) == (set(), True, 0)
    entries = LedgerEntry.objects.filter(verb__startswith="role.").order_by("id")
    said = [(entry.verb, entry.person_id, entry.node_code, entry.reason) for entry in entries]
    gives, ends = "the sign-in service lists them in ", "the sign-in service no longer lists them in "
    assert said == [
        ("role.granted", None, "A1", gives + "team-a1"),
        ("role.granted", None, "A", gives + "leads"),
        ("role.granted", None, "LAB", gives + "leads"),
        ("role.ended", None, "A", ends + "leads"),
        ("role.ended", None, "LAB", ends + "leads"),
        ("role.granted", None, "LAB", gives + "gpu ops"),
        ("role.ended", None, "A1", ends + "team-a1"),
        ("role.ended", None, "LAB", ends + "gpu ops"),
    ]


def test_what_was_held_for_days_ends_today_and_stays_in_the_books(elsewhere):
    elsewhere.tell(groups=["team-a1"])
    come()
    RoleGrant.objects.filter(claimed__isnull=False).update(valid_from=today() - timedelta(days=5))
    elsewhere.tell(groups=[])
    come()
    grant = RoleGrant.objects.get(person__username="eva")
    assert (grant.valid_from, grant.valid_until) == (today() - timedelta(days=5), today())


def test_roles_that_were_given_by_hand_stay(elsewhere, calm):
    come()
    eva = Person.objects.get(username="eva")
    roles.grant(person=eva, node=calm.node["A1"], role="member", valid_from=today(), by=calm.mia, reason="joins")
    elsewhere.tell(groups=["team-a1", "gpu ops"])
    come()
    elsewhere.tell(groups=[])
    come()
    assert held() == {("member", "A1")}


def test_a_role_ends_for_tokens_and_open_sessions_at_once(elsewhere):
    elsewhere.tell(groups=["team-a1"])
    client = Client()
    come(client)
    eva = Person.objects.get(username="eva")
    _, shown = tokens.create(person=eva, name="n", scopes=["read"], days=9)
    asked = Client(headers={"Authorization": f"Bearer {shown}"})
    assert [each["role"] for each in asked.get("/api/v1/me/").json()["roles"]] == ["member"]
    elsewhere.tell(groups=[])
    come()
    assert asked.get("/api/v1/me/").json()["roles"] == client.get("/api/v1/me/").json()["roles"] == []


def test_the_last_manager_stays_and_can_sign_in(elsewhere, calm):
    elsewhere.tell(groups=["leads"])
    come()
    RoleGrant.objects.filter(person=calm.mia).delete()
    elsewhere.tell(groups=[])
    assert come().status_code == 302
    assert held() == {("manager", "A")}
    RoleGrant.objects.create(person=calm.mia, node=calm.node["A"], role="manager", valid_from=today())
    come()
    assert held() == set()


def test_a_mapping_to_no_node_keeps_nobody_out(elsewhere, settings):
    configure(settings, roles={"team-a1": (("member", "NONE"), ("member", "A1"))})
    elsewhere.tell(groups=["team-a1"])
    assert come().status_code == 302
    assert held() == {("member", "A1")}


def test_what_nobody_confirms_by_signing_in_ends(elsewhere, calm):
    elsewhere.tell(groups=["team-a1", "gpu ops"])
    come()
    assert identities.end_stale(30) == 0
    Identity.objects.update(seen_at=timezone.now() - timedelta(days=31))
    assert (identities.end_stale(30), identities.end_stale(30), held()) == (2, 0, set())
    reasons = set(LedgerEntry.objects.filter(verb="role.ended").values_list("reason", flat=True))
    assert reasons == {"not confirmed by a sign-in for 30 days"}
    come()
    assert held() == {("member", "A1"), ("operator", "LAB")}


def test_unlinking_ends_what_groups_gave(elsewhere, calm, settings):
    elsewhere.tell(groups=["team-a1"])
    come()
    identities.unlink(identity=Identity.objects.get(), by=None)
    assert (held(), Identity.objects.count()) == (set(), 0)
    configure(settings, unknown="refuse")
    assert come().status_code == 403


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["team-a1"]}}),
        ("https://example.org/groups", {"https://example.org/groups": ["team-a1"]}),
        ("group", {"group": "team-a1"}),
    ],
)
def test_groups_stand_where_it_is_configured(elsewhere, settings, claim, claims):
    configure(settings, groups_claim=claim)
    elsewhere.tell(**claims)
    come()
    assert held() == {("member", "A1")}


@pytest.mark.parametrize("groups", [{"team-a1": 1}, 7, [7, None, ["team-a1"]], "team-a12", ""])
def test_strange_groups_give_nothing(elsewhere, groups):
    elsewhere.tell(groups=groups)
    assert come().status_code == 302
    assert held() == set()


def test_groups_are_asked_for_where_the_id_token_names_none(elsewhere):
    elsewhere.tell("groups at userinfo", groups=["team-a1"])
    come()
    assert held() == {("member", "A1")}


def test_userinfo_has_to_be_about_the_same_person(elsewhere):
    elsewhere.tell("somebody else at userinfo")
    client = Client()
    assert (come(client).status_code, is_signed_in(client)) == (502, False)
