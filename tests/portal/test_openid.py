"""Signing in with an OpenID provider: a real one, in a process of its own, that lies when it is told to."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from budgets.models import Identity, LedgerEntry, Person
from budgets.services import identities
from portal import openid, sign_in_limits
from tests.portal.openid_elsewhere import EVA, come, configure, is_signed_in, way_back
from tests.portal.openid_provider import CLIENT_ID
from tests.portal.test_tokens import words_of

# --- coming in --------------------------------------------------------------------------------------------------------


def test_somebody_new_gets_an_account_and_goes_on_where_they_wanted(elsewhere):
    client = Client()
    answer = come(client, "/queue/north/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/queue/north/")
    eva = Person.objects.get(username="eva")
    assert (eva.display_name, eva.email, eva.has_usable_password()) == ("Eva Lund", "eva@example.org", False)
    assert Identity.objects.get().subject == EVA["sub"]
    assert client.get("/api/v1/me/").json()["username"] == "eva"
    found = LedgerEntry.objects.filter(verb__startswith="person.").order_by("id")
    assert list(found.values_list("verb", "person_id", "after")) == [
        ("person.created", None, {"person": eva.pk}),
        ("person.linked", None, {"person": eva.pk, "issuer": elsewhere.issuer}),
    ]


def test_a_subject_stays_the_same_person_whatever_it_is_called(elsewhere):
    come()
    elsewhere.tell(preferred_username="ada", name="Ada", email="ada@example.org")
    client = Client()
    assert come(client).status_code == 302
    assert client.get("/api/v1/me/").json()["username"] == "eva"
    assert Person.objects.filter(identities__issuer=elsewhere.issuer).count() == 1


def test_two_windows_at_once_are_one_person(elsewhere, monkeypatch):
    come()
    known, asked = identities._known, []

    def not_at_first(said):
        asked.append(said)
        return None if len(asked) == 1 else known(said)

    monkeypatch.setattr(identities, "_known", not_at_first)
    assert come().status_code == 302
    assert (len(asked), Identity.objects.count(), Person.objects.filter(username="eva").count()) == (2, 1, 1)


def test_what_is_asked_for(elsewhere):
    sent = Client().get("/login/openid/")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["Location"]).query).items()}
    assert {name: asked[name] for name in ("response_type", "client_id", "scope", "code_challenge_method")} == {
        "response_type": "code", "client_id": CLIENT_ID, "scope": "openid email", "code_challenge_method": "S256"
    }  # fmt: skip
    assert asked["redirect_uri"] == "http://testserver/login/openid/callback/"
    assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 20
    (cookie,) = sent.cookies.values()
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/login/openid/")
    assert Client().get("/login/openid/").headers["Location"] != sent.headers["Location"]


def test_it_is_begun_at_the_portals_own_name(elsewhere, settings):
    settings.URL = "https://allotment.example.org:8443"
    sent = Client().get("/login/openid/?next=/queue/")
    assert sent.headers["Location"] == "https://allotment.example.org:8443/login/openid/?next=%2Fqueue%2F&home=yes"
    again = Client().get("/login/openid/?next=%2Fqueue%2F&home=yes")
    assert again.headers["Location"].startswith(elsewhere.issuer)
    settings.ALLOWED_HOSTS = ["allotment.example.org"]
    by_name = Client(headers={"Host": "allotment.example.org"}).get("/login/openid/")
    assert by_name.headers["Location"].startswith(elsewhere.issuer)


@pytest.mark.parametrize("following", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""])
def test_nobody_is_led_elsewhere(elsewhere, following):
    assert come(following=following).headers["Location"] == "/"


def test_the_log_in_page_offers_it(elsewhere, settings):
    page = Client().get("/login/?next=/queue/").content.decode()
    assert 'href="/login/openid/?next=%2Fqueue%2F"' in page
    assert "Sign in with Example" in page
    assert 'name="password"' in page
    settings.HAS_PASSWORDS = False
    assert 'name="password"' not in Client().get("/login/").content.decode()
    wrong = Client().post("/login/", {"username": "ada", "password": "sesame-open-42"})
    assert wrong.status_code == 400


def test_a_key_that_is_new_is_asked_for(elsewhere):
    assert come().status_code == 302
    elsewhere.tell("new key")
    assert come().status_code == 302


# --- lies -------------------------------------------------------------------------------------------------------------

NO_ID_TOKEN = [
    *("other nonce", "no nonce", "expired", "no expiry", "not yet", "other issuer", "other audience", "other party"),
    *("no subject", "unsigned", "signed with the secret", "signed with the public key", "other key", "changed"),
]


@pytest.mark.parametrize("lie", NO_ID_TOKEN)
def test_an_id_token_that_does_not_hold_signs_nobody_in(elsewhere, lie):
    elsewhere.tell(lie)
    client = Client()
    answer = come(client)
    assert answer.status_code in (400, 403), lie
    assert 'role="alert"' in answer.content.decode()
    assert (is_signed_in(client), Person.objects.filter(username="eva").exists()) == (False, False)


@pytest.mark.parametrize(
    "changed",
    [lambda state: state[:-1] + ("A" if state[-1] != "A" else "B"), lambda _: "", lambda _: "é" * 20, lambda _: "x"],
)
def test_a_state_that_is_not_this_browsers_signs_nobody_in(elsewhere, changed):
    client = Client()
    back = way_back(client)
    said = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
    answer = client.get("/login/openid/callback/", {**said, "state": changed(said["state"])})
    assert (answer.status_code, is_signed_in(client)) == (400, False)


def test_nobody_comes_back_in_another_browser(elsewhere):
    stranger, victim = Client(), Client()
    back = way_back(stranger)
    answer = victim.get(back)
    assert (answer.status_code, is_signed_in(victim)) == (400, False)
    assert "not begun in this browser" in words_of(answer)


def test_a_code_is_bound_to_its_browser_by_pkce_and_nonce(elsewhere):
    mine, stolen = Client(), Client()
    theirs = parse_qs(urlsplit(way_back(stolen)).query)
    own = parse_qs(urlsplit(way_back(mine)).query)
    answer = mine.get("/login/openid/callback/", {"state": own["state"][0], "code": theirs["code"][0]})
    assert (answer.status_code, is_signed_in(mine)) == (400, False)


def test_coming_back_twice_signs_in_once(elsewhere):
    client = Client()
    back = way_back(client)
    assert client.get(back).status_code == 302
    client.logout()
    assert (client.get(back).status_code, is_signed_in(client)) == (400, False)


def test_too_late_is_too_late(elsewhere, monkeypatch):
    client = Client()
    back = way_back(client)
    monkeypatch.setattr(openid, "TRY_S", 0)
    assert (client.get(back).status_code, is_signed_in(client)) == (400, False)


def test_a_no_of_the_provider_is_said(elsewhere):
    elsewhere.tell("no")
    answer = come()
    assert (answer.status_code, "access_denied" in words_of(answer)) == (403, True)


@pytest.mark.parametrize("lie", ["away", "describes another"])
def test_a_provider_in_trouble_is_said(elsewhere, lie):
    elsewhere.tell(lie)
    answer = Client().get("/login/openid/")
    assert (answer.status_code, "in trouble" in words_of(answer)) == (502, True)
    elsewhere.tell()
    assert come().status_code == 302


def test_a_provider_that_is_not_there_is_said_and_left_alone_for_a_while(elsewhere, settings, monkeypatch):
    issuer = settings.OPEN_ID.issuer
    configure(settings, issuer="http://127.0.0.1:9")
    assert Client().get("/login/openid/").status_code == 502
    configure(settings, issuer=issuer)
    assert Client().get("/login/openid/").status_code == 502
    monkeypatch.setattr(openid, "_left_alone_until", 0.0)
    assert come().status_code == 302


def test_nobody_has_the_provider_asked_without_end(elsewhere, monkeypatch):
    monkeypatch.setattr(sign_in_limits, "OF_ADDRESS", 3)
    for _ in range(5):
        assert come().status_code == 302
    client = Client()
    found = []
    for _ in range(4):
        state = parse_qs(urlsplit(way_back(client)).query)["state"][0]
        found.append(client.get("/login/openid/callback/", {"state": state, "code": "guessed"}))
    assert [answer.status_code for answer in found] == [400, 400, 400, 429]
    assert 0 < int(found[-1].headers["Retry-After"]) <= 900


def test_an_answer_of_another_provider_is_refused(elsewhere):
    client = Client()
    assert client.get(way_back(client) + "&iss=https://elsewhere.example").status_code == 400
    assert is_signed_in(client) is False
