"""Webhooks on pages and over the API: set up, tried, changed, turned off; everybody their own, and operators all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from django.test import Client

from budgets.models import Webhook, WebhookDelivery
from budgets.services import sending, tokens, webhook_settings
from scheduler.services import nodes, webhook_events, workloads
from tests.budgets.servers import Hook, web_server
from tests.portal.test_pages import hidden, queries_of, text_of

NOWHERE = "http://127.0.0.1:9/hook"


@pytest.fixture(autouse=True)
def loopback(settings) -> None:
    """The operator allows this machine's own loopback."""
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.1/32")]


@pytest.fixture
def hook() -> Iterator[Hook]:
    """Somebody's web server."""
    with web_server() as server:
        yield server


def press(client: Client, webhook: Webhook, verb: str, **form):
    """Press a button on the page of a webhook."""
    page = client.get(f"/webhooks/{webhook.pk}/")
    return client.post(f"/webhooks/{webhook.pk}/{verb}/", {"action": hidden(page, "action"), **form})


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_webhook_is_set_up_and_shows_its_secret_once(calm, as_person):
    client = as_person(calm.ada)
    assert "You have none." in text_of(client.get("/webhooks/"))
    form = {"action": hidden(client.get("/webhooks/new/"), "action"), "url": NOWHERE, "events": ["workload"]}
    answer = client.post("/webhooks/new/", {**form, "name": "Pager"})
    row = Webhook.objects.get(person=calm.ada)
    assert answer.status_code == 200
    assert row.secret in answer.content.decode()
    assert answer.headers["Cache-Control"] == "no-store"
    assert (row.name, row.events, row.scope) == ("Pager", ["workload"], "person")
    again = client.post("/webhooks/new/", {**form, "name": "Pager"}, follow=True)  # Back, and sent again
    assert "nothing was changed again" in text_of(again)
    assert Webhook.objects.get() == row
    for path in ("/webhooks/", f"/webhooks/{row.pk}/", "/messages/choices/"):
        assert row.secret not in client.get(path).content.decode()
    assert "Pager" in text_of(client.get("/webhooks/"))
    assert "One address of yours" in text_of(client.get("/messages/choices/"))


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/", "https://10.0.0.1/", "file:///etc/passwd", ""])
def test_an_address_inside_the_house_is_refused_beside_its_field(calm, as_person, url):
    client = as_person(calm.ada)
    form = {"action": hidden(client.get("/webhooks/new/"), "action"), "url": url}
    answer = client.post("/webhooks/new/", form)
    assert answer.status_code == 400
    assert 'id="id_url_error"' in answer.content.decode()
    assert not Webhook.objects.exists()


def test_a_test_is_posted_and_its_page_says_how_it_went(calm, as_person, hook):
    client = as_person(calm.ada)
    row = webhook_settings.create(by=calm.ada, url=hook.url)
    hook.answers, hook.says = [422], b"<script>alert(1)</script> no such room"
    assert press(client, row, "test").status_code == 302
    sending.send_due()
    assert "1 try has failed; after 20 in a row it is turned off." in text_of(client.get(f"/webhooks/{row.pk}/"))
    delivery = WebhookDelivery.objects.get()
    page = client.get(f"/webhooks/{row.pk}/deliveries/{delivery.pk}/")
    assert "127.0.0.1 answered 422" in text_of(page)
    assert "<script>alert" not in page.content.decode()
    assert "no such room" in text_of(page)
    again = {"action": hidden(page, "action")}
    assert client.post(f"/webhooks/{row.pk}/deliveries/{delivery.pk}/again/", again).status_code == 302
    assert client.post(f"/webhooks/{row.pk}/deliveries/{delivery.pk}/again/", again).status_code == 302  # sent twice
    sending.send_due()
    assert [json.loads(body)["event"] for _, body in hook.posts] == ["ping", "ping"]
    page = text_of(client.get(f"/webhooks/{row.pk}/?state=delivered"))
    assert ("ping" in page, "No delivery fits" in page) == (True, False)


def test_the_buttons_of_a_webhook(calm, as_person):
    client = as_person(calm.ada)
    row = webhook_settings.create(by=calm.ada, url=NOWHERE)
    old = row.secret
    shown = press(client, row, "secret")
    row.refresh_from_db()
    assert row.secret != old
    assert row.secret in shown.content.decode()
    assert "Posts are signed with the old one as well" in text_of(shown)
    assert press(client, row, "change", url=NOWHERE, name="Room", events=["comment"]).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.events) == ("Room", ["comment"])
    assert press(client, row, "change", url="http://10.0.0.1/").status_code == 400
    assert press(client, row, "off").status_code == 302
    assert "turned off by hand" in text_of(client.get(f"/webhooks/{row.pk}/"))
    assert press(client, row, "on").status_code == 302
    assert press(client, row, "remove").status_code == 302
    assert not Webhook.objects.exists()
    assert client.get(f"/webhooks/{row.pk}/").status_code == 404


def test_queries_do_not_grow_with_deliveries(calm, as_person):
    client = as_person(calm.ada)
    row = webhook_settings.create(by=calm.ada, url=NOWHERE)
    webhook_settings.ping(webhook=row)
    few = queries_of(client, f"/webhooks/{row.pk}/")
    for _ in range(60):
        webhook_settings.ping(webhook=row)
    assert queries_of(client, f"/webhooks/{row.pk}/") == few <= 14
    assert "Page 1 of 2, 61 deliveries" in text_of(client.get(f"/webhooks/{row.pk}/"))


