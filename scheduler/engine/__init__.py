"""The scheduling engine: pure functions from a snapshot and a policy to a plan (semantics.md).

No Django, clock, chance, disk or network in here. This is the front door; everything else is the engine's own.
"""

from .admission import refusal, refusal_in
from .classes import classes_of
from .compatible import network_of
from .cycle import decide, order
from .explain import Explains, amount, places
from .frozen import value
from .grants import Layout, fitting, layout_of, still_grantable, unmatched
from .order import whole_order
from .placing import Candidate, choose_whole_nodes
from .policies import Crowd, Crowds, Predictor, auction, cassini, cells, leaf_order_of, locality, themis
from .policies.fair import LimitFault, Portion, fair_shares, fault_in_limits, steady_shares
from .policies.half_life import decay_per_s, decayed_milli_s
from .policy import (
    ENGINE_VERSION,
    HOLDING_ORDERS,
    KNOB_TYPES,
    LEAF_ORDERS,
    PLACEMENT_SCORES,
    TREE_ORDERS,
    WORDS,
    Policy,
)
from .private import set_cells
from .reasons import Code
from .snapshot import Snapshot
from .standing import comparisons
from .tree import BudgetTree, figures_of
from .values import (
    DEVICE_MILLI,
    NO_CELLS,
    NO_SERVICE,
    Action,
    Arrival,
    BudgetNode,
    CellCounts,
    Claim,
    Decision,
    Health,
    LeafUse,
    LevelFigures,
    Node,
    Packing,
    Plan,
    Reason,
    Reservation,
    Run,
    Service,
    Workload,
)
from .windows import Window

__all__ = [
    "DEVICE_MILLI",
    "ENGINE_VERSION",
    "HOLDING_ORDERS",
    "KNOB_TYPES",
    "LEAF_ORDERS",
    "NO_CELLS",
    "NO_SERVICE",
    "PLACEMENT_SCORES",
    "TREE_ORDERS",
    "WORDS",
    "Action",
    "Arrival",
    "BudgetNode",
    "BudgetTree",
    "Candidate",
    "CellCounts",
    "Claim",
    "Code",
    "Crowd",
    "Crowds",
    "Decision",
    "Explains",
    "Health",
    "Layout",
    "LeafUse",
    "LevelFigures",
    "LimitFault",
    "Node",
    "Packing",
    "Plan",
    "Policy",
    "Portion",
    "Predictor",
    "Reason",
    "Reservation",
    "Run",
    "Service",
    "Snapshot",
    "Window",
    "Workload",
    "amount",
    "auction",
    "cassini",
    "cells",
    "choose_whole_nodes",
    "classes_of",
    "comparisons",
    "decay_per_s",
    "decayed_milli_s",
    "decide",
    "fair_shares",
    "fault_in_limits",
    "figures_of",
    "fitting",
    "layout_of",
    "leaf_order_of",
    "locality",
    "network_of",
    "order",
    "places",
    "refusal",
    "refusal_in",
    "set_cells",
    "steady_shares",
    "still_grantable",
    "themis",
    "unmatched",
    "value",
    "whole_order",
]
