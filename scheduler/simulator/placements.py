"""Ways to place work that a scenario can be run under, each by a word: `packing`, `locality`, `classes` and `cells`.

They are beside the order, which they do not touch: which node, how far apart, which GPUs, and whose nodes. What is not
named stays as the scenario has it. Plain schedulers look at `packing` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from scheduler.engine import DEVICE_MILLI, NO_CELLS, CellCounts, Node, Packing, Policy, layout_of, locality

from .entitled import UNASSIGNED, entitlements
from .fields import ScenarioError
from .scenario import ROOT, Scenario, in_turn

NONE = "none"
PACK, RESERVE = "pack", "reserve"
SHARES = "shares"
WAITS_S = (1_800, 3_600, 7_200)
"""After what waits locality relaxes where the scenario does not say."""
LEVELS = {str(level): level for level in (locality.ONE_RACK, locality.ANY_RACK, locality.TWICE, locality.ANYWHERE)}
PLACEMENTS: Mapping[str, tuple[str, ...]] = {
    "packing": tuple(each.value for each in Packing),
    "locality": (NONE, *LEVELS),
    "classes": (NONE, PACK, RESERVE),
    "cells": (NONE, SHARES),
}
"""What each word may be. `packing`: the fullest node with room, the first by name, or the emptiest. `locality`: none,
or how far all owners let their gangs be spread the longer they wait. `classes`: not ranked; the slow ones first for who
does not need the fast; likewise, with some of the fast kept free. `cells`: nobody has any; or each team has as many
whole nodes of its own as its share comes to."""
OF_CONTRACTS = ("locality", "classes", "cells")
"""Those that plain schedulers know nothing of."""


def check_words(words: Mapping[str, str]) -> None:
    """Refuse a value that there is not.

    Raises:
        ScenarioError: names the word.
    """
    for word, value in words.items():
        if value not in PLACEMENTS[word]:
            raise ScenarioError(word, f"must be one of {', '.join(PLACEMENTS[word])}, not {value!r}")


def with_placement(scenario: Scenario, words: Mapping[str, str]) -> Scenario:
    """The scenario, placed so.

    Raises:
        ScenarioError: names the word that it can't be run under, or that there is no such value.
    """
    check_words(words)
    for word in OF_CONTRACTS:
        if word in words and scenario.scheduler != "contracts":
            raise ScenarioError(word, f"only contracts heed it, and {scenario.scheduler} decides here")
    for word, value in words.items():
        scenario = _WITH[word](scenario, value)
    return scenario


def with_locality(scenario: Scenario, level: int | None) -> Scenario:
    """All owners let their gangs be spread so far, after the scenario's waits or the usual ones; None is not at all."""
    if level is None:
        return replace(scenario, policy=replace(scenario.policy, locality_waits_s=()))
    return replace(
        scenario,
        policy=replace(scenario.policy, locality_waits_s=scenario.policy.locality_waits_s or WAITS_S),
        jobs=[replace(job, locality=level) for job in scenario.jobs],
    )


def with_topology(scenario: Scenario, nodes_per: Mapping[str, int]) -> Scenario:
    """So many nodes that follow each other to a "rack", "rail" or "leaf", in place of what the scenario says of it."""
    names = [node.name for node in scenario.nodes]
    domains = {level: in_turn(names, level, each) for level, each in nodes_per.items()}

    def placed(node: Node) -> Node:
        where: dict[str, Any] = {level: of[node.name] for level, of in domains.items()}
        return replace(node, **where)

    return replace(scenario, nodes=[placed(node) for node in scenario.nodes])


def _packed(scenario: Scenario, value: str) -> Scenario:
    return replace(scenario, packing=Packing(value))


def _relaxed(scenario: Scenario, value: str) -> Scenario:
    return with_locality(scenario, LEVELS.get(value))


def _ranked(scenario: Scenario, value: str) -> Scenario:
    """Classes ranked as the policy says. Of the fastest a node's GPUs are kept free, where it does not say how many."""
    policy = scenario.policy
    if value == NONE:
        return replace(scenario, policy=replace(policy, class_order=(), high_end_classes=(), high_end_reserve=0))
    known = {node.gpu_class for node in scenario.nodes} - {""}
    if known.isdisjoint(policy.class_order):
        there = f"those of the nodes are {', '.join(sorted(known))}" if known else "its nodes say none"
        raise ScenarioError("classes", f"the scenario's policy must rank classes, as in class_order=A100/T4; {there}")
    high = policy.high_end_classes or tuple(name for name in policy.class_order if name in known)[:1]
    reserve = 0
    if value == RESERVE:
        reserve = policy.high_end_reserve or _of_one_node(scenario, high)
    return replace(scenario, policy=_with_reserve(policy, high, reserve))


def _of_one_node(scenario: Scenario, high: tuple[str, ...]) -> int:
    """How many GPUs the largest node of these classes has."""
    return max((node.capacity_milli for node in scenario.nodes if node.gpu_class in high), default=0) // DEVICE_MILLI


def _with_reserve(policy: Policy, high: tuple[str, ...], reserve: int) -> Policy:
    return replace(policy, high_end_classes=high, high_end_reserve=reserve)


def _celled(scenario: Scenario, value: str) -> Scenario:
    """Nobody has cells, whatever the scenario says; or each team has the whole nodes that its share comes to."""
    cells: dict[str, CellCounts] = {}
    if value == SHARES:
        nodes = layout_of(scenario.nodes).number_of_nodes
        parts = entitlements(scenario.tree)
        teams = [node.id for node in scenario.tree if node.parent == ROOT and not node.id.endswith(UNASSIGNED)]
        cells = {team: CellCounts(int(parts[team] * nodes)) for team in teams}
    return replace(
        scenario,
        tree=[replace(node, cells=cells.get(node.id, NO_CELLS)) for node in scenario.tree],
        events=[event for event in scenario.events if event.kind != "cells"],
    )


_WITH: Mapping[str, Callable[[Scenario, str], Scenario]] = {
    "packing": _packed,
    "locality": _relaxed,
    "classes": _ranked,
    "cells": _celled,
}
