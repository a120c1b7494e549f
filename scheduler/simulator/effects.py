"""What happens to workloads, runs, nodes and shares in invented time, whoever decided it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from heapq import heappush

from scheduler.engine import (
    NO_SERVICE,
    Arrival,
    Code,
    Crowd,
    Decision,
    Health,
    Predictor,
    Reason,
    Run,
    Service,
    Snapshot,
    Workload,
    classes_of,
    leaf_order_of,
    locality,
    network_of,
)

from .before import Before
from .records import Demand, JobRecord, LoggedDecision, Outcome, RunRecord
from .scenario import Happening, Job, Scenario
from .schedulers import scheduler_for

ENDS, HEALTH, SHARES, CANCELS, SUBMISSIONS, CONTRACT_ENDS = range(6)
"""The order of what happens in one instant."""
COUNTED_AS_PREEMPTION = {
    Code.PREEMPTED_UNALLOCATED,
    Code.PREEMPTED_FAIR_SHARE,
    Code.PREEMPTED_PRIORITY,
    Code.PREEMPTED_RESERVATION,
    Code.PREEMPTED_CELL,
    Code.DRAINED,
    Code.MAINTENANCE,
    Code.STUCK_EXIT,
}


class Effects:
    """The state of one cluster, with a method for each thing that can happen to it.

    Attributes:
        snapshot: what the engine sees, kept up to date.
        jobs, runs: what became of every workload; the runs that hold devices, by id.
        ended: how many workloads have ended.
        heap: what will happen: (instant, rank, sequence, what).
    """

    def __init__(
        self, scenario: Scenario, crowds: Mapping[str, Crowd] | None = None, *, is_explained: bool = True
    ) -> None:
        """An idle cluster with its past; `crowds` contended inside leaves before, where that is known.

        Where nobody reads why things were decided, it need not be `is_explained`: then no decisions are written down.
        """
        self.scenario = scenario
        self.policy = scenario.policy
        self._is_explained = is_explained
        self._keeps_told = is_explained or scenario.scheduler != "contracts"  # the others look what they said
        self.now_s = 0
        leaf_order = None
        if scenario.scheduler == "contracts":  # the others have orders of their own, and no leaves
            leaf_order = leaf_order_of(self.policy, [job.size_milli * job.duration_s for job in scenario.jobs])
        self.snapshot = Snapshot(
            now_s=0,
            tree=scenario.tree,
            nodes=scenario.nodes,
            lookback_s=scenario.policy.lookback_s,
            unit=scenario.unit,
            half_life_s=self.policy.decay_s,
            tree_order=self.policy.tree_order,
            leaf_order=leaf_order,
            locality_waits_s=self.policy.locality_waits_s if scenario.scheduler == "contracts" else (),
            crowds=crowds,
        )
        said = {job.id: job.communication for job in scenario.jobs if job.communication is not None}
        self.snapshot.packing = scenario.packing
        self.snapshot.network = network_of(self.policy, said)
        self.snapshot.classes = classes_of(self.policy, self.snapshot.nodes)
        self._predictor = Predictor()
        for use in scenario.history:
            self.snapshot.add_past_use(use.leaf, use.size_milli, use.from_s, use.until_s, funded=use.is_funded)
        self.jobs = {job.id: JobRecord(job) for job in scenario.jobs}
        self.runs: dict[str, RunRecord] = {}
        self.outcome = Outcome(scenario, jobs=list(self.jobs.values()))
        self.scheduler = scheduler_for(scenario, self.snapshot, self.jobs, self.runs, is_explained=is_explained)
        self.ended = 0
        self.heap: list[tuple[int, int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._followers: dict[str, list[JobRecord]] = {}
        for record in self.jobs.values():
            if record.job.after is not None:
                self._followers.setdefault(record.job.after, []).append(record)
        self._note_steps()

    def _at(self, at_s: int, rank: int, happen: Callable[[], None]) -> None:
        heappush(self.heap, (at_s, rank, self._sequence, happen))
        self._sequence += 1

    def _log(self, workload: str, action: str, reason: Reason) -> None:
        if not self._is_explained:
            return
        self.jobs[workload].reason = reason
        self.outcome.decisions.append(LoggedDecision(self.now_s, workload, action, reason))

    # --- workloads ------------------------------------------------------------------------------------------------

    def _submit(self, record: JobRecord) -> None:
        if record.state is not None:  # cancelled before
            return
        job = record.job
        record.submitted_s = self.now_s
        reason = self.scheduler.refusal(job)
        if reason is not None:
            self._log(job.id, "refuse", reason)
            self._finish_job(record, "refused")
            return
        self._enqueue(record)
        self._wait_again(record)

    def _enqueue(self, record: JobRecord) -> None:
        job = record.job
        self.snapshot.enqueue(
            Workload(
                id=job.id,
                leaf=job.leaf,
                size_milli=job.size_milli,
                min_runtime_s=job.min_runtime_s,
                submitted_s=record.submitted_s,
                priority=job.priority,
                node=job.node,
                service=self._service(record),
                cpu_milli=job.cpu_milli,
                memory_mib=job.memory_mib,
                gpu_classes=job.gpu_classes,
                is_high=job.is_high,
                locality=job.locality,
                since_s=self._waits_since_s(record),
            )
        )
        record.state = "queued"

    def _waits_since_s(self, record: JobRecord) -> int | None:
        """When its last run ended; None where it has not run."""
        if record.runs:
            return record.runs[-1].end_s
        return None if record.job.before is None else record.job.before.waits_since_s

    def _service(self, record: JobRecord) -> Service:
        """What an order inside a leaf may go by.

        What its owner estimates comes before what is predicted, once, when it is submitted.
        """
        if self.snapshot.leaf_order is None:
            return NO_SERVICE
        job = record.job
        if record.predicted_s is None:
            is_said = job.estimate_s is not None
            record.predicted_s = job.estimate_s if is_said else self._predictor.predict(job.group, job.user)
        return Service(
            attained_milli_s=record.attained_milli_s,
            first_started_s=record.first_start_s,
            predicted_s=record.predicted_s,
            executed_s=record.executed_s,
            forgiven_s=record.forgiven_s,
            waits_since_s=self._waits_since_s(record),
            arrival=self._arrival(record),
        )

    def _arrival(self, record: JobRecord) -> Arrival | None:
        """When it came. Who was there before the scenario began is not known."""
        crowds = self.snapshot.crowds
        if record.arrival is None and crowds is not None:
            record.arrival = Arrival(record.submitted_s, crowds.total_s(record.job.leaf, self.now_s), self.now_s)
        return record.arrival

    def _forgive(self, record: JobRecord) -> None:
        """It starts: what it has executed may count no more for the order inside its leaf."""
        order = self.snapshot.leaf_order
        if order is not None and order.forgives(self.snapshot.queued[record.job.id].service, self.now_s):
            record.forgiven_s, record.attained_milli_s = record.executed_s, 0
            record.forgivings.append((self.now_s, record.forgiven_s))

    def _wait_again(self, record: JobRecord) -> None:
        record.state = "queued"
        if record.job.min_runtime_s:
            record.demand_from_s = self.now_s

    def _hold(self, decision: Decision) -> None:
        self.snapshot.hold(decision.workload)
        record = self.jobs[decision.workload]
        record.state = "held"
        self._note_demand(record)

    def _note_demand(self, record: JobRecord) -> None:
        if record.demand_from_s is not None and record.demand_from_s < self.now_s:
            size_milli = self._rounded_milli(record)
            self.outcome.demand.append(Demand(record.job.leaf, size_milli, record.demand_from_s, self.now_s))
        record.demand_from_s = None

    def _rounded_milli(self, record: JobRecord) -> int:
        """What it holds when it runs: whole nodes where it is larger than one."""
        size_milli, node_milli = record.job.size_milli, self.snapshot.nodes.largest_milli
        if record.runs:
            return record.runs[-1].size_milli
        return size_milli if size_milli <= node_milli else -(-size_milli // node_milli) * node_milli

    def _finish_job(self, record: JobRecord, state: str) -> None:
        record.state = state
        record.end_s = self.now_s
        self.ended += 1
        self.snapshot.forget_told(record.job.id)
        self._note_demand(record)
        for follower in self._followers.get(record.job.id, ()):
            at_s = self.now_s + follower.job.think_s
            self._at(at_s, SUBMISSIONS, partial(self._submit, follower))

    def _cancel(self, record: JobRecord) -> None:
        workload = record.job.id
        if record.state is None:
            self._finish_job(record, "cancelled")
        elif record.state == "queued":
            self.snapshot.dequeue(workload)
            self._finish_job(record, "cancelled")
        elif record.state == "held":
            self.snapshot.forget_held(workload)
            self._finish_job(record, "cancelled")
        elif record.state in ("starting", "running"):
            record.is_cancelled = True
            self._stop(record.runs[-1], "cancelled", None)
        elif record.state == "leaving":
            record.is_cancelled = True

    # --- runs -----------------------------------------------------------------------------------------------------

    def _start(self, decision: Decision, *, is_kept: bool) -> None:
        record = self.jobs[decision.workload]
        job = record.job
        if record.runs:
            record.progress_s -= min(job.restart_cost_s, record.progress_s)
        if record.first_start_s is None:
            record.first_start_s = self.now_s
        self._forgive(record)
        run = self._new_run(record, decision.holdings, decision.funded, self.now_s)
        if is_kept:
            self.snapshot.confirm(run.id, self._service(record))
        else:
            self._hold_devices(run, None)
        if job.startup_s:
            self._at(self.now_s + job.startup_s, ENDS, lambda: self._begin(run))
        else:
            self._begin(run)

    def _new_run(self, record: JobRecord, holdings: Mapping[str, int], funded: bool, start_s: int) -> RunRecord:
        """A workload leaves the queue for a run that is to hold devices since `start_s`."""
        job = record.job
        self.snapshot.dequeue(job.id)
        run = RunRecord(
            id=record.next_run,
            job=record,
            start_s=start_s,
            holdings=holdings,
            is_funded=funded,
            size_milli=sum(holdings.values()),
            price_milli=self._price_milli(job, len(holdings)),
        )
        record.runs.append(run)
        self.runs[run.id] = run
        self.outcome.runs.append(run)
        record.state = "starting"
        return run

    def _hold_devices(self, run: RunRecord, running_s: int | None) -> None:
        """A run holds its devices, and has really run since `running_s`, if it has."""
        record = run.job
        job = record.job
        self.snapshot.start(
            Run(
                id=run.id,
                workload=job.id,
                leaf=job.leaf,
                holdings=run.holdings,
                funded=run.is_funded,
                min_runtime_s=job.min_runtime_s,
                started_s=run.start_s,
                running_s=running_s,
                priority=job.priority,
                submitted_s=record.submitted_s,
                service=self._service(record),
                cpu_milli=job.cpu_milli,
                memory_mib=job.memory_mib,
            )
        )

    def _price_milli(self, job: Job, servers: int) -> int:
        """How many times the time its work takes on so many nodes, in thousandths: more only where it is spread."""
        if not self.scenario.spreading_cost:
            return locality.TOGETHER_MILLI
        return locality.slowdown_milli(job.size_milli, servers, self.snapshot.nodes.largest_milli)

    def _take_over(self, record: JobRecord, before: Before) -> None:
        """A workload of before the start waits, or holds its devices, as its scenario says."""
        record.submitted_s = before.submitted_s
        record.first_start_s = before.first_start_s
        record.progress_s = record.executed_s = before.done_s
        record.attained_milli_s = (before.done_s - record.forgiven_s) * self._rounded_milli(record)
        self._enqueue(record)
        self._wait_again(record)
        if not before.holdings:
            self._at(0, SUBMISSIONS, lambda: None)  # so that a pass looks at it
            return
        run = self._new_run(record, before.holdings, before.is_funded, before.since_s)
        self._hold_devices(run, before.running_s)
        if before.running_s is None:
            self._at(max(0, before.since_s + record.job.startup_s), ENDS, lambda: self._begin(run))
        else:
            self._run_on(run, before.running_s)

    def _begin(self, run: RunRecord) -> None:
        """Every rank really runs: the contract begins."""
        if run.end_s is not None or run.is_leaving:
            return
        self.snapshot.begin(run.id)
        self._run_on(run, self.now_s)

    def _run_on(self, run: RunRecord, running_s: int) -> None:
        """Its contract and its end are counted from that instant; the scenario may have begun since."""
        record = run.job
        run.running_s = running_s
        record.state = "running"
        if run.is_funded:
            run.contract_end_s = running_s + record.job.min_runtime_s
            if run.contract_end_s >= self.now_s:
                self._at(run.contract_end_s, CONTRACT_ENDS, lambda: None)  # so that a pass looks at it
        end_s = running_s + run.takes_s(record.job.duration_s - record.progress_s)
        self._at(max(end_s, self.now_s), ENDS, lambda: self._finish(run))

    def _finish(self, run: RunRecord) -> None:
        if run.end_s is None and not run.is_leaving:
            self._end_run(run, "finished")
            self._finish_job(run.job, "finished")
            self._predictor.learn(run.job.job.group, run.job.job.user, run.job.job.duration_s)

    def _stop(self, run: RunRecord, code: str, by: str | None) -> None:
        """Tell a run to leave: it saves its progress now and goes when it can, or is killed."""
        record = run.job
        self._save(run)
        run.told_s = self.now_s
        run.end_reason = code
        run.preempted_by = by
        record.state = "leaving"
        self.snapshot.leave(run.id, self.now_s + self.policy.grace_s)
        if record.job.exit_delay_s is None:
            gone_s = self.now_s + self.policy.grace_s + self.policy.kill_wait_s
            self._at(gone_s, ENDS, lambda: self._give_up_on(run))
        else:
            gone_s = self.now_s + min(record.job.exit_delay_s, self.policy.grace_s)
            self._at(gone_s, ENDS, lambda: self._exit(run))

    def _save(self, run: RunRecord) -> None:
        if run.running_s is not None and not run.is_leaving:
            run.job.progress_s += run.work_s(self.now_s - run.running_s)

    def _end_run(self, run: RunRecord, reason: str) -> None:
        run.end_s = self.now_s
        run.end_reason = reason
        if run.running_s is not None:
            executed_s = (self.now_s if run.told_s is None else run.told_s) - run.running_s
            run.job.executed_s += executed_s
            run.job.attained_milli_s += run.size_milli * executed_s
        self.snapshot.end(run.id)
        del self.runs[run.id]

    def _exit(self, run: RunRecord) -> None:
        if run.end_s is None:
            assert run.end_reason is not None
            self._end_run(run, run.end_reason)
            self._requeue(run)

    def _give_up_on(self, run: RunRecord) -> None:
        """It has not left, although killed: its nodes are not to be trusted (section 4)."""
        if run.end_s is None:
            self._end_run(run, Code.STUCK_EXIT)
            for name in run.holdings:
                self._set_health(name, "unhealthy")
            self._requeue(run)

    def _requeue(self, run: RunRecord) -> None:
        """The workload returns to its old place, or ends with its run."""
        record = run.job
        if run.end_reason in COUNTED_AS_PREEMPTION:
            record.preemptions += 1
        if record.is_cancelled:
            self._finish_job(record, "cancelled")
        elif record.job.is_resumable:
            self._enqueue(record)
        else:
            self._finish_job(record, "lost" if run.end_reason == Code.NODE_LOST else "preempted")

    # --- nodes and shares -----------------------------------------------------------------------------------------

    def _is_fit(self, name: str) -> bool:
        node = self.snapshot.nodes.by_name[name]
        return node.health is Health.HEALTHY and not node.in_window(self.now_s)

    def _set_health(self, name: str, health: str) -> None:
        node = self.snapshot.nodes.by_name[name]
        if health == "healthy":
            if node.health is not Health.HEALTHY:
                self._return_to_use(name)
            return
        if health == "unhealthy":
            self.snapshot.set_health(name, Health.DRAINING)
        else:
            self.snapshot.set_health(name, Health.DOWN)
            for run_id in sorted(node.runs):
                run = self.runs[run_id]
                self._save(run)
                self._end_run(run, run.end_reason or Code.NODE_LOST)
                self._requeue(run)
        self._note_steps()

    def _return_to_use(self, name: str) -> None:
        """A node is fit again, and used after the dwell."""
        node = self.snapshot.nodes.by_name[name]
        usable_from_s = self.now_s + self.policy.healthy_dwell_s
        health = node.health
        if not node.in_window(self.now_s):
            health = Health.HEALTHY
        self.snapshot.set_health(name, health, usable_from_s)
        self._at(usable_from_s, HEALTH, lambda: None)  # so that a pass looks at it
        self._note_steps()

    def _set_shares(self, event: Happening) -> None:
        tree = self.snapshot.tree
        parents = {tree.nodes[name].parent for name in event.shares}
        changed: dict[str, tuple[int, int]] = {}
        for parent in parents:
            assert parent is not None
            amounts = {child.id: event.shares.get(child.id, child.shares) for child in parent.children}
            whole = sum(amounts.values())
            changed.update({name: (amount, whole) for name, amount in amounts.items()})
        tree.set_shares(changed)
        self._note_steps()

    def _close(self, name: str) -> None:
        self.snapshot.tree.close(name)

    # --- books ----------------------------------------------------------------------------------------------------

    def _note_steps(self) -> None:
        """Remember capacity and entitlements as they stand from now on, for the figures of section 10."""
        nodes = self.snapshot.nodes.by_name.values()
        healthy_milli = sum(node.capacity_milli for node in nodes if self._is_fit(node.name))
        self.outcome.healthy_steps.append((self.now_s, healthy_milli))
        entitlements = {name: node.entitlement.as_integer_ratio() for name, node in self.snapshot.tree.nodes.items()}
        self.outcome.entitlement_steps.append((self.now_s, entitlements))

    def _close_books(self) -> None:
        self.outcome.end_s = self.now_s
        for record in self.jobs.values():
            self._note_demand(record)
