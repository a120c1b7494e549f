"""Trouble is drained by contract, repaired by a hook, looked at again, and put back to work: a person if need be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from typing import Any

import pytest

from budgets.errors import InputError
from budgets.models import Message, Person
from budgets.services import roles, webhooks
from scheduler.executors.base import RankFact, RankState
from scheduler.loop import live_on, look_at
from scheduler.models import Node, Repair, Run
from scheduler.queries import repairs as counted
from scheduler.services import facts, hooks, node_health, nodes, repairs
from tests.budgets.servers import Hook, web_server
from tests.scheduler.conftest import World, at, second_of

FAULT = "GPU 0: Xid 79, it has fallen off the bus"
DWELL_S = 300


@pytest.fixture
def world(transactional_db: None) -> World:
    """Two nodes that agents speak for; the test is the agents."""
    return World({"A": 5_000, "B": 5_000}, {"n1": 2, "n2": 2}, "agent", {"healthy_dwell_s": DWELL_S, "grace_s": 60})


@pytest.fixture
def operator(world: World) -> Person:
    """Who is called."""
    person = Person.objects.create(username="ops", display_name="Ops")
    roles.grant(person=person, node=world.root, role="operator", valid_from=date(2026, 1, 1), by=None)
    return person


def node() -> Node:
    return Node.objects.get(name="n1")


def say(second: int, *problems: str) -> None:
    """The agent of n1 says what is wrong."""
    node_health.report(node=node(), problems=problems, now=at(second))


def step(world: World, second: int) -> Repair:
    """What beat does; the repair of n1."""
    live_on(world.cluster, at(second))
    look_at(world.cluster.pk, now=at(second), is_due=True)
    return Repair.objects.latest("pk")


def running(world: World, second: int, min_runtime_s: int) -> Run:
    """Something runs on n1."""
    workload = world.submit("A", 2, min_runtime_s, now=second, node=node(), resumable=True)
    look_at(world.cluster.pk, now=at(second), is_due=True)
    run = workload.runs.get()
    facts.report(node=node(), facts=[RankFact(run.pk, 0, RankState.RUNNING, 7, 0)], now=at(second))
    return run


def leave(run: Run, second: int) -> None:
    """It has left n1."""
    gone = RankFact(run.pk, 0, RankState.EXITED, 7, 10, 0, -15)
    facts.report(node=node(), facts=[gone], now=at(second))


def test_a_node_in_trouble_is_repaired_by_its_agent_and_comes_back_with_nobody_asked(world: World) -> None:
    repairs.set_hook(cluster=world.cluster, kind="node")
    run = running(world, 0, 600)
    say(100, FAULT)
    repair = step(world, 101)
    assert (repair.state, repair.cause, second_of(repair.began_at)) == ("draining", FAULT, 100)
    assert Run.objects.get(pk=run.pk).state == "running"  # inside its contract nobody takes it away
    assert repairs.wanted_of(node()) is None
    step(world, 600)
    assert Run.objects.get(pk=run.pk).state == "leaving"
    leave(run, 610)
    repair = step(world, 611)
    number = repairs.wanted_of(node())
    assert (repair.state, repair.attempts, number) == ("repairing", 1, repair.pk * 100 + 1)
    say(612)  # it says that it is well while it is being repaired
    assert node().health == "unhealthy"
    assert number is not None
    assert repairs.ended(node=node(), number=number, exit_code=0, message="reset", now=at(700))
    assert not repairs.ended(node=node(), number=number, exit_code=1, message="again", now=at(701))
    say(702)
    assert (node().health, node().trouble) == ("healthy", "")
    assert step(world, 703).state == "checking"
    assert step(world, 702 + DWELL_S - 1).state == "checking"
    repair = step(world, 702 + DWELL_S)
    assert (repair.state, second_of(repair.ended_at), repair.needed_person) == ("done", 702 + DWELL_S, False)
    found = counted.of_cluster(world.cluster, at(2_000))
    assert (found.done, found.by_themselves, found.share, list(found.going)) == (1, 1, Fraction(1), [])


def test_nothing_is_placed_on_a_node_before_its_dwell_is_over(world: World) -> None:
    say(0, FAULT)
    step(world, 1)
    say(10)
    workload = world.submit("A", 2, now=11, node=node())
    step(world, 12)
    assert not workload.runs.exists()
    step(world, 10 + DWELL_S)
    assert workload.runs.count() == 1


def test_what_does_not_help_is_tried_again_and_then_a_person_is_called(world: World, operator: Person) -> None:
    repairs.set_hook(cluster=world.cluster, kind="node", attempts=2, timeout_s=100)
    say(0, FAULT)
    assert step(world, 1).attempts == 1
    repairs.ended(node=node(), number=Repair.objects.get().pk * 100 + 1, exit_code=3, message="no", now=at(20))
    assert step(world, 21).attempts == 2
    assert step(world, 120).state == "repairing"
    repair = step(world, 121)
    assert (repair.state, repair.needed_person, repairs.wanted_of(node())) == ("person", True, None)
    (message,) = Message.objects.filter(person=operator)
    assert message.subject == f"Node n1 needs a person: {FAULT}"
    step(world, 122)
    assert Message.objects.count() == 1
    nodes.set_health(node=node(), health="healthy", by=operator, reason="new GPU", now=at(500))
    assert step(world, 501).state == "checking"
    repair = step(world, 500 + DWELL_S)
    assert (repair.state, repair.needed_person) == ("done", True)
    assert counted.of_cluster(world.cluster, at(2_000)).share == 0


def test_a_node_that_flaps_is_not_used_in_between_and_its_attempts_add_up(world: World) -> None:
    repairs.set_hook(cluster=world.cluster, kind="node", attempts=3, timeout_s=1_000)
    second = 0
    states = []
    for attempt in range(4):
        say(second, FAULT)
        repair = step(world, second + 1)
        states.append((repair.state, repair.attempts))
        number = repairs.wanted_of(node())
        if number is not None:
            repairs.ended(node=node(), number=number, exit_code=0, message="", now=at(second + 2))
        say(second + 3)
        assert step(world, second + 4).state == "checking", attempt
        second += 50
    assert states == [("repairing", 1), ("repairing", 2), ("repairing", 3), ("person", 3)]
    assert Repair.objects.count() == 1
    workload = world.submit("A", 2, now=second, node=node())
    step(world, second + 1)
    assert not workload.runs.exists()


def test_without_a_hook_trouble_that_passes_needs_nobody_and_trouble_that_stays_a_person(
    world: World, operator: Person
) -> None:
    say(0, FAULT)
    step(world, 1)
    say(300)
    step(world, 301)
    assert step(world, 300 + DWELL_S).state == "done"
    say(1_000, FAULT)
    assert step(world, 1_001).state == "draining"
    assert step(world, 1_601).state == "person"
    assert Message.objects.filter(person=operator).count() == 1
    found = counted.of_cluster(world.cluster, at(2_000))
    assert (found.done, found.by_themselves, [each.node.name for each in found.going]) == (1, 1, ["n1"])


def test_what_a_person_has_called_unhealthy_no_report_makes_well(world: World, operator: Person) -> None:
    nodes.set_health(node=node(), health="unhealthy", by=operator, reason="smells of smoke", now=at(0))
    repair = step(world, 1)
    assert (repair.state, repair.cause, repair.needed_person) == ("person", "smells of smoke", True)
    say(10)
    assert (node().health, node().trouble) == ("unhealthy", "smells of smoke")


@pytest.fixture
def receiver(settings: Any) -> Iterator[Hook]:
    """A server of the site's own that repairs nodes, on this machine, which the operator allows."""
    import ipaddress

    settings.WEBHOOK_NETWORKS = [ipaddress.ip_network("127.0.0.1/32")]
    with web_server() as hook:
        yield hook


