"""The page of a cluster's rules: what it follows from when, how its nodes are repaired; operators change both."""

from __future__ import annotations

import html
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from budgets.models import LedgerEntry
from scheduler.models import RepairHook
from scheduler.services import repairs, rollout
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden, text_of

RULES = "/clusters/north/rules/"
HOOK = {"kind": "node", "url": "", "command": "", "attempts": "3", "within": "1 h", "reason": "nights are long"}


def sent(client: Client, verb: str, said: dict[str, str], *, sure: bool = True) -> Any:
    """A form of the page, filled in and, after its question, confirmed."""
    action = hidden(client.get(RULES), "action")
    answer = client.post(f"{RULES}{verb}/", {"action": action, **said})
    if not sure or answer.status_code != 200:
        return answer
    return client.post(f"{RULES}{verb}/", {"action": action, **said, "sure": "on"})


def entries() -> list[tuple[str, Any, Any, str]]:
    """What the ledger says of it."""
    rows = LedgerEntry.objects.filter(verb__startswith="cluster.").order_by("pk")
    return [(row.verb, row.before, row.after, row.reason) for row in rows]


def test_what_follows_is_asked_about_before_anything_is_done(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(lab.ops)
    said = {"mode": "shadow", "starts_at": "", "reason": "we compare first"}
    answer = sent(client, "plan", said, sure=False)
    page = text_of(answer)
    assert "Have north shadow from now on?" in page
    assert "nothing starts, nobody is preempted" in page
    assert not lab.cluster.rollout.exists()
    answer = sent(client, "plan", said)
    assert (answer.status_code, answer["Location"]) == (302, RULES)
    assert rollout.mode_of(lab.cluster, timezone.now()) == "shadow"
    assert [each[0] for each in entries()] == ["cluster.rules"]
    page = text_of(client.get(RULES))
    assert "It shadows: what contracts would decide is shown, and nothing is started or stopped." in page
    assert "we compare first" in page


def test_contracts_begin_at_an_instant_and_a_new_plan_says_what_it_drops(
    lab: Laboratory, as_person: Callable[..., Client]
) -> None:
    client = as_person(lab.ops)
    later = timezone.localtime(timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    said = {"mode": "contracts", "starts_at": later.strftime("%Y-%m-%dT%H:%M"), "reason": "decided on Monday"}
    sent(client, "plan", {**said, "mode": "shadow"})
    assert "1 change that was planned for later is dropped." in text_of(sent(client, "plan", said, sure=False))
    sent(client, "plan", said)
    (step,) = lab.cluster.rollout.all()
    assert (step.mode, step.starts_at, step.made_by) == ("contracts", later, lab.ops)
    page = client.get(RULES).content.decode()
    assert page.count("planned</span>") == 1


def test_the_same_form_sent_twice_does_it_once(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(lab.ops)
    said = {"action": hidden(client.get(RULES), "action"), "mode": "shadow", "reason": "twice", "sure": "on"}
    for _time in range(2):
        assert client.post(f"{RULES}plan/", said).status_code == 302
    assert lab.cluster.rollout.count() == 1


@pytest.mark.parametrize(
    ("verb", "said", "words"),
    [
        ("plan", {"mode": "shadow", "starts_at": "2020-01-01T00:00", "reason": "x"}, "is over already"),
        ("plan", {"mode": "anarchy", "reason": "x"}, "anarchy"),
        ("plan", {"mode": "shadow", "reason": " "}, "required"),
        ("plan", {"mode": "shadow", "reason": "x", "force": "1"}, "There is no field 'force' in this form."),
        ("hook", {**HOOK, "url": "https://example.org/"}, "Belongs to a message elsewhere, and only to that."),
        ("hook", {**HOOK, "command": "reboot {node}"}, "Belongs to the portal's machine, and only to that."),
        ("hook", {**HOOK, "kind": "portal"}, "Say which program."),
        ("hook", {**HOOK, "kind": "portal", "command": "'reboot"}, "quotation"),
        ("hook", {**HOOK, "kind": "portal", "command": "/bin/sh -c id"}, "/bin/sh is none of the programs that"),
        ("hook", {**HOOK, "kind": "webhook", "url": "http://127.0.0.1/"}, "https"),
        ("hook", {**HOOK, "attempts": "0"}, "1"),
        ("hook", {**HOOK, "within": "soon"}, "soon"),
        ("hook", {**HOOK, "within": "1 s"}, "must be 60 to 604,800"),
        ("unhook", {"reason": ""}, "required"),
    ],
)
def test_what_cannot_be_is_said_beside_its_field(
    lab: Laboratory, as_person: Callable[..., Client], verb: str, said: dict[str, str], words: str
) -> None:
    answer = sent(as_person(lab.ops), verb, said)
    assert answer.status_code == 400
    assert words in html.unescape(answer.content.decode())
    assert not RepairHook.objects.exists()
    assert not lab.cluster.rollout.exists()
    assert entries() == []


def test_a_hook_on_the_node_is_set_shown_and_removed(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(lab.ops)
    assert "For each unhealthy node a person is called." in text_of(client.get(RULES))
    assert "After 3 tries that did not help within 1 h each, operators are told." in text_of(
        sent(client, "hook", HOOK, sure=False)
    )
    assert sent(client, "hook", HOOK).status_code == 302
    hook = RepairHook.objects.get()
    assert (hook.cluster, hook.kind, hook.attempts, hook.timeout_s) == (lab.cluster, "node", 3, 3_600)
    assert 'data-hook="node"' in client.get(RULES).content.decode()
    assert sent(client, "unhook", {"reason": "the agents are old"}).status_code == 302
    assert not RepairHook.objects.exists()
    said = {"kind": "node", "what": "repair_command", "attempts": 3, "within_s": 3_600}
    assert entries() == [
        ("cluster.repair_hook", None, said, "nights are long"),
        ("cluster.repair_hook", said, None, "the agents are old"),
    ]
    ledger = text_of(client.get("/audit/"))
    assert "repair hook of a cluster changed" in ledger


def test_the_secret_of_a_webhook_is_shown_once_and_stands_in_no_ledger(
    lab: Laboratory, as_person: Callable[..., Client], settings: Any
) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.1/32")]
    client = as_person(lab.ops)
    url = "http://127.0.0.1:9/hooks/key-in-its-path"
    answer = sent(client, "hook", {**HOOK, "kind": "webhook", "url": url})
    secret = RepairHook.objects.get().secret
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert secret in answer.content.decode()
    assert secret not in client.get(RULES).content.decode()
    assert url in client.get(RULES).content.decode()
    assert "key-in-its-path" not in str(entries())
    assert secret not in str(entries())


def test_programs_on_the_portals_machine_are_those_that_its_settings_name(
    lab: Laboratory, as_person: Callable[..., Client], settings: Any
) -> None:
    settings.REPAIR_PROGRAMS = ["/usr/local/bin/power-cycle"]
    client = as_person(lab.ops)
    command = "/usr/local/bin/power-cycle --password s3cret {node}"
    assert sent(client, "hook", {**HOOK, "kind": "portal", "command": command}).status_code == 302
    assert RepairHook.objects.get().command == command.split()
    assert "s3cret" not in str(entries())
    repairs.set_hook(cluster=lab.cluster, kind="portal", command=["ipmitool"])  # who has a shell there needs no leave
    assert entries()[-1][2]["what"] == "ipmitool"


def test_others_read_the_rules_and_see_no_hook(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    repairs.set_hook(cluster=lab.cluster, kind="portal", command=["/opt/inside", "{node}"])
    client = as_person(lab.ada)
    page = client.get(RULES).content.decode()
    assert "It follows contracts: what is decided is carried out." in page
    assert "/opt/inside" not in page
    assert "<textarea" not in page
    for verb in ("plan", "hook", "unhook"):
        assert client.post(f"{RULES}{verb}/", {"mode": "shadow", "reason": "x", "sure": "on"}).status_code == 403
    assert not lab.cluster.rollout.exists()
