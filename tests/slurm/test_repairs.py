"""What Slurm's own checks find is repaired without a person; what an admin has drained is an admin's. By rows alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.executors.slurm.nodes import SlurmNode
from scheduler.models import Node, Repair, SlurmLink
from scheduler.services import clusters, repairs
from scheduler.services.nodes import ask_drain
from scheduler.services.slurm import links, nodes

REASONS = [
    ("NHC: check_hw_gpu: 7 of 8 GPUs", "repairing", False),
    ("Not responding", "repairing", False),
    ("Kill task failed", "repairing", False),
    ("new fans on Tuesday", "person", True),
    ("", "person", True),
]


@pytest.fixture
def link(transactional_db: None) -> SlurmLink:
    """A cluster that Slurm carries out, with a hook."""
    cluster = clusters.create(name="north", executor=Cluster.Executor.SLURM)
    repairs.set_hook(cluster=cluster, kind="portal", command=["/bin/true", "{node}"])
    return links.connect(cluster=cluster, writes=True)


def seen(*flags: str, reason: str = "") -> list[SlurmNode]:
    """One node, as Slurm lists it."""
    return [SlurmNode("n1", frozenset(flags), cpus=8, memory_mib=1_000, gpus=4, gpu_model="h100", reason=reason)]


@pytest.mark.parametrize(("reason", "state", "is_persons"), REASONS)
def test_a_hook_is_tried_for_what_slurm_has_found_itself(
    link: SlurmLink, reason: str, state: str, is_persons: bool
) -> None:
    now = timezone.now().replace(microsecond=0)
    nodes.take(link, seen("IDLE"), now)
    nodes.take(link, seen("IDLE", "DRAIN", reason=reason), now + timedelta(seconds=2))
    repairs.look_after(link.cluster, now + timedelta(seconds=3))
    repairs.look_after(link.cluster, now + timedelta(seconds=4))
    repair = Repair.objects.get()
    assert (repair.state, repair.needed_person) == (state, is_persons)
    nodes.take(link, seen("IDLE"), now + timedelta(seconds=60))
    repairs.look_after(link.cluster, now + timedelta(seconds=61))
    repairs.look_after(link.cluster, now + timedelta(seconds=961))
    repair.refresh_from_db()
    assert (repair.state, repair.needed_person) == ("done", is_persons)


def test_a_node_that_slurm_drained_by_its_own_restart_is_resumed_once_it_is_empty(link: SlurmLink) -> None:
    now = timezone.now().replace(microsecond=0)
    nodes.take(link, seen("IDLE"), now)
    (slip,) = seen("IDLE", "DRAIN", reason="Duplicate jobid")
    assert nodes.orders(link, [replace(slip, held_cpus=1)]) == []
    assert nodes.orders(link, [slip]) == [["scontrol", "update", "NodeName=n1", "State=RESUME"]]
    assert nodes.orders(link, seen("IDLE", "DRAIN", reason="new fans")) == []
    ask_drain(node=Node.objects.get())
    assert nodes.orders(link, [slip]) == []  # we want it drained, too


def test_nodes_of_a_slurm_have_no_agent_that_could_repair_them(link: SlurmLink) -> None:
    with pytest.raises(InputError, match="nodes of a Slurm have no agent that could"):
        repairs.set_hook(cluster=link.cluster, kind="node")
