"""Every decision has a code, one plain sentence, and the numbers behind it (section 9)."""

from __future__ import annotations

import json
import re

from scheduler.engine import Code, Policy, Reason, decide, refusal
from tests.engine.worlds import GPU_H, NOW_S, node, run, snapshot, used, workload

TWO = {"A": 1, "B": 1}


def reason(built: object, name: str, action: str = "wait") -> Reason:
    """Why a pass did, or did not, do something about a workload."""
    found = [each for each in decide(built, Policy()).decisions if (each.workload, each.action) == (name, action)]
    return found[0].reason


def test_who_waits_is_told_who_has_had_less() -> None:
    held = [run("c/1", "C", 8, started_s=NOW_S - 60)]
    queue = [workload("a", "A", 8), workload("v", "V", 8), workload("r", "R", 8)]
    shape = {"A": 1, "V": 1, "R": 1, "C": 1}
    names = {"V": "Vision", "R": "Robotics"}
    built = snapshot(shape, use=used(A=90, V=1, R=2), runs=held, queue=queue, names=names)
    found = reason(built, "a")
    assert (found.code, found.text) == ("waiting_order", "Waiting: Vision and Robotics have had less of their share.")
    level = found.numbers["levels"][0]
    assert (level["node"], level["used_milli_s"], level["first"]["node"]) == ("A", 90 * GPU_H, "V")


def test_waiting_for_contracts_says_from_when() -> None:
    found = reason(snapshot(TWO, runs=[run("b/1", "B", 8, started_s=NOW_S - 600)], queue=[workload("a", "A", 8)]), "a")
    assert (found.code, found.earliest_start_s) == ("waiting_capacity", NOW_S + 3_000)
    assert found.numbers["counts_on"] == ["b/1"]


def test_a_preempted_run_can_read_who_took_over_and_with_which_numbers() -> None:
    built = snapshot(
        TWO, runs=[run("b/1", "B", 8)], queue=[workload("a", "A", 8)], names={"A": "Program A", "B": "Program B"}
    )
    found = reason(built, "b", "preempt")
    assert found.text == (
        "a took its 8 GPUs. Its contract was over, and Program A had been served less of its share than Program B."
    )
    assert found.numbers["contract_over_for_s"] == 3_600
    assert [side["node"] for side in found.numbers["sides"]] == ["A", "B"]


def test_a_cpu_cluster_speaks_of_cores() -> None:
    built = snapshot(TWO, nodes=[node(gpus=2)], queue=[workload("a", "A", 2)], unit="core")
    assert reason(built, "a", "start").text == "Started with 2 cores on h1, charged to its project."


def test_all_reasons_are_sentences_with_json_numbers() -> None:
    runs = [run("b/1", "B", 4), run("b/2", "B", 4, contract_s=0), run("b/3", "B", 8, "h2", started_s=NOW_S - 60)]
    queue = [workload(f"a{gpus}", "A", gpus) for gpus in (1, 4, 8, 16, 24)]
    queue += [workload("u", "B", 8, 0), workload("z", "Z", 1)]
    built = snapshot({**TWO, "Z": 0}, nodes=[node("h1"), node("h2")], runs=runs, queue=queue)
    plan = decide(built, Policy())
    assert {each.workload for each in plan.decisions} >= {workload.id for workload in queue}
    for each in plan.decisions:
        assert re.fullmatch(r"[A-Z].*\.|[a-z0-9]+ took .*\.", each.reason.text), each.reason.text
        assert each.reason.code in set(Code)
        json.dumps(dict(each.reason.numbers))


def test_the_door() -> None:
    asked = {
        "policy": Policy(),
        "size_milli": 8_000,
        "min_runtime_s": 3_600,
        "is_entitled": True,
        "is_closed": False,
        "room_milli": 8_000,
        "leaf_name": "Vision",
    }

    def code(**changes: object) -> str | None:
        found = refusal(**{**asked, **changes})  # type: ignore[arg-type]
        return None if found is None else found.code

    assert code() is None
    assert code(min_runtime_s=28_800) is None
    assert code(min_runtime_s=28_801) == "contract_too_long"
    assert code(min_runtime_s=300) is None
    assert code(min_runtime_s=299) == "contract_too_short"
    assert code(is_entitled=False) == "no_entitlement"
    assert code(is_entitled=False, min_runtime_s=0) is None
    assert code(room_milli=7_999) == "too_large"
    assert code(is_closed=True, min_runtime_s=0) == "closed"
