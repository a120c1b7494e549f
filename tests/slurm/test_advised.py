"""Slurm decides by the shares given here: they are written as its account tree, and what ran there is read back."""

from __future__ import annotations

import itertools
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from budgets.models import BudgetNode, Cluster, Person
from budgets.services import roles, shares, tree
from scheduler.executors.slurm import accounts
from scheduler.models import Device, Holding, Pass, Run, SlurmAccount, SlurmLink, SlurmOrder, UsageHour, Workload
from scheduler.services import usage
from scheduler.services.slurm import look
from scheduler.services.slurm import shares as slurm_shares
from tests.slurm.cluster import SlurmSite
from tests.slurm.conftest import Site, make_site, tidy

pytestmark = pytest.mark.long


NUMBERS = itertools.count(1)


@pytest.fixture
def site(slurm: SlurmSite, transactional_db: None) -> Site:
    """A cluster that Slurm decides on; its projects are called as none before, since accounts stay in Slurm."""
    tidy(slurm)
    number = next(NUMBERS)
    return make_site(slurm, Cluster.Executor.ADVISED, (f"X{number}", f"Y{number}"))


def ours(site: Site, found: accounts.Tree) -> dict[str, accounts.Account]:
    """The accounts of this test's projects, without the number."""
    end = site.leaf.code[1:]
    return {
        name.removesuffix(end): accounts.Account(name.removesuffix(end), each.parent.removesuffix(end), each.share)
        for name, each in found.accounts.items()
        if name.endswith(end)
    }


def to_do(site: Site) -> list[list[str]]:
    """The commands that would put right what differs."""
    return [each["commands"] for each in SlurmLink.objects.get(pk=site.link.pk).drift if each["commands"]]


def there(site: Site) -> accounts.Tree:
    """The account tree as it is."""
    return accounts.read("sacctmgr", site.slurm.run(*accounts.list_of("test")))


def again(site: Site) -> None:
    """Compare now, not within a minute; and read the accounting now."""
    SlurmLink.objects.update(drift_at=None, usage_until=None)
    site.step()


def test_shares_are_written_and_kept_so(site: Site) -> None:
    person = Person.objects.create(username="daemon", display_name="Dee")
    roles.grant(person=person, node=site.leaf, role="member", valid_from=timezone.localdate(), by=None)
    site.step()
    found = there(site)
    assert ours(site, found) == {
        "x": accounts.Account("x", "root", 5_000),
        "y": accounts.Account("y", "root", 5_000),
    }
    assert site.leaf.code.lower() in found.users["daemon"]
    root = BudgetNode.objects.get(parent=None)
    child = tree.add_child(
        parent=site.rival, kind="subproject", code=f"Z{site.leaf.code[1:]}", name="Part of Y", by=None
    )
    shares.set_shares(
        parent=root,
        cluster=site.cluster,
        shares={site.leaf: 7_000, site.rival: 3_000},
        valid_from=timezone.localdate(),
        by=None,
    )
    site.rival.refresh_from_db()
    shares.set_shares(
        parent=site.rival, cluster=site.cluster, shares={child: 10_000}, valid_from=timezone.localdate(), by=None
    )
    again(site)
    assert ours(site, there(site)) == {
        "x": accounts.Account("x", "root", 7_000),
        "y": accounts.Account("y", "root", 3_000),
        "z": accounts.Account("z", "y", 10_000),
    }
    assert to_do(site) == []
    name = site.leaf.code.lower()
    site.slurm.run("sacctmgr", "-i", "modify", "account", "where", f"name={name}", "set", "fairshare=1")
    site.slurm.run("sacctmgr", "-i", "add", "account", "stray")
    again(site)
    assert there(site).accounts[name].share == 7_000
    drift = SlurmLink.objects.get(pk=site.link.pk).drift
    assert ("stray", "is no budget's: left alone", []) in [
        (each["account"], each["should_be"], each["commands"]) for each in drift
    ]
    assert Pass.objects.count() == 0


