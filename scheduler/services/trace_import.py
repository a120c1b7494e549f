"""Another scheduler's records, read from a trace, stored as the history of a cluster of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import queries
from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster
from budgets.services import checks, shares, tree
from budgets.split import in_proportion
from scheduler.models import Workload
from scheduler.services import clusters, history, usage
from scheduler.services.history import Added, PastNode, PastRun, PastWorkload

WHOLE_BASIS_POINTS = 10_000
MILLI = 1_000


@dataclass(frozen=True, slots=True)
class PastJob:
    """One job that has ended: a gang of `units` whole units, held for `duration_s`. The trace says no more."""

    team: str
    name: str
    submitted_at: datetime
    duration_s: int
    units: int


def store(
    *,
    cluster: str,
    organisation: str,
    jobs: Sequence[PastJob],
    quotas: Mapping[str, int],
    nodes: int,
    units_per_node: int,
    cap_s: int,
) -> Added:
    """Make a cluster, a budget node for each team, its shares in proportion to its quota, and the jobs as ended work.

    Each team is a node below the root (which is made where there is none, and called `organisation`); its id is its
    code. On the new cluster the teams share the whole, exactly. Every job is taken as funded under a contract of its
    duration, at most `cap_s`, and as started when it was submitted, since the trace does not say when. One
    transaction: all or nothing.

    Args:
        cluster: the new cluster's name; it has simulated nodes.
        organisation: the root's name, if one has to be made.
        jobs: in any order.
        quotas: whole shares by team, of every team that has a job.
        nodes, units_per_node: what the cluster had, healthy all the time; retired with the last end.
        cap_s: the longest contract, whole seconds.

    Raises:
        InputError: names what is taken or wrong.
    """
    if not jobs:
        raise InputError("jobs", gettext("there are none"))
    if sum(quotas.values()) == 0:
        raise InputError("shares", gettext("sum to 0"))
    start = min(job.submitted_at for job in jobs)
    end = max(job.submitted_at + timedelta(seconds=job.duration_s) for job in jobs)
    if end > timezone.now():
        raise InputError("jobs", gettext("one ends at {end:%Y-%m-%d %H:%M}, which is still to come").format(end=end))
    with transaction.atomic():
        row = clusters.create(name=cluster, executor=Cluster.Executor.SIMULATED, title=f"Imported: {cluster}")
        root = BudgetNode.objects.filter(parent=None).first() or tree.create_root(
            code="ROOT", name=organisation, at=start, reason="import of a trace"
        )
        teams = _teams(root, sorted(quotas), start)
        _share(root, row, teams, quotas, start)
        history.add_nodes(
            row,
            [PastNode(f"n{number:04d}", units_per_node, [("healthy", start, end)]) for number in range(1, nodes + 1)],
        )
        added = history.add(row, (_workload(job, teams[job.team], units_per_node, cap_s) for job in jobs))
        usage.rebuild(row, start, end)
        checks.announce([row.pk])
    return added


def _teams(root: BudgetNode, names: Sequence[str], at: datetime) -> dict[str, BudgetNode]:
    return {
        name: tree.add_child(
            parent=root, kind="program", code=name, name=f"team {name}", by=None, at=at, reason="import of a trace"
        )
        for name in names
    }


def _share(
    root: BudgetNode, cluster: Cluster, teams: Mapping[str, BudgetNode], quotas: Mapping[str, int], start: datetime
) -> None:
    parts = in_proportion(WHOLE_BASIS_POINTS, [quotas[name] for name in teams])
    shares.set_shares(
        parent=root,
        cluster=cluster,
        shares=dict(zip(teams.values(), parts, strict=True)),
        valid_from=queries.day_of(start),
        by=None,
        reason="import of a trace",
    )


def _workload(job: PastJob, leaf: BudgetNode, units_per_node: int, cap_s: int) -> PastWorkload:
    """Gangs larger than a node hold whole nodes."""
    held = job.units if job.units <= units_per_node else -(-job.units // units_per_node) * units_per_node
    contract_s = min(job.duration_s, cap_s)
    ended_at = job.submitted_at + timedelta(seconds=job.duration_s)
    run = PastRun(
        started_at=job.submitted_at,
        running_at=job.submitted_at,
        contract_ends_at=job.submitted_at + timedelta(seconds=contract_s),
        ended_at=ended_at,
        end_reason="finished",
        size_milli=held * MILLI,
        is_funded=True,
    )
    return PastWorkload(
        leaf=leaf,
        owner=None,
        name=job.name,
        size_milli=job.units * MILLI,
        min_runtime_s=contract_s,
        state=Workload.State.FINISHED,
        reason=("finished", "Finished, as its record says."),
        submitted_at=job.submitted_at,
        ended_at=ended_at,
        runs=[run],
    )
