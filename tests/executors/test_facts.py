"""What reports do to rows: the same whatever their order and however often they come, bounded by what can be."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from scheduler.executors.base import Cause, RankFact, RankState
from scheduler.loop import look_at
from scheduler.models import Event, Node, Run, Workload
from scheduler.services import facts, nodes, runs, silence, workloads
from tests.scheduler.conftest import World, at, check_books, second_of

EXITED, FAILED, RUNNING = RankState.EXITED, RankState.FAILED, RankState.RUNNING


@pytest.fixture
def world(transactional_db: None) -> Iterator[World]:
    """Three nodes of two devices that agents speak for; the test is the agents."""
    world = World({"A": 5_000, "B": 5_000}, {"n1": 2, "n2": 2, "n3": 2}, "agent", {"healthy_dwell_s": 0})
    yield world
    check_books()


@pytest.fixture
def start(world: World) -> Callable[..., Run]:
    """Submit a workload at a second, and let a pass start it."""

    def begin(gpus: int = 6, now: int = 0, **more: Any) -> Run:
        workload = world.submit("A", gpus, now=now, **more)
        look_at(world.cluster.pk, now=at(now), is_due=True)
        return workload.runs.get()

    return begin


def tell(name: str, fact: RankFact, now: int) -> list[RankFact]:
    """A node says it."""
    return facts.report(node=Node.objects.get(name=name), facts=[fact], now=at(now))


def began(run: Run, rank: int, age_s: int = 0) -> RankFact:
    return RankFact(run.pk, rank, RUNNING, pid=7, began_age_s=age_s)


def exited(run: Run, rank: int, age_s: int = 0, code: int | None = 0, ran_s: int | None = 0, **more: Any) -> RankFact:
    began_age_s = None if ran_s is None else age_s + ran_s
    return RankFact(run.pk, rank, EXITED, 7, began_age_s, age_s, code, **more)


def outcome(run: Run) -> dict[str, Any]:
    """All that its facts decide, in seconds since its start."""
    run.refresh_from_db()
    started = second_of(run.started_at) or 0

    def since(instant: datetime | None) -> int | None:
        second = second_of(instant)
        return None if second is None else second - started

    return {
        "run": (run.state, since(run.running_at), since(run.contract_ends_at), since(run.ended_at)),
        "end": (run.end_reason, run.exit_code),
        "ranks": [(r.state, since(r.began_at), since(r.exited_at), r.exit_code) for r in run.ranks.all()],
        "workload": Workload.objects.values_list("state", "reason_text", "progress_s").get(pk=run.workload_id),
    }


def test_the_contract_begins_when_every_rank_really_runs(start: Callable[..., Run]) -> None:
    run = start(min_runtime_s=600)
    tell("n1", began(run, 0), 5)
    tell("n3", began(run, 2), 9)
    run.refresh_from_db()
    assert (run.state, run.running_at, run.contract_ends_at) == ("starting", None, None)
    tell("n2", began(run, 1, age_s=3), 20)
    run.refresh_from_db()
    assert (run.state, run.running_at, run.contract_ends_at) == ("running", at(17), at(617))


HISTORIES = {
    "well": ([(4, 20, 0), (6, 25, 0), (9, 22, 0)], "finished", "All ranks exited with status 0."),
    "ill": ([(4, 20, 3), (6, 25, -15), (9, 23, -9)], "failed", "Rank 0 on n1 exited with status 3."),
}
"""Of each rank: when it began, when it was gone, and its exit code; what became of the workload."""


@pytest.mark.parametrize("history", HISTORIES)
def test_order_and_repetition_change_nothing(start: Callable[..., Run], history: str) -> None:
    ranks, state, text = HISTORIES[history]
    code = next((code for _began, _gone, code in ranks if code), 0)
    expected = {
        "run": ("ended", 9, 3_609, 25),
        "end": (state, code),
        "ranks": [("exited", began_s, gone_s, exit_code) for began_s, gone_s, exit_code in ranks],
        "workload": (state, text, 0),
    }
    for seed in range(6):
        chance = random.Random(seed)
        base = 1_000 * seed
        run = start(now=base)
        said = [(index, kind) for index in range(3) for kind in ("began", "gone") for _twice in range(2)]
        chance.shuffle(said)
        for index, kind in said:
            began_s, gone_s, exit_code = ranks[index]
            now = 30 + chance.randrange(20)
            fact = (
                began(run, index, age_s=now - began_s)
                if kind == "began"
                else exited(run, index, age_s=now - gone_s, code=exit_code, ran_s=gone_s - began_s)
            )
            assert tell(f"n{index + 1}", fact, base + now) == []
        assert outcome(run) == expected, f"seed {seed}: {said}"
        events = Event.objects.count()
        tell("n1", began(run, 0), base + 90)
        tell("n1", exited(run, 0, code=9), base + 90)
        assert (outcome(run), Event.objects.count()) == (expected, events)


@pytest.mark.parametrize(
    ("age_s", "second"), [(0, 10), (4, 6), (10, 0), (11, 0), (3_600, 0), (2**62, 0)], ids=lambda value: str(value)
)
def test_no_clock_but_the_portals_counts(start: Callable[..., Run], age_s: int, second: int) -> None:
    run = start(gpus=2)
    tell("n1", began(run, 0, age_s=age_s), 10)
    run.refresh_from_db()
    assert second_of(run.running_at) == second


def test_an_exit_never_lies_before_its_beginning_or_in_the_future(start: Callable[..., Run]) -> None:
    run = start(gpus=2)
    tell("n1", began(run, 0), 10)
    tell("n1", exited(run, 0, age_s=500), 20)
    assert outcome(run)["run"] == ("ended", 10, 3_610, 10)


def test_a_fact_about_an_older_run_changes_nothing(world: World, start: Callable[..., Run]) -> None:
    old = start(gpus=2, resumable=True)
    tell("n1", began(old, 0), 1)
    tell("n1", exited(old, 0, code=None, cause=Cause.NODE, ran_s=5), 6)
    look_at(world.cluster.pk, now=at(7), is_due=True)
    new = old.workload.runs.get(number=2)
    tell("n1", exited(old, 0, code=1), 8)
    tell("n1", began(old, 0), 8)
    new.refresh_from_db()
    assert (new.state, outcome(old)["end"]) == ("starting", ("node_lost", None))
    assert [wanted.run for wanted in facts.desired(Node.objects.get(name="n1"), at(9))] == [new.pk]


def test_what_finished_before_it_was_told_to_stop_has_finished(world: World, start: Callable[..., Run]) -> None:
    run = start(gpus=2, min_runtime_s=0, resumable=True)
    tell("n1", began(run, 0), 1)
    for _node in range(3):
        world.submit("B", 2, now=100)
    look_at(world.cluster.pk, now=at(100), is_due=True)
    run.refresh_from_db()
    assert run.state == "leaving"
    tell("n1", exited(run, 0, age_s=5, ran_s=90), 101)
    assert outcome(run)["workload"][0] == "finished"
    assert outcome(run)["run"][3] == 96


@pytest.mark.parametrize(("resumable", "state", "kept_s"), [(True, "queued", 99), (False, "preempted", 0)])
def test_what_is_preempted_keeps_what_it_had_when_it_was_told(
    world: World, start: Callable[..., Run], resumable: bool, state: str, kept_s: int
) -> None:
    run = start(gpus=2, min_runtime_s=0, resumable=resumable)
    tell("n1", began(run, 0), 1)
    for _node in range(3):
        world.submit("B", 2, now=100)
    look_at(world.cluster.pk, now=at(100), is_due=True)
    (wanted,) = facts.desired(Node.objects.get(name="n1"), at(130))
    assert (wanted.stop_in_s, wanted.began) == (30, True)
    tell("n1", exited(run, 0, code=0, cause=Cause.ASKED, ran_s=139), 140)
    workload = Workload.objects.get(pk=run.workload_id)
    assert (workload.state, workload.progress_s, workload.preemptions) == (state, kept_s, 1)
    assert outcome(run)["end"] == ("preempted_unallocated", 0)


def test_of_a_gang_of_which_a_node_is_lost_the_rest_is_told_to_leave(world: World, start: Callable[..., Run]) -> None:
    run = start(resumable=True)
    for index in range(3):
        tell(f"n{index + 1}", began(run, index), 5)
    nodes.set_health(node=Node.objects.get(name="n2"), health="down", now=at(50))
    assert facts.desired(Node.objects.get(name="n2"), at(51)) == []
    (wanted,) = facts.desired(Node.objects.get(name="n1"), at(51))
    assert wanted.stop_in_s == 59
    tell("n1", exited(run, 0, code=143), 55)
    run.refresh_from_db()
    assert run.state == "leaving"
    tell("n3", exited(run, 2, code=143), 58)
    said = outcome(run)
    assert said["run"] == ("ended", 5, 3_605, 58)
    assert said["end"] == ("node_lost", None)
    assert (said["workload"][0], said["workload"][2]) == ("queued", 45)


@pytest.fixture
def always_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    """The portal has been hearing agents for ever: the tests' time is not the clock's."""
    monkeypatch.setattr(silence, "listened_s", lambda: 10**9)


def be_heard(names: str, now: int) -> None:
    """Heartbeats of these nodes."""
    for name in names.split():
        nodes.heartbeat(node=Node.objects.get(name=name), now=at(now))


def states(run: Run) -> tuple[str, str]:
    """Of a run and its workload."""
    run.refresh_from_db()
    return run.state, Workload.objects.get(pk=run.workload_id).state


def test_a_gang_begins_when_a_silent_node_is_back(
    world: World, start: Callable[..., Run], always_listening: None
) -> None:
    be_heard("n1 n2 n3", 0)
    run = start()
    tell("n1", began(run, 0), 5)
    tell("n2", began(run, 1), 5)
    be_heard("n2 n3", 50)
    assert silence.watch(world.cluster, at(61))
    assert (states(run), Node.objects.get(name="n1").health) == (("unreachable", "unreachable"), "unreachable")
    tell("n3", began(run, 2), 70)
    assert states(run) == ("unreachable", "unreachable")
    be_heard("n1", 80)
    assert states(run) == ("running", "running")
    assert run.running_at == at(70)


def test_who_could_not_hear_the_stop_gets_a_whole_grace(
    world: World, start: Callable[..., Run], always_listening: None
) -> None:
    be_heard("n1 n2 n3", 0)
    run = start(gpus=2)
    tell("n1", began(run, 0), 5)
    silence.watch(world.cluster, at(61))
    workloads.cancel(workload=run.workload, by=None, reason="enough", now=at(100))
    assert states(run)[0] == "unreachable"
    be_heard("n1 n2 n3", 1_000)
    assert states(run)[0] == "leaving"
    (wanted,) = facts.desired(Node.objects.get(name="n1"), at(1_000))
    assert wanted.stop_in_s == 60
    assert not silence.watch(world.cluster, at(1_001))
    tell("n1", exited(run, 0, code=-15, cause=Cause.ASKED), 1_010)
    assert states(run) == ("ended", "cancelled")


def test_a_node_that_is_silent_for_long_is_lost_as_of_its_last_heartbeat(
    world: World, start: Callable[..., Run], always_listening: None
) -> None:
    be_heard("n1 n2 n3", 20)
    run = start(gpus=2, resumable=True)
    tell("n1", began(run, 0), 21)
    be_heard("n1 n2 n3", 40)
    assert silence.watch(world.cluster, at(101))
    assert not silence.watch(world.cluster, at(3_940))
    assert silence.watch(world.cluster, at(3_941))
    assert not silence.watch(world.cluster, at(3_942))
    said = outcome(run)
    assert (said["run"], said["end"]) == (("ended", 21, 3_621, 40), ("node_lost", None))
    assert (said["ranks"], said["workload"][::2]) == ([("gone", 21, 40, None)], ("queued", 19))


def test_what_does_not_leave_is_given_up_and_its_node_is_unfit(world: World, start: Callable[..., Run]) -> None:
    run = start(gpus=4, resumable=True)
    for index in range(2):
        tell(f"n{index + 1}", began(run, index), 5)
    workloads.cancel(workload=run.workload, by=None, reason="enough", now=at(100))
    tell("n1", exited(run, 0, code=-9), 161)
    assert not silence.watch(world.cluster, at(459))
    assert silence.watch(world.cluster, at(461))
    assert list(Node.objects.values_list("name", "health")) == [
        ("n1", "healthy"),
        ("n2", "unhealthy"),
        ("n3", "healthy"),
    ]
    assert (outcome(run)["run"][0], outcome(run)["end"][0]) == ("ended", "stuck_exit")
    assert list(Node.objects.get(name="n2").spells.values_list("state", flat=True)) == ["healthy", "draining"]


def test_a_time_limit_is_a_failure_with_its_reason(world: World, start: Callable[..., Run]) -> None:
    run = start(gpus=2, min_runtime_s=300, time_limit_s=400)
    tell("n1", began(run, 0), 10)
    world.step(409)
    assert Run.objects.get(pk=run.pk).state == "running"
    world.step(410)
    tell("n1", exited(run, 0, code=-15, cause=Cause.ASKED), 412)
    assert outcome(run)["workload"] == ("failed", "It had run for its whole time limit.", 0)


def test_a_drain_and_a_window_are_asked_for_once_and_kept_in_the_spells(world: World) -> None:
    node = Node.objects.get(name="n1")
    assert nodes.ask_drain(node=node, reason="a fan", now=at(10))
    assert not nodes.ask_drain(node=node, reason="a fan", now=at(20))
    assert nodes.resume(node=node, now=at(70))
    assert not nodes.resume(node=node, now=at(80))
    nodes.set_health(node=node, health="down", now=at(90))
    spells = node.spells.values_list("state", "started_at", "ended_at")
    assert [(state, second_of(start), second_of(end)) for state, start, end in spells] == [
        ("healthy", -86_400, 10),
        ("draining", 10, 70),
        ("healthy", 70, 90),
        ("down", 90, None),
    ]
    window = nodes.add_window(node=node, starts_at=at(100), ends_at=at(200), now=at(95))
    assert nodes.cancel_window(window=window, now=at(96))
    assert not nodes.cancel_window(window=window, now=at(97))
    kinds = Event.objects.filter(node=node).values_list("data__what", flat=True)
    assert list(kinds) == ["registered", "drain asked", "drain ended", "down", "window planned", "window cancelled"]


def test_facts_about_others_ranks_are_handed_back(start: Callable[..., Run]) -> None:
    run = start(gpus=2)
    fact = began(run, 0)
    strange = [replace(fact, run=run.pk + 5), replace(fact, rank=3), replace(fact, run=2**62)]
    assert facts.report(node=Node.objects.get(name="n1"), facts=[*strange, fact], now=at(1)) == strange
    assert tell("n2", fact, 1) == [fact]
    run.refresh_from_db()
    assert run.running_at == at(1) == run.started_at + timedelta(seconds=1)


# --- many at once -----------------------------------------------------------------------------------------------------

GANGS = [
    ((6,), [(4, 20, 0), (6, 25, 0), (9, 22, 0)]),
    ((6,), [(4, 20, 3), (6, 25, -15), (9, 23, -9)]),
    ((2, 2, 2), [(3, 30, 0), (5, 12, 1), (8, 31, 0)]),
    ((4, 2), [(2, 33, 0), (3, None, None), (None, None, None)]),
]
"""Sizes of the runs that share the three nodes; of each node's rank when it began, when it was gone, its exit code."""


