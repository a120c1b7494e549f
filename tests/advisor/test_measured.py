"""What is said after the fact, of what share a few are a sample, and what starts a program."""

from __future__ import annotations

import pytest

from scheduler.advisor import COMMAND, ENVIRONMENT, advise
from scheduler.advisor.measured import BATCH, MEMORY, after_the_fact, wilson

HALF = 50_000


@pytest.mark.parametrize(
    ("busy", "memory", "rule"),
    [
        pytest.param(HALF, 500, BATCH, id="half busy, half full"),
        pytest.param(0, 0, BATCH, id="idle and empty"),
        pytest.param(HALF, 501, None, id="half busy, a little more than half full"),
        pytest.param(HALF, 800, None, id="half busy, 80 % full"),
        pytest.param(HALF, 801, MEMORY, id="half busy, more than 80 % full"),
        pytest.param(HALF + 1, 1_000, None, id="more than half busy, and full"),
        pytest.param(HALF + 1, 100, None, id="more than half busy, and nearly empty"),
        pytest.param(HALF, None, None, id="memory was not measured"),
    ],
)
def test_the_runtime_rules_have_the_papers_bounds(busy: int, memory: int | None, rule: str | None) -> None:
    found = after_the_fact(busy_milli_s=busy, measured_milli_s=2 * HALF, memory_milli=memory)
    assert [each.rule for each in found] == ([rule] if rule else [])


def test_what_was_not_measured_says_nothing() -> None:
    assert after_the_fact(busy_milli_s=0, measured_milli_s=0, memory_milli=100) == []


def test_it_says_both_figures() -> None:
    (found,) = after_the_fact(busy_milli_s=3_337, measured_milli_s=10_000, memory_milli=412)
    assert found.what == ("Its GPUs were busy for 33.3 % of the time, and at most 41.2 % of a GPU's memory was in use.")


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        # Values of R's binom.confint(method = "wilson"), to four digits.
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (1, 1, 0.2065, 1.0),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilsons_interval(part: int, whole: int, low: float, high: float) -> None:
    found = wilson(part, whole)
    assert found is not None
    assert found == pytest.approx((low, high), abs=5e-5)


def test_of_nothing_there_is_no_interval() -> None:
    assert wilson(0, 0) is None


# --- what starts a program --------------------------------------------------------------------------------------------

LOADS = "from transformers import AutoModel\nmodel = AutoModel.from_pretrained('org/name')\n"


def places(found: list) -> list[tuple[str, str, int, str]]:
    """(rule, file, line, evidence) of each."""
    return [(each.rule, each.file, each.line, each.evidence) for each in found]


def test_the_command_is_read_as_a_launch_script() -> None:
    found = advise({}, gpus=8, command=["sh", "-c", "torchrun --nproc_per_node=4 train.py; sleep 2h"])
    line = "sh -c 'torchrun --nproc_per_node=4 train.py; sleep 2h'"
    assert places(found) == [
        ("OVERSUB.nproc", COMMAND, 1, line),
        ("UNRELEASED", COMMAND, 1, line),
        ("READ", COMMAND, 1, line),
    ]


def test_arguments_of_the_command_are_no_commands() -> None:
    assert advise({}, gpus=8, command=["python", "-c", "print('a; sleep 2h')"]) == []
    assert advise({}, gpus=8, command=["echo", "x; sleep 2h"]) == []


def test_variables_that_are_set_for_it_count_and_are_not_shown() -> None:
    assert [each.rule for each in advise({"a.py": LOADS}, gpus=1, command=["python", "a.py"])] == ["EXTERNAL"]
    offline = {"HF_HUB_OFFLINE": "1"}
    assert advise({"a.py": LOADS}, gpus=1, command=["python", "a.py"], environment=offline) == []
    found = advise({}, gpus=8, command=["python"], environment={"WORLD_SIZE": "3"})
    assert places(found) == [("OVERSUB.nproc", ENVIRONMENT, 1, "")]
    found = advise({}, gpus=8, command=["sh", "-c", "torchrun --nproc_per_node=$N a.sh"], environment={"N": "4"})
    assert [(each.rule, each.severity) for each in found] == [("OVERSUB.nproc", "error")]
