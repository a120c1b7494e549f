"""Microsoft's Philly trace, as the Pollux artifact filtered it: timestamp, duration, num_gpus, gpu_time, cluster.

Rows are unsorted, teams ("clusters") are called by ids that stay text, timestamps are local and name no zone: they are
taken as written, as if in UTC. Teams' quotas stand in a second file, in nodes (vc, node num).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .rows import Row, TraceError, read_rows

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
SHARES_COLUMNS = ("vc", "node num")
GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class PhillyJob:
    """One job of the trace. `row` is its line in the file, which is all that names it."""

    row: int
    submitted_at: datetime
    duration_s: int
    gpus: int
    team: str

    @property
    def id(self) -> str:
        """A name for it: the trace has none."""
        return f"philly-{self.row}"


def read(content: str) -> list[PhillyJob]:
    """All jobs, by submission, then row.

    Raises:
        TraceError: names row and field.
    """
    jobs = [_job(row) for row in read_rows(content, COLUMNS)]
    return sorted(jobs, key=lambda job: (job.submitted_at, job.row))


def _job(row: Row) -> PhillyJob:
    job = PhillyJob(
        row=row.line,
        submitted_at=_instant(row),
        duration_s=row.whole("duration", at_least=1),
        gpus=row.whole("num_gpus", at_least=1),
        team=row.text("cluster"),
    )
    if row.whole("gpu_time", at_least=1) != job.duration_s * job.gpus:
        raise TraceError(row.line, "gpu_time", "is not duration times num_gpus")
    return job


def _instant(row: Row) -> datetime:
    value = row.text("timestamp")
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise TraceError(row.line, "timestamp", f'must be like "2017-10-09 07:01:55", not {value!r}') from None
    if instant.tzinfo is not None or instant.microsecond:
        raise TraceError(row.line, "timestamp", f"must be whole seconds without a zone, not {value!r}")
    return instant.replace(tzinfo=UTC)


def read_shares(content: str) -> dict[str, int]:
    """Nodes by team.

    Raises:
        TraceError: names row and field.
    """
    shares: dict[str, int] = {}
    for row in read_rows(content, SHARES_COLUMNS):
        team = row.text("vc")
        if team in shares:
            raise TraceError(row.line, "vc", f"team {team!r} is given twice")
        shares[team] = row.whole("node num", at_least=0)
    return shares


def scenario(
    jobs: Sequence[PhillyJob],
    shares: Mapping[str, int],
    *,
    name: str,
    start_at: datetime,
    until_at: datetime,
    nodes: int,
    cap_s: int,
    other_shares: int,
) -> dict[str, Any]:
    """The jobs submitted in [start_at, until_at) as a scenario file's object.

    Every job is resumable and has a contract of its duration, at most `cap_s`. As short jobs are to keep theirs, the
    scenario's policy lowers `min_runtime_min_s` to 1 s (the usual least would refuse them at the door).

    Args:
        jobs: of the whole trace, whose teams all stand in the tree.
        shares: nodes by team, its shares of the cluster.
        name: of the scenario.
        start_at, until_at: from when, which becomes instant 0, until when.
        nodes: nodes of `GPUS_PER_NODE` that the cluster has.
        cap_s: the longest contract.
        other_shares: shares of each team that `shares` does not name.
    """
    chosen = [job for job in jobs if start_at <= job.submitted_at < until_at]
    teams = sorted(shares.keys() | {job.team for job in jobs})
    return {
        "name": name,
        "cluster": {"nodes": nodes, "gpus_per_node": GPUS_PER_NODE},
        "tree": {team: shares.get(team, other_shares) for team in teams},
        "policy": {"min_runtime_min_s": 1, "min_runtime_max_s": max(cap_s, 1)},
        "workloads": [_workload(job, start_at, cap_s) for job in chosen],
    }


def _workload(job: PhillyJob, start_at: datetime, cap_s: int) -> dict[str, Any]:
    return {
        "id": job.id,
        "leaf": job.team,
        "submit": int((job.submitted_at - start_at).total_seconds()),
        "gpus": job.gpus,
        "min_runtime": min(job.duration_s, cap_s),
        "duration": job.duration_s,
    }
