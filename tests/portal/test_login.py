"""Signing in with a password: how often it may be tried, how long sessions live, and changing it."""

from __future__ import annotations

import time

import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client

from budgets.models import Message, Person, Role, RoleGrant
from budgets.queries import today
from budgets.services import people
from portal import counters, session_ages, sign_in_limits
from portal.counters import Limit, Own
from tests.portal.test_tokens import words_of

RIGHT, WRONG = "sesame-open-42", "sesame-open-43"
NEW = "another sesame 77"


def try_to(client: Client, password: str, username: str = "ada", **more):
    """Send the log-in form."""
    return client.post("/login/", {"username": username, "password": password}, **more)


def statuses(count: int, client: Client | None = None, **more) -> list[int]:
    """What so many wrong tries get, each from a browser of its own unless one is given."""
    return [try_to(client or Client(), WRONG, **more).status_code for _ in range(count)]


def is_in(client: Client) -> bool:
    """Whether pages open."""
    return client.get("/password/").status_code == 200


# --- how often --------------------------------------------------------------------------------------------------------


def test_after_five_wrong_tries_even_the_right_password_waits(calm):
    assert statuses(6) == [400] * 5 + [429]
    client = Client()
    answer = try_to(client, RIGHT)
    assert (answer.status_code, is_in(client)) == (429, False)
    wait = int(answer.headers["Retry-After"])
    assert 240 < wait <= 300
    page = words_of(answer)
    assert ("Too many tries with a wrong password." in page, "correct user" in page) == (True, False)


def test_waiting_is_over_some_time(calm, monkeypatch):
    monkeypatch.setattr(sign_in_limits, "FIVE_MINUTES_S", 1)
    assert statuses(6)[-1] == 429
    time.sleep(1.1)
    assert try_to(Client(), RIGHT).status_code == 302


def test_the_right_password_does_not_count(calm):
    for _ in range(3):
        assert statuses(4) == [400] * 4
        assert try_to(Client(), RIGHT).status_code == 302


def test_an_account_that_is_not_there_is_counted_alike(calm):
    assert statuses(6, username="nobody") == statuses(6, username="ben") == [400] * 5 + [429]


def test_one_address_cannot_try_many_accounts(calm, monkeypatch):
    monkeypatch.setattr(sign_in_limits, "OF_ADDRESS", 4)
    found = [try_to(Client(), WRONG, f"u{number}").status_code for number in range(5)]
    assert found == [400] * 4 + [429]
    assert try_to(Client(), RIGHT).status_code == 429
    assert try_to(Client(), RIGHT, REMOTE_ADDR="203.0.113.9").status_code == 302


def test_strangers_cannot_lock_an_account_out_of_a_browser_that_it_knows(calm, monkeypatch):
    monkeypatch.setattr(sign_in_limits, "OF_ACCOUNT", 8)
    mine = Client()
    assert try_to(mine, RIGHT).status_code == 302
    mine.post("/logout/")
    found = [try_to(Client(), WRONG, REMOTE_ADDR=f"203.0.113.{number}").status_code for number in range(10)]
    assert found == [400] * 8 + [429] * 2
    assert try_to(Client(), RIGHT).status_code == 429
    assert try_to(mine, RIGHT).status_code == 302
    assert try_to(Client(), RIGHT, "ben").status_code == 302


def test_a_browser_that_is_known_is_bounded_itself(calm, monkeypatch):
    monkeypatch.setattr(sign_in_limits, "OF_DEVICE", 3)
    mine = Client()
    try_to(mine, RIGHT)
    mine.post("/logout/")
    assert statuses(4, mine) == [400] * 3 + [429]
    assert try_to(Client(), RIGHT).status_code == 302


@pytest.mark.parametrize("cookie", ["x", "", "W10:1v:abc"])
def test_a_cookie_that_is_not_ours_knows_nobody(calm, cookie):
    client = Client()
    client.cookies[sign_in_limits.DEVICE_COOKIE] = cookie
    assert statuses(6, client) == [400] * 5 + [429]


