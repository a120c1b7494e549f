"""What a tenant has on single nodes leaves its racks whole, as buddy allocation does (scheduler/engine/sparing.py)."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.engine import Packing
from scheduler.simulator import Scenario, World, parse
from tests.simulator.driving import job

RACKS = {"r1": ["h1", "h2"], "r2": ["h3", "h4"], "r3": ["h5", "h6"]}
GRANTS = ({"T": (1, 1)}, {"T": (1, 1), "U": (1, 1)}, {"T": (2, 1), "U": (0, 1)}, {"T": (2, 2)})
"""By tenant, how many nodes and racks."""
HOURS = 12


def legal_world(draw: Random) -> Scenario:
    """Tenants that ask for no more of any level than they have, among others who ask for anything.

    Everything lasts as long as its contract, and what a tenant asks for is to start at once: so it is known beforehand
    how many of its cells are in use when.
    """
    granted = draw.choice(GRANTS)
    nodes = [f"h{number}" for number in range(1, 7 + draw.randrange(3))]
    in_use = {name: [[0, 0] for _ in range(HOURS + 6)] for name in granted}
    rows = []
    for index in range(draw.randint(4, 24)):
        leaf, level = draw.choice([*granted, *granted, "A"]), draw.choice([0, 0, 1])
        from_, lasts = draw.randrange(HOURS), draw.randint(1, 6)
        if leaf in granted:
            during = in_use[leaf][from_ : from_ + lasts]
            if any(each[level] == granted[leaf][level] for each in during):
                continue
            for each in during:
                each[level] += 1
        contract = f"{lasts}h" if leaf in granted or draw.random() < 0.5 else 0
        gpus = 4 if level else draw.choice([0.5, 1, 2, 2])
        rows.append(job(f"{leaf}{index}", leaf, f"{from_}h", gpus, contract, f"{lasts}h", locality=0))
    tree: dict[str, Any] = {"A": 1}
    for name, (node, rack) in granted.items():
        tree[name] = {"shares": 1, "cells": {"node": node, "rack": rack}}
    policy = {"grace_s": 0, "reservations": draw.choice([0, 2]), "locality_waits_s": ["30d", "30d", "30d"]}
    cluster = {"nodes": dict.fromkeys(nodes, 2), "racks": RACKS}
    scenario = parse(json.dumps({"cluster": cluster, "tree": tree, "policy": policy, "workloads": rows}))
    return replace(scenario, packing=draw.choice(list(Packing)))


def late(scenario: Scenario) -> list[str]:
    """Workloads of tenants that did not start when they came."""
    lived = World(scenario)
    lived.run()
    began = {run.job.job.id: run.start_s for run in reversed(lived.outcome.runs)}
    return [each.id for each in scenario.jobs if each.leaf != "A" and began.get(each.id) != each.submit_s]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_who_keeps_to_its_cells_level_by_level_never_waits(seed: int) -> None:
    assert late(legal_world(Random(seed))) == []
