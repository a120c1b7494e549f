"""An operator's emergency stop: of a run, a node, a whole cluster; and what follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from budgets.errors import InputError, NotAllowed
from budgets.models import LedgerEntry, Message, Person
from budgets.services import roles
from scheduler.models import Claim, Decision, Pass, Reservation, Run, Workload
from scheduler.queries import replay
from scheduler.services import bad_ends, emergency, nodes
from tests.scheduler.conftest import World, at
from tests.scheduler.test_snapshots import DAY, TREE, used

LASTS = {"startup_s": 0, "duration_s": 90_000, "exit_delay_s": 10}


@pytest.fixture
def operator(person: Person) -> Callable[[World], Person]:
    """`operator(world)`: the person, who operates."""

    def made(world: World) -> Person:
        roles.grant(node=world.root, person=person, role="operator", by=None, valid_from=DAY)
        return Person.objects.get(pk=person.pk)

    return made


def states(world: World) -> dict[str, tuple[str, str]]:
    """State and reason code of each workload of the cluster."""
    rows = Workload.objects.filter(cluster=world.cluster).order_by("pk")
    return {row.code: (row.state, row.reason_code) for row in rows}


def test_a_stopped_cluster_stops_what_runs_and_starts_nothing(
    make_world: Callable[..., World], operator: Callable[[World], Person]
) -> None:
    world = make_world(TREE)
    by = operator(world)
    first = world.submit("P1", sim=LASTS, resumable=True)
    once = world.submit("P1", sim=LASTS)
    world.step(0)
    assert {state for state, _ in states(world).values()} == {"running"}

    done = emergency.stop_cluster(cluster=world.cluster, by=by, reason="smoke in the hall", now=at(100))

    assert (done.runs, done.is_news) == (2, True)
    assert set(states(world).values()) == {("leaving", "stopped_by_operator")}
    world.step(120)
    late = world.submit("P2", sim=LASTS, now=130)
    world.step(140)
    assert states(world) == {
        first.code: ("queued", emergency.STOPPED),
        once.code: ("preempted", "stopped_by_operator"),
        late.code: ("queued", emergency.STOPPED),
    }
    assert Workload.objects.get(pk=late.pk).reason_text == (
        "Waiting: an operator stopped this cluster (smoke in the hall). Nothing starts until it is started again."
    )
    assert not Run.objects.exclude(state="ended").exists()
    assert used(world, now=140)["P1"][0] == 0, "charges are given back"
    stored = Pass.objects.latest("pk")
    assert {each["action"] for each in stored.shadow or []} == {"start"}
    assert replay.replay(stored).differences == ()

    assert emergency.start_cluster(cluster=world.cluster, by=by, reason="it was a toaster", now=at(200))
    assert not emergency.start_cluster(cluster=world.cluster, by=by, reason="again", now=at(200))
    world.step(200)
    assert {code: state for code, (state, _) in states(world).items()} == {
        first.code: "running",
        once.code: "preempted",
        late.code: "running",
    }
    assert Pass.objects.latest("pk").shadow is None


def test_it_is_on_the_record_and_owners_are_told(
    make_world: Callable[..., World], operator: Callable[[World], Person]
) -> None:
    world = make_world(TREE)
    by = operator(world)
    owner = Person.objects.create_user("owner")
    mine, theirs = world.submit("P1", sim=LASTS), world.submit("P2", sim=LASTS)
    Workload.objects.filter(pk=mine.pk).update(owner=owner)
    world.step(0)
    emergency.stop_cluster(cluster=world.cluster, by=by, reason=" fire ", now=at(100))
    emergency.stop_cluster(cluster=world.cluster, by=by, reason="fire", now=at(101))
    world.step(120)
    emergency.start_cluster(cluster=world.cluster, by=by, reason="out", now=at(300))
    bad_ends.tell(at(310))

    rows = LedgerEntry.objects.filter(person_id=by.pk).order_by("pk")
    assert [(row.verb, row.node_code, row.after, row.reason) for row in rows] == [
        ("run.stopped", mine.leaf.code, {"runs": [f"{mine.code}/1"]}, "fire"),
        ("run.stopped", theirs.leaf.code, {"runs": [f"{theirs.code}/1"]}, "fire"),
        ("cluster.stopped", world.root.code, {"runs": 2}, "fire"),
        ("cluster.started", world.root.code, None, "out"),
    ]
    [told] = Message.objects.filter(person=owner)
    assert "was ended: stopped by operator" in told.subject
    assert told.text == "Stopped by an operator: fire"
    assert Decision.objects.filter(action="stop", code="stopped_by_operator").count() == 2


def test_what_was_promised_on_a_stopped_cluster_ends(
    make_world: Callable[..., World], operator: Callable[[World], Person]
) -> None:
    world = make_world(TREE)
    by = operator(world)
    world.submit("P1", gpus=4, sim=LASTS)
    world.step(0)
    big = world.submit("P2", gpus=8, sim=LASTS, now=10)
    world.step(20)
    before = Claim.objects.filter(ended_at=None).count() + Reservation.objects.filter(ended_at=None).count()
    assert before == 1, "it was promised, or devices were being left for it"
    emergency.stop_cluster(cluster=world.cluster, by=by, reason="fire", now=at(30))
    ended = [*Claim.objects.filter(workload=big), *Reservation.objects.filter(workload=big)]
    assert [(each.ended_at, each.outcome) for each in ended] == [(at(30), "stopped")]
    world.step(40)
    row = Workload.objects.get(pk=big.pk)
    assert (row.reason_code, row.earliest_start_at) == (emergency.STOPPED, None)
    assert not Claim.objects.filter(ended_at=None).exists()
    assert not Reservation.objects.filter(ended_at=None).exists()


def test_a_stopped_node_drains_until_it_is_resumed(
    make_world: Callable[..., World], operator: Callable[[World], Person]
) -> None:
    world = make_world(TREE)
    by = operator(world)
    workload = world.submit("P1", gpus=8, sim=LASTS, resumable=True)
    world.step(0)
    node = workload.runs.get().ranks.get().node
    done = emergency.stop_node(node=node, by=by, reason="sparks", now=at(100))
    again = emergency.stop_node(node=node, by=by, reason="sparks", now=at(101))
    assert [(each.runs, each.is_news) for each in (done, again)] == [(1, True), (0, False)]
    world.step(120)
    node.refresh_from_db()
    assert (node.drain_asked_at, node.drain_reason) == (at(100), "sparks")
    assert not Run.objects.exclude(state="ended").filter(ranks__node=node).exists()
    assert nodes.resume(node=node, by=by, reason="new cable", now=at(200))


def test_only_operators_stop_and_they_say_why(
    make_world: Callable[..., World], person: Person, operator: Callable[[World], Person]
) -> None:
    world = make_world(TREE)
    workload = world.submit("P1", sim=LASTS)
    world.step(0)
    node = workload.runs.get().ranks.first().node
    stops: list[Callable[..., object]] = [
        lambda **how: emergency.stop_cluster(cluster=world.cluster, **how),
        lambda **how: emergency.start_cluster(cluster=world.cluster, **how),
        lambda **how: emergency.stop_node(node=node, **how),
        lambda **how: emergency.stop_workload(workload=workload, **how),
    ]
    for stop in stops:
        with pytest.raises(NotAllowed):
            stop(by=person, reason="fire", now=at(10))
    by = operator(world)
    for stop in stops:
        for reason in (" ", "x" * 201):
            with pytest.raises(InputError) as caught:
                stop(by=by, reason=reason, now=at(10))
            assert caught.value.field == "reason"
    assert states(world) == {workload.code: ("running", "started")}
    assert emergency.stop_workload(workload=workload, by=by, reason="theft", now=at(20))
    assert not emergency.stop_workload(workload=workload, by=by, reason="theft", now=at(21))
