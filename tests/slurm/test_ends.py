"""What the end of a job says of its run, also of one that began and ended between two looks. From rows alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.executors.base import Cause, RankState
from scheduler.executors.slurm.jobs import Job
from scheduler.models import Run, SlurmJob, SlurmLink, Workload
from scheduler.services.slurm import jobs

NOW = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)
AT = NOW - timedelta(seconds=20)
JOB = Job(
    7, "COMPLETED", "ada", "lab", "gpu", 0, 1, 4, 1, AT, AT, AT, 0, 1, ["n1"], ["n1"], "None", "", "A-0001"
)  # fmt: skip
ENDS = [
    ({}, RankState.EXITED, 20, 0),
    ({"state": "FAILED", "exit_code": 7, "reason": "NonZeroExitCode"}, RankState.EXITED, 20, 7),
    ({"state": "FAILED", "exit_code": 1, "reason": "JobLaunchFailure"}, RankState.FAILED, None, None),
    ({"state": "CANCELLED", "exit_code": 0}, RankState.FAILED, None, None),
    ({"state": "TIMEOUT", "ended_at": AT + timedelta(seconds=9)}, RankState.EXITED, 20, -15),
]


@pytest.mark.parametrize(("more", "state", "began_age_s", "exit_code"), ENDS)
def test_one_that_began_and_ended_within_a_second_has_run_if_slurm_says_so(
    more: dict[str, object], state: RankState, began_age_s: int | None, exit_code: int | None
) -> None:
    row = SlurmJob(run=Run(pk=5), workload=Workload(code="A-0001"), job_id=7, started=False)
    ours = jobs.Ours(SlurmLink(folder=""), NOW, {}, {})
    fact = jobs._end_of(ours, row, replace(JOB, **more), False, False)  # type: ignore[arg-type]
    assert (fact.state, fact.began_age_s, fact.exit_code, fact.cause) == (state, began_age_s, exit_code, Cause.ITSELF)


LATE = {"state": "FAILED", "exit_code": 1, "reason": "NonZeroExitCode", "restarts": 1, "nodes": []}
LATE_ENDS = [
    (LATE, False, Cause.NODE, RankState.EXITED),
    ({**LATE, "nodes": ["n1"]}, False, Cause.ITSELF, RankState.EXITED),
    ({**LATE, "restarts": 0}, False, Cause.ITSELF, RankState.EXITED),
    (LATE, True, Cause.ITSELF, RankState.EXITED),
]


@pytest.mark.parametrize(("more", "started", "cause", "state"), LATE_ENDS)
def test_a_late_end_of_what_was_requeued_is_none_of_the_run_that_waits_since(
    more: dict[str, object], started: bool, cause: Cause, state: RankState
) -> None:
    row = SlurmJob(run=Run(pk=5), workload=Workload(code="A-0001"), job_id=7, started=started, restarts=1)
    ours = jobs.Ours(SlurmLink(folder=""), NOW, {}, {})
    fact = jobs._end_of(ours, row, replace(JOB, **more), False, False)  # type: ignore[arg-type]
    assert (fact.cause, fact.state) == (cause, state)
    assert (fact.exit_code is None) == (cause == Cause.NODE)
