"""The engine's vocabulary: frozen values that go in (a snapshot's parts) and come out (a plan's parts).

Units, everywhere in the engine: instants are whole seconds on the caller's clock (the live loop: Unix time;
the simulator: seconds from the scenario's start), durations are whole seconds, amounts are whole thousandths
of the cluster's unit (`_milli`: one GPU is 1,000), time on devices is thousandths times seconds (`_milli_s`).
Identifiers are text and compared as text wherever a tie needs breaking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple

from .frozen import value

DEVICE_MILLI = 1_000
"""One whole device."""
FUNDED, UNALLOCATED = 0, 1
"""The two kinds of what waits, and of what is held."""


class Resources(NamedTuple):
    """Devices and processor cores (thousandths of one) and memory (MiB), in all: held, or there."""

    milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0


class Health(StrEnum):
    """What a node may be used for (semantics.md section 7)."""

    HEALTHY = "healthy"  # may start runs
    DRAINING = "draining"  # nothing starts; runs end by contract, unallocated ones at once
    UNREACHABLE = "unreachable"  # nothing starts; runs go on and stay charged
    DOWN = "down"  # known dead


class Packing(StrEnum):
    """Which of the nodes with room takes a workload of up to one node. Section 6 says best fit; studies compare."""

    BEST_FIT = "best_fit"  # the one with least free, so that whole nodes stay whole
    FIRST_FIT = "first_fit"  # the first by name
    WORST_FIT = "worst_fit"  # the one with most free: work is spread


class CellCounts(NamedTuple):
    """So many cells of each level: whole nodes, and whole racks (grants.py)."""

    node: int = 0
    rack: int = 0


NO_CELLS = CellCounts()


@value(frozen=True, slots=True)
class BudgetNode:
    """One node of the budget tree as it stands at the snapshot's instant.

    `shares` are whole and relative to the siblings' whole: live, basis points of the parent with `whole` =
    10,000; in scenario files any numbers with `whole` = the siblings' sum. The root has parent None.
    `maximum_milli` bounds what it, with all below it, may hold at once; None is no bound. `minimum_milli` is what it
    should hold before others go on, and `factor_milli` what its shares count times, in thousandths: both for the order
    "fair" alone (`Policy.tree_order`). `cells` are its own beside its shares (private.py).
    """

    id: str
    parent: str | None
    shares: int
    whole: int
    closed: bool = False
    minimum_milli: int = 0
    maximum_milli: int | None = None
    factor_milli: int = 1_000
    cells: CellCounts = NO_CELLS


@value(frozen=True, slots=True)
class LeafUse:
    """What *ended* runs of a leaf used inside the lookback window, as of the snapshot's instant.

    Runs that still hold devices are not in it; the engine adds their part itself. Where use decays
    (`Policy.tree_order`), it is what all that ever ended still counts, and no whole number.
    """

    charged_milli_s: float = 0
    uncharged_milli_s: float = 0


@value(frozen=True, slots=True)
class Node:
    """A host. `capacity_milli` is a whole number of devices times 1,000.

    Nothing starts on it inside a maintenance window, whatever `health` says, and what it holds leaves as from a
    draining node. `cpu_milli` (thousandths of a core) and `memory_mib` are what workloads may have there; None is not
    said, and bounds nothing. `gpu_class` is what kind of devices it has, such as "V100"; "" is unsaid.
    """

    name: str
    capacity_milli: int
    rack: str = ""
    health: Health = Health.HEALTHY
    windows: tuple[tuple[int, int], ...] = ()  # maintenance: half-open [from, until), future or current
    usable_from_s: int | None = None  # until then a node that returned from trouble starts nothing (healthy_dwell_s)
    taken_milli: int = 0  # held by what nobody here can tell to leave, such as other people's jobs on a shared cluster
    rail: str = ""  # which leaves its own belongs to, and below which leaf it is wired (domains.py); "" is unsaid
    leaf: str = ""
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpu_class: str = ""


class Arrival(NamedTuple):
    """When a workload came into its leaf, and what its leaf had seen by then (policies/crowds.py).

    Attributes:
        at_s: its first submission.
        crowd_s: workload-seconds of its leaf until `since_s`.
        since_s: from when on they are counted for it: its submission, where nothing hides what was before.
    """

    at_s: int
    crowd_s: int
    since_s: int


@value(frozen=True, slots=True)
class Service:
    """What an order inside a leaf may go by beside priorities.

    Attributes:
        attained_milli_s: what a workload has executed so far, by what it held: waiting and starting up are not in it,
            nor what was forgiven. Of a run, here and below: what its workload had before it.
        first_started_s: when it held devices for the first time; None if it never has.
        predicted_s: how long it is thought to execute in all; None where nobody knows.
        executed_s: how long it has executed in all.
        forgiven_s: how much of that counts no more, since it had to wait for too long (Tiresias' promotion).
        waits_since_s: when its last run ended; None for one that has not run, and of a run.
        arrival: when it came; None where the order does not ask.
    """

    attained_milli_s: int = 0
    first_started_s: int | None = None
    predicted_s: int | None = None
    executed_s: int = 0
    forgiven_s: int = 0
    waits_since_s: int | None = None
    arrival: Arrival | None = None


NO_SERVICE = Service()
LEVELS = 1 << 16
"""So many levels an order inside a leaf may tell apart in one priority."""


def urgency_of(priority: int, level: int = 0) -> int:
    """Priority and level in one number, by which workloads and runs of a leaf compare."""
    return priority * LEVELS + level


@value(frozen=True, slots=True)
class Workload:
    """A gang that waits: all its devices at once or nothing.

    `submitted_s` is the first submission (a requeue keeps it). `node` pins it to one host. A size below 1,000 is
    a fraction of one device. `level` and `turn` are set where it is queued, by the order inside its leaf (policies/):
    of one priority the higher level goes first, and may take over from lower ones; of one level the lower turn.
    `urgency` is priority and level in one. `cpu_milli` (thousandths of a core) and `memory_mib` are asked for beside
    the devices, on each node that it holds; 0 asks for none. `gpu_classes` are those that it can run on, by name; none
    is all. `is_high` says that it needs the fast ones: where the policy ranks classes, it tries these first.
    `locality` is how far its owner lets it be spread (locality.py), where the policy relaxes by wait; it has waited
    since `since_s`, or, where that is None, since it was submitted. `spread` and `relaxes_s` are set where it is
    queued: the level at which it looks now, and from when on it looks further.
    """

    id: str
    leaf: str
    size_milli: int
    min_runtime_s: int
    submitted_s: int
    priority: int = 0
    node: str | None = None
    service: Service = NO_SERVICE
    level: int = 0
    turn: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_classes: tuple[str, ...] = ()
    is_high: bool = False
    locality: int = 1
    since_s: int | None = None
    spread: int = 1
    relaxes_s: int | None = None
    urgency: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Put priority and level in one."""
        object.__setattr__(self, "urgency", urgency_of(self.priority, self.level))

    @property
    def waits_since_s(self) -> int:
        """From when on its wait counts, where that relaxes how far it looks."""
        return self.submitted_s if self.since_s is None else self.since_s

    @property
    def asks_host(self) -> bool:
        """Whether it asks for more of a node than devices: cores, memory, or a class."""
        return bool(self.cpu_milli or self.memory_mib or self.gpu_classes)


@value(frozen=True, slots=True)
class Run:
    """One holding of devices, not yet ended.

    Attributes:
        holdings: amount by node name; whole nodes for gangs larger than a node, but for those that are spread.
        started_s: when it began to hold its devices (charged from here).
        running_s: when every rank really ran, so that the contract ends at running_s + min_runtime_s;
            None while it is starting up.
        cpu_milli, memory_mib: what it has beside its devices on each of its nodes.
        leave_by_s: None, or the instant by which it must have left (it was told to stop; grace ends then).
        device: for a fraction of a device, the index of that device on its node; where it is not known, the engine
            takes it to be where it fits best.
    """

    id: str
    workload: str
    leaf: str
    holdings: Mapping[str, int]
    funded: bool
    min_runtime_s: int
    started_s: int
    running_s: int | None
    priority: int = 0
    submitted_s: int = 0
    leave_by_s: int | None = None
    device: int | None = None
    service: Service = NO_SERVICE
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def size_milli(self) -> int:
        """The whole amount held, over all nodes."""
        return sum(self.holdings.values())


@value(frozen=True, slots=True)
class Claim:
    """A pending plan: a workload whose devices were chosen but are still being left (section 4).

    `holdings` are held for it until it starts; `waits_for` are the ids of the runs that are leaving for it.
    """

    workload: str
    holdings: Mapping[str, int]
    waits_for: tuple[str, ...]
    made_s: int


@value(frozen=True, slots=True)
class Reservation:
    """A promise (section 5): from `at_s` on these amounts are the workload's, at the latest.

    `counts_on` are the ids of the runs whose devices are certain by then; `made_s` is when it was first made.
    """

    workload: str
    at_s: int
    holdings: Mapping[str, int]
    counts_on: tuple[str, ...] = ()
    made_s: int = 0


class Action(StrEnum):
    """What a pass decided about one workload or run."""

    START = "start"
    CLAIM = "claim"  # devices chosen, victims leaving: starts when they have left
    PREEMPT = "preempt"
    WAIT = "wait"
    HOLD = "hold"
    RELEASE = "release"  # a held workload may queue again
    END_CLAIM = "end_claim"
    RESERVE = "reserve"
    END_RESERVATION = "end_reservation"


@value(frozen=True, slots=True)
class Reason:
    """A code for programs, one sentence for people, and the numbers behind both (section 9).

    `numbers` is JSON-able: whole numbers, text, lists and dicts of these. Instants end in `_s`.
    """

    code: str
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    earliest_start_s: int | None = None


@value(frozen=True, slots=True)
class Decision:
    """One line of a plan.

    Attributes:
        workload: whom it is about.
        run: the run to preempt, for `preempt`.
        by: the workload that takes the devices, for `preempt`.
        holdings: amount by node name, for `start`, `claim` and `reserve`.
        funded: whether the run that starts is charged, for `start` and `claim`.
        place: position in the order of this pass, from 1, for `start`, `claim` and `wait`.
    """

    workload: str
    action: Action
    reason: Reason
    run: str | None = None
    by: str | None = None
    holdings: Mapping[str, int] = field(default_factory=dict)
    funded: bool = False
    place: int | None = None


@value(frozen=True, slots=True)
class LevelFigures:
    """The numbers that order the queue, for one budget node (section 3).

    served = (used + committed) / shares; `uncharged_milli_s` orders the unallocated.
    `entitlement` is an exact fraction (numerator, denominator) of the whole cluster. `standing` are the numbers of
    another order among siblings, by name (policies/fair.py, drf.py).
    """

    used_milli_s: int
    committed_milli_s: int
    uncharged_milli_s: int
    shares: int
    entitlement: tuple[int, int]
    standing: Mapping[str, Any] = field(default_factory=dict)


@value(frozen=True, slots=True)
class Plan:
    """Everything one pass decided, whole; plus the figures it decided on, for explanation.

    `decisions` has one entry for every queued workload (what became of it) and one for every victim.
    `order` lists the waiting workloads' ids as the pass considered them. `figures` include what the pass itself
    promised.
    """

    now_s: int
    decisions: tuple[Decision, ...]
    order: tuple[str, ...]
    figures: Mapping[str, LevelFigures]
    next_change_s: int | None = None  # the next instant at which time alone could change the plan
    is_settled: bool = False  # a pass right after it would decide nothing: known of some plans that are asked for news
    is_kept: bool = False  # the snapshot is as the plan makes it: known of some plans for who keeps one (`decide`)
