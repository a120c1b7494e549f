"""`forecast_check`: what it prints, what it refuses, and that ranges hold 75 to 85 % on weeks held out."""

from __future__ import annotations

import json
from contextlib import suppress
from io import StringIO
from random import Random

import pytest

from scheduler.management import forecasting
from scheduler.management.commands.forecast_check import Command
from scheduler.simulator.forecast import HORIZON_S


def refused(*argv: str) -> str:
    """The one line that a wrong command line gets."""
    err = StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", err)
        with pytest.raises(SystemExit) as stop:
            Command().run_from_argv(["manage.py", "forecast_check", *argv])
    assert stop.value.code == 2
    return err.getvalue()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), "FILE: is missing: a scenario, --lab SEED or --cluster NAME"),
        (("--lab", "1", "--every", "0s"), "--every: must be more than 0"),
        (("--lab", "1", "--draws", "0"), "--draws: must be from 1 to 366, but is 0"),
        (("nowhere.json",), "nowhere.json: cannot be read"),
    ],
)
def test_wrong_input_gets_one_line(argv, words):
    said = refused(*argv)
    assert words in said
    assert said.count("\n") == 1


def test_a_scenario_is_checked(tmp_path):
    chance = Random(3)
    workloads = [
        {
            "id": f"w{number}",
            "leaf": chance.choice("AB"),
            "submit": number * 5_400,
            "gpus": chance.choice((4, 8, 16)),
            "min_runtime": "1h",
            "duration": f"{chance.randrange(30, 300)}m",
        }
        for number in range(100)
    ]
    scenario = {"cluster": {"nodes": 2, "gpus_per_node": 8}, "tree": {"A": 1, "B": 1}, "workloads": workloads}
    (tmp_path / "small.json").write_text(json.dumps({**scenario, "until": "6d"}))
    out = StringIO()
    command = Command(stdout=out)
    with suppress(SystemExit):  # so few forecasts may hold anything
        command.handle(
            scenarios=[str(tmp_path / "small.json")], lab=[], cluster=None, days=28, gpus=64, every="12h", draws=4,
            json=True,
        )  # fmt: skip
    told = json.loads(out.getvalue())
    count, held = told["calibrated"]["all"]
    assert 0 <= held <= count
    assert sum(each[0] for kind, each in told["calibrated"].items() if kind != "all") == count


@pytest.mark.long
def test_ranges_hold_four_of_five_on_a_laboratory_held_out():
    """The second half of the instants, with what was learned on the first."""
    history = forecasting.laboratory(31, days=24, gpus=64, every_s=43_200, horizon_s=HORIZON_S)
    past = list(forecasting.forecasts(history, draws=12, horizon_s=HORIZON_S, say=lambda _line: None))
    found = forecasting.checked(history, past, horizon_s=HORIZON_S).calibrated[""]
    assert found.count > 200
    assert 0.70 <= found.part <= 0.90  # of a few instants; docs/simulator.md has more
