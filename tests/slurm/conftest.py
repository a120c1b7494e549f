"""A portal with one cluster, and a real Slurm below it that runs as long as the tests do."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from budgets.models import BudgetNode, Cluster
from budgets.services import shares, tree
from scheduler.executors.slurm import jobs as slurm_jobs
from scheduler.executors.slurm.jobs import Job
from scheduler.loop import live_on, look_at
from scheduler.models import Node, Rank, Run, SlurmJob, SlurmLink, Workload
from scheduler.services import clusters, policies, workloads
from scheduler.services.slurm import links, look
from tests.slurm.cluster import CPUS, GPUS, SlurmSite, missing

PATIENCE_S = 40
GRACE_S = 2


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmSite]:
    """A Slurm of our own; without one, a skip that says so."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="allotment-slurm-", dir="/tmp"))
    site = SlurmSite(folder)
    try:
        yield site.start()
    finally:
        site.stop()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Site:
    """The portal's side of it."""

    slurm: SlurmSite
    cluster: Cluster
    leaf: BudgetNode
    rival: BudgetNode
    link: SlurmLink

    def submit(self, *command: str, gpus: int = 1, min_runtime_s: int = 300, **more: Any) -> Workload:
        """Submit a command."""
        return workloads.submit(
            cluster=self.cluster,
            leaf=more.pop("leaf", self.leaf),
            owner=more.pop("owner", None),
            size_milli=gpus * 1_000,
            min_runtime_s=min_runtime_s,
            command=list(command),
            **more,
        )

    def step(self) -> look.Looked | None:
        """Look at Slurm, then let the portal live on."""
        looked = look.look(self.cluster.pk)
        live_on(self.cluster, timezone.now())
        look_at(self.cluster.pk, is_due=True)
        return looked

    def until(
        self, what: Callable[[], Any], *, within_s: float = PATIENCE_S, step: Callable[[], object] | None = None
    ) -> Any:
        """What `what` says as soon as that is true, living on meanwhile, by that step if one is given."""
        ends_s = time.monotonic() + within_s
        while not (said := what()):
            assert time.monotonic() < ends_s, f"it did not happen in time\n{self.told()}"
            (step or self.step)()
            time.sleep(0.1)
        return said

    def wait(self, workload: Workload, *states: str, within_s: float = PATIENCE_S) -> Workload:
        """The workload, once it is in one of these states."""

        def there() -> bool:
            workload.refresh_from_db()
            is_over = workload.state in Workload.ENDED_STATES
            assert workload.state in states or not is_over, f"it is {workload.state}\n{self.told()}"
            return workload.state in states

        self.until(there, within_s=within_s)
        return workload

    def told(self) -> str:
        """How everything stands, for a failure's message."""
        self.link.refresh_from_db()
        rows = "\n".join(str(row) for row in Workload.objects.values("code", "state", "reason_code", "reason_text"))
        jobs = "\n".join(str(row) for row in SlurmJob.objects.values())
        ranks = "\n".join(str(row) for row in Rank.objects.values("run", "index", "state", "exit_code", "message"))
        found = self.slurm.run("squeue", "-a", "-t", "all", must=False)
        return f"{rows}\n{jobs}\n{ranks}\n{found}\n{self.link.error}\n{self.link.troubles}"

    def jobs(self) -> list[Job]:
        """All jobs, as Slurm lists them."""
        return slurm_jobs.read(self.slurm.run(*slurm_jobs.LIST))

    def job(self, workload: Workload) -> Job:
        """A workload's job in Slurm."""
        job_id = SlurmJob.objects.filter(workload=workload).latest("pk").job_id
        return next(job for job in self.jobs() if job.id == job_id)

    def run(self, workload: Workload) -> Run:
        """Its last run."""
        return workload.runs.order_by("-number").first()

    def nodes_of(self, run: Run) -> list[str]:
        """Its nodes, as the engine chose them."""
        return list(run.ranks.order_by("index").values_list("node__name", flat=True))

    def node(self, name: str) -> Node:
        """A node's row."""
        return Node.objects.get(cluster=self.cluster, name=name)

    def printed(self, workload: Workload) -> str:
        """What all its ranks have printed."""
        paths = (self.slurm.root / "jobs" / workload.code / ".allotment").glob("*.out")
        return "".join(path.read_text() for path in sorted(paths))


def tidy(slurm: SlurmSite) -> None:
    """No job, and no node drained, is left of an earlier test."""
    for name in ("slurmdbd", "slurmctld"):
        process = slurm.processes.get(name)
        if process is None or process.poll() is not None:
            slurm.processes.pop(name, None)
            slurm.start_dbd() if name == "slurmdbd" else slurm.start_ctld()
    ids = sorted(set(slurm.run("squeue", "-ah", "-o", "%A").split()))
    if ids:
        slurm.run("scancel", *ids, must=False)
    for name in slurm.all_nodes:
        slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME", must=False)
    ends_s = time.monotonic() + PATIENCE_S
    while set(slurm.run("sinfo", "-hN", "-o", "%N=%T").split()) != {f"{name}=idle" for name in slurm.all_nodes}:
        assert time.monotonic() < ends_s, slurm.run("sinfo", "-N") + slurm.run("squeue", "-a")
        time.sleep(0.1)


@pytest.fixture
def site(slurm: SlurmSite, transactional_db: None) -> Site:
    """A cluster that Slurm carries out, with two projects of equal shares."""
    tidy(slurm)
    return make_site(slurm, Cluster.Executor.SLURM)


def make_site(
    slurm: SlurmSite, executor: str, codes: tuple[str, str] = ("A", "B"), *, unit: str = "gpu", partition: str = "gpu"
) -> Site:
    """A portal of that mode; of the nodes of one partition."""
    cluster = clusters.create(name="north", executor=executor, unit=unit)
    policies.change(cluster=cluster, knobs={"grace_s": GRACE_S, "healthy_dwell_s": 0, "kill_wait_s": 60})
    root = tree.create_root(code="lab", name="Laboratory")
    leaves = [
        tree.add_child(parent=root, kind=BudgetNode.Kind.PROJECT, code=code, name=f"Project {code}", by=None)
        for code in codes
    ]
    root.refresh_from_db()
    today = timezone.localdate() - timedelta(days=1)
    shares.set_shares(parent=root, cluster=cluster, shares=dict.fromkeys(leaves, 5_000), valid_from=today, by=None)
    link = links.connect(
        cluster=cluster,
        conf=str(slurm.conf),
        name="test",
        partition=partition,
        folder=str(slurm.root / "jobs"),
        writes=True,
    )
    for path in (slurm.root / "jobs").iterdir():
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
    site = Site(slurm, cluster, leaves[0], leaves[1], link)
    if executor == Cluster.Executor.SLURM:
        site.step()
        if partition == "gpu":
            assert Node.objects.filter(cluster=cluster).count() == len(slurm.nodes), site.told()
            assert site.node("n1").devices.count() == (GPUS if unit == "gpu" else CPUS)
    return site
