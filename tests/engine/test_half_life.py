"""Use that decays as Slurm's Fair Tree has it: its factors, its sums, and the order that follows."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine import Policy, Snapshot, decayed_milli_s, decide
from scheduler.engine.policies.half_life import DecayedUse
from scheduler.simulator import as_json, order_at, parse, simulate

DAY_S = 86_400
WEEK_S = 7 * DAY_S


@pytest.mark.parametrize(("after_s", "factor"), [(WEEK_S, 0.500073), (DAY_S, 0.905743)])
def test_a_half_life_of_slurm_keeps_a_little_more_than_half(after_s: int, factor: float) -> None:
    use = DecayedUse(WEEK_S, 0)
    use.add_lump(10**15)
    assert round(use.bring_to(after_s) / 10**15, 6) == factor


def test_what_is_held_counts_whole_at_first() -> None:
    use = DecayedUse(WEEK_S, 1_000)
    use.hold(8_000)
    assert use.bring_to(1_060) == 480_000
    assert 0.98 * 8_000 * DAY_S > use.bring_to(1_000 + DAY_S) > 0.95 * 8_000 * DAY_S
    assert use.bring_to(1_000 + 400 * DAY_S) == pytest.approx(8_000 * WEEK_S / 0.693, rel=1e-5)


HELD = st.lists(st.tuples(st.integers(1, 64_000), st.integers(-50_000, 50_000), st.integers(0, 30_000)), max_size=12)


@given(rows=HELD, now_s=st.integers(50_000, 90_000))
def test_in_whatever_order_it_is_told_it_is_the_sum_of_all(rows: list[tuple[int, int, int]], now_s: int) -> None:
    half_life_s = 3_600
    use = DecayedUse(half_life_s, 0)
    expected = 0.0
    changes = []
    for amount_milli, from_s, length_s in rows:
        until_s = from_s + length_s
        if until_s <= 0:
            use.add_past(amount_milli, from_s, until_s)
        elif from_s <= 0:
            use.hold_since(amount_milli, from_s)
            changes.append((until_s, -amount_milli))
        else:
            changes += [(from_s, amount_milli), (until_s, -amount_milli)]
        expected += decayed_milli_s(amount_milli, from_s, min(until_s, now_s), now_s, half_life_s)
    for at_s, amount_milli in sorted(changes):
        if at_s <= now_s:
            use.bring_to(at_s)
            use.hold(amount_milli)
    assert use.bring_to(now_s) == pytest.approx(expected, abs=501)


def test_it_goes_on_for_years() -> None:
    use = DecayedUse(300, 0)
    use.hold(1_000)
    totals = [use.bring_to(day * DAY_S) for day in range(1, 4 * 365)]
    assert all(later == earlier for earlier, later in pairwise(totals))


def laboratory(**policy: Any) -> str:
    """B used much two days ago, A a little just now; both ask for the node."""
    return json.dumps(
        {
            "cluster": {"nodes": {"h1": 8}},
            "tree": {"A": 1, "B": 1},
            "policy": policy,
            "history": [
                {"leaf": "A", "gpus": 8, "from": "-3h", "to": 0},
                {"leaf": "B", "gpus": 8, "from": "-51h", "to": "-48h"},
                {"leaf": "B", "gpus": 1, "from": "-52h", "to": "-51h"},
            ],
            "workloads": [
                {"id": "a", "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "1h"},
                {"id": "b", "leaf": "B", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "1h"},
            ],
        }
    )


def test_what_was_used_longer_ago_counts_less() -> None:
    assert order_at(parse(laboratory()), 0)[0] == ("a", "b")
    assert order_at(parse(laboratory(tree_order="half_life", half_life_s="1d")), 0)[0] == ("b", "a")
    assert order_at(parse(laboratory(tree_order="half_life", half_life_s="3650d")), 0)[0] == ("a", "b")


def test_the_figures_of_the_order_are_decayed() -> None:
    found = as_json(simulate(parse(laboratory(tree_order="half_life", half_life_s="1d"))))
    assert [run["workload"] for run in found["runs"]] == ["b", "a"]


def test_a_snapshot_decays_as_its_policy_says() -> None:
    scenario = parse(laboratory())
    snapshot = Snapshot.build(now_s=0, tree=scenario.tree, use={}, nodes=scenario.nodes, half_life_s=60)
    with pytest.raises(ValueError, match="the snapshot's half-life is 60 s, the policy's None s"):
        decide(snapshot, Policy())
