"""The laboratory with something of every kind in it, and which person sees which of its pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.test import Client

from budgets.models import Person, RoleGrant, Webhook, WebhookDelivery
from budgets.services import webhook_settings
from scheduler.models import Run, Simulation
from scheduler.services import simulating
from tests.addresses import API, Values, filled, patterns
from tests.portal.conftest import Laboratory
from tests.portal.test_routes import governance, simulation


@dataclass(frozen=True, slots=True)
class Seen:
    """A page, and who is to look at it."""

    path: str
    person: Person


def finished(row: Simulation) -> Simulation:
    """The simulation as workers leave it."""
    simulating.prepare(row.pk)
    for pk in row.parts.filter(state="waiting").values_list("pk", flat=True):
        simulating.run_part(pk)
    row.refresh_from_db()
    return row


def webhook(lab: Laboratory) -> tuple[int, list[int]]:
    """One of the operator's, with a delivery that was taken, one that failed and one that waits; their numbers."""
    row = Webhook.objects.create(
        person=lab.ops,
        name="Pager",
        url="https://pager.example.org/hooks/7",
        secret="s",
        events=["workload"],
        failures=2,
    )
    made = []
    for state, tries, said in (
        ("delivered", 1, [(204, "", "")]),
        (
            "failed",
            2,
            [(None, "pager.example.org has no address", ""), (422, "pager.example.org answered 422", "no room")],
        ),
        ("waiting", 0, []),
    ):
        delivery = webhook_settings.ping(webhook=row)
        WebhookDelivery.objects.filter(pk=delivery.pk).update(state=state, tries=tries)
        for status, error, answer in said:
            delivery.attempts.create(at=delivery.made_at, status=status, ms=38, error=error, answer=answer)
        made.append(delivery.pk)
    return row.pk, made


def values_of(lab: Laboratory) -> Values:
    """Something for every parameter of an address."""
    numbers = governance(lab)
    hook, deliveries = webhook(lab)
    taken = Run.objects.filter(workload=lab.taken, preempted_by__isnull=False).first()
    return {
        "cluster": ["north"],
        "code": ["A", "A1"],
        "workloads/<str:code>": [lab.taker.code, lab.taken.code, lab.waits.code],
        "workloads/<str:code>/runs/<int:number>": [taken.number if taken else 1],
        "nodes/<slug:cluster>/<str:name>": ["n01"],
        "requests/<int:number>": [numbers["asked"], numbers["drafted"]],
        "requests/<int:number>/files/<int:attachment>": [numbers["file"]],
        "requests/<int:number>/attachments/<int:attachment>": [numbers["file"]],
        "budget/<str:code>/roles/<int:grant>": [RoleGrant.objects.get(person=lab.mia).pk],
        "delegations/<int:number>": [numbers["delegation"]],
        "reallocations/<int:number>": [numbers["proposed"]],
        "reviews/<int:number>": [numbers["review"]],
        "reviews/<int:number>/items/<int:position>": [1],
        "decisions/<int:number>": [numbers["decided"]],
        "people/<int:number>": [lab.ada.pk],
        "imports/<int:number>": [numbers["import"]],
        "simulator/<int:number>": [number := finished(simulation(lab)).pk],
        "simulations/<int:number>": [number],
        "webhooks/<int:number>": [hook],
        "webhooks/<int:number>/deliveries/<int:delivery>": deliveries,
        "help/<slug:key>": ["manager"],
        "help/api/<slug:key>": ["requests_approve_create"],
        "help/pictures/<str:name>": ["queue.png"],
        "name": ["n01"],
        "delivery": [1],
        "number": [1],
        "verb": ["none"],
    }


def pages(lab: Laboratory) -> Iterator[Seen]:
    """Every page that somebody gets as HTML, each once, by whoever of these sees it first."""
    values = values_of(lab)
    clients = []
    for person in (lab.mia, lab.ada, lab.max, lab.ops):
        client = Client()
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        clients.append((person, client))
    for pattern in patterns():
        if pattern.startswith(API):
            continue
        for path in filled(pattern, values):
            for person, client in clients:
                answer = client.get(path)
                is_page = answer.headers.get("Content-Type", "").startswith("text/html")
                if answer.status_code == 200 and is_page and b"<html" in answer.content[:300]:
                    yield Seen(path, person)
                    break
