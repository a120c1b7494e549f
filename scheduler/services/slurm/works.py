"""What a look works with: the rows of what should run, and the desk that carries commands out or only lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from budgets.models import Cluster
from scheduler.executors.base import Cause, RankFact, RankState
from scheduler.executors.slurm import SlurmError, Unreachable, commands
from scheduler.executors.slurm.calling import Caller
from scheduler.executors.slurm.commands import Mark, Shape, Submission
from scheduler.models import Holding, Rank, Run, SlurmAccount, SlurmLink, Workload
from scheduler.services import facts, policies
from scheduler.services.facts import Said
from scheduler.services.secret_variables import variables_of
from scheduler.services.slurm.jobs import Ours

PLAN_SHOWN = 200
"""So much of what was only planned, or refused, is kept for the page."""


@dataclass(slots=True)
class Desk:
    """Carries commands out, or lists them; counts what was done, and keeps what was refused."""

    link: SlurmLink
    caller: Caller
    done: int = 0
    planned: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def order(self, *steps: Sequence[str]) -> bool:
        """Carry out commands in this order; whether all were.

        Raises:
            Unreachable: Slurm has gone; nothing more is asked of it in this look.
        """
        if not self.link.writes:
            self.planned += [commands.shown(step) for step in steps]
            return False
        for step in steps:
            try:
                self.caller(step)
            except Unreachable:
                raise
            except SlurmError as error:
                self.troubles.append(f"{commands.shown(step)}: {error}"[:400])
                return False
            self.done += 1
        return True


class Works:
    """Rows that a look needs, read at once: runs that have not ended, what they hold, accounts."""

    def __init__(self, ours: Ours) -> None:
        """Read them: a number of queries that no number of rows raises."""
        self.ours = ours
        self.link, self.now = ours.link, ours.now
        self.unit = "core" if ours.link.cluster.unit == Cluster.Unit.CORE else "gpu"
        rows = Run.objects.filter(cluster=ours.link.cluster).exclude(state=Run.State.ENDED)
        self.runs = list(rows.select_related("workload__owner", "workload__leaf").order_by("pk"))
        self.by_workload = {run.workload_id: run for run in self.runs}
        self.places: dict[int, list[tuple[int, str]]] = {}
        ranks = Rank.objects.filter(run__in=self.runs).order_by("run", "index")
        for run_id, node_id, name in ranks.values_list("run_id", "node_id", "node__name"):
            self.places.setdefault(run_id, []).append((node_id, name))
        self.devices: dict[int, dict[int, int]] = {}
        held = Holding.objects.filter(run__in=self.runs).values_list("run_id", "node_id")
        for run_id, node_id in held:
            by_node = self.devices.setdefault(run_id, {})
            by_node[node_id] = by_node.get(node_id, 0) + 1
        lacking = {each["account"] for each in ours.link.drift if each["commands"]}
        named = SlurmAccount.objects.filter(cluster=ours.link.cluster).exclude(name__in=lacking)
        is_known = ours.link.drift_at is not None  # an account that is not there yet would have the job refused
        self.accounts = dict(named.values_list("node_id", "name")) if is_known else {}

    def shape(self, run: Run) -> Shape:
        """What a run's job asks for: what it holds, which on nodes of unequal size is all of each."""
        held = self.devices[run.pk].values()
        total = sum(held) if min(held) != max(held) else 0
        return Shape(len(self.places[run.pk]), min(held), self.unit, total)

    def nodes(self, run: Run) -> list[str]:
        """Its nodes, by rank."""
        return [name for _node_id, name in self.places[run.pk]]

    def submission(self, workload: Workload, shape: Shape, restores: bool) -> Submission:
        """The job of a workload."""
        limit_s = None if workload.time_limit_s is None else workload.time_limit_s + 86_400  # ours ends it, in time
        path = workload.leaf.path
        account = next((self.accounts[pk] for pk in reversed(path) if pk in self.accounts), "")
        owner = workload.owner.username if self.link.run_as_owner and workload.owner is not None else ""
        return Submission(
            mark=Mark(self.link.token, workload.code, 0),
            shape=shape,
            command=list(workload.restore_command if restores else workload.command),
            environment=variables_of(workload),
            limit_s=limit_s,
            account=account,
            partition=self.link.partition,
            qos=self.link.qos,
            user=owner,
            memory_mib=workload.memory_mib_per_rank,
            cpus=-(-workload.cpu_milli_per_rank // 1_000),
            folder=self.link.folder,
            save_command=list(workload.save_command),
            grace_s=self.grace_s,
            checkpoint=workload.checkpoint,
            restores=restores,
            aligns=workload.communication is not None,
        )

    @cached_property
    def grace_s(self) -> int:
        """What runs get for leaving where nothing else is said."""
        return policies.as_policy(policies.latest(self.link.cluster)).grace_s

    def fail(self, run: Run, state: RankState, cause: Cause, message: str, exit_code: int | None) -> None:
        """All ranks of a run that never began are over."""
        fact = RankFact(run.pk, 0, state, exited_age_s=0, exit_code=exit_code, cause=cause, message=message[:300])
        ranks = Rank.objects.filter(run=run, state__in=facts.LIVE_STATES).values_list("index", "node_id")
        said = [
            Said(node_id, RankFact(run.pk, index, fact.state, None, None, 0, exit_code, cause, fact.message), self.now)
            for index, node_id in ranks
        ]
        facts.report_all(cluster_id=run.cluster_id, said=said)
