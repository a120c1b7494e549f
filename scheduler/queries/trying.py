"""What if it had asked for something else: the engine, asked on the present snapshot. Nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from budgets.errors import InputError
from scheduler import snapshots
from scheduler.engine import DEVICE_MILLI, Action, Plan, decide, refusal_in
from scheduler.models import Workload
from scheduler.services import asked
from scheduler.snapshots import Loaded

LARGEST_MILLI = 2**31
LONGEST_S = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Tried:
    """What a pass would do right now with a workload that asks for this.

    Attributes:
        size_milli, min_runtime_s: what it would ask for.
        action: "start", "claim" (as soon as others have left), "wait", "hold" or "refuse".
        code, text: the reason, as the engine gives it.
        nodes: where it would start.
        takes_from: whose GPUs, by the ids of their workloads, with the codes of the rules.
        place: its place in the order, where it waits.
        certain_at: it starts at the latest then (a reservation, and the grace of those who leave), or None.
        room_at: contracts that make room for it have ended by then; others may be ahead of it.
    """

    size_milli: int
    min_runtime_s: int
    action: str
    code: str
    text: str
    nodes: Sequence[str] = ()
    takes_from: Sequence[tuple[str, str]] = ()
    place: int | None = None
    certain_at: datetime | None = None
    room_at: datetime | None = None

    @property
    def starts_now(self) -> bool:
        """Whether it waits no longer than others need to leave."""
        return self.action in (Action.START, Action.CLAIM)


@dataclass(frozen=True, slots=True)
class Answer:
    """As it is (the last pass said so), and as it was tried; the instant and the number of those who wait."""

    at: datetime
    waiting: int
    as_it_is: Tried
    tried: Tried


def try_other(
    workload: Workload, *, size_milli: int | None, min_runtime_s: int | None, now: datetime | None = None
) -> Answer:
    """Ask the engine what would become of a waiting workload if it asked for another size or contract.

    Args:
        workload: one that is queued, with its cluster.
        size_milli: thousandths of the unit; None leaves it as it is.
        min_runtime_s: the contract; 0 is unallocated; None leaves it as it is.
        now: the instant.

    Raises:
        InputError: it does not wait; a size or contract that nobody could ask for.
    """
    size = workload.size_milli if size_milli is None else size_milli
    contract = workload.min_runtime_s if min_runtime_s is None else min_runtime_s
    _check(size, contract)
    if workload.state != Workload.State.QUEUED:
        raise InputError("", f"{workload.code} does not wait: it is {workload.state}")
    loaded = snapshots.load(workload.cluster, now)
    if size_milli is not None:
        asked.check_part("size", size, workload.cluster, loaded.policy)
    if workload.code not in loaded.snapshot.queued:
        raise InputError("", f"{workload.code} does not wait any longer")
    number = len(loaded.snapshot.queued)
    as_it_is = _as_told(workload.code, loaded)
    return Answer(loaded.now, number, as_it_is, _trial(workload.code, size, contract, loaded))


def _as_told(code: str, loaded: Loaded) -> Tried:
    """As the last pass said: asking again would take as long as the trial itself."""
    workload, row = loaded.snapshot.queued[code], loaded.workloads[code]
    stands = loaded.snapshot.reservations.get(code)
    return Tried(
        workload.size_milli,
        workload.min_runtime_s,
        Action.CLAIM if code in loaded.snapshot.claims else Action.WAIT,
        row.reason_code,
        row.reason_text,
        place=row.place,
        certain_at=None if stands is None else _at(stands.at_s + loaded.policy.grace_s),
        room_at=_at(row.earliest_start_s),
    )


def _check(size_milli: int, min_runtime_s: int) -> None:
    if not 1 <= size_milli <= LARGEST_MILLI:
        raise InputError("size", "must be more than 0, and no more than any cluster has")
    if size_milli > DEVICE_MILLI and size_milli % DEVICE_MILLI:
        raise InputError("size", "must be a whole number, or a part of one")
    if not 0 <= min_runtime_s <= LONGEST_S:
        raise InputError("contract", "must not be negative, nor longer than ten years")


def _trial(code: str, size_milli: int, min_runtime_s: int, loaded: Loaded) -> Tried:
    """Put it back into the queue as it would be, and decide."""
    snapshot = loaded.snapshot
    before = snapshot.queued[code]
    refusal = refusal_in(
        snapshot,
        loaded.policy,
        leaf=before.leaf,
        size_milli=size_milli,
        min_runtime_s=min_runtime_s,
        node=before.node,
        gpu_classes=before.gpu_classes,
    )
    if refusal is not None:
        return Tried(size_milli, min_runtime_s, "refuse", str(refusal.code), refusal.text)
    is_same = (size_milli, min_runtime_s) == (before.size_milli, before.min_runtime_s)
    if not is_same:
        snapshot.dequeue(code)
        snapshot.enqueue(replace(before, size_milli=size_milli, min_runtime_s=min_runtime_s))
    return _found(code, decide(snapshot, loaded.policy), loaded)


def _found(code: str, plan: Plan, loaded: Loaded) -> Tried:
    """What a plan says of one workload."""
    workload = loaded.snapshot.queued[code]
    own = {each.action: each for each in plan.decisions if each.workload == code}
    taken = [(each.workload, str(each.reason.code)) for each in plan.decisions if each.by == code]
    action = next(each for each in (Action.START, Action.CLAIM, Action.HOLD, Action.WAIT) if each in own)
    said = own[action]
    promise_s = _promise_s(code, own, loaded)
    certain_s = None if promise_s is None else promise_s + loaded.policy.grace_s
    room_s = said.reason.earliest_start_s
    place = said.place if action is Action.WAIT else None
    return Tried(
        workload.size_milli,
        workload.min_runtime_s,
        str(action),
        str(said.reason.code),
        said.reason.text,
        nodes=sorted(said.holdings),
        takes_from=sorted(set(taken)),
        place=place,
        certain_at=_at(certain_s) if action is Action.WAIT else None,
        room_at=_at(room_s),
    )


def _promise_s(code: str, own: dict[Action, Any], loaded: Loaded) -> int | None:
    """The instant of the promise that it would have."""
    if Action.RESERVE in own:
        return int(own[Action.RESERVE].reason.numbers["at_s"])
    stands = loaded.snapshot.reservations.get(code)
    return stands.at_s if stands is not None and Action.END_RESERVATION not in own else None


def _at(second: int | None) -> datetime | None:
    return None if second is None else datetime.fromtimestamp(0, UTC) + timedelta(seconds=second)