# --- what happens on clusters -----------------------------------------------------------------------------------------


def test_operators_have_what_happens_on_clusters_posted(lab, hook):
    hooked = webhook_settings.create(by=lab.ops, url=hook.url, scope="organisation", events=["workload", "node"])
    assert webhook_events.follow() == 0  # it begins with what is new
    made = lab.submit("A1", 1, owner=lab.ada, environment={"KEY": "v"})
    nodes.ask_drain(node=lab.cluster.nodes.get(name="n01"), reason="fan", by=lab.ops)
    lab.step()
    assert webhook_events.follow() == 2
    assert webhook_events.follow() == 0
    sending.send_due()
    said = [json.loads(body) for _, body in hook.posts]
    assert [
        (each["event"], each.get("workload", {}).get("code"), each.get("node", {}).get("name")) for each in said
    ] == [
        ("workload.submitted", made.code, None),
        ("node.changed", None, "n01"),
    ]
    assert said[0]["workload"] == {
        "code": made.code, "budget": "A1", "class": made.workload_class, "size_milli": 1_000, "state": "queued",
    }  # fmt: skip
    assert said[1]["node"] == {"name": "n01", "health": "healthy", "draining": True}
    assert not any("train.py" in str(each) or "KEY" in str(each) for each in said)
    webhook_settings.change(webhook=hooked, events=["run"])
    workloads.cancel(workload=made, by=lab.ada, reason="")
    assert webhook_events.follow() == 0


# --- the API ----------------------------------------------------------------------------------------------------------


def bearer(person, *scopes: str) -> Client:
    """A program with that person's token."""
    _, shown = tokens.create(person=person, name="t", scopes=list(scopes), days=1)
    return Client(headers={"Authorization": f"Bearer {shown}"})


def test_the_api_does_what_the_pages_do(calm, hook):
    client = bearer(calm.ada, "read", "operate")
    made = client.post("/api/v1/webhooks/", {"url": hook.url, "events": ["decision"]}, "application/json")
    said = made.json()
    assert (made.status_code, said["is_on"], said["events"], said["scope"]) == (201, True, ["decision"], "person")
    assert made.headers["Cache-Control"] == "no-store"
    assert said["secret"] == Webhook.objects.get().secret
    at = made.headers["Location"]
    assert "secret" not in client.get(at).json()
    assert [each["id"] for each in client.get("/api/v1/webhooks/").json()["results"]] == [said["id"]]
    tested = client.post(f"{at}test/")
    assert (tested.status_code, tested.json()["state"]) == (202, "waiting")
    sending.send_due()
    one = client.get(tested.headers["Location"]).json()
    assert (one["state"], one["event"], one["body"]["subject"]) == ("delivered", "ping", "A test of this webhook")
    assert [(each["status"], each["error"]) for each in one["attempts"]] == [(204, "")]
    assert client.post(f"{tested.headers['Location']}again/").status_code == 202
    assert [each["id"] for each in client.get(f"{at}deliveries/?state=waiting").json()["results"]] == [one["id"]]
    fresh = client.post(f"{at}secret/").json()["secret"]
    assert fresh == Webhook.objects.get().secret != said["secret"]
    off = client.patch(at, {"is_on": False, "name": "x"}, "application/json").json()
    assert (off["is_on"], off["name"], off["turned_off_why"]) == (False, "x", "turned off by hand")
    assert client.post(f"{at}test/").status_code == 400
    assert client.post(f"{tested.headers['Location']}again/").json()["errors"][0]["field"] == "webhook"
    assert client.patch(at, {"is_on": True}, "application/json").json()["is_on"]
    assert client.delete(at).status_code == 204
    assert client.get(at).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"), ({"url": "http://10.0.0.1/"}, "url"), ({"url": NOWHERE, "events": ["x"]}, "events"),
        ({"url": NOWHERE, "scope": "world"}, "scope"), ({"url": NOWHERE, "owner": "max"}, "owner"),
    ],
)  # fmt: skip
def test_what_the_api_refuses_names_its_field(calm, body, field):
    answer = bearer(calm.ada, "operate").post("/api/v1/webhooks/", body, "application/json")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert not Webhook.objects.exists()


def test_a_token_that_may_read_sets_nothing_up_and_nobody_sees_anothers(calm):
    row = webhook_settings.create(by=calm.ada, url=NOWHERE)
    delivery = webhook_settings.ping(webhook=row)
    reads = bearer(calm.ada, "read")
    assert reads.post("/api/v1/webhooks/", {"url": NOWHERE}, "application/json").status_code == 403
    assert reads.post(f"/api/v1/webhooks/{row.pk}/secret/").status_code == 403
    for person in (calm.ben, calm.max, calm.ops):
        other = bearer(person, "read", "operate")
        for path in ("", "deliveries/", f"deliveries/{delivery.pk}/"):
            assert other.get(f"/api/v1/webhooks/{row.pk}/{path}").status_code == 404
        assert other.delete(f"/api/v1/webhooks/{row.pk}/").status_code == 404
    assert bearer(calm.ada, "operate").post(
        "/api/v1/webhooks/", {"url": NOWHERE, "scope": "organisation"}, "application/json"
    ).status_code == 403  # fmt: skip
