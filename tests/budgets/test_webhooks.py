"""Webhooks: signed posts to a real web server, tried until they are taken, each try written down; and no way inside."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from random import Random

import pytest
from django.db import IntegrityError, connection, transaction

from budgets.errors import InputError, NotAllowed
from budgets.models import Kind, Message, Person, Webhook, WebhookDelivery, WebhookTry
from budgets.queries import today
from budgets.services import deliveries, messages, roles, sending, shares, webhook_settings, webhooks
from budgets.services.webhooks import NotDelivered
from tests.budgets.laboratory import Lab
from tests.budgets.servers import Hook, web_server

LOOPBACK = ip_network("127.0.0.1/32")
NOON = datetime(2026, 7, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
State = WebhookDelivery.State


@pytest.fixture
def hook(settings) -> Iterator[Hook]:
    """Somebody's web server, in a network that the operator allows."""
    settings.WEBHOOK_NETWORKS = [LOOPBACK]
    with web_server() as server:
        yield server


@pytest.fixture
def steady(monkeypatch) -> None:
    """Back-offs without chance."""
    monkeypatch.setattr(deliveries, "JITTER", 0)


def tell(person: Person, key: str = "k:1", **more) -> None:
    """Tell somebody something, as a service does."""
    said = {"kind": Kind.BUDGET, "subject": "A1 has changed", "text": "By 5 %.", "path": "/budget/A1/"}
    with transaction.atomic():
        messages.tell(to=[person], key=key, **{**said, **more})


def set_up(person: Person, hook: Hook, **more) -> Webhook:
    """A webhook to that server."""
    return webhook_settings.create(by=person, url=hook.url, **more)


def operator(lab: Lab) -> Person:
    """Somebody who operates."""
    roles.grant(person=lab.stranger, node=lab.root, role="operator", valid_from=today(), by=None)
    return lab.stranger


