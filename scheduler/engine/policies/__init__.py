"""Orders that others have published, each in a file of its own, at the engine's second seam; semantics.md stands above.

Among the tree: `siblings.py` says what such an order is; inside a leaf: `leaf.py` does. Contracts, budgets and
priorities stay what they are: an order inside a leaf decides nothing between teams, and none cuts a contract short.
"""

from collections.abc import Iterable, Sequence

from ..policy import Policy
from ..values import DEVICE_MILLI, Node, Resources
from .crowds import Crowd, Crowds
from .drf import Dominant
from .fair import Fair
from .leaf import LeafOrder, Standing
from .predicting import Predictor
from .shortest import ShortestFirst
from .siblings import SERVED, TreeOrder
from .themis import Themis
from .tiresias import Distribution, Tiresias

__all__ = [
    "Crowd",
    "Crowds",
    "Distribution",
    "Dominant",
    "Fair",
    "LeafOrder",
    "Predictor",
    "ShortestFirst",
    "Standing",
    "Themis",
    "Tiresias",
    "TreeOrder",
    "leaf_order_of",
    "tree_order_of",
]


def tree_order_of(name: str, nodes: Iterable[Node]) -> TreeOrder:
    """The order among siblings of that name (`policy.TREE_ORDERS`), for a cluster of these nodes."""
    if name == "fair":
        return Fair()
    if name == "drf":
        rows = list(nodes)
        return Dominant(
            Resources(
                sum(node.capacity_milli for node in rows),
                sum(node.cpu_milli or 0 for node in rows),
                sum(node.memory_mib or 0 for node in rows),
            )
        )
    return SERVED


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
