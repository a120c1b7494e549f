"""Orders that others have published, each in a file of its own, at the engine's second seam; semantics.md stands above.

Inside a leaf: `leaf.py` says what such an order is. Contracts, budgets and priorities stay what they are: an order
inside a leaf decides nothing between teams, and nobody's contract is cut short by it.
"""

from collections.abc import Sequence

from ..policy import Policy
from ..values import DEVICE_MILLI
from .crowds import Crowd, Crowds
from .leaf import LeafOrder, Standing
from .predicting import Predictor
from .shortest import ShortestFirst
from .themis import Themis
from .tiresias import Distribution, Tiresias

__all__ = [
    "Crowd",
    "Crowds",
    "Distribution",
    "LeafOrder",
    "Predictor",
    "ShortestFirst",
    "Standing",
    "Themis",
    "Tiresias",
    "leaf_order_of",
]


def leaf_order_of(policy: Policy, samples_milli_s: Sequence[int] = ()) -> LeafOrder | None:
    """The order inside leaves that a policy names; None for that of section 3, rule 3.

    Args:
        policy: the cluster's knobs.
        samples_milli_s: total services of workloads like those to come, for "gittins", where the policy knows none;
            without any it is "tiresias".
    """
    if policy.leaf_order == "shortest":
        return ShortestFirst()
    if policy.leaf_order == "themis":
        return Themis(policy.round_s)
    if policy.leaf_order in ("tiresias", "gittins"):
        known = [each * DEVICE_MILLI for each in policy.service_samples] or samples_milli_s
        samples = known if policy.leaf_order == "gittins" else ()
        limits = [limit * DEVICE_MILLI for limit in policy.attained_limits]
        return Tiresias(limits, samples, policy.promote_knob)
    return None
