"""The generated laboratory: the same seed, the same file, and a scenario that runs."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

from scheduler.simulator import as_json, parse, simulate
from scheduler.simulator.lab import research_lab


def lab(seed: int, days: int = 1, gpus: int = 64) -> str:
    """A small laboratory's file."""
    return json.dumps(research_lab(random.Random(seed), seed=seed, days=days, gpus=gpus))


def test_a_seed_says_everything() -> None:
    assert lab(7) == lab(7)
    assert lab(7) != lab(8)


def test_it_has_fifteen_teams_whose_shares_are_the_whole() -> None:
    for seed in range(20):
        tree = json.loads(lab(seed))["tree"]
        assert len(tree) == 15
        assert sum(team["shares"] for team in tree.values()) == 10_000
        assert min(team["shares"] for team in tree.values()) >= 100
        assert sum(len(team["children"]) for team in tree.values()) == 15
    assert sum(len(team["children"]) for team in json.loads(lab(1, gpus=1_024))["tree"].values()) == 150


def test_it_runs_and_asks_for_more_than_there_is() -> None:
    result = as_json(simulate(replace(parse(lab(3, gpus=256)), until_s=6 * 3_600)))
    states = Counter(row["state"] for row in result["workloads"])
    assert states["refused"] == 0
    assert states["finished"] > 20
    assert states["queued"] > 20
    assert result["metrics"]["demand"]["median"] > 1
