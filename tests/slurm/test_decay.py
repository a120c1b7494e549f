"""Use that decays, beside a real Slurm: what its accounts have used with a half-life, and who goes first by that.

Slurm counts what a job used up to its last period when it ends, and decays everything once a period (a minute): so it
counts a little less than what decays all the time, by what decays in two periods at the most. It does so only where
limits are enforced (`AccountingStorageEnforce`): else it counts what jobs use only while they run, once a period, and
nothing at all of those that come and go inside one. Ranks are those of the last period's end.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler.engine import BudgetNode, LeafUse, Policy, Snapshot, Workload, decayed_milli_s, order
from scheduler.engine.policies.half_life import HALF
from tests.slurm.cluster import SlurmSite, missing

pytestmark = pytest.mark.long

HALF_LIFE_S = 120
PERIOD_S = 60
APART_S = 60
"""So long after the end of the first jobs the last one starts: time for decay to make the larger use the smaller."""
SMALLER = 0.8
"""What the last job uses of what the first ones have used."""
KEPT = 1 - HALF / HALF_LIFE_S
ACCOUNTS = {"phys": ("root", 50), "bio": ("root", 50), "p1": ("phys", 3), "p2": ("phys", 1), "b1": ("bio", 1)}
PATIENCE_S = 100


class Used(NamedTuple):
    """A job that has ended."""

    account: str
    cpus: int
    from_s: int
    until_s: int

    @property
    def whole(self) -> int:
        """Core-seconds."""
        return self.cpus * (self.until_s - self.from_s)


@pytest.fixture(scope="module")
def decaying() -> Iterator[SlurmSite]:
    """A Slurm of our own whose use decays; without one, a skip that says so."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="allotment-slurm-", dir="/tmp"))
    site = SlurmSite(
        folder,
        settings={
            "PriorityDecayHalfLife": f"00:{HALF_LIFE_S // 60:02}:00",
            "PriorityCalcPeriod": f"00:{PERIOD_S // 60:02}:00",
            "AccountingStorageEnforce": "associations,limits",
        },
    )
    try:
        yield site.start()
    finally:
        site.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_use_decays_as_in_slurm_and_the_order_is_the_same(decaying: SlurmSite) -> None:
    for name, (above, shares) in ACCOUNTS.items():
        decaying.run("sacctmgr", "-i", "add", "account", name, f"parent={above}", f"fairshare={shares}")
    decaying.run("sacctmgr", "-i", "add", "user", "root", "account=p1,p2,b1", "fairshare=1")
    used = run_jobs(decaying, 14, p1=64, p2=40)
    await_period(decaying)
    time.sleep(max(0, used[0].until_s + APART_S - time.time()))
    most = sum(job.whole for job in used)
    used += run_jobs(decaying, round(SMALLER * most / 120), b1=120)
    assert used[-1].whole < most, "without decay b1 would go first"
    before_s, raw, _ = shown(decaying)
    await_period(decaying)
    at_s, later, ranks = shown(decaying)
    for name, amount in later.items():
        assert amount == pytest.approx(raw[name] * KEPT ** (at_s - before_s), abs=2)
        ours = used_s(used, name, at_s)
        assert amount <= ours + 2
        assert ours * KEPT ** (2 * max(PERIOD_S, at_s - before_s)) <= amount + 2
    assert ours_in_order(used, at_s) == in_order(ranks) == ["p1", "p2", "b1"], (used, raw, later)


def run_jobs(slurm: SlurmSite, for_s: int, **cpus: int) -> list[Used]:
    """Let jobs of these accounts sleep at once on so many cores; what they have used."""
    jobs = {}
    for account, number in cpus.items():
        asked = ("sbatch", "--parsable", "-A", account, "-n", str(number), "--chdir=/tmp", "-o", "/dev/null")
        jobs[account] = slurm.run(*asked, "--wrap", f"sleep {for_s}").strip()
    ends_s = time.monotonic() + PATIENCE_S
    while slurm.run("squeue", "-h"):
        assert time.monotonic() < ends_s, slurm.run("squeue", "-a")
        time.sleep(0.2)
    return [_used(slurm, account, number, jobs[account]) for account, number in cpus.items()]


def _used(slurm: SlurmSite, account: str, cpus: int, job: str) -> Used:
    said = dict(word.partition("=")[::2] for word in slurm.run("scontrol", "-o", "show", "job", job).split())
    assert said["JobState"] == "COMPLETED", said
    assert f"billing={cpus}" in said["TRES"]
    return Used(account, cpus, *(_instant_s(said[name]) for name in ("StartTime", "EndTime")))


def _instant_s(said: str) -> int:
    return int(time.mktime(time.strptime(said, "%Y-%m-%dT%H:%M:%S"))) - time.timezone


def decayed_at_s(slurm: SlurmSite) -> int:
    """The instant to which use has decayed, as slurmctld keeps it; 0 if it never has."""
    note = slurm.root / "ctld" / "priority_last_decay_ran"
    return int.from_bytes(note.read_bytes()[:8], "big") if note.exists() else 0


def await_period(slurm: SlurmSite) -> None:
    """Wait until use has decayed once more."""
    before_s = decayed_at_s(slurm)
    ends_s = time.monotonic() + PATIENCE_S
    while decayed_at_s(slurm) == before_s:
        assert time.monotonic() < ends_s, "use does not decay"
        time.sleep(0.2)


def shown(slurm: SlurmSite) -> tuple[int, dict[str, int], dict[str, float]]:
    """RawUsage and FairShare of the accounts of the jobs, as sshare has them, and the instant to which they decayed."""
    at_s = -1
    raw: dict[str, int] = {}
    ranks: dict[str, float] = {}
    while at_s != decayed_at_s(slurm):
        at_s = decayed_at_s(slurm)
        time.sleep(1)  # the ranks follow
        for line in slurm.run("sshare", "-anP", "-o", "account,user,rawusage,fairshare").splitlines():
            account, user, usage, rank = (each.strip() for each in line.split("|"))
            if user and account != "root":
                raw[account], ranks[account] = int(usage), float(rank)
    return at_s, raw, ranks


def in_order(ranks: dict[str, float]) -> list[str]:
    """Accounts, the one that goes first first."""
    return sorted(ranks, key=lambda name: -ranks[name])


def used_s(used: list[Used], account: str, now_s: int) -> float:
    """What an account has used counts so many core-seconds now, as the engine has it."""
    return sum(
        decayed_milli_s(job.cpus * 1_000, job.from_s, job.until_s, now_s, HALF_LIFE_S) / 1_000
        for job in used
        if job.account == account
    )


def ours_in_order(used: list[Used], now_s: int) -> list[str]:
    """Accounts in the order in which the engine would serve them, if each asked for something."""
    leaves = ("p1", "p2", "b1")
    tree = [BudgetNode("", None, 1, 1)]
    for name, (above, shares) in ACCOUNTS.items():
        whole = sum(more for other, more in ACCOUNTS.values() if other == above)
        tree.append(BudgetNode(name, "" if above == "root" else above, shares, whole))
    snapshot = Snapshot.build(
        now_s=now_s,
        tree=tree,
        use={name: LeafUse(charged_milli_s=1_000 * used_s(used, name, now_s)) for name in leaves},
        nodes=[],
        runs=[],
        queue=[Workload(name, name, 1_000, 60, now_s) for name in sorted(leaves)],
        half_life_s=HALF_LIFE_S,
    )
    return list(order(snapshot, Policy(tree_order="half_life", half_life_s=HALF_LIFE_S)))
