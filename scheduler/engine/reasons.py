"""Reason codes (semantics.md section 9). Codes may be added, never renamed."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Why a pass did, or did not do, something."""

    STARTED = "started"
    WAITING_ORDER = "waiting_order"
    WAITING_CAPACITY = "waiting_capacity"
    WAITING_PLACEMENT = "waiting_placement"
    WAITING_MAXIMUM = "waiting_maximum"
    WAITING_RESERVATION = "waiting_reservation"
    WAITING_CELLS = "waiting_cells"
    WAITING_VICTIMS = "waiting_victims"
    WAITING_NODES = "waiting_nodes"
    TOO_LARGE = "too_large"
    UNKNOWN_CLASS = "unknown_class"
    PREEMPTED_UNALLOCATED = "preempted_unallocated"
    PREEMPTED_FAIR_SHARE = "preempted_fair_share"
    PREEMPTED_PRIORITY = "preempted_priority"
    PREEMPTED_RESERVATION = "preempted_reservation"
    PREEMPTED_CELL = "preempted_cell"
    DRAINED = "drained"
    MAINTENANCE = "maintenance"
    NODE_LOST = "node_lost"
    STUCK_EXIT = "stuck_exit"
    STOPPED_BY_OPERATOR = "stopped_by_operator"
    CLOSED = "closed"
    NO_ENTITLEMENT = "no_entitlement"
    CONTRACT_TOO_LONG = "contract_too_long"
    CONTRACT_TOO_SHORT = "contract_too_short"
