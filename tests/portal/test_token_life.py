"""Access tokens from being made to being revoked: over the API, on the pages, and on the record."""

from __future__ import annotations

import re
from datetime import timedelta

from django.utils import timezone

from budgets.models import AccessToken, Identity, LedgerEntry, Message, Role
from budgets.queries import day_of
from budgets.services import identities, people, tokens
from tests.portal.test_pages import hidden
from tests.portal.test_tokens import ALL, ME, TOKENS, client_of, granted, made, send, with_token, words_of

# --- making, listing, revoking ----------------------------------------------------------------------------------------


def test_a_session_makes_one_over_the_api_and_sees_it_once(calm, as_person):
    client = as_person(calm.ada)
    answer = send(client, TOKENS, {"name": "sweep", "scopes": ["decide", "read"], "days": 7})
    assert (answer.status_code, answer.headers["Cache-Control"]) == (201, "no-store")
    shown = answer.json()["token"]
    assert with_token(shown).get(ME).json()["token"]["scopes"] == ["read", "decide"]
    assert client.get(answer.headers["Location"]).json()["name"] == "sweep"
    assert shown not in client.get(TOKENS).content.decode()
    assert [each["id"] for each in as_person(calm.ben).get(TOKENS).json()["results"]] == []


def test_what_is_asked_for_twice_is_made_once_and_shown_once(calm, as_person):
    client, body = as_person(calm.ada), {"name": "n", "scopes": ["read"], "days": 1}
    first, again = (
        client.post(TOKENS, body, content_type="application/json", headers={"Idempotency-Key": "k"}) for _ in range(2)
    )
    assert (first.status_code, again.status_code, AccessToken.objects.count()) == (201, 201, 1)
    assert again.json() == {**first.json(), "token": None}


def test_it_is_on_the_record(calm):
    token, _ = made(calm.ada, "read", days=1)
    tokens.revoke(token=token, by=calm.ops, reason="seen in a log")
    plain = {
        "person": calm.ada.pk, "token": token.prefix, "scopes": ["read"], "until": token.expires_at.isoformat()
    }  # fmt: skip
    found = LedgerEntry.objects.filter(verb__startswith="token.").order_by("id")
    assert list(found.values_list("verb", "person_id", "node_code", "before", "after", "reason")) == [
        ("token.created", calm.ada.pk, "LAB", None, plain, ""),
        ("token.revoked", calm.ops.pk, "LAB", plain, {"person": calm.ada.pk}, "seen in a log"),
    ]
    assert Message.objects.get(person=calm.ada).subject == f"Your access token {token.prefix} was revoked"


def test_operators_and_administrators_revoke_those_of_others_and_say_why(calm, as_person):
    granted(calm.nil, calm.node["LAB"], Role.ADMINISTRATOR)
    token, shown = made(calm.ada, "read")
    path = f"{TOKENS}{token.pk}/"
    for person in (calm.ben, calm.mia, calm.max):
        assert as_person(person).delete(path + "?reason=r").status_code == 404
        assert as_person(person).get(f"{TOKENS}?person=ada").status_code == 404
    assert as_person(calm.ops).delete(path).json()["errors"][0]["field"] == "reason"
    assert tokens.find(shown) is not None
    assert client_of(calm.ops, "read", "decide").delete(path + "?reason=r").status_code == 403
    assert client_of(calm.ops, "operate").delete(path + "?reason=r").status_code == 204
    assert as_person(calm.nil).delete(path + "?reason=r").status_code == 409
    assert [each["id"] for each in as_person(calm.nil).get(f"{TOKENS}?person=ada").json()["results"]] == [token.pk]
    assert tokens.find(shown) is None


def test_people_are_told_once_a_week_before_a_token_ends(calm, settings):
    now = timezone.now()
    made(calm.ada, "read", days=7)
    token, _ = made(calm.ada, "read", days=30)
    revoked, _ = made(calm.ben, "read", days=30)
    tokens.revoke(token=revoked, by=calm.ben)
    assert [tokens.tell_of_ends(now + timedelta(days=days)) for days in (5, 22, 24, 25, 31)] == [0, 0, 1, 0, 0]
    told = Message.objects.get()
    day = day_of(token.ends_at)
    assert (told.person, told.subject) == (calm.ada, f"Your access token {token.prefix} ends on {day}")
    made(calm.mia, "read", days=300)
    settings.TOKEN_MAX_DAYS = 60
    assert [tokens.tell_of_ends(now + timedelta(days=days)) for days in (52, 54, 55)] == [0, 1, 0]
    assert Message.objects.get(person=calm.mia).subject.endswith(str(day_of(now + timedelta(days=60))))


