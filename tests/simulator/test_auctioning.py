"""Themis whole: leases, rounds and the auction, on constructed scenarios."""

from __future__ import annotations

import json
from typing import Any

from scheduler.simulator import World, parse
from scheduler.simulator.records import Outcome

MINUTE = 60


def lived(*rows: dict[str, Any], nodes: dict[str, int] | None = None, **rest: Any) -> Outcome:
    """A small world under the auction; each workload is there from 0 on, asks for 8 GPUs, and says how long."""
    scenario = {
        "cluster": {"nodes": nodes or {"h1": 8}},
        "tree": {"A": 1, "B": 1},
        "policy": {"scheduler": "themis"},
        "workloads": [{"leaf": "A", "submit": 0, "gpus": 8, **row} for row in rows],
        **rest,
    }
    world = World(parse(json.dumps(scenario)))
    world.run()
    return world.outcome


def spans(outcome: Outcome) -> dict[str, list[tuple[float, float]]]:
    """Start and end of every run, in minutes, by workload."""
    return {
        record.job.id: [(run.start_s / MINUTE, (run.end_s or 0) / MINUTE) for run in record.runs]
        for record in outcome.jobs
    }


def test_whoever_is_furthest_behind_takes_over_when_a_lease_is_up() -> None:
    found = lived({"id": "long", "duration": "2h"}, {"id": "short", "submit": "2m", "duration": "10m"})
    assert spans(found) == {"long": [(0, 20), (30, 130)], "short": [(20, 30)]}
    run = found.jobs[0].runs[0]
    assert (run.end_reason, run.preempted_by) == ("preempted_priority", "short")


def test_inside_a_lease_nobody_is_stopped_and_without_others_nobody_ever() -> None:
    assert spans(lived({"id": "alone", "duration": "2h"})) == {"alone": [(0, 120)]}
    late = lived({"id": "long", "duration": "15m"}, {"id": "short", "submit": "1m", "duration": "1m"})
    assert spans(late) == {"long": [(0, 15)], "short": [(15, 16)]}


def test_a_lease_that_is_up_goes_on_while_nobody_is_further_behind() -> None:
    """At 50 the short one would come to 10 / (10 x 2), the long one to 120 / (120 x 1); at 70 to 30 / (10 x 2)."""
    found = lived({"id": "long", "duration": "2h"}, {"id": "short", "submit": "50m", "duration": "10m"})
    assert spans(found)["short"] == [(70, 80)]


def test_equals_take_turns() -> None:
    found = spans(lived({"id": "a", "duration": "1h"}, {"id": "b", "duration": "1h"}))
    assert found == {"a": [(0, 20), (40, 60), (80, 100)], "b": [(20, 40), (60, 80), (100, 120)]}


def test_whoever_pays_has_a_shorter_lease() -> None:
    """Ten contend, so that two bid: a and b, who would both come to 1 x 60 min; c to j want less and are better off.

    a gets the node. It keeps b from its own, which would be worth 1 / 60 min to it instead of 1 / 80 min: so a keeps
    3 / 4 of the lease of 20 min.
    """
    others = [{"id": f"w{index}", "duration": "1h", "gpus": 8} for index in range(8)]
    found = spans(lived({"id": "a", "duration": "1h"}, {"id": "b", "duration": "1h"}, *others))
    assert found["a"][0] == (0, 15)
    assert found["b"][0][0] == 15


def test_what_is_left_over_is_given_to_the_others() -> None:
    """One of three bids, for half of the node; the other two fit beside it."""
    found = spans(lived({"id": "a", "gpus": 4, "duration": "1h"}, {"id": "b", "gpus": 2, "duration": "1h"},
                        {"id": "c", "gpus": 2, "duration": "1h"}))  # fmt: skip
    assert found == {"a": [(0, 60)], "b": [(0, 60)], "c": [(0, 60)]}


def test_who_may_stay_where_it_is_comes_before_others_outside_the_auction() -> None:
    """When the leases of a and b are up, c bids and takes one place; the other stays with who has it."""
    rows = [{"id": name, "gpus": 4, "duration": "2h"} for name in "ab"]
    found = lived(*rows, {"id": "c", "submit": "1m", "gpus": 4, "duration": "10m"}, {"id": "d", "submit": "19m",
                  "gpus": 4, "duration": "2h"})  # fmt: skip
    stopped = [record.job.id for record in found.jobs if record.runs[0].end_s == 20 * MINUTE]
    assert len(stopped) == 1
    assert spans(found)["c"] == [(20, 30)]
    assert spans(found)["d"][0][0] >= 30


def test_devices_are_held_while_the_outbid_leave() -> None:
    rows = [{"id": "long", "duration": "2h", "exit_delay": "30s"}, {"id": "short", "submit": "2m", "duration": "10m"}]
    assert spans(lived(*rows, {"id": "tiny", "submit": "3m", "gpus": 1, "duration": "10m"}))["short"] == [(20.5, 30.5)]


def test_whoever_won_a_node_that_broke_waits_for_the_next_round() -> None:
    rows = [{"id": "long", "duration": "2h", "exit_delay": "50s"}, {"id": "short", "submit": "2m", "duration": "10m"}]
    events = [{"at": 1_220, "node": "h1", "health": "unhealthy"}, {"at": "30m", "node": "h1", "health": "healthy"}]
    found = spans(lived(*rows, events=events))
    assert found["short"] == [(45, 55)]  # after a dwell of 15 min
