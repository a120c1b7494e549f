"""The study of the network: which gangs come, where they may go, what is told, and the command."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from scheduler.engine import cassini
from scheduler.simulator.study import network, network_page
from scheduler.simulator.study.network_models import BATCHES, MODELS, STEP_MS, with_own_batch


def test_the_models_are_those_of_the_paper_with_periods_in_step() -> None:
    assert len(MODELS) == 13
    assert {model.parallelism for model in MODELS} == {"data", "hybrid"}
    periods_ms = sorted({model.profile.period_ms for model in MODELS})
    assert all(later % earlier == 0 for earlier, later in pairwise(periods_ms))


def test_an_own_batch_stretches_the_whole_iteration() -> None:
    for model in MODELS:
        own = with_own_batch(model, random.Random(3)).profile
        factor = own.period_ms / model.profile.period_ms
        assert BATCHES[0] - 0.05 <= factor <= BATCHES[1] + 0.05
        assert own.period_ms % STEP_MS == 0
        assert [phase.mbps for phase in own.phases] == [phase.mbps for phase in model.profile.phases]
        assert own.volume_kbit == pytest.approx(model.profile.volume_kbit * factor, rel=0.03)


def test_gangs_ask_for_about_the_load_and_the_seed_says_everything() -> None:
    found = network.gangs(random.Random(1), 10_000, network.IN_STEP)
    assert found == network.gangs(random.Random(1), 10_000, network.IN_STEP)
    asked = sum(gang.servers * gang.iterations * gang.model.profile.period_ms for gang in found)
    assert asked / (24 * 10_000 * network.MINUTE_MS) == pytest.approx(network.LOAD, rel=0.05)
    assert len(network.gangs(random.Random(1), 1, network.OWN_BATCHES)) >= 1


@pytest.mark.parametrize(
    ("host", "free", "servers", "first", "leaves"),
    [
        ("together", range(24), 2, (0, 1), 1),
        ("together", [0, 3, 4, 5], 2, (4, 5), 1),
        ("together", [0, 2, 4, 5], 3, (0, 4, 5), 2),
        ("first free", [0, 3, 4, 5], 2, (0, 3), 2),
    ],
)
def test_hosts_place_in_their_own_way(
    host: str, free: list[int], servers: int, first: tuple[int, ...], leaves: int
) -> None:
    found = network.candidates(host, free, servers)
    assert found[0] == first
    assert len(found) <= network.CANDIDATES
    assert all(len(set(each)) == servers and set(each) <= set(free) for each in found)
    if host == "together":
        assert {len({network.FABRIC.leaf_of(server) for server in each}) for each in found} == {leaves}
    assert network.candidates(host, [1], 2) == []


def figures(completion_s: float, excess_gbit: float) -> dict[str, float]:
    """Of one way."""
    return {
        "iteration_mean": 1.0,
        "iteration_p99": 1.0,
        "completion_mean_s": completion_s,
        "completion_p95_s": 2 * completion_s,
        "overload": 0.1,
        "excess_gbit": excess_gbit,
    }


def test_what_is_told_beside_what_was_published() -> None:
    ways = {way.name: figures(120, 50) for way in network.WAYS}
    ways["together, CASSINI"] = figures(100, 10)
    ways["first free, CASSINI"] = figures(60, 0)
    row: dict[str, Any] = {
        "score": 1.0,
        "unshifted": {"slowdown": 1.5, "tail": 2.0, "overload": 0.2, "excess_gbit": 9.0},
        "shifted": {"slowdown": 1.0, "tail": 1.0, "overload": 0.0, "excess_gbit": 0.0},
    }
    own, scored, scattered, pairs = network.beside_published([{"ways": ways}], [row, row | {"score": 0.9}])
    assert own == {"against": "own", "mean": [1.2, 1.2, 2.0], "tail": [1.2, 1.2, 2.0], "excess": [5, 5, float("inf")]}
    assert (scored["mean"], scattered["mean"]) == (own["mean"], own["mean"])
    assert (pairs["mean"], pairs["tail"]) == ([1.5] * 3, [2.0] * 3)
    lines = network.pair_table([row, row | {"score": 0.9}])
    assert [(line["score"], line["pairs"]) for line in lines] == [
        ("1", 1), ("0.95 to 1", 0), ("0.9 to 0.95", 1), ("below 0.9", 0)
    ]  # fmt: skip
    told = network_page.Told("<about>", {network.IN_STEP: [{"ways": ways}]}, [row])
    assert json.loads(json.dumps(told.as_json(), allow_nan=False))["mixes"][0]["times_better"][0]["excess"][2] is None
    html = network_page.network_page(told)
    assert "<about>" not in html
    assert html.count("<svg") == len(network_page.PLOTS)


def test_shifts_free_two_that_fit_on_one_link_of_excess() -> None:
    """The same on the network: the model that sends most, twice."""
    rows = network.pairs(1, 1, random.Random)
    twice = next(row for row in rows if row["models"] == ["XLM", "XLM"])
    assert twice["score"] == 1
    assert twice["shifted"]["excess_gbit"] < twice["unshifted"]["excess_gbit"] / 10
    assert len(rows) == 13 * 14 // 2


@pytest.mark.long
def test_the_command_prints_plots_and_tells_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["network", "--seeds", "1", "--minutes", "3"]
    call_command("study", *arguments, "--json", "--html", str(tmp_path / "out.html"))
    found = json.loads(capsys.readouterr().out)
    assert [each["mix"] for each in found["mixes"]] == list(network.MIXES)
    for each in found["mixes"]:
        lines = {line["way"]: line for line in each["ways"]}
        assert list(lines) == [way.name for way in network.WAYS]
        least = lines["ideal"]["iteration_mean"][0]
        assert all(line["iteration_mean"][0] >= least - 1e-9 for line in lines.values())
        assert lines["ideal"]["excess_gbit"] == [0, 0, 0]
    compatible = found["pairs"][0]
    assert compatible["score"] == "1"
    assert compatible["shifted"]["overload"] < compatible["unshifted"]["overload"] / 5
    html = (tmp_path / "out.html").read_text()
    assert html.count("<svg") == 6
    assert "http" not in html
    call_command("study", *arguments)
    assert "published, up to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["network", "--minutes", "0"], "--minutes: must be from 1 to 600, but is 0"),
        (["network", "file.json"], "FILE: does not belong to the study of the network"),
        (["network", "--days", "3"], "--days: does not belong to the study of the network"),
        (["gaming", "--minutes", "3"], "--minutes: belongs to the study of network"),
    ],
)
def test_a_fault_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError) as error:
        call_command("study", *arguments)
    assert str(error.value) == message


def test_profiles_of_the_models_can_be_written_and_read() -> None:
    for model in MODELS:
        assert cassini.read_profile(cassini.written_profile(model.profile)) == model.profile
