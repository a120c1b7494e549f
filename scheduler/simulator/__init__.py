"""The same engine on invented time: scenarios in, runs, reasons and figures out. No clock, chance or disk."""

from .fields import ScenarioError
from .fields import duration as read_duration
from .report import as_json, json_text, served_by_node, usage_by_node
from .scenario import Scenario, parse
from .world import World, order_at, simulate

__all__ = [
    "Scenario",
    "ScenarioError",
    "World",
    "as_json",
    "json_text",
    "order_at",
    "parse",
    "read_duration",
    "served_by_node",
    "simulate",
    "usage_by_node",
]
