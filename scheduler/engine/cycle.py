"""One pass: the numbered steps, in order. No other file knows it.

1. Workloads whose leaf is closed or has no entitlement are held; those that may return do (section 8).
2. Plans that lost a node end; plans whose victims have left start (section 4).
3. Nodes that have to be empty tell their runs to leave (section 7).
4. Promises that lost a node end; holders of promises whose instant has come are placed (section 5).
5. Funded workloads in the order of the tree: on free devices, else by preemption; the first that cannot start are
   promised devices where a certain set exists (sections 3 to 5).
6. Unallocated workloads, likewise, on what is free (section 3).
7. Everybody who was looked at and waits is told why, if anybody is (section 9).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .admission import reason_to_hold
from .explain import Explainer, Explains
from .maxima import excess_of
from .order import ShareLessWalk, Walk, funded_walk, unallocated_walk, whole_order
from .placing import place_on_free
from .policies.locality import TWICE
from .policy import HOLDING_ORDERS, Policy
from .preemption import Claimant, Taking, find_taking
from .quiet import Movers, has_to_act, may_start_unallocated, note_failure
from .reasons import Code
from .reservations import Certain, is_unfit, may_be_earlier
from .snapshot import Snapshot
from .sparing import attempts
from .still import is_idle, is_still, note_still
from .trial import RunNames, Trial, starting
from .values import Action, Claim, Decision, Plan, Reason, Reservation, Workload
from .waiting import WaitingCodes, Waits


def decide(
    snapshot: Snapshot, policy: Policy, explains: Explains = Explains.ALL, keeps_as: RunNames | None = None
) -> Plan:
    """Decide what starts, who is preempted, who waits, and why, at the snapshot's instant.

    Args:
        snapshot: the state of one cluster. It is left as it was, but where the plan is kept.
        policy: the cluster's knobs.
        explains: what the plan says beside what is to be done.
        keeps_as: given by who keeps this snapshot and will carry out the whole plan: what runs that start are called.
            Then the snapshot may be left as the plan makes it (`Plan.is_kept`). It still is to be told of starts
            (`Snapshot.dequeue`, `Snapshot.confirm`), and of what else those who leave have to do.

    Raises:
        ValueError: the snapshot was built for another lookback, half-life or order among the tree.
    """
    _check(snapshot, policy)
    is_brief = explains is not Explains.ALL
    if is_brief and (is_still(snapshot, policy, explains) or is_idle(snapshot, policy, explains)):
        return Plan(now_s=snapshot.now_s, decisions=(), order=(), figures={})
    one_pass = Pass(snapshot, policy, explains, keeps_as or starting)
    is_kept = False
    try:
        is_quiet = one_pass.is_quiet()
        if not is_quiet:
            one_pass.hold_and_release()
            one_pass.settle_plans()
            one_pass.empty_nodes()
            one_pass.keep_promises()
            one_pass.start_funded()
            one_pass.start_unallocated()
        if explains is not Explains.NOTHING:
            one_pass.explain_waits()
        figures = {} if is_brief else snapshot.tree.figures(snapshot.now_s)
        is_kept = keeps_as is not None and not one_pass.has_taken_out
    finally:
        if is_kept:
            one_pass.trial.keep()
        else:
            one_pass.trial.roll_back()
    if is_quiet and not one_pass.decisions:
        note_still(snapshot, policy, explains, one_pass.trial.reaches.compared())
    return Plan(
        now_s=snapshot.now_s,
        decisions=tuple(one_pass.decisions),
        order=() if is_brief else tuple(workload.id for workload, _ in one_pass.waiting),
        figures=figures,
        next_change_s=None if is_brief else _next_change_s(snapshot),
        is_settled=one_pass.is_settled,
        is_kept=is_kept,
    )


def _check(snapshot: Snapshot, policy: Policy) -> None:
    if snapshot.checked is policy:
        return
    if snapshot.lookback_s != policy.lookback_s:
        raise ValueError(f"the snapshot's lookback is {snapshot.lookback_s} s, the policy's {policy.lookback_s} s")
    if snapshot.half_life_s != policy.decay_s:
        raise ValueError(f"the snapshot's half-life is {snapshot.half_life_s} s, the policy's {policy.decay_s} s")
    if snapshot.tree_order != policy.tree_order and HOLDING_ORDERS & {snapshot.tree_order, policy.tree_order}:
        raise ValueError(f"the snapshot's tree order is {snapshot.tree_order}, the policy's {policy.tree_order}")
    if snapshot.locality_waits_s != policy.locality_waits_s:
        own, others = snapshot.locality_waits_s, policy.locality_waits_s
        raise ValueError(f"the snapshot's waits of locality are {own}, the policy's {others}")
    snapshot.checked = policy


def _next_change_s(snapshot: Snapshot) -> int | None:
    """The next instant at which a contract ends, a node changes by time alone, or a promise is due."""
    instants = [promise.at_s for promise in snapshot.reservations.values() if promise.at_s > snapshot.now_s]
    timer_s = snapshot.next_timer_s()
    if timer_s is not None:
        instants.append(timer_s)
    return min(instants, default=None)


def order(snapshot: Snapshot, policy: Policy) -> tuple[str, ...]:
    """The queue's ids in the order in which a pass would consider them if nothing could start."""
    _check(snapshot, policy)
    return tuple(workload.id for workload in whole_order(snapshot))


