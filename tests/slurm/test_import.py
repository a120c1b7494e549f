"""A Slurm site is taken over from files: accounts, people, nodes and history."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from budgets.models import BudgetNode, Cluster, Person, RoleGrant
from budgets.queries import today, tree_on
from scheduler.models import Node, Run, SlurmAccount, UsageHour, Workload
from scheduler.services import usage
from tests.slurm.test_whatif import ASSOC, RECORDS, SINFO


@pytest.fixture
def files(tmp_path: Path, db: None) -> list[str]:
    """A connected cluster, and the options that name a site's files."""
    call_command("slurm_connect", "north", "--mode", "advisory", "--partition", "gpu")
    options = []
    for name, text in (("sacctmgr", ASSOC), ("sinfo", SINFO), ("sacct", RECORDS)):
        (tmp_path / name).write_text(text)
        options += [f"--{name}", str(tmp_path / name)]
    return options


def test_a_site_is_taken_over_once(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("slurm_import", "north", *files, "--people", "--organisation", "Institute")
    said = capsys.readouterr().out
    assert "There: 4 accounts, 2 nodes, 8 records of jobs" in said
    assert "Made: 4 budget nodes, 1 people, 1 memberships; 5 jobs stored as history" in said
    assert "No budget stands for these accounts: other" in said
    cluster = Cluster.objects.get(name="north")
    rows = tree_on(cluster, today())
    assert [(row.node.code, row.basis_points, row.depth) for row in rows] == [
        ("ROOT", 10_000, 0),
        ("GUESTS", 4_000, 1),
        ("LAB", 6_000, 1),
        ("SPEECH", 3_333, 2),
        ("VISION", 6_667, 2),
    ]
    assert BudgetNode.objects.get(parent=None).name == "Institute"
    assert RoleGrant.objects.get(person__username="ada", role="member").node.code == "VISION"
    assert Person.objects.get(username="ada").has_usable_password() is False
    assert list(Node.objects.values_list("name", "rack__name")) == [("n1", "rack1"), ("n2", "rack1")]
    runs = Run.objects.order_by("started_at").values_list("leaf__code", "size_milli", "end_reason")
    assert list(runs) == [
        ("VISION", 8_000, "finished"),
        ("GUESTS", 8_000, "finished"),
        ("SPEECH", 2_000, "finished"),
        ("LAB", 4_000, "failed"),
        ("LAB", 4_000, "finished"),
    ]
    first = Run.objects.earliest("started_at").started_at
    assert UsageHour.objects.filter(node__code="GUESTS", charged_milli_s__gt=0).exists()
    assert usage.check(cluster, first, Run.objects.latest("ended_at").ended_at) == []
    call_command("slurm_import", "north", *files, "--people")
    assert "Made: 0 budget nodes, 0 people, 0 memberships; 0 jobs stored" in capsys.readouterr().out
    assert (Workload.objects.count(), SlurmAccount.objects.count()) == (5, 4)


def test_a_dry_run_changes_nothing(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("slurm_import", "north", *files, "--dry-run")
    assert "8 records of jobs" in capsys.readouterr().out
    assert not BudgetNode.objects.exists()
    assert not Node.objects.exists()


def test_faults_are_named(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "sinfo").write_text("n1|idle|many|1|gpu:8|x|none|\n")
    with pytest.raises(CommandError, match="line 1, CPUs: must be a whole number, not 'many'"):
        call_command("slurm_import", "north", *files)
    with pytest.raises(CommandError, match="south has no Slurm"):
        call_command("slurm_import", "south", *files)
    with pytest.raises(CommandError, match="--mode: is needed"):
        call_command("slurm_connect", "south")
    assert not BudgetNode.objects.exists()


def test_the_status_is_told_from_rows(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("slurm_status", "north")
    assert "writing off; last contact never" in capsys.readouterr().out
    call_command("slurm_status", "north", "--resync")
    assert "asked for at" in capsys.readouterr().out