def test_a_dry_run_shows_the_exact_commands_and_one_node_can_be_written_alone(site: Site) -> None:
    site.link.writes = False
    site.link.save()
    again(site)
    assert to_do(site) == [
        [f"sacctmgr --immediate add account {node.code.lower()} parent=root fairshare=5000 cluster=test"]
        for node in (site.leaf, site.rival)
    ]
    assert ours(site, there(site)) == {}
    slurm_shares.ask(cluster=site.cluster, node=site.leaf, by=None)
    site.step()
    order = SlurmOrder.objects.get()
    assert (order.outcome, order.message) == ("failed", "Writing is off for this cluster: nothing was changed.")
    assert ours(site, there(site)) == {}
    # With writing on, everything is written each minute; an order writes one node at once.
    SlurmLink.objects.update(writes=True, drift_at=timezone.now())
    slurm_shares.ask(cluster=site.cluster, node=site.leaf, by=None)
    site.step()
    assert SlurmOrder.objects.first().outcome == "done"
    assert "x" in ours(site, there(site))


def test_an_account_that_was_deleted_comes_back(site: Site) -> None:
    site.step()
    site.slurm.run("sacctmgr", "-i", "delete", "account", f"name={site.rival.code.lower()}")
    assert "y" not in ours(site, there(site))
    again(site)
    assert ours(site, there(site))["y"].share == 5_000


def test_what_ran_in_slurm_is_used_here(site: Site) -> None:
    site.step()
    one, other = site.leaf.code.lower(), site.rival.code.lower()
    for name in (one, other):
        site.slurm.run("sacctmgr", "-i", "add", "user", "root", f"account={name}")
    sent = ("sbatch", "--parsable", "-o", "/dev/null")
    long = int(site.slurm.run(*sent, f"--account={one}", "--gpus=6", "-N2", "--wrap", "sleep 300"))
    site.until(lambda: Workload.objects.filter(state="running").exists())
    run = Run.objects.get(state="running")
    assert (run.leaf, run.size_milli, run.funded) == (site.leaf, 6_000, True)
    assert Holding.objects.filter(run=run, released_at=None).count() == 6
    assert Device.objects.filter(held_milli=1_000).count() == 6
    short = site.slurm.run(
        *sent, f"--account={other}", "--gpus=2", "-J", "short one", "--wrap", "sleep 2; exit 3"
    ).strip()
    site.slurm.run(*sent, "--account=root", "--gpus=1", "--wrap", "true")
    site.until(lambda: next(job.state for job in site.jobs() if job.id == int(short)) == "FAILED")
    site.slurm.run("scancel", str(long))
    site.until(lambda: Workload.objects.filter(state="cancelled").exists())
    time.sleep(1.5)  # Slurm's accounting is told a moment later
    for _twice in (1, 2):
        again(site)
    found = Workload.objects.order_by("leaf__code").values_list("leaf__code", "state", "size_milli", "reason_text")
    assert list(found) == [
        (site.leaf.code, "cancelled", 6_000, found[0][3]),
        (site.rival.code, "failed", 2_000, "Ended in Slurm: failed."),
    ]
    brief = Run.objects.get(leaf=site.rival)
    assert (brief.state, brief.end_reason) == ("ended", "failed")
    assert brief.ended_at is not None
    assert 1 <= (brief.ended_at - brief.started_at).total_seconds() <= 8
    assert not Holding.objects.filter(released_at=None).exists()
    assert "root" in " ".join(SlurmLink.objects.get(pk=site.link.pk).troubles)
    usage.roll_up(site.cluster)
    assert UsageHour.objects.filter(node=site.leaf, charged_milli_s__gt=0).exists()
    assert usage.check(site.cluster, timezone.now() - timedelta(hours=3), timezone.now()) == []
    assert Pass.objects.count() == 0


def test_two_lookers_do_not_meet(site: Site) -> None:
    with look.the_only_one(site.cluster.pk) as is_mine:
        assert is_mine
        assert look.look(site.cluster.pk) is not None  # the same session: locks count up
    assert SlurmAccount.objects.count() == 2  # a look was made
