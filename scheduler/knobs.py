"""The knobs of a cluster's policy in people's words: group, name, one sentence, unit. Pages, API and docs/policy.md are
made of it; what a knob does is the engine's (scheduler/engine/policy.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, pgettext_lazy

from scheduler.engine import KNOB_TYPES, Policy

Words = str | Promise
"""In the reader's language."""


class Unit(StrEnum):
    """What a knob's number, or each of its numbers, counts."""

    NONE = ""
    SECONDS = "s"
    DEVICE_SECONDS = "device-s"
    DEVICES = "devices"
    DEVICE_MILLI = "milli"
    GBPS = "Gbit/s"
    PERCENT = "%"
    TIMES = "times"


UNITS: Mapping[Unit, Words] = {
    Unit.NONE: "",
    Unit.SECONDS: gettext_lazy("whole seconds"),
    Unit.DEVICE_SECONDS: gettext_lazy("device-seconds"),
    Unit.DEVICES: gettext_lazy("GPUs"),
    Unit.DEVICE_MILLI: gettext_lazy("thousandths of a GPU"),
    Unit.GBPS: "Gbit/s",
    Unit.PERCENT: "%",
    Unit.TIMES: gettext_lazy("times"),
}
"""What they are called where a number stands alone, as in the API."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What another knob has to be for one to have any effect: one of `values`, or anything but nothing."""

    knob: str
    values: frozenset[str] = frozenset()

    def is_met(self, values: Mapping[str, Any]) -> bool:
        """Whether it is, where knobs have these values."""
        return values[self.knob] in self.values if self.values else bool(values[self.knob])


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob. `choices` are what a word may be, with what each is; `moves_order` tells whether the order is another
    one with another value.
    """

    name: str
    title: Words
    meaning: Words
    unit: Unit = Unit.NONE
    needs: Needs | None = None
    choices: Mapping[str, Words] | None = None
    moves_order: bool = False

    @property
    def default(self) -> Any:
        """As the engine has it."""
        return getattr(STANDING, self.name)

    @property
    def type(self) -> Any:
        """What its value is: `int`, `Fraction`, `str`, or a tuple."""
        return KNOB_TYPES[self.name]

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return isinstance(self.default, tuple)


@dataclass(frozen=True, slots=True)
class Group:
    """Knobs that one thinks of together."""

    key: str
    title: Words
    knobs: tuple[Knob, ...]


STANDING = Policy()
"""All defaults."""
BY_SERVICE = Needs("leaf_order", frozenset({"tiresias", "gittins"}))
RANKED = Needs("class_order")

GROUPS = (
    Group(
        "contracts",
        gettext_lazy("Contracts and leaving"),
        (
            Knob(
                "min_runtime_min_s",
                gettext_lazy("Shortest contract"),
                gettext_lazy("A contract is at least so long, or there is none."),
                Unit.SECONDS,
            ),
            Knob(
                "min_runtime_max_s",
                gettext_lazy("Longest contract"),
                gettext_lazy("A contract is at most so long: from then on what runs may be taken over."),
                Unit.SECONDS,
                moves_order=True,
            ),
            Knob(
                "grace_s",
                gettext_lazy("Grace"),
                gettext_lazy("How long a run that was told to stop may take to save and leave, before it is killed."),
                Unit.SECONDS,
            ),
            Knob(
                "kill_wait_s",
                gettext_lazy("Wait after the kill"),
                gettext_lazy("If a run has not left so long after its grace, its node is marked unhealthy."),
                Unit.SECONDS,
            ),
        ),
    ),
    Group(
        "budgets",
        gettext_lazy("Order among budgets"),
        (
            Knob(
                "tree_order",
                gettext_lazy("Order of siblings"),
                gettext_lazy("Which of the children of a budget goes first, at each level of the tree."),
                choices={
                    "lookback": gettext_lazy("use of their share in the lookback"),
                    "half_life": gettext_lazy("use of their share, less the longer ago (Slurm's Fair Tree)"),
                    "fair": gettext_lazy("what they hold now, by weight, minima first (YARN's fair share)"),
                    "drf": gettext_lazy("their dominant share of GPUs, cores or memory now (DRF)"),
                },
                moves_order=True,
            ),
            Knob(
                "lookback_s",
                gettext_lazy("Lookback"),
                gettext_lazy("The sliding window in which use counts; what is longer ago counts no more."),
                Unit.SECONDS,
                Needs("tree_order", frozenset({"lookback", "fair", "drf"})),
                moves_order=True,
            ),
            Knob(
                "half_life_s",
                gettext_lazy("Half-life"),
                gettext_lazy("After so long use counts half, after twice that a quarter."),
                Unit.SECONDS,
                Needs("tree_order", frozenset({"half_life"})),
                moves_order=True,
            ),
        ),
    ),
    Group(
        "leaf",
        gettext_lazy("Order inside a project"),
        (
            Knob(
                "leaf_order",
                gettext_lazy("Order of workloads"),
                gettext_lazy("Who goes first in a project, among those of one priority."),
                choices={
                    "priority": gettext_lazy("who submitted first"),
                    "tiresias": gettext_lazy("least service attained (Tiresias)"),
                    "gittins": gettext_lazy("likewise, and by the Gittins index in each queue (Tiresias)"),
                    "shortest": gettext_lazy("shortest first, as it is predicted"),
                    "themis": gettext_lazy("furthest behind a fair share (Themis)"),
                },
                moves_order=True,
            ),
            Knob(
                "attained_limits",
                gettext_lazy("Ends of the queues"),
                gettext_lazy("Where the queues of attained service end: who has attained more is in a later one."),
                Unit.DEVICE_SECONDS,
                BY_SERVICE,
                moves_order=True,
            ),
            Knob(
                "service_samples",
                gettext_lazy("Known services"),
                gettext_lazy(
                    "What workloads like those to come have needed in all, for the Gittins index. Left empty under it, "
                    "it is taken from what has finished here in the last 28 days."
                ),
                Unit.DEVICE_SECONDS,
                Needs("leaf_order", frozenset({"gittins"})),
                moves_order=True,
            ),
            Knob(
                "promote_knob",
                gettext_lazy("Promotion after waiting"),
                gettext_lazy(
                    "Who has run, and has waited since for so many times as long as it had executed, is in the first "
                    "queue again; 0 is never."
                ),
                Unit.TIMES,
                BY_SERVICE,
                moves_order=True,
            ),
            Knob(
                "round_s",
                pgettext_lazy("finish-time fairness", "Round"),
                gettext_lazy("How often finish-time fairness is worked out anew."),
                Unit.SECONDS,
                Needs("leaf_order", frozenset({"themis"})),
                moves_order=True,
            ),
        ),
    ),
    Group(
        "reservations",
        gettext_lazy("Reservations and preemption"),
        (
            Knob(
                "reservations",
                gettext_lazy("Reservations"),
                gettext_lazy("So many of the first in the order that can't start are promised an instant."),
                moves_order=True,
            ),
            Knob(
                "swap_margin",
                gettext_lazy("Swap margin"),
                gettext_lazy(
                    "Makes swaps rarer: so many times the preemptor's own contract counts as used before sides are "
                    "compared."
                ),
                Unit.TIMES,
                moves_order=True,
            ),
        ),
    ),
    Group(
        "placement",
        gettext_lazy("Placement and locality"),
        (
            Knob(
                "locality_waits_s",
                gettext_lazy("Waits for locality"),
                gettext_lazy(
                    "After these three waits a gang looks in any rack, over up to twice as many nodes, over any "
                    "number. Empty: in any rack at once, and over the fewest nodes."
                ),
                Unit.SECONDS,
            ),
            Knob(
                "placement_score",
                gettext_lazy("Between equal placements"),
                gettext_lazy("What decides between placements that are equal in all else."),
                needs=Needs("leaf_uplink_gbps"),
                choices={
                    "none": gettext_lazy("the nodes' names"),
                    "cassini": gettext_lazy("how well links are shared (CASSINI)"),
                },
            ),
            Knob(
                "leaf_uplink_gbps",
                gettext_lazy("Uplink of a leaf switch"),
                gettext_lazy(
                    "What a leaf switch can send to the others; by it gangs are shifted against each other on the "
                    "network. 0 is unknown, and shifts nobody."
                ),
                Unit.GBPS,
            ),
        ),
    ),
    Group(
        "classes",
        gettext_lazy("Classes of GPUs"),
        (
            Knob(
                "class_order",
                gettext_lazy("Classes, the fastest first"),
                gettext_lazy("Ranks the classes of GPUs. Empty: they are not ranked."),
            ),
            Knob(
                "high_end_classes",
                gettext_lazy("High-end classes"),
                gettext_lazy("Those of them that are for work which needs fast GPUs."),
                needs=RANKED,
            ),
            Knob(
                "high_end_reserve",
                gettext_lazy("Reserve"),
                gettext_lazy("So many high-end GPUs are kept free of work that does not need fast ones."),
                Unit.DEVICES,
                Needs("high_end_classes"),
            ),
            Knob(
                "high_efficiency_percent",
                gettext_lazy("Counts as needing fast GPUs from"),
                gettext_lazy(
                    "Who does not say whether it needs fast GPUs does where work like it has used its own by at least "
                    "so much; 0 is never."
                ),
                Unit.PERCENT,
                Needs("high_end_classes"),
            ),
        ),
    ),
    Group(
        "parts",
        gettext_lazy("Sharing of GPUs"),
        (
            Knob(
                "fraction_min_milli",
                gettext_lazy("Smallest part"),
                gettext_lazy("The smallest part of one GPU that may be asked for. 0: whole GPUs only."),
                Unit.DEVICE_MILLI,
            ),
        ),
    ),
    Group(
        "nodes",
        gettext_lazy("Passes and nodes"),
        (
            Knob(
                "pass_every_s",
                gettext_lazy("Time between passes"),
                gettext_lazy("A pass is made at least so often, and whenever something has happened."),
                Unit.SECONDS,
            ),
            Knob(
                "healthy_dwell_s",
                gettext_lazy("Dwell"),
                gettext_lazy("For so long a node that has returned from trouble starts nothing."),
                Unit.SECONDS,
            ),
            Knob(
                "heartbeat_timeout_s",
                gettext_lazy("Heartbeat time-out"),
                gettext_lazy("A node that has been silent for longer is unreachable: nothing is started on it."),
                Unit.SECONDS,
            ),
            Knob(
                "self_fence_s",
                gettext_lazy("Fence"),
                gettext_lazy("Where an agent has not reached the portal for so long, its ranks stop by themselves."),
                Unit.SECONDS,
            ),
            Knob(
                "lost_after_s",
                gettext_lazy("Lost after"),
                gettext_lazy(
                    "Runs on a node that has been silent for longer are given up. It is more than the fence, or a "
                    "workload could run twice."
                ),
                Unit.SECONDS,
            ),
        ),
    ),
)
"""All of them, in the order of pages."""
KNOBS: Mapping[str, Knob] = {knob.name: knob for group in GROUPS for knob in group.knobs}
