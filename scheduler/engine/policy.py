"""The knobs of a cluster's policy (semantics.md section 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, get_type_hints

from .values import DEVICE_MILLI

LEAF_ORDERS = ("priority", "tiresias", "gittins", "shortest", "themis")
"""Who goes first inside a leaf, of one priority (policies/): by first submission; by attained service; likewise, and in
a queue by the Gittins index; by predicted duration; by finish-time fairness."""
MOST_QUEUES = 16
"""Queues of attained service, but for the last."""
MOST_SAMPLES = 1_000
"""Services that a policy may know."""
THRESHOLDS = 3
"""Waits after which a level of locality is reached that was not before (policies/locality.py)."""
MOST_CLASSES = 32
"""Classes of GPUs that a policy may rank."""
TREE_ORDERS = ("lookback", "half_life", "fair", "drf")
"""Which sibling goes first (policies/): by what it has used, in full inside the lookback, or the less the longer ago
(Slurm's Fair Tree); or by what it holds now: devices by weight, minima first (YARN's fair share), or the largest part
of devices, cores or memory (Dominant Resource Fairness)."""
HOLDING_ORDERS = frozenset({"fair", "drf"})
"""Those of them that go by what is held now."""
PLACEMENT_SCORES = ("none", "cassini")
"""What decides between placements that are equal otherwise: names, or how well links are shared (compatible.py)."""
ENGINE_VERSION = "1"
"""Raised whenever the same snapshot and policy could lead to another plan; stored with every pass."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How one cluster is scheduled. Durations are whole seconds.

    `swap_margin` is a dimensionless factor on the preemptor's own contract (section 4); it is kept as an
    exact fraction so that comparisons stay integer cross-multiplications. `tree_order` is one of `TREE_ORDERS`, where
    `half_life_s` counts only for the second, and `lookback_s` not for it. Where it goes by what is held now, the margin
    is a factor on what the preemptor itself asks for. `leaf_order` is one of `LEAF_ORDERS`;
    `attained_limits` are where the queues of attained service end, in device-seconds; `service_samples` what workloads
    like those to come have needed in all, for the Gittins index, likewise. Who has run, has attained so much that it is
    in a later queue, and has waited since for `promote_knob` times as long as it had executed, is in the first queue
    again (Tiresias' starvation knob; 0 is never). Finish-time fairness is worked out each `round_s`.
    `leaf_uplink_gbps` is what a leaf switch can send to the others, by which those that start are shifted against each
    other on the network (policies/cassini); 0 is unknown, and shifts nobody.
    `placement_score` is one of `PLACEMENT_SCORES`. `locality_waits_s` is after what waits a gang looks for nodes in any
    rack, over up to twice as many nodes, and over any number (locality.py); without them everybody looks in any rack.
    `class_order` are the classes of GPUs, the fastest first, and `high_end_classes` those of them of which
    `high_end_reserve` devices are kept free for work that needs the fast ones (policies/classes.py). Who does not say
    whether it does, does where work like it has used its GPUs by at least `high_efficiency_percent`; 0 is never.
    `fraction_min_milli` is the smallest part of one device that may be asked for, in thousandths; 0 is none: whole
    devices only. Submission asks it; what waits or runs already, and a scenario, keeps the part that it has.
    """

    lookback_s: int = 604_800
    min_runtime_min_s: int = 300
    min_runtime_max_s: int = 28_800
    swap_margin: Fraction = Fraction(0)
    reservations: int = 1
    grace_s: int = 60
    kill_wait_s: int = 300
    heartbeat_timeout_s: int = 60
    lost_after_s: int = 3_900
    self_fence_s: int = 3_600
    healthy_dwell_s: int = 900
    pass_every_s: int = 10
    tree_order: str = "lookback"
    half_life_s: int = 604_800
    leaf_order: str = "priority"
    attained_limits: tuple[int, ...] = (3_250, 7_200)
    service_samples: tuple[int, ...] = ()
    promote_knob: Fraction = Fraction(0)
    round_s: int = 1_200
    leaf_uplink_gbps: int = 0
    placement_score: str = "none"
    class_order: tuple[str, ...] = ()
    high_end_classes: tuple[str, ...] = ()
    high_end_reserve: int = 0
    high_efficiency_percent: int = 0
    locality_waits_s: tuple[int, ...] = ()
    fraction_min_milli: int = 0

    @property
    def decay_s(self) -> int | None:
        """The half-life of use; None where it counts in full inside the lookback."""
        return self.half_life_s if self.tree_order == "half_life" else None

    def __post_init__(self) -> None:
        """Refuse values that no cluster could run with.

        Raises:
            ValueError: names the knob, its value and its bound.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | Fraction) and value < 0:
                raise ValueError(f"{field.name}: {value} is negative")
        for name, known in (
            ("tree_order", TREE_ORDERS),
            ("leaf_order", LEAF_ORDERS),
            ("placement_score", PLACEMENT_SCORES),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        limits = self.attained_limits
        if not 1 <= len(limits) <= MOST_QUEUES or list(limits) != sorted({each for each in limits if each > 0}):
            raise ValueError(f"attained_limits: must be 1 to {MOST_QUEUES} numbers that rise from above 0")
        if len(self.service_samples) > MOST_SAMPLES or any(each < 0 for each in self.service_samples):
            raise ValueError(f"service_samples: must be up to {MOST_SAMPLES:,} numbers of at least 0")
        self._check_devices()
        waits_s = self.locality_waits_s
        if waits_s and (len(waits_s) != THRESHOLDS or list(waits_s) != sorted(waits_s) or waits_s[0] < 0):
            raise ValueError(f"locality_waits_s: must be {THRESHOLDS} waits in s that do not fall, or none")
        for name in ("lookback_s", "pass_every_s", "min_runtime_min_s", "half_life_s", "round_s"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1 s")
        if self.min_runtime_min_s > self.min_runtime_max_s:
            raise ValueError(
                f"min_runtime_min_s: {self.min_runtime_min_s} is more than min_runtime_max_s, {self.min_runtime_max_s}"
            )
        if self.self_fence_s >= self.lost_after_s:
            raise ValueError(
                f"self_fence_s: {self.self_fence_s} must be less than lost_after_s, {self.lost_after_s}, "
                "or a workload could run twice"
            )

    def _check_devices(self) -> None:
        order = self.class_order
        if len(order) > MOST_CLASSES or len(set(order)) < len(order) or not all(order):
            raise ValueError(f"class_order: must be up to {MOST_CLASSES} classes, each once")
        unknown = [name for name in self.high_end_classes if name not in order]
        if unknown:
            raise ValueError(f"high_end_classes: {unknown[0]!r} is not in class_order")
        if self.high_end_reserve and not self.high_end_classes:
            raise ValueError("high_end_reserve: needs high_end_classes to keep it of")
        if self.high_efficiency_percent > 100:
            raise ValueError(f"high_efficiency_percent: {self.high_efficiency_percent} is more than 100")
        if self.fraction_min_milli >= DEVICE_MILLI:
            raise ValueError(f"fraction_min_milli: {self.fraction_min_milli} is no part of a device; 999 is the most")


KNOB_TYPES: Mapping[str, Any] = get_type_hints(Policy)
"""Of each knob what its value is: `int`, `Fraction`, `str`, or a tuple of numbers or words."""
WORDS = tuple[str, ...]
"""The type of a knob that is a list of words."""