def said_of(runs: list[Run], gang: list[tuple[Any, Any, Any]], base: int, now: int) -> list[facts.Said]:
    """Everything that the nodes would say by then, in order of time."""
    found = []
    ranks = [rank for run in runs for rank in run.ranks.order_by("index")]
    by_node = {rank.node.name: rank for rank in ranks}
    for (name, rank), (began_s, gone_s, code) in zip(sorted(by_node.items()), gang, strict=True):
        node_id = Node.objects.get(name=name).pk
        if began_s is not None:
            fact = began(rank.run, rank.index, age_s=now - began_s)
            found.append((began_s, facts.Said(node_id, fact, at(base + now))))
        if gone_s is not None:
            fact = exited(rank.run, rank.index, age_s=now - gone_s, code=code, ran_s=gone_s - began_s)
            found.append((gone_s, facts.Said(node_id, fact, at(base + now))))
    return [said for _second, said in sorted(found, key=lambda each: each[0])]


@pytest.mark.parametrize(("sizes", "gang"), GANGS)
def test_whatever_comes_together_comes_to_the_same(
    world: World, sizes: tuple[int, ...], gang: list[tuple[Any, Any, Any]]
) -> None:
    outcomes = []
    for seed in range(5):
        chance, base = random.Random(seed), 1_000 * seed
        submitted = [world.submit("A", size, now=base) for size in sizes]
        look_at(world.cluster.pk, now=at(base), is_due=True)
        gangs = [workload.runs.get() for workload in submitted]
        said = said_of(gangs, gang, base, now=40)
        if seed:  # the first is told one after the other, as it happened; the others in pieces, mixed, and twice
            said = chance.sample(said * 2, 2 * len(said))
        while said:
            size = chance.randint(1, len(said)) if seed else 1
            facts.report_all(cluster_id=world.cluster.pk, said=said[:size])
            said = said[size:]
        outcomes.append([outcome(run) for run in gangs])
        for run in gangs:  # make room for the next round
            run.refresh_from_db()
            if run.state != "ended":
                runs.end(run=run, at=at(base + 500), code=runs.FAILED)
    assert all(each == outcomes[0] for each in outcomes[1:]), outcomes


@pytest.mark.parametrize("is_exit", [False, True])
def test_a_report_takes_as_many_statements_for_many_ranks_as_for_one(
    world: World, django_assert_max_num_queries: Callable[..., Any], is_exit: bool
) -> None:
    counts = []
    for amount in (1, 6):
        base = 1_000 * amount
        submitted = [world.submit("A", 1, now=base) for _ in range(amount)]
        look_at(world.cluster.pk, now=at(base), is_due=True)
        ranks = [rank for workload in submitted for rank in workload.runs.get().ranks.all()]
        said = [facts.Said(rank.node_id, began(rank.run, rank.index), at(base + 1)) for rank in ranks]
        if is_exit:
            facts.report_all(cluster_id=world.cluster.pk, said=said)
            said = [facts.Said(rank.node_id, exited(rank.run, rank.index), at(base + 9)) for rank in ranks]
        with django_assert_max_num_queries(20) as counted:
            facts.report_all(cluster_id=world.cluster.pk, said=said)
        counts.append(len(counted))
        for rank in ranks:
            rank.run.refresh_from_db()
            assert rank.run.state == ("ended" if is_exit else "running")
            runs.end(run=rank.run, at=at(base + 10), code=runs.FINISHED)
    assert counts[0] == counts[1]
