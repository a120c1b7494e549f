"""Drives a scenario file through the live loop: rows, passes and invented nodes, on a clock of its own.

The twin of `scheduler.simulator.World`: the same files, the same expectations, another driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from heapq import heappop, heappush
from typing import Any

from budgets.models import BudgetNode, CellGrant, Cluster
from budgets.services import shares, tree
from scheduler import snapshots
from scheduler.engine import CellCounts, Policy, comparisons, order
from scheduler.executors.simulated import next_happening
from scheduler.loop import live_on, look_at
from scheduler.models import Decision, Node, Pass, Reservation, Run, Workload
from scheduler.services import clusters, limits, nodes, policies, simulation, workloads
from scheduler.services.events import second
from scheduler.simulator import Scenario
from tests.scheduler.conftest import DAY, START, add_nodes, at, second_of

ROOT_CODE = "lab"
WHOLE = 10_000
HEALTH, SHARES, CANCELS, SUBMISSIONS = range(4)


class LiveDriver:
    """One scenario on one cluster in the database."""

    def __init__(self, scenario: Scenario) -> None:
        """Make the cluster, the tree and the past."""
        self.scenario = scenario
        self.cluster = clusters.create(name="scenario", executor=Cluster.Executor.SIMULATED)
        self._set_policy()
        for node in scenario.nodes:
            beside = {"cpu_milli": node.cpu_milli or 0, "memory_mib": node.memory_mib or 0}
            add_nodes(self.cluster, {node.name: node.capacity_milli // 1_000}, rack=node.rack, **beside)
        self.budgets: dict[str, BudgetNode] = {}
        self._grow()
        self._add_history()
        self.rows: dict[str, Workload] = {}
        self.orders: dict[int, list[str]] = {}
        self._heap: list[tuple[int, int, int, Any]] = []
        self._fill_heap()

    def _set_policy(self) -> None:
        policy, defaults = self.scenario.policy, Policy()
        knobs = {
            each.name: str(value) if each.name == "swap_margin" else value
            for each in fields(Policy)
            if (value := getattr(policy, each.name)) != getattr(defaults, each.name)
        }
        if knobs:
            policies.change(cluster=self.cluster, knobs=knobs)

    # --- the tree -------------------------------------------------------------------------------------------------

    def _grow(self) -> None:
        self.shares = {node.id: node.shares for node in self.scenario.tree}
        for node in self.scenario.tree:
            if node.parent is None:
                self.budgets[node.id] = tree.create_root(code=ROOT_CODE, name="Laboratory", at=at(-30 * 86_400))
                continue
            parent = self.budgets[node.parent]
            kind = BudgetNode.Kind.PROJECT
            self.budgets[node.id] = tree.add_child(
                parent=parent, kind=kind, code=node.id, name=node.id, by=None, at=at(-30 * 86_400)
            )
        for node in self.scenario.tree:
            self._give_shares(node.id, DAY)
            if node.parent is not None:
                found = limits.Limits(node.minimum_milli, node.maximum_milli, node.factor_milli)
                parent, child = self.budgets[node.parent], self.budgets[node.id]
                limits.set_limits(parent=parent, cluster=self.cluster, limits={child: found}, by=None)
            self._grant(node.id, node.cells)

    def _grant(self, name: str, counts: CellCounts) -> None:
        """Let a budget node have these cells, and no others."""
        node = self.budgets[name]
        CellGrant.objects.filter(node=node, cluster=self.cluster).delete()
        for level, count in counts._asdict().items():
            if count:
                CellGrant.objects.create(node=node, cluster=self.cluster, level=level, count=count)

    def _give_shares(self, parent: str, day: Any) -> None:
        """Basis points in proportion to the file's numbers; equal ones stay equal."""
        children = [node.id for node in self.scenario.tree if node.parent == parent]
        whole = sum(self.shares[name] for name in children)
        if children and whole:
            given = {self.budgets[name]: WHOLE * self.shares[name] // whole for name in children}
            shares.set_shares(parent=self.budgets[parent], cluster=self.cluster, shares=given, valid_from=day, by=None)

    def _add_history(self) -> None:
        for number, use in enumerate(self.scenario.history):
            leaf = BudgetNode.objects.get(pk=self.budgets[use.leaf].pk)
            workload = Workload.objects.create(
                code=f"past-{number}",
                cluster=self.cluster,
                leaf=leaf,
                size_milli=use.size_milli,
                min_runtime_s=use.until_s - use.from_s,
                workload_class="standard",
                state="finished",
                submitted_at=at(use.from_s),
                ended_at=at(use.until_s),
            )
            Run.objects.create(
                workload=workload,
                number=1,
                cluster=self.cluster,
                leaf=leaf,
                path=leaf.path,
                size_milli=use.size_milli,
                funded=True,
                min_runtime_s=workload.min_runtime_s,
                state="ended",
                started_at=at(use.from_s),
                running_at=at(use.from_s),
                ended_at=at(use.until_s),
                end_reason="finished",
            )

    # --- time -----------------------------------------------------------------------------------------------------

    def _fill_heap(self) -> None:
        for job in self.scenario.jobs:
            if job.submit_s is not None:
                self._push(job.submit_s, SUBMISSIONS, job)
        ranks = {"health": HEALTH, "maintenance": HEALTH, "shares": SHARES, "cells": SHARES}
        ranks |= {"close": SHARES, "cancel": CANCELS}
        for event in self.scenario.events:
            self._push(event.at_s, ranks[event.kind], event)

    def _push(self, at_s: int, rank: int, what: Any) -> None:
        heappush(self._heap, (at_s, rank, len(self._heap) * 1_000 + id(what) % 1_000, what))

    def run(self, order_instants: list[int]) -> None:
        """Live until nothing can happen any more; note the order at these instants, before their passes."""
        asked = sorted(order_instants)
        now_s = -1
        while True:
            next_s = self._next_instant(now_s, asked)
            if next_s is None or (self.scenario.until_s is not None and next_s >= self.scenario.until_s):
                return
            now_s = next_s
            self._happen(now_s)
            if asked and asked[0] == now_s:
                asked.pop(0)
                loaded = snapshots.load(self.cluster, at(now_s))
                self.orders[now_s] = list(order(loaded.snapshot, loaded.policy))
            self._live_through(now_s)

    def _live_through(self, now_s: int) -> None:
        while True:
            look_at(self.cluster.pk, now=at(now_s), is_due=True)
            if not self._happen(now_s):
                return

    def _next_instant(self, now_s: int, asked: list[int]) -> int | None:
        instants = [self._heap[0][0]] if self._heap else []
        instants += asked[:1]
        happenings = (next_happening(run) for run in simulation.going(self.cluster))
        instants += [each.at_s - (second(START) or 0) for each in happenings if each is not None]
        instants += self._ends_of_contracts(now_s)
        if instants and self.scenario.policy.leaf_order != "priority":  # rounds alone would never end
            timer_s = snapshots.load(self.cluster, at(now_s)).snapshot.next_timer_s()
            instants += [] if timer_s is None else [timer_s - (second(START) or 0)]
        next_s = min(instants, default=None)
        return self._next_pass_before(now_s, next_s) if self._time_alone_matters() else next_s

    def _next_pass_before(self, now_s: int, event_s: int | None) -> int | None:
        """The next instant of the grid at which a pass could decide anything else, as the simulator finds it."""
        every_s = self.scenario.policy.pass_every_s
        snapshot = snapshots.load(self.cluster, at(now_s)).snapshot
        compared = comparisons(snapshot)
        at_s = (now_s // every_s + 1) * every_s
        while (event_s is None or at_s < event_s) and not self.scenario.policy.swap_margin:
            snapshot.advance(second(at(at_s)) or 0)
            if comparisons(snapshot) != compared:
                break
            at_s += every_s
        return at_s if event_s is None else min(at_s, event_s)

    def _ends_of_contracts(self, now_s: int) -> list[int]:
        ends = Run.objects.exclude(state="ended").filter(contract_ends_at__gt=at(now_s))
        due = Reservation.objects.filter(ended_at=None, starts_at__gt=at(now_s))
        found = [*ends.values_list("contract_ends_at", flat=True), *due.values_list("starts_at", flat=True)]
        return [second_of(instant) or 0 for instant in found]

    def _time_alone_matters(self) -> bool:
        return (
            Workload.objects.filter(state="queued", min_runtime_s__gt=0).exists()
            and Run.objects.filter(funded=True).exclude(state="ended").exists()
        )

    def _happen(self, now_s: int) -> bool:
        """Everything that is due, in the order of section 8. Whether anything was."""
        has_happened = live_on(self.cluster, at(now_s))
        self._follow(now_s)
        while self._heap and self._heap[0][0] <= now_s:
            *_, what = heappop(self._heap)
            kind = getattr(what, "kind", "submit")
            getattr(self, f"_{kind}")(what, at(now_s))
            has_happened = True
        return has_happened

    def _follow(self, now_s: int) -> None:
        """Those who come after one that has ended are submitted when they have thought."""
        ended = {row.code: second_of(row.ended_at) for row in Workload.objects.exclude(ended_at=None)}
        for job in self.scenario.jobs:
            if job.after in ended and job.id not in self.rows:
                self.rows[job.id] = Workload()
                self._push(max(now_s, (ended[job.after] or 0) + job.think_s), SUBMISSIONS, job)

    # --- what happens ---------------------------------------------------------------------------------------------

    def _submit(self, job: Any, now: datetime) -> None:
        said = {
            "SIM_STARTUP_S": job.startup_s,
            "SIM_DURATION_S": job.duration_s,
            "SIM_EXIT_DELAY_S": "never" if job.exit_delay_s is None else job.exit_delay_s,
            "SIM_RESTART_COST_S": job.restart_cost_s,
        }
        row = workloads.submit(
            cluster=self.cluster,
            leaf=self.budgets[job.leaf],
            owner=None,
            size_milli=job.size_milli,
            min_runtime_s=job.min_runtime_s,
            command=["run"],
            name=job.group,
            priority=job.priority,
            node=Node.objects.get(name=job.node) if job.node else None,
            cpu_milli_per_rank=job.cpu_milli,
            memory_mib_per_rank=job.memory_mib,
            resumable=job.is_resumable,
            environment={name: str(value) for name, value in said.items()},
            now=now,
        )
        Workload.objects.filter(pk=row.pk).update(code=job.id)  # ties are broken by the file's ids
        row.code = job.id
        self.rows[job.id] = row

    def _shares(self, event: Any, _now: datetime) -> None:
        self.shares.update(event.shares)
        parents = {node.parent for node in self.scenario.tree if node.id in event.shares}
        for parent in parents:
            assert parent is not None
            self._give_shares(parent, at(event.at_s).date())

    def _cells(self, event: Any, _now: datetime) -> None:
        for name, counts in event.cells.items():
            self._grant(name, counts)

    def _close(self, event: Any, now: datetime) -> None:
        tree.close(node=self.budgets[event.subject], by=None, at=now)

    def _cancel(self, event: Any, now: datetime) -> None:
        workloads.cancel(workload=self.rows[event.subject], by=None, now=now)

    def _health(self, event: Any, now: datetime) -> None:
        node = Node.objects.get(cluster=self.cluster, name=event.subject)
        nodes.set_health(node=node, health=event.health, by=None, reason="as the file says", now=now)

    def _maintenance(self, event: Any, now: datetime) -> None:
        node = Node.objects.get(cluster=self.cluster, name=event.subject)
        nodes.add_window(
            node=node,
            starts_at=now,
            ends_at=at(event.at_s + event.length_s),
            by=None,
            reason="as the file says",
            now=now,
        )

    # --- what came out --------------------------------------------------------------------------------------------

    def result(self) -> dict[str, Any]:
        """In the form of `simulate FILE --json`, as far as expectations ask."""
        rows = list(Workload.objects.exclude(code__startswith="past-").select_related("leaf"))
        runs = Run.objects.filter(workload__in=rows).select_related("workload", "preempted_by").order_by("pk")
        return {
            "runs": [
                {
                    "workload": run.workload.code,
                    "start": second_of(run.started_at),
                    "end": second_of(run.ended_at),
                    "end_reason": run.end_reason,
                    "preempted_by": run.preempted_by.code if run.preempted_by else None,
                }
                for run in runs
            ],
            "workloads": [{"id": row.code, "state": row.state, "preemptions": row.preemptions} for row in rows],
            "usage": self._usage(list(runs)),
            "decisions": [
                {
                    "at": second_of(row.at),
                    "workload": row.workload.code,
                    "reason": {
                        "code": row.code,
                        "text": row.text,
                        "earliest_start": second_of(row.earliest_start_at),
                    },
                }
                for row in Decision.objects.exclude(action__in=("end_claim", "end_reservation", "reserve"))
                .select_related("workload")
                .order_by("pk")
            ],
            "leaf_of": {row.code: row.leaf.code for row in rows},
        }

    def _usage(self, runs: list[Run]) -> dict[str, dict[str, int]]:
        last = Pass.objects.order_by("-id").first()
        assert last is not None
        usage = {name: {"charged_gpu_s": 0, "uncharged_gpu_s": 0} for name in self.budgets}
        names = {node.pk: name for name, node in self.budgets.items()}
        for run in runs:
            held_s = int(((run.ended_at or last.at) - run.started_at).total_seconds())
            key = "charged_gpu_s" if run.funded else "uncharged_gpu_s"
            for node in run.path:
                usage[names[node]][key] += held_s * run.size_milli // 1_000
        return usage


def leaves_below(scenario: Scenario) -> Mapping[str, set[str]]:
    """The leaves below each budget node, itself included."""
    parents = {node.id: node.parent for node in scenario.tree}
    found: dict[str, set[str]] = {name: set() for name in parents}
    for leaf in parents.keys() - set(parents.values()):
        above: str | None = leaf
        while above is not None:
            found[above].add(leaf)
            above = parents[above]
    return found


assert START.date() > DAY, "shares of the tests begin before their first instant"