def test_a_webhook_is_posted_once_signed_and_counts_when_the_node_is_well(world: World, receiver: Hook) -> None:
    hook = repairs.set_hook(cluster=world.cluster, kind="webhook", url=receiver.url, timeout_s=600)
    say(0, FAULT)
    repair = step(world, 1)
    assert (repair.state, repairs.wanted_of(node())) == ("repairing", None)
    assert hooks.run(repair.pk, 1)
    assert not hooks.run(repair.pk, 1)  # a worker was lost, and the task came back
    ((headers, body),) = receiver.posts
    said = json.loads(body)
    assert (said["kind"], said["cluster"], said["node"], said["cause"]) == ("repair", "north", "n1", FAULT)
    stamp = int(headers[webhooks.SIGNATURE_HEADER].split(",")[0][2:])
    assert headers[webhooks.SIGNATURE_HEADER] == webhooks.signature([hook.secret], body, stamp)
    say(10)
    assert step(world, 11).state == "checking"


def test_a_receiver_that_refuses_is_tried_again(world: World, receiver: Hook) -> None:
    repairs.set_hook(cluster=world.cluster, kind="webhook", url=receiver.url, timeout_s=600)
    receiver.answers = [500]
    say(0, FAULT)
    hooks.run(step(world, 1).pk, 1)
    assert Repair.objects.get().message == "status 1: 127.0.0.1 answered 500"
    assert step(world, 2).attempts == 2


def test_a_hook_inside_the_house_is_refused(world: World) -> None:
    for url in ("http://127.0.0.1:9/x", "https://169.254.169.254/latest", "file:///etc/passwd"):
        with pytest.raises(InputError) as caught:
            repairs.set_hook(cluster=world.cluster, kind="webhook", url=url)
        assert caught.value.field == "url"


def test_a_command_on_the_portals_side_is_told_the_names_and_no_secret(world: World, monkeypatch: Any) -> None:
    monkeypatch.setenv("SECRET_KEY", "very secret")
    command = ["/bin/sh", "-c", "echo $0 $1 $SECRET_KEY", "{node}", "{cluster}: {cause}"]
    repairs.set_hook(cluster=world.cluster, kind="portal", command=command)
    say(0, FAULT)
    hooks.run(step(world, 1).pk, 1)
    assert Repair.objects.get().message == f"n1 north: {FAULT}"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"kind": "magic"}, "kind"),
        ({"kind": "portal"}, "command"),
        ({"kind": "node", "command": ["x"]}, "command"),
        ({"kind": "node", "attempts": 0}, "attempts"),
        ({"kind": "node", "timeout_s": 1}, "timeout_s"),
    ],
)
def test_a_hook_that_makes_no_sense_is_refused(world: World, more: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        repairs.set_hook(cluster=world.cluster, **more)
    assert caught.value.field == field