def test_a_browser_is_known_for_one_account_alone(calm):
    mine = Client()
    try_to(mine, RIGHT, "ben")
    mine.post("/logout/")
    assert statuses(6, mine) == [400] * 5 + [429]


def test_many_at_once_are_no_way_around(calm):
    limits = (Limit("t", 5, 60),)
    begun = [sign_in_limits.begin(limits) for _ in range(20)]
    assert [attempt.wait_s > 0 for attempt in begun] == [False] * 5 + [True] * 15


def test_processes_count_together(calm):
    statuses(5)
    broker = redis.Redis.from_url(django_settings.REDIS_URL)
    keys = list(broker.scan_iter(f"{counters.NAMESPACE}:*"))
    assert len(keys) == 3
    assert all(0 < broker.ttl(key) <= 900 for key in keys)
    assert not any(b"ada" in key for key in keys)


def test_without_the_broker_each_process_counts_alone(calm, monkeypatch, settings):
    settings.REDIS_URL = "unix:///nowhere/at/all.sock?db=0"
    monkeypatch.setattr(counters, "_own", Own())
    counters._broker.cache_clear()
    try:
        assert statuses(6) == [400] * 5 + [429]
    finally:
        counters._broker.cache_clear()
        monkeypatch.setattr(counters, "_away_until", 0.0)


def test_a_broker_that_goes_away_between_two_tries_gives_nobody_more_of_them(calm, monkeypatch, settings):
    client = Client()
    assert statuses(3, client) == [400] * 3
    settings.REDIS_URL = "unix:///nowhere/at/all.sock?db=0"
    counters._broker.cache_clear()
    try:
        assert statuses(3, client) == [400] * 2 + [429]
    finally:
        counters._broker.cache_clear()
        monkeypatch.setattr(counters, "_away_until", 0.0)


