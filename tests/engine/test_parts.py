"""Parts of one device: who waits for one is told where the most is free, and how small one may be is a knob."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine import Policy, Reason, Workload, decide
from tests.engine.worlds import NOW_S, node, run, snapshot

TWO = {"A": 1, "B": 1}
WITHOUT_PROMISES = Policy(reservations=0)


def part(name: str, milli: int, **more: Any) -> Workload:
    """Work that waits for a part of one device."""
    return Workload(name, "A", milli, more.pop("contract_s", 3_600), NOW_S - 60, **more)


def held(name: str, milli: int, on: str, device: int, **more: Any) -> Any:
    """A run that has a part of a device, inside its contract unless said otherwise."""
    return run(name, "B", 0, holdings={on: milli}, device=device, started_s=more.pop("started_s", NOW_S - 60), **more)


def why(waiting: Workload, runs: list[Any], **nodes: int) -> Reason:
    """What it is told, on nodes with so many devices."""
    built = snapshot(TWO, nodes=[node(name, gpus=gpus) for name, gpus in nodes.items()], runs=runs, queue=[waiting])
    (found,) = [each.reason for each in decide(built, WITHOUT_PROMISES).decisions if each.action == "wait"]
    return found


SCATTERED = [held("b/1", 700, "h1", 0), held("b/2", 600, "h2", 0), held("b/3", 800, "h2", 1)]


def test_parts_of_several_devices_are_no_room_for_a_larger_part() -> None:
    found = why(part("a", 500), SCATTERED, h1=1, h2=2)
    assert found.code == "waiting_placement"
    assert found.text == (
        "Waiting: parts of GPUs are free, but no GPU has 0.5 GPU free; contracts for so much on one end at the "
        "instant given. The most that is free on one GPU is 0.4 GPU, on h2."
    )
    assert (found.numbers["freest_milli"], found.numbers["freest_node"]) == (400, "h2")
    assert found.earliest_start_s == NOW_S + 3_540


def test_only_nodes_that_it_may_be_on_count_and_equal_ones_go_by_name() -> None:
    assert why(part("a", 500, node="h1"), SCATTERED, h1=1, h2=2).numbers["freest_node"] == "h1"
    equal = [held("b/1", 900, "h2", 0), held("b/2", 900, "h1", 0)]
    assert why(part("a", 150), equal, h1=1, h2=1).text.endswith("The most that is free on one GPU is 0.1 GPU, on h1.")


def test_where_too_little_is_free_in_all_it_says_how_much_too() -> None:
    found = why(part("a", 500, contract_s=0), [held("b/1", 700, "h1", 0)], h1=1)
    assert found.text == (
        "Waiting: no GPU has 0.5 GPU free, and unallocated work starts only on what nobody funded needs. "
        "The most that is free on one GPU is 0.3 GPU, on h1."
    )


def test_whole_devices_and_full_ones_are_told_as_ever() -> None:
    full = [held("b/1", 500, "h1", 0), held("b/2", 500, "h1", 0)]
    assert "freest_milli" not in why(part("a", 500), full, h1=1).numbers
    whole = Workload("a", "A", 1_000, 3_600, NOW_S - 60)
    scattered = [held("b/1", 500, "h1", 0), held("b/2", 500, "h1", 1)]
    assert why(whole, scattered, h1=2).text.startswith("Waiting: enough GPUs are free, but not where 1 GPU would be")


def test_the_smallest_part_is_less_than_one_device() -> None:
    assert Policy(fraction_min_milli=999).fraction_min_milli == 999
    for wrong in (1_000, -1):
        with pytest.raises(ValueError, match=r"^fraction_min_milli: "):
            Policy(fraction_min_milli=wrong)
