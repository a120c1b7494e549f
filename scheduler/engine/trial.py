"""How a pass speculates: it changes the snapshot, and undoes all of it, or leaves to the caller what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .cluster import HeldRun
from .policy import Policy
from .reach import Reaches
from .snapshot import Snapshot
from .tree import TreeNode
from .values import Claim, Reservation, Run, Workload

RunNames = Callable[[str], str]
"""The id of the run that a workload would start now."""


def starting(workload_id: str) -> str:
    """What a run is called that is only thought of."""
    return f"starting: {workload_id}"


class Trial:
    """What one pass changes while it thinks. `roll_back` leaves the snapshot as it was, `keep` as it came to be."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, *, for_all: bool = False, names: RunNames = starting
    ) -> None:
        """Begin to think; `for_all` says that everybody who waits will be told why."""
        self.snapshot = snapshot
        self.policy = policy
        self.now_s = snapshot.now_s
        self.changes = 0  # grows with everything that might let a workload start that could not before
        self.promises = 0  # grows with every promise that is made or moved
        self.reaches = Reaches(snapshot, policy.swap_margin, for_all=for_all)
        self.placed: list[str] = []
        """Workloads that were given devices, and so wait for none while this trial lasts."""
        self._names = names
        self._undo: list[Callable[[], object]] = []
        self._advances: list[tuple[TreeNode, int]] = []  # what leaves are taken to have used, in this pass alone

    def roll_back(self) -> None:
        """Undo everything, last change first. Who waits again by that has not joined the queue anew."""
        stirred = self.snapshot.stirred
        joined = stirred.joined
        while self._undo:
            self._undo.pop()()
        stirred.joined = joined
        self._take_advances_back()

    def keep(self) -> None:
        """Let stand what it came to. Runs that started are to be confirmed (`Snapshot.confirm`)."""
        self._undo.clear()
        self._take_advances_back()

    def start(self, workload: Workload, holdings: Mapping[str, int], funded: bool) -> None:
        """Let a workload hold devices, and count it at once (section 3, rule 5)."""
        snapshot = self.snapshot
        run = self._starting(workload, holdings, funded)
        leaf = run.leaf
        snapshot.leave_group(workload)
        self.placed.append(workload.id)
        self._undo.append(lambda: snapshot.join_group(workload))
        snapshot.occupy(run)
        self._undo.append(lambda: snapshot.vacate(run))
        if funded:
            self._commit(leaf, run.size_milli * workload.min_runtime_s)
        else:
            self._add_uncharged(leaf, run.size_milli * self.policy.pass_every_s)
        self.changes += 1

    def start_claimed(self, workload: Workload, claim: Claim) -> None:
        """Let a workload hold what its plan held for it, which counts for it already."""
        snapshot = self.snapshot
        run = self._starting(workload, claim.holdings, funded=True)
        snapshot.take_claim(claim)
        self.placed.append(workload.id)
        self._undo.append(lambda: snapshot.put_claim(claim))
        snapshot.occupy(run)
        self._undo.append(lambda: snapshot.vacate(run))
        self.changes += 1

    def _starting(self, workload: Workload, holdings: Mapping[str, int], funded: bool) -> HeldRun:
        run = HeldRun(
            Run(
                id=self._names(workload.id),
                workload=workload.id,
                leaf=workload.leaf,
                holdings=holdings,
                funded=funded,
                min_runtime_s=workload.min_runtime_s,
                started_s=self.now_s,
                running_s=None,
                priority=workload.priority,
                cpu_milli=workload.cpu_milli,
                memory_mib=workload.memory_mib,
            ),
            self.snapshot.leaf(workload.leaf),
        )
        run.urgency = workload.urgency
        return run

    def claim(self, claim: Claim) -> None:
        """Hold devices for a workload whose victims are leaving."""
        snapshot = self.snapshot
        snapshot.claim(claim)
        self.placed.append(claim.workload)
        self.reaches.forget()
        self._undo.append(lambda: snapshot.drop_claim(claim.workload))
        self.changes += 1

    def end_claim(self, workload_id: str) -> Claim:
        """Hold nothing any longer for a workload."""
        snapshot = self.snapshot
        claim = snapshot.drop_claim(workload_id)
        self.reaches.forget()
        self._undo.append(lambda: snapshot.claim(claim))
        self.changes += 1
        return claim

    def stop(self, run: HeldRun) -> None:
        """Tell a run to leave, within the grace."""
        snapshot = self.snapshot
        snapshot.mark_leaving(run, self.now_s + self.policy.grace_s)
        self._undo.append(lambda: snapshot.mark_leaving(run, None))
        self.changes += 1

    def reserve(self, reservation: Reservation) -> None:
        """Promise devices."""
        snapshot = self.snapshot
        before = snapshot.reservations.get(reservation.workload)
        snapshot.reserve(reservation)
        self.promises += 1
        if before is None:
            self._undo.append(lambda: snapshot.drop_reservation(reservation.workload))
        else:
            self._undo.append(lambda: snapshot.reserve(before))

    def end_reservation(self, workload_id: str) -> None:
        """A promise ends."""
        snapshot = self.snapshot
        reservation = snapshot.drop_reservation(workload_id)
        self._undo.append(lambda: snapshot.reserve(reservation))
        self.changes += 1

    def take_out(self, workload_id: str) -> None:
        """A workload waits no longer."""
        snapshot = self.snapshot
        if workload_id in snapshot.claims:
            self.end_claim(workload_id)
        if workload_id in snapshot.reservations:
            self.end_reservation(workload_id)
        workload = snapshot.dequeue(workload_id)
        self.reaches.forget()  # what siblings ask for may count among them
        self._undo.append(lambda: snapshot.enqueue(workload))

    def put_back(self, workload: Workload) -> None:
        """A held workload waits again."""
        snapshot = self.snapshot
        snapshot.enqueue(workload)
        self.reaches.forget()
        self._undo.append(lambda: snapshot.dequeue(workload.id))

    def _commit(self, leaf: TreeNode, milli_s: int) -> None:
        self.snapshot.commit(leaf, milli_s)
        self.reaches.forget()
        self._undo.append(lambda: self.snapshot.commit(leaf, -milli_s))

    def _add_uncharged(self, leaf: TreeNode, milli_s: int) -> None:
        for node in leaf.path:
            node.account.extra_uncharged += milli_s
        self.reaches.forget_uncharged()
        self._advances.append((leaf, milli_s))

    def _take_advances_back(self) -> None:
        for leaf, milli_s in self._advances:
            for node in leaf.path:
                node.account.extra_uncharged -= milli_s
        self._advances.clear()
