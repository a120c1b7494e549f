"""The Philly trace: reading it strictly, and a week of it as a scenario."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

import pytest

from scheduler.simulator import as_json, parse, simulate
from scheduler.traces import TraceError, philly
from tests.scenario_expectations import shared_file

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
WEEK = (datetime(2017, 10, 9, tzinfo=UTC), datetime(2017, 10, 16, tzinfo=UTC))


def test_ids_stay_text_and_rows_are_sorted_by_submission() -> None:
    content = f"{HEADER}2017-10-09 07:01:55,66.0,1,66.0,103959\n2017-10-09 06:13:03,2951.0,2,5902.0,6214e9\n"
    assert philly.read(content) == [
        philly.PhillyJob(3, datetime(2017, 10, 9, 6, 13, 3, tzinfo=UTC), 2951, 2, "6214e9"),
        philly.PhillyJob(2, datetime(2017, 10, 9, 7, 1, 55, tzinfo=UTC), 66, 1, "103959"),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("yesterday,66.0,1,66.0,a", """row 2, timestamp: must be like "2017-10-09 07:01:55", not 'yesterday'"""),
        ("2017-10-09 07:01:55Z,66.0,1,66.0,a", "row 2, timestamp: must be whole seconds without a zone, not"),
        ("2017-10-09 07:01:55,66.5,1,66.5,a", "row 2, duration: must be a whole number, not '66.5'"),
        ("2017-10-09 07:01:55,nan,1,1,a", "row 2, duration: must be a whole number, not 'nan'"),
        ("2017-10-09 07:01:55,9e9999999,1,1,a", "row 2, duration: must be a whole number, not '9e9999999'"),
        ("2017-10-09 07:01:55,1e99,1,1,a", "row 2, duration: must be a whole number, not '1e99'"),
        ("2017-10-09 07:01:55,0,1,0,a", "row 2, duration: must be at least 1, but is 0"),
        ("2017-10-09 07:01:55,66,0,0,a", "row 2, num_gpus: must be at least 1, but is 0"),
        ("2017-10-09 07:01:55,66,,66,a", "row 2, num_gpus: is empty"),
        ("2017-10-09 07:01:55,66,2,66,a", "row 2, gpu_time: is not duration times num_gpus"),
        ("2017-10-09 07:01:55,66,1,66, ", "row 2, cluster: is empty"),
        ("2017-10-09 07:01:55,66,1,66", "row 2: has 4 cells, the header has 5"),
    ],
)
def test_a_fault_names_row_and_field(row: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        philly.read(HEADER + row + "\n")
    assert str(caught.value).startswith(message)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(TraceError, match="row 1, num_gpus: this column is missing"):
        philly.read("timestamp,duration,gpu_time,cluster\n")


def test_a_team_may_not_have_two_quotas() -> None:
    with pytest.raises(TraceError, match="row 3, vc: team 'a' is given twice"):
        philly.read_shares("vc,node num\na,1\na,2\n")


def test_a_week_of_the_trace_as_a_scenario() -> None:
    jobs = philly.read(shared_file("traces", "philly_vc.csv").read_text(encoding="utf-8"))
    shares = philly.read_shares(shared_file("traces", "philly_vc_nodes.csv").read_text(encoding="utf-8"))
    assert (len(jobs), len({job.team for job in jobs}), sum(shares.values())) == (82_247, 15, 352)
    week = philly.scenario(
        jobs, shares, name="week", start_at=WEEK[0], until_at=WEEK[1], nodes=64, cap_s=3_600, other_shares=1
    )
    assert (len(week["workloads"]), len(week["tree"]), sum(week["tree"].values())) == (12_751, 15, 356)
    assert max(row["min_runtime"] for row in week["workloads"]) == 3_600
    assert all(row["min_runtime"] == min(row["duration"], 3_600) for row in week["workloads"])

    day = parse(json.dumps({**week, "until": "1d"}))
    result = as_json(simulate(day))
    states = Counter(row["state"] for row in result["workloads"])
    assert states["refused"] == 0, "no short job is refused"
    assert states["finished"] > 1_000
    held = sum(use["charged_gpu_s"] for name, use in result["usage"].items() if name)
    assert held == result["usage"][""]["charged_gpu_s"] > 0


@pytest.mark.long
def test_the_whole_week_under_contracts() -> None:
    """Every job of the week finishes, and has done exactly its work."""
    jobs = philly.read(shared_file("traces", "philly_vc.csv").read_text(encoding="utf-8"))
    shares = philly.read_shares(shared_file("traces", "philly_vc_nodes.csv").read_text(encoding="utf-8"))
    week = philly.scenario(
        jobs, shares, name="week", start_at=WEEK[0], until_at=WEEK[1], nodes=64, cap_s=3_600, other_shares=1
    )
    result = as_json(simulate(parse(json.dumps(week))))
    assert Counter(row["state"] for row in result["workloads"]) == {"finished": 12_751}
    work_gpu_s = sum(row["gpus"] * row["duration"] for row in week["workloads"])
    assert result["usage"][""] == {"charged_gpu_s": work_gpu_s, "uncharged_gpu_s": 0}
    assert result["metrics"]["delivery"] > 0.95
