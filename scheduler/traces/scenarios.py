"""Any trace's jobs as a scenario file's object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.simulator.counted import CountedJob

GPUS_PER_NODE = 8
"""Of the nodes for a trace that says nothing of them."""
ONE_TEAM = "all"
"""The leaf of jobs whose trace names no team."""
CONTRACT_CAP_S = 3_600
"""The longest contract of a trace's jobs, if nothing else is said."""


def on_plain_nodes(jobs: Sequence[CountedJob], *, name: str, gpus: int) -> dict[str, Any]:
    """Jobs of equal teams on nodes of 8 GPUs, with contracts of their durations, at most `CONTRACT_CAP_S`.

    Args:
        jobs: at least one.
        name: of the scenario.
        gpus: of the cluster, a multiple of 8.
    """
    named = [job if job.team else job._replace(team=ONE_TEAM) for job in jobs]
    return scenario(
        named,
        name=name,
        cluster={"nodes": gpus // GPUS_PER_NODE, "gpus_per_node": GPUS_PER_NODE},
        shares={job.team: 1 for job in named},
        cap_s=CONTRACT_CAP_S,
    )


def scenario(
    jobs: Sequence[CountedJob],
    *,
    name: str,
    cluster: Mapping[str, Any],
    shares: Mapping[str, int],
    cap_s: int,
    uncharged_teams: Sequence[str] = (),
) -> dict[str, Any]:
    """Every job as a resumable workload with a contract of its duration, at most `cap_s`.

    Instant 0 is the first submission. As short jobs are to keep their contracts, the scenario's policy lowers
    `min_runtime_min_s` to 1 s. An estimate is kept for the schedulers that go by it.

    Args:
        jobs: in the order of the file.
        name: of the scenario.
        cluster: the scenario's cluster.
        shares: by team, of every team that has a job.
        cap_s: the longest contract.
        uncharged_teams: teams whose jobs ask for no contract.
    """
    start_s = min(job.submit_s for job in jobs)
    return {
        "name": name,
        "cluster": dict(cluster),
        "tree": {team: shares[team] for team in sorted(shares)},
        "policy": {"min_runtime_min_s": 1, "min_runtime_max_s": max(cap_s, 1)},
        "workloads": [
            _workload(job, start_s, 0 if job.team in uncharged_teams else min(job.duration_s, cap_s)) for job in jobs
        ],
    }


def _workload(job: CountedJob, start_s: int, min_runtime_s: int) -> dict[str, Any]:
    whole, rest = divmod(job.size_milli, 1_000)
    row: dict[str, Any] = {
        "id": job.id,
        "leaf": job.team,
        "submit": job.submit_s - start_s,
        "gpus": job.size_milli / 1_000 if rest else whole,
        "min_runtime": min_runtime_s,
        "duration": job.duration_s,
    }
    if job.estimate_s is not None:
        row["estimate"] = job.estimate_s
    return row