def signed(secret: str, at_s: int, body: bytes) -> str:
    """As the documentation has a receiver compute it."""
    return hmac.new(secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()


# --- posted -----------------------------------------------------------------------------------------------------------


def test_a_post_is_signed_and_says_what_it_is_about(lab: Lab, hook: Hook) -> None:
    webhook = set_up(lab.pi, hook)
    tell(lab.pi)
    now = datetime.now(UTC)
    assert sending.send_due(now) == 2  # the message was handed over, and the post was taken
    assert sending.send_due(now) == 0
    ((headers, body),) = hook.posts
    at_s = int(now.timestamp())
    assert headers["X-Allotment-Signature"] == f"t={at_s},v1={signed(webhook.secret, at_s, body)}"
    assert headers["X-Allotment-Event"] == "budget"
    said = json.loads(body)
    assert said.pop("at")
    assert said == {
        "id": f"k:1:{lab.pi.pk}", "event": "budget", "kind": "budget", "subject": "A1 has changed", "text": "By 5 %.",
        "url": "http://127.0.0.1:8000/budget/A1/",
    }  # fmt: skip
    assert headers["X-Allotment-Id"] == said["id"]
    assert Message.objects.get().sent_at == now


def test_each_try_is_written_down_with_what_was_answered(lab: Lab, hook: Hook, steady) -> None:
    webhook = set_up(lab.pi, hook)
    hook.answers, hook.says = [500, 204], b"broken \x1b[31m " + webhook.secret.encode() + b"!" * 2_000
    tell(lab.pi)
    sending.send_due(NOON)
    row = WebhookDelivery.objects.get()
    (first,) = row.attempts.all()
    assert (row.state, row.tries, row.next_try_at) == (State.WAITING, 1, NOON + timedelta(seconds=30))
    assert (first.status, first.error, first.at) == (500, "127.0.0.1 answered 500", NOON)
    assert 0 <= first.ms < 5_000
    assert first.answer.startswith("broken  [31m [secret]!!!")
    assert len(first.answer) <= webhooks.ANSWER_BYTES
    assert webhook.secret not in first.answer
    sending.send_due(NOON + timedelta(seconds=29))
    assert row.attempts.count() == 1
    sending.send_due(NOON + timedelta(seconds=30))
    row.refresh_from_db()
    assert (row.state, row.tries, row.ended_at) == (State.DELIVERED, 2, NOON + timedelta(seconds=30))
    assert [each.status for each in row.attempts.all()] == [500, 204]
    assert {headers["X-Allotment-Id"] for headers, _ in hook.posts} == {row.key}
    assert len({body for _, body in hook.posts}) == 1
    webhook.refresh_from_db()
    assert (webhook.failures, webhook.paused_until, webhook.delivered_at) == (0, None, row.ended_at)


def test_the_back_off_doubles_up_to_six_hours_with_some_chance_and_ends(lab: Lab, hook: Hook, monkeypatch) -> None:
    set_up(lab.pi, hook)
    tell(lab.pi)
    monkeypatch.setattr(deliveries, "chance", Random(7))
    now, waits = NOON, []
    while True:
        hook.answers = [500]
        sending.send_due(now)
        row = WebhookDelivery.objects.get()
        if row.state == State.FAILED:
            break
        waits.append((row.next_try_at - now).total_seconds())
        now = row.next_try_at + timedelta(hours=7)  # past the pause of the webhook as well
    assert (row.tries, len(waits), row.attempts.count()) == (12, 11, 12)
    ideal = [min(21_600, 30 * 2**number) for number in range(11)]
    assert all(0.8 * want <= got <= 1.2 * want for want, got in zip(ideal, waits, strict=True))
    assert waits != ideal
    assert sum(ideal) > 8 * 3_600
    assert sending.send_due(now + timedelta(days=1)) == 0


def test_a_receiver_that_is_away_is_left_alone_for_longer_each_time(lab: Lab, hook: Hook, steady) -> None:
    webhook = set_up(lab.pi, hook)
    for number in range(5):
        tell(lab.pi, key=f"k:{number}")
    hook.answers = [503] * 3
    assert sending.send_due(NOON) == 5  # handed over, and none was taken
    assert len(hook.posts) == 1  # after one failure the others wait
    sending.send_due(NOON + timedelta(seconds=29))
    assert len(hook.posts) == 1
    sending.send_due(NOON + timedelta(seconds=30))
    webhook.refresh_from_db()
    assert (len(hook.posts), webhook.failures) == (2, 2)
    assert webhook.paused_until == NOON + timedelta(seconds=90)
    sending.send_due(webhook.paused_until)
    hook.answers = []
    webhook.refresh_from_db()
    assert sending.send_due(webhook.paused_until + timedelta(minutes=2)) == 5
    assert {headers["X-Allotment-Id"] for headers, _ in hook.posts[-5:]} == {f"k:{n}:{lab.pi.pk}" for n in range(5)}


def test_redirects_are_not_followed(lab: Lab, hook: Hook) -> None:
    set_up(lab.pi, hook)
    hook.answers = [302]
    tell(lab.pi)
    sending.send_due(NOON)
    assert WebhookTry.objects.get().error == "127.0.0.1 answered 302"
    assert (len(hook.posts), hook.gets) == (1, [])


def test_a_receiver_that_dribbles_is_hung_up_on(lab: Lab, hook: Hook, monkeypatch) -> None:
    monkeypatch.setattr(webhooks, "ANSWER_S", 0.5)
    set_up(lab.pi, hook)
    hook.is_slow = True
    for number in range(3):
        tell(lab.pi, key=f"k:{number}")
    began = time.monotonic()
    sending.send_due(NOON)
    assert time.monotonic() - began < 3
    assert len(hook.posts) == 1
    assert WebhookTry.objects.get().status is None


def test_one_that_hangs_does_not_hold_up_the_others(lab: Lab, hook: Hook, monkeypatch) -> None:
    monkeypatch.setattr(webhooks, "ANSWER_S", 0.5)
    set_up(lab.pi, hook)
    hook.is_slow = True
    with web_server() as other:
        webhook_settings.create(by=lab.lead, url=other.url)
        for person in (lab.pi, lab.lead):
            tell(person, key=f"k:{person.pk}")
        sending.send_due(NOON)
        assert len(other.posts) == 1


@pytest.mark.long  # on a crowded machine an answer may come too late, and then it is posted again
@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_post_once(transactional_db, settings) -> None:
    from tests.budgets.laboratory import build

    settings.WEBHOOK_NETWORKS = [LOOPBACK]
    lab = build()
    with web_server() as hook:
        set_up(lab.pi, hook)
        for number in range(20):
            tell(lab.pi, key=f"k:{number}")
        barrier = threading.Barrier(3)

        def send() -> None:
            barrier.wait()
            sending.send_due()
            connection.close()

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sending.send_due()
        ids = [headers["X-Allotment-Id"] for headers, _ in hook.posts]
    assert (len(ids), len(set(ids))) == (20, 20)
    assert not WebhookDelivery.objects.exclude(state=State.DELIVERED).exists()


def test_a_worker_that_died_in_a_post_leaves_it_to_the_next(lab: Lab, hook: Hook, monkeypatch) -> None:
    set_up(lab.pi, hook)
    tell(lab.pi)

    def dies(*_arguments) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(deliveries, "send", dies)
        with pytest.raises(KeyboardInterrupt):
            sending.send_due(NOON)
    assert sending.send_due(NOON + timedelta(seconds=59)) == 0
    assert sending.send_due(NOON + timedelta(seconds=60)) == 1
    assert (len(hook.posts), WebhookDelivery.objects.get().tries) == (1, 2)


# --- turned off, and on -----------------------------------------------------------------------------------------------


def test_one_that_fails_on_and_on_is_turned_off_and_its_person_told(lab: Lab, hook: Hook) -> None:
    webhook = set_up(lab.pi, hook)
    now, told = NOON, 0
    hook.answers = [500] * 40
    while webhook.is_on:
        tell(lab.pi, key=f"k:{told}")
        told += 1
        sending.send_due(now)
        now += timedelta(hours=8)
        webhook.refresh_from_db()
    assert (webhook.failures, len(hook.posts)) == (20, 20)
    assert webhook.turned_off_why == "20 tries in a row failed, the last: 127.0.0.1 answered 500"
    assert set(WebhookDelivery.objects.values_list("state", flat=True)) == {"failed"}
    word = Message.objects.get(kind=Kind.WEBHOOK)
    assert (word.person, word.path) == (lab.pi, f"/webhooks/{webhook.pk}/")
    assert word.subject == f"The webhook to {hook.url} was turned off"
    tell(lab.pi, key="meanwhile")
    sending.send_due(now)
    assert not WebhookDelivery.objects.filter(key__startswith="meanwhile").exists()
    with pytest.raises(InputError, match="turned off"):
        webhook_settings.ping(webhook=webhook)
    assert not deliveries.send_again(delivery=WebhookDelivery.objects.first())
    hook.answers = []
    assert webhook_settings.turn_on(webhook=webhook)
    assert not webhook_settings.turn_on(webhook=webhook)
    tell(lab.pi, key="again")
    sending.send_due(now)
    assert WebhookDelivery.objects.get(key__startswith="again").state == State.DELIVERED


def test_a_receiver_that_is_gone_for_good_says_so_once(lab: Lab, hook: Hook) -> None:
    webhook = set_up(lab.pi, hook)
    hook.answers = [410]
    tell(lab.pi)
    sending.send_due(NOON)
    webhook.refresh_from_db()
    assert (webhook.turned_off_at, webhook.failures) == (NOON, 1)
    assert "wants nothing any more" in webhook.turned_off_why


def test_what_was_posted_is_posted_again_when_asked_and_forgotten_in_time(lab: Lab, hook: Hook) -> None:
    set_up(lab.pi, hook)
    tell(lab.pi)
    sending.send_due(NOON)
    row = WebhookDelivery.objects.get()
    assert deliveries.send_again(delivery=row, now=NOON)
    assert sending.send_due(NOON + SECOND) == 1
    (_, first), (_, second) = hook.posts
    assert first == second
    assert row.attempts.count() == 2
    assert deliveries.forget(NOON + timedelta(days=29)) == 0
    assert deliveries.forget(NOON + timedelta(days=31)) == 1
    assert not WebhookTry.objects.exists()


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_a_new_secret_signs_beside_the_old_one_for_a_day(lab: Lab, hook: Hook) -> None:
    webhook = set_up(lab.pi, hook)
    old = webhook.secret
    new = webhook_settings.rotate(webhook=webhook, now=NOON).secret
    assert old != new
    assert len(new) >= 40
    for hours in (23, 25):
        at = NOON + timedelta(hours=hours)
        webhook_settings.ping(webhook=webhook, now=at)
        sending.send_due(at)
    found = []
    for headers, body in hook.posts:
        t, *proofs = headers["X-Allotment-Signature"].split(",")
        known = {f"v1={signed(secret, int(t[2:]), body)}": name for name, secret in (("new", new), ("old", old))}
        found.append([known[proof] for proof in proofs])
    assert found == [["new", "old"], ["new"]]


def test_secrets_are_sealed_in_the_database(lab: Lab, hook: Hook) -> None:
    webhook = set_up(lab.pi, hook)
    secret = webhook.secret
    webhook_settings.rotate(webhook=webhook)
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret, old_secret FROM budgets_webhook")
        stored = cursor.fetchone()
        assert all(each.startswith("sealed1:") for each in stored)
        assert Webhook.objects.get().old_secret == secret
        with pytest.raises(IntegrityError, match="webhook_secrets_are_sealed"), transaction.atomic():
            cursor.execute("UPDATE budgets_webhook SET secret = 'plain'")


# --- whose, and what --------------------------------------------------------------------------------------------------


def test_only_what_was_chosen_is_posted(lab: Lab, hook: Hook) -> None:
    webhook = set_up(lab.pi, hook, events=["comment", "comment"])
    assert webhook.events == ["comment"]
    tell(lab.pi, key="a")
    tell(lab.pi, key="b", kind=Kind.COMMENT)
    sending.send_due(NOON)
    assert [json.loads(body)["kind"] for _, body in hook.posts] == ["comment"]
    assert webhook_settings.change(webhook=webhook, events=[str(kind) for kind in Kind]).events == []
    with pytest.raises(InputError, match="there is no event 'weather'"):
        webhook_settings.change(webhook=webhook, events=["weather"])


def test_a_digest_is_posted_as_one(lab: Lab, hook: Hook, settings) -> None:
    settings.HAS_MAIL_SERVER = False
    set_up(lab.pi, hook, events=["budget"])
    messages.choose(person=lab.pi, modes={Kind.BUDGET: "digest", Kind.COMMENT: "digest"})
    for number, kind in enumerate((Kind.BUDGET, Kind.COMMENT, Kind.BUDGET)):
        tell(lab.pi, key=f"k:{number}", kind=kind, subject=f"thing {number}")
    Message.objects.update(at=NOON - timedelta(days=1))
    sending.send_due(NOON)
    ((headers, body),) = hook.posts
    assert headers["X-Allotment-Event"] == "digest"
    assert [each["subject"] for each in json.loads(body)["messages"]] == ["thing 0", "thing 2"]


def test_several_of_a_person_each_get_it_up_to_a_bound(lab: Lab, hook: Hook) -> None:
    for _ in range(5):
        set_up(lab.pi, hook)
    with pytest.raises(InputError, match="5 already"):
        set_up(lab.pi, hook)
    tell(lab.pi)
    sending.send_due(NOON)
    assert len(hook.posts) == 5
    assert webhook_settings.remove(webhook=Webhook.objects.first())
    assert (Webhook.objects.count(), WebhookDelivery.objects.count()) == (4, 4)


def test_nothing_is_posted_for_somebody_who_was_disabled(lab: Lab, hook: Hook) -> None:
    webhook_settings.ping(webhook=set_up(lab.pi, hook), now=NOON)
    Person.objects.filter(pk=lab.pi.pk).update(is_active=False)
    sending.send_due(NOON)
    assert hook.posts == []


def test_the_organisations_are_for_operators_to_set_up(lab: Lab, hook: Hook) -> None:
    for person in (lab.member, lab.pi, lab.chief):
        with pytest.raises(NotAllowed):
            set_up(person, hook, scope="organisation")
        assert not webhook_settings.visible_to(person).exists()
    with pytest.raises(InputError, match="scope"):
        set_up(lab.pi, hook, scope="world")
    made = set_up(operator(lab), hook, scope="organisation")
    assert list(webhook_settings.visible_to(made.person)) == [made]
    assert not webhook_settings.visible_to(lab.pi).exists()


def test_the_organisations_is_posted_what_stands_in_the_ledger_in_the_same_transaction(lab: Lab, hook: Hook) -> None:
    set_up(operator(lab), hook, scope="organisation", events=["share"])
    change = {"parent": lab.a, "cluster": lab.north, "shares": {lab.a1: 3_000}, "by": None, "reason": "a plan"}
    with transaction.atomic():
        shares.set_shares(**change, valid_from=NOON.date())
        transaction.set_rollback(True)
    assert not WebhookDelivery.objects.exists()
    shares.set_shares(**change, valid_from=NOON.date())
    sending.send_due()
    (_, body), *others = hook.posts
    said = json.loads(body)
    assert (said["event"], said["budget"], said["cluster"], said["reason"]) == (
        "share.changed", "A1", "north", "a plan",
    )  # fmt: skip
    assert said["after"]["shares"][-1]["basis_points"] == 3_000
    assert others == []


# --- no way inside ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "", "ftp://example.org/", "https://", "https://user:secret@example.org/", "https://example.org/#part",
        "https://exa mple.org/", "https://example.org:99999/", "https://example.org:0/", "javascript:alert(1)",
        "https://example.org/\r\nHost: other", "https://[::1", "https://x/" + "a" * 300,
    ],
)  # fmt: skip
def test_what_is_no_address(lab: Lab, url: str) -> None:
    with pytest.raises(InputError) as refused:
        webhook_settings.create(by=lab.pi, url=url)
    assert refused.value.field == "url"
    assert not Webhook.objects.exists()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "10.0.0.7", "192.168.1.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
        "224.0.0.1", "[::1]", "[::]", "[fe80::1]", "[fd00::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]", "2852039166", "0x7f.1", "127.1", "255.255.255.255",
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_address_inside_the_house(lab: Lab, settings, scheme: str, host: str) -> None:
    settings.WEBHOOK_NETWORKS = []
    with pytest.raises(InputError, match=r"not a public address|has no address"):
        webhook_settings.create(by=lab.pi, url=f"{scheme}://{host}/latest/meta-data")


def test_an_allowed_network_is_that_network_only(settings) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("10.20.0.0/16")]
    reachable = {each: webhooks.is_reachable(ip_address(each)) for each in ("10.20.3.4", "10.21.0.1", "93.184.216.34")}
    assert reachable == {"10.20.3.4": True, "10.21.0.1": False, "93.184.216.34": True}
    with pytest.raises(NotDelivered, match="must begin with https"):
        webhooks.look_up(webhooks.check_url("http://10.20.3.4/"))
    assert webhooks.look_up(webhooks.check_url("https://10.20.3.4/x?y=1")).request_path == "/x?y=1"


def test_an_address_that_moved_inside_since_is_not_posted_to(lab: Lab, hook: Hook, settings) -> None:
    set_up(lab.pi, hook)
    settings.WEBHOOK_NETWORKS = []
    tell(lab.pi)
    sending.send_due(NOON)
    assert "not a public address" in WebhookTry.objects.get().error
    assert hook.posts == []