class Pass:
    """The decisions of one pass, on a trial that is rolled back or kept by the caller."""

    def __init__(self, snapshot: Snapshot, policy: Policy, explains: Explains, names: RunNames) -> None:
        """Nothing is decided yet."""
        self._explains = explains
        is_brief = explains is not Explains.ALL
        self.snapshot = snapshot
        self.policy = policy
        self.trial = Trial(snapshot, policy, for_all=not is_brief, names=names)
        self.explainer = Explainer(self.trial, explains)
        self.decisions: list[Decision] = []
        self.waiting: list[tuple[Workload, int]] = []  # with its place in the order
        self.codes = WaitingCodes(self.trial)
        self.has_taken_out = False  # whether anybody was held, or released
        self._place = 0
        self._failed: dict[str, tuple[int, list[Workload]]] = {}
        self._placed: set[str] = set()
        self._may_skip = is_brief and self.codes.are_grouped  # nobody is to know who waits at which place
        self._movers = Movers(self.trial)
        self.is_settled = False  # whether nobody could be moved by another pass

    def _say(self, workload_id: str, action: Action, reason: Reason) -> None:
        self.decisions.append(Decision(workload=workload_id, action=action, reason=reason))

    def is_quiet(self) -> bool:
        """Whether steps 1 to 6 would change nothing."""
        if not self._may_skip:
            return False
        if has_to_act(self.snapshot):
            return False
        return not self._movers.are_any() and not may_start_unallocated(self.snapshot)

    # --- 1 --------------------------------------------------------------------------------------------------------

    def hold_and_release(self) -> None:
        """Step 1."""
        snapshot = self.snapshot
        if not snapshot.held and not snapshot.tree.bare_leaves:
            return
        for workload in sorted(snapshot.held.values(), key=lambda each: each.id):
            if reason_to_hold(snapshot, workload) is None:
                self.trial.put_back(workload)
                self.has_taken_out = True
                self._say(workload.id, Action.RELEASE, self.explainer.released(workload))
        stopped = [
            (workload, code)
            for leaf_id in snapshot.queues.keys() & snapshot.tree.bare_leaves
            for *_, workload in (*snapshot.queues[leaf_id].funded, *snapshot.queues[leaf_id].unallocated)
            if (code := reason_to_hold(snapshot, workload)) is not None
        ]
        for workload, code in sorted(stopped, key=lambda each: each[0].id):
            self._end_plans_of(workload)
            self.trial.take_out(workload.id)
            self.has_taken_out = True
            self._say(workload.id, Action.HOLD, self.explainer.held(workload, code))

    def _end_plans_of(self, workload: Workload) -> None:
        """A workload that is held gives back what was held or promised for it."""
        if workload.id in self.snapshot.claims:
            reason = self.explainer.plan_ended(Code.CLOSED, "Its plan ended: it was held.")
            self._say(workload.id, Action.END_CLAIM, reason)
        if workload.id in self.snapshot.reservations:
            reason = self.explainer.plan_ended(Code.CLOSED, "Its reservation ended: it was held.")
            self._say(workload.id, Action.END_RESERVATION, reason)

    # --- 2 --------------------------------------------------------------------------------------------------------

    def settle_plans(self) -> None:
        """Step 2."""
        snapshot = self.snapshot
        for claim in sorted(snapshot.claims.values(), key=lambda each: (each.made_s, each.workload)):
            workload = snapshot.queued[claim.workload]
            if not all(snapshot.nodes.by_name[name].may_start(snapshot.now_s) for name in claim.holdings):
                self.trial.end_claim(claim.workload)
                text = "Its plan ended: a node of it is not fit any longer."
                self._say(workload.id, Action.END_CLAIM, self.explainer.plan_ended(Code.WAITING_NODES, text))
            elif not any(name in snapshot.runs for name in claim.waits_for):
                self._say_started(workload, claim.holdings, place=None)
                self.trial.start_claimed(workload, claim)
            else:
                self._placed.add(workload.id)
                self._say_still_claims(claim)

    def _say_still_claims(self, claim: Claim) -> None:
        if self._explains is Explains.NOTHING:
            return
        if self._explains is Explains.ALL or self.snapshot.told.get(claim.workload) != Code.WAITING_VICTIMS:
            self._say(claim.workload, Action.WAIT, self.explainer.still_claims(claim.holdings, claim.waits_for))

    # --- 3 --------------------------------------------------------------------------------------------------------

    def empty_nodes(self) -> None:
        """Step 3."""
        now_s = self.trial.now_s
        for node in sorted(self.snapshot.nodes.restless.values(), key=lambda each: each.name):
            if not node.soft_milli or not node.must_empty(now_s):
                continue
            code = Code.MAINTENANCE if node.in_window(now_s) else Code.DRAINED
            for run in sorted(node.runs.values(), key=lambda each: each.id):
                if run.leave_by_s is None and (run.is_over or not run.funded):
                    self.trial.stop(run)
                    reason = self.explainer.emptied(run, code, node.name)
                    self.decisions.append(
                        Decision(workload=run.workload, action=Action.PREEMPT, reason=reason, run=run.id)
                    )

    # --- 4 --------------------------------------------------------------------------------------------------------

    def keep_promises(self) -> None:
        """Step 4."""
        snapshot = self.snapshot
        for promise in sorted(snapshot.reservations.values(), key=lambda each: (each.at_s, each.workload)):
            if is_unfit(self.trial, promise):
                self.trial.end_reservation(promise.workload)
                text = "Its reservation ended: a node of it is not fit any longer."
                reason = self.explainer.plan_ended(Code.WAITING_NODES, text)
                self._say(promise.workload, Action.END_RESERVATION, reason)
            elif promise.at_s <= self.trial.now_s and promise.workload not in self._placed:
                self._try_to_place(snapshot.queued[promise.workload], place=None)

    # --- 5 --------------------------------------------------------------------------------------------------------

    def start_funded(self) -> None:
        """Step 5."""
        if self._may_skip and not self.snapshot.stirred.funded:
            self.is_settled = True
            return
        walk = funded_walk(self.snapshot)
        while (workload := walk.next()) is not None:
            if self._may_skip:
                if not self._movers.are_any():
                    self.is_settled = True
                    return
                if not self._movers.are_any_in(workload.leaf):
                    if not walk.pass_over_leaf():  # another leaf is its equal, and may come next
                        walk.pass_over()
                    continue
                if self._is_passed_over(workload):
                    walk.pass_over(self._is_passed_over)
                    continue
            if workload.id in self._placed:
                walk.pass_over()
                continue
            self._place += 1
            if not self._fails_like_another(workload) and self._try_to_place(workload, self._place):
                walk.count()
                continue
            self._promise(workload)
            self.waiting.append((workload, self._place))
            walk.pass_over(self._fails_like_another if self._may_skip and self._are_all_promised() else None)
        self.is_settled = self._may_skip and not self._movers.are_any()

    def _are_all_promised(self) -> bool:
        """Whether nobody else will be promised anything."""
        return len(self.snapshot.reservations) >= self.policy.reservations

    def _is_passed_over(self, workload: Workload) -> bool:
        """Whether a workload was placed already, or nobody like it might be."""
        if workload.id in self._placed:
            return True
        return not self._movers.are_any_of(self.snapshot.queues[workload.leaf].group(workload))

    def _fails_like_another(self, workload: Workload) -> bool:
        """Whether one of its leaf that asked for no more has failed, and nothing changed since."""
        if workload.id in self.snapshot.reservations:
            return False
        changes, failed = self._failed.get(workload.leaf, (-1, []))
        return changes == self.trial.changes and any(_asks_no_more(each, workload) for each in failed)

    def _note_failure(self, workload: Workload) -> None:
        if workload.id in self.snapshot.reservations:
            return
        is_pinned_beside_cells = workload.node is not None and self.snapshot.tree.tenants
        if workload.min_runtime_s and not (self.snapshot.tree.has_maxima or is_pinned_beside_cells):
            note_failure(self.trial, workload)
        if workload.node is not None:
            return
        changes, failed = self._failed.get(workload.leaf, (-1, []))
        if changes != self.trial.changes:
            failed = []
            self._failed[workload.leaf] = (self.trial.changes, failed)
        failed.append(workload)

    def _try_to_place(self, workload: Workload, place: int | None) -> bool:
        """Start it on free devices, else hold devices for it while victims leave; within its budget's maximum."""
        for attempt in attempts(self.snapshot, workload):
            holdings = self._place_within_maximum(workload, attempt.spared)
            if holdings is not None:
                self._start(workload, holdings, place)
                return True
            may_take = attempt.may_take and self.snapshot.nodes.soft
            taking = find_taking(self.trial, workload, attempt.spared) if may_take else None
            if taking is not None:
                self._claim(workload, taking, place)
                return True
        self._note_failure(workload)
        return False

    def _place_within_maximum(
        self, workload: Workload, spared: Collection[str] = frozenset()
    ) -> Mapping[str, int] | None:
        """Devices that are free now, within its budget's maximum; a gang may hold more than it asks for."""
        if excess_of(self.snapshot, workload) is not None:
            return None
        holdings = place_on_free(self.snapshot, workload, spared)
        if holdings is not None and excess_of(self.snapshot, workload, sum(holdings.values())) is not None:
            return None
        return holdings

    def _start(self, workload: Workload, holdings: Mapping[str, int], place: int | None) -> None:
        self._say_started(workload, holdings, place)
        self.trial.start(workload, holdings, workload.min_runtime_s > 0)

    def _say_started(self, workload: Workload, holdings: Mapping[str, int], place: int | None) -> None:
        is_funded = workload.min_runtime_s > 0
        reason = self.explainer.started(workload, holdings, is_funded)
        self._end_promise_to(workload, reason)
        self._placed.add(workload.id)
        self.decisions.append(
            Decision(
                workload=workload.id,
                action=Action.START,
                reason=reason,
                holdings=holdings,
                funded=is_funded,
                place=place,
            )
        )

    def _claim(self, workload: Workload, taking: Taking, place: int | None) -> None:
        claimant = Claimant(self.trial, workload)
        for victim in taking.victims:
            code = claimant.rule_against(victim)
            assert code is not None, f"{victim.id} may not be preempted by {workload.id}"
            reason = self.explainer.preempted(claimant, victim, code)
            self.decisions.append(
                Decision(workload=victim.workload, action=Action.PREEMPT, reason=reason, run=victim.id, by=workload.id)
            )
        for victim in taking.victims:
            self.trial.stop(victim)
        self.trial.claim(Claim(workload.id, taking.holdings, taking.waits_for, self.trial.now_s))
        reason = self.explainer.claims(workload, taking)
        self._end_promise_to(workload, reason)
        self._placed.add(workload.id)
        self.decisions.append(
            Decision(
                workload=workload.id,
                action=Action.CLAIM,
                reason=reason,
                holdings=taking.holdings,
                funded=True,
                place=place,
            )
        )

    def _end_promise_to(self, workload: Workload, reason: Reason) -> None:
        if workload.id in self.snapshot.reservations:
            self.trial.end_reservation(workload.id)
            self._say(workload.id, Action.END_RESERVATION, reason)

    def _promise(self, workload: Workload) -> None:
        """Promise devices to one of the first that cannot start, or move a promise earlier (section 5)."""
        promise = self.snapshot.reservations.get(workload.id)
        if promise is None and self._are_all_promised():
            return
        if promise is None and (
            excess_of(self.snapshot, workload) is not None or not self.codes.is_any_certain(workload)
        ):
            return
        if promise is not None and not may_be_earlier(self.trial, workload):
            return
        certain = self.codes.certain(workload)
        if certain is None or certain.at_s <= self.trial.now_s:
            return
        if excess_of(self.snapshot, workload, sum(certain.holdings.values())) is not None:
            return
        if promise is None or certain.at_s < promise.at_s:
            self._reserve(workload, certain)

    def _reserve(self, workload: Workload, certain: Certain) -> None:
        promise = Reservation(workload.id, certain.at_s, certain.holdings, certain.counts_on, self.trial.now_s)
        self.trial.reserve(promise)
        reason = self.explainer.promised(workload, certain.holdings, certain.at_s, certain.counts_on)
        self.decisions.append(
            Decision(workload=workload.id, action=Action.RESERVE, reason=reason, holdings=certain.holdings, funded=True)
        )

    # --- 6 --------------------------------------------------------------------------------------------------------

    def start_unallocated(self) -> None:
        """Step 6."""
        if self._may_skip and not may_start_unallocated(self.snapshot):
            return
        for walk in (unallocated_walk(self.snapshot), ShareLessWalk(self.snapshot)):
            self._start_on_free(walk)

    def _start_on_free(self, walk: Walk | ShareLessWalk) -> None:
        failed: set[tuple[int, int]] = set()  # sizes, by how far they look, that were too large for what is free

        def fails(workload: Workload) -> bool:
            return (workload.size_milli, workload.spread) in failed and self._is_plain(workload)

        while (workload := walk.next()) is not None:
            self._place += 1
            holdings = None if fails(workload) else self._place_within_maximum(workload)
            if holdings is None:
                if self._is_plain(workload):
                    failed.add((workload.size_milli, workload.spread))
                self.waiting.append((workload, self._place))
                walk.pass_over(fails if self._may_skip else None)
            else:
                self._start(workload, holdings, self._place)
                if self.snapshot.classes is not None:  # what was kept free as reserve can be taken over now
                    self.is_settled = False
                walk.count()
                failed.clear()
                if self._may_skip and not may_start_unallocated(self.snapshot):
                    return

    def _is_plain(self, workload: Workload) -> bool:
        """Whether size and spread alone decide where an unallocated workload fits."""
        if workload.node is not None or workload.asks_host or self.snapshot.tree.has_maxima:
            return False
        return not workload.is_high  # from which the reserve is not kept

    # --- 7 --------------------------------------------------------------------------------------------------------

    def explain_waits(self) -> None:
        """Step 7."""
        waits = Waits(self.trial, self.explainer, self.codes)
        if self._may_skip:
            self.decisions += waits.news()
        else:
            told = None if self._explains is Explains.ALL else self.snapshot.told
            self.decisions += waits.decisions(self.waiting, told)


def _asks_no_more(one: Workload, other: Workload) -> bool:
    """Whether there is a place for the first workload, of the same leaf, wherever there is one for the other."""
    return (
        one.size_milli <= other.size_milli
        and one.min_runtime_s <= other.min_runtime_s
        and one.cpu_milli <= other.cpu_milli
        and one.memory_mib <= other.memory_mib
        and one.spread >= other.spread
        and (other.spread < TWICE or one.size_milli == other.size_milli)  # more may be in equal parts where less is not
        and (one.is_high or not other.is_high)
        and (not one.gpu_classes or (bool(other.gpu_classes) and set(other.gpu_classes) <= set(one.gpu_classes)))
    )
