"""Stored passes can be rebuilt from rows and events, and decided again with the same result."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from budgets.services import shares, tree
from scheduler import snapshots
from scheduler.engine import Plan, decide
from scheduler.loop import live_on, run_pass
from scheduler.models import Decision, Node, Pass, Workload
from scheduler.queries.replay import replay
from scheduler.services import nodes, policies, retries, workloads
from tests.scheduler.conftest import DAY, World, at, check_books

TREE = {"A": (6_000, {"A1": 5_000, "A2": 3_000}), "B": (3_000, {"B1": 10_000}), "C": 1_000, "D": 0}
LEAVES = ["A1", "A2", "B1", "C", "D"]


class RandomWorld:
    """A busy cluster on which anything happens. Plans are kept as they were made."""

    def __init__(self, world: World, seed: int) -> None:
        """Nothing has happened yet."""
        self.world = world
        self.random = random.Random(seed)
        self.plans: dict[int, Plan] = {}
        self.closed: set[str] = set()

    def live(self, steps: int, every: int) -> None:
        """Things happen, some between two passes, and passes are made."""
        for step in range(steps):
            now = step * every
            live_on(self.world.cluster, at(now))
            retries.judge(at(now))
            for _ in range(self.random.randrange(4)):
                self.random.choice(self.doings())(now)
            for _ in range(self.random.choice([1, 1, 2])):
                result = run_pass(self.world.cluster.pk, now=at(now))
                assert result is not None
                self.plans[result.stored.pk] = result.plan

    def doings(self) -> list[Callable[[int], None]]:
        """What may happen, the common more often."""
        rare = [self.change_shares, self.change_health, self.drain, self.maintain, self.change_policy, self.close]
        return [self.submit] * 14 + [self.cancel] * 3 + [self.release] + rare

    def submit(self, now: int) -> None:
        draw = self.random
        sim = {"startup_s": draw.choice([0, 30, 90]), "duration_s": draw.randrange(300, 4_000)}
        self.world.submit(
            draw.choice([leaf for leaf in LEAVES if leaf not in self.closed]),
            gpus=draw.choice([1, 1, 2, 3, 4, 6, 8]),
            min_runtime_s=draw.choice([0, 300, 600, 1_800]),
            now=now,
            priority=draw.randrange(3),
            resumable=draw.random() < 0.8,
            node=draw.choice(list(Node.objects.all())) if draw.random() < 0.1 else None,
            time_limit_s=2_400 if draw.random() < 0.2 else None,
            after=Workload.objects.order_by("?").first() if draw.random() < 0.1 else None,
            retries=draw.choice([0, 0, 1, 3]),
            sim={**sim, "exit_delay_s": draw.randrange(50), "exit_code": draw.choice([0, 0, 1, 127])},
        )

    def cancel(self, now: int) -> None:
        rows = list(Workload.objects.filter(state__in=Workload.OPEN_STATES).order_by("pk"))
        if rows:
            workloads.cancel(workload=self.random.choice(rows), by=None, now=at(now))

    def release(self, now: int) -> None:
        rows = list(Workload.objects.filter(state="held", reason_code__in=retries.RELEASABLE).order_by("pk"))
        if rows:
            retries.release(workload=self.random.choice(rows), by=None, now=at(now))

    def change_shares(self, _now: int) -> None:
        first = self.random.randrange(8_000)
        given = {self.world.leaves["A1"]: first, self.world.leaves["A2"]: self.random.choice([0, 8_000 - first])}
        parent = self.world.leaves["A"]
        shares.set_shares(parent=parent, cluster=self.world.cluster, shares=given, valid_from=DAY, by=None)

    def change_health(self, now: int) -> None:
        health = self.random.choice(["healthy", "healthy", "unhealthy", "down"])
        nodes.set_health(node=self.random.choice(list(Node.objects.order_by("pk"))), health=health, now=at(now))

    def drain(self, now: int) -> None:
        node = self.random.choice(list(Node.objects.order_by("pk")))
        (nodes.resume if node.drain_asked_at else nodes.ask_drain)(node=node, now=at(now))

    def maintain(self, now: int) -> None:
        node = self.random.choice(list(Node.objects.order_by("pk")))
        starts = now + self.random.randrange(0, 900)
        nodes.add_window(node=node, starts_at=at(starts), ends_at=at(starts + 600), now=at(now))

    def change_policy(self, _now: int) -> None:
        knobs = {"reservations": self.random.randrange(3), "swap_margin": self.random.choice(["0", "1/2"])}
        policies.change(cluster=self.world.cluster, knobs=knobs)

    def close(self, now: int) -> None:
        if "C" not in self.closed and self.random.random() < 0.3:
            self.closed.add("C")
            tree.close(node=self.world.leaves["C"], by=None, at=at(now))


def lived(make_world: Callable[..., World], seed: int, steps: int) -> RandomWorld:
    """A random world that has been busy for a while."""
    world = make_world(TREE, nodes={"h1": 4, "h2": 4, "h3": 4}, healthy_dwell_s=120, lookback_s=3_600)
    random_world = RandomWorld(world, seed)
    random_world.live(steps, every=60)
    return random_world


def check_every_pass(random_world: RandomWorld) -> None:
    """Each stored pass, decided again, is the same plan to the last number."""
    passes = list(Pass.objects.select_related("cluster", "tree", "policy").order_by("pk"))
    assert [each.pk for each in passes] == list(random_world.plans)
    for stored in passes:
        loaded = snapshots.snapshot_at(stored)
        assert decide(loaded.snapshot, loaded.policy) == random_world.plans[stored.pk], f"pass {stored.pk}"
        assert replay(stored).differences == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_pass_of_a_busy_world_is_decided_again(make_world: Callable[..., World], seed: int) -> None:
    random_world = lived(make_world, seed, steps=50)
    assert {"start", "preempt", "claim", "wait"} <= set(Decision.objects.values_list("action", flat=True))
    check_books()
    check_every_pass(random_world)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 14))
def test_every_pass_of_many_busy_worlds_is_decided_again(make_world: Callable[..., World], seed: int) -> None:
    random_world = lived(make_world, seed, steps=200)
    check_books()
    check_every_pass(random_world)


def test_replay_pass_prints_the_comparison(make_world: Callable[..., World]) -> None:
    world = make_world()
    workload = world.submit("A", gpus=8)
    result = run_pass(world.cluster.pk, now=at(0))
    assert result is not None
    printed = StringIO()
    call_command("replay_pass", str(result.stored.pk), stdout=printed)
    assert f"start           {workload.code}" in printed.getvalue()
    assert printed.getvalue().endswith("the same decisions again\n")


def test_replay_pass_says_what_differs(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.submit("A", gpus=8)
    world.submit("B", gpus=8)
    result = run_pass(world.cluster.pk, now=at(0))
    assert result is not None
    Pass.objects.filter(pk=result.stored.pk).update(order=["B-0009"])
    printed = StringIO()
    with pytest.raises(CommandError, match="1 differences") as caught:
        call_command("replay_pass", str(result.stored.pk), stdout=printed)
    assert caught.value.returncode == 1
    assert "DIFFERS order: stored ['B-0009'], decided again ['B-0001']" in printed.getvalue()


@pytest.mark.parametrize("number", ["7", "x", "-1", "9" * 30])
def test_replay_pass_of_no_pass_is_one_line(transactional_db: None, number: str) -> None:
    with pytest.raises(CommandError, match=r"ID: there is no pass") as caught:
        call_command("replay_pass", "--", number)
    assert caught.value.returncode == 2
