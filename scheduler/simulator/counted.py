"""A job of a trace on a plain number of GPUs, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class CountedJob(NamedTuple):
    """A job of a trace: instants and durations in seconds, its size in thousandths of a GPU.

    `id` is text, also where it is made of digits. `estimate_s` is what its owner asked for, and `group` the name under
    which it recurs, where the trace knows them.
    """

    id: str
    submit_s: int
    duration_s: int
    size_milli: int
    team: str = ""
    estimate_s: int | None = None
    group: str = ""


class Stay(NamedTuple):
    """What became of a job: its first start, its end, and how often it was preempted between."""

    start_s: int
    end_s: int
    preemptions: int


class CannotReplay(Exception):
    """A job that no replay could deal with, and why."""

    def __init__(self, job: CountedJob, message: str) -> None:
        """Say which, and why."""
        super().__init__(f"job {job.id!r} {message}")
        self.job = job


def by_submission(jobs: Sequence[CountedJob]) -> list[int]:
    """The places of the jobs in the order in which they are submitted."""
    return sorted(range(len(jobs)), key=lambda place: jobs[place].submit_s)