@pytest.mark.parametrize(
    ("behind", "meta", "address"),
    [
        (False, {"REMOTE_ADDR": "198.51.100.7", "HTTP_X_FORWARDED_FOR": "1.2.3.4"}, "198.51.100.7"),
        (True, {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "1.2.3.4, 198.51.100.7"}, "198.51.100.7"),
        (True, {"REMOTE_ADDR": "127.0.0.1"}, "127.0.0.1"),
        (True, {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "nonsense"}, "unknown"),
        (False, {"REMOTE_ADDR": "2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"),
        (False, {"REMOTE_ADDR": "::ffff:198.51.100.7"}, "198.51.100.7"),
        (False, {"REMOTE_ADDR": ""}, "unknown"),
    ],
)
def test_where_somebody_comes_from(rf, settings, behind, meta, address):
    settings.IS_BEHIND_PROXY = behind
    assert sign_in_limits.client_address(rf.get("/", **meta)) == address


def test_djangos_own_log_in_is_no_way_around(calm):
    answer = Client().post("/admin/login/", {"username": "ada", "password": RIGHT})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/login/?next=/admin/")
    assert Client().get("/admin/login/?next=//evil.example").headers["Location"] == "/login/?next=/admin/"
    Person.objects.filter(pk=calm.ada.pk).update(is_staff=True)
    client = Client()
    try_to(client, RIGHT)
    assert client.get("/admin/login/?next=/admin/budgets/person/").headers["Location"] == "/admin/budgets/person/"
    assert client.get("/admin/").status_code == 200


# --- how long ---------------------------------------------------------------------------------------------------------


def test_who_is_disabled_is_signed_out_everywhere(calm):
    RoleGrant.objects.create(person=calm.nil, node=calm.node["LAB"], role=Role.ADMINISTRATOR, valid_from=today())
    one, two = Client(), Client()
    for client in (one, two):
        try_to(client, RIGHT)
    assert (is_in(one), is_in(two)) == (True, True)
    people.disable(person=calm.ada, by=calm.nil, reason="left")
    assert (is_in(one), is_in(two)) == (False, False)
    assert try_to(Client(), RIGHT).status_code == 400
    people.enable(person=calm.ada, by=calm.nil, reason="back")
    assert (is_in(one), is_in(two)) == (False, False)


def later(monkeypatch, seconds: float) -> None:
    """So much time goes by for sessions."""
    at = time.time() + seconds
    monkeypatch.setattr(session_ages.time, "time", lambda: at)


def test_a_session_ends_by_its_age_whatever_happens_in_it(calm, settings, monkeypatch):
    settings.SESSION_COOKIE_AGE = 3_600
    client = Client()
    try_to(client, RIGHT)
    real = time.time()
    for seconds, lives in ((1_800, True), (3_500, True), (3_601, False), (0, False)):
        monkeypatch.setattr(session_ages.time, "time", lambda at=real + seconds: at)
        session = client.session
        session["touched"] = seconds
        session.save()
        assert is_in(client) is lives, seconds


def test_a_session_in_which_nothing_is_done_ends(calm, settings, monkeypatch):
    settings.SESSION_IDLE_S = 600
    client = Client()
    try_to(client, RIGHT)
    real, found = time.time(), []
    polls = {"HX-Request": "true"}
    for seconds, headers in ((500, {}), (1_000, {}), (1_500, polls), (1_601, {})):
        monkeypatch.setattr(session_ages.time, "time", lambda at=real + seconds: at)
        found.append(client.get("/password/", headers=headers).status_code)
    assert found == [200, 200, 200, 302]


def test_a_session_of_before_is_counted_from_now(calm, as_person):
    client = as_person(calm.ada)
    session = client.session
    del session[session_ages.SINCE]
    session.save()
    assert is_in(client)
    assert client.session[session_ages.SINCE] > time.time() - 60


# --- changing it ------------------------------------------------------------------------------------------------------


def change(client: Client, old: str = RIGHT, new: str = NEW, again: str | None = None, **more):
    """Send the form."""
    return client.post("/password/", {"old_password": old, "new_password1": new, "new_password2": again or new, **more})


def test_a_new_password_signs_out_everywhere_else(calm):
    here, there = Client(), Client()
    for client in (here, there):
        try_to(client, RIGHT)
    answer = change(here)
    assert (answer.status_code, is_in(here), is_in(there)) == (302, True, False)
    assert [try_to(Client(), each).status_code for each in (RIGHT, NEW)] == [400, 302]
    assert [each.subject for each in Message.objects.filter(person=calm.ada)] == ["Your password was changed"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"old": WRONG}, "entered incorrectly"),
        ({"new": "short7"}, "too short"),
        ({"new": "password123"}, "too common"),
        ({"new": "73519846205"}, "entirely numeric"),
        ({"again": "something else"}, "match"),
        ({"new": RIGHT}, "is the one that you have"),
        ({"is_staff": "1"}, "There is no field"),
    ],
)
def test_what_is_no_new_password_changes_nothing(calm, as_person, said, words):
    answer = change(as_person(calm.ada), **said)
    assert (answer.status_code, words in words_of(answer)) == (400, True), words_of(answer)
    assert try_to(Client(), RIGHT).status_code == 302


def test_a_session_that_was_left_open_is_no_place_to_guess(calm, as_person):
    client = as_person(calm.ada)
    found = [change(client, old=WRONG).status_code for _ in range(11)]
    assert found == [400] * 10 + [429]
    answer = change(client)
    assert (answer.status_code, "Retry-After" in answer.headers) == (429, True)
    assert try_to(Client(), RIGHT).status_code == 302


def test_an_account_without_a_password_has_none_to_change(calm, as_person):
    calm.ada.set_unusable_password()
    calm.ada.save()
    client = as_person(calm.ada)
    assert "has no password here" in words_of(client.get("/password/"))
    assert change(client).status_code == 403