def test_who_is_disabled_loses_them_for_good(calm):
    granted(calm.nil, calm.node["LAB"], Role.ADMINISTRATOR)
    token, shown = made(calm.ada, *ALL)
    people.disable(person=calm.ada, by=calm.nil, reason="left")
    assert with_token(shown).get(ME).status_code == 401
    people.enable(person=calm.ada, by=calm.nil, reason="back")
    assert with_token(shown).get(ME).status_code == 401
    token.refresh_from_db()
    assert token.ended_at is not None
    entry = LedgerEntry.objects.get(verb="token.revoked")
    assert (entry.person_id, entry.reason) == (None, "the account was disabled")


def test_an_erased_name_is_not_in_what_tokens_were_called_or_linked_to(calm):
    granted(calm.nil, calm.node["LAB"], Role.ADMINISTRATOR)
    token, _ = tokens.create(person=calm.ada, name="Ada's laptop", scopes=["read"], days=1)
    identities.link(person=calm.ada, issuer="https://login.example.org", subject="ada@example.org", by=None)
    people.disable(person=calm.ada, by=calm.nil, reason="left")
    people.erase_name(person=calm.ada, by=calm.nil, reason="asked for it")
    token.refresh_from_db()
    assert (token.name, Identity.objects.count()) == ("erased", 0)
    entries = LedgerEntry.objects.values_list("before", "after", "reason")
    assert not any("ada@example.org" in str(each) or "laptop" in str(each) for each in entries)


def test_an_account_that_was_made_inactive_by_any_road_opens_nothing(calm):
    _, shown = made(calm.ada, *ALL)
    type(calm.ada).objects.filter(pk=calm.ada.pk).update(is_active=False)
    assert with_token(shown).get(ME).status_code == 401


# --- the pages --------------------------------------------------------------------------------------------------------


def test_the_page_shows_a_new_token_once(calm, as_person):
    client = as_person(calm.ada)
    form = {"action": hidden(client.get("/tokens/"), "action"), "name": "nightly", "scopes": ["read"], "days": "30"}
    answer = client.post("/tokens/", form)
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    shown = re.search(r"allot_[A-Za-z0-9]{43}", answer.content.decode())[0]
    assert with_token(shown).get(ME).status_code == 200
    again = client.post("/tokens/", form, follow=True)
    assert "no second token was made" in words_of(again)
    assert AccessToken.objects.count() == 1
    page = client.get("/tokens/").content.decode()
    assert (shown in page, f"{shown[:12]}…" in page, "nightly" in page) == (False, True, True)


def test_the_page_says_what_is_missing(calm, as_person):
    answer = as_person(calm.ada).post("/tokens/", {"name": "", "days": "5"})
    assert answer.status_code == 400
    assert AccessToken.objects.count() == 0


def test_a_token_is_revoked_on_the_page(calm, as_person):
    client, (token, shown) = as_person(calm.ada), made(calm.ada, "read")
    answer = client.post(f"/tokens/{token.pk}/revoke/", {"action": "0" * 32}, follow=True)
    assert "is revoked" in words_of(answer)
    assert tokens.find(shown) is None
    late = client.post(f"/tokens/{token.pk}/revoke/", {"action": "1" * 32}, follow=True)
    assert "This token has ended already." in words_of(late)


def test_operators_revoke_on_the_persons_page_and_say_why(calm, as_person):
    client, (token, shown) = as_person(calm.ops), made(calm.ada, "read")
    assert token.prefix in words_of(client.get(f"/people/{calm.ada.pk}/tokens/"))
    path = f"/tokens/{token.pk}/revoke/"
    silent = client.post(path, {"action": "0" * 32, "reason": ""})
    assert (silent.status_code, "must not be empty" in words_of(silent)) == (400, True)
    assert tokens.find(shown) is not None
    assert client.post(path, {"action": "0" * 32, "reason": "leaked"}).headers["Location"].endswith("/tokens/")
    assert tokens.find(shown) is None
