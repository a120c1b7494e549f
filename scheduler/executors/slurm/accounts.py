"""Slurm's account tree: what `sacctmgr show assoc` lists, what should be there, and the commands between the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.executors.slurm.reading import Row, table

ROOT = "root"
"""The account above all, which is always there."""
COLUMNS = ("Cluster", "Account", "ParentName", "User", "Share")


def list_of(cluster: str) -> list[str]:
    """The command that lists the associations of a cluster (of all, where it is empty)."""
    where = ["where", f"cluster={cluster}"] if cluster else []
    # `ParentName` and `Share` are called the same in the printed header.
    return ["sacctmgr", "--parsable2", "show", "assoc", *where, f"format={','.join(COLUMNS)}"]


@dataclass(frozen=True, slots=True)
class Account:
    """An account below its parent, with its share among its siblings; None where it takes its parent's."""

    name: str
    parent: str
    share: int | None


@dataclass(frozen=True, slots=True)
class Tree:
    """Accounts by name, the root left out; and the accounts that each user may use."""

    accounts: Mapping[str, Account]
    users: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def children(self, parent: str) -> list[Account]:
        """Below an account, by name."""
        return sorted((each for each in self.accounts.values() if each.parent == parent), key=lambda each: each.name)


def read(source: str, text: str) -> Tree:
    """The tree that `list_of` printed, or a file like it.

    Raises:
        Unreadable: names line and column; an account has a parent that is not there, or hangs below itself.
    """
    accounts: dict[str, Account] = {}
    lines: dict[str, Row] = {}
    users: dict[str, set[str]] = {}
    for row in table(source, text, ("Account", "ParentName", "User", "Share")):
        name, user = row.need("Account"), row.text("User")
        if user:
            users.setdefault(user, set()).add(name)
        elif name != ROOT:
            parent = row.text("ParentName") or ROOT
            if name in accounts and accounts[name] != Account(name, parent, _share(row)):
                raise row.fault("Account", f"{name} is listed before, otherwise: choose one cluster")
            accounts[name], lines[name] = Account(name, parent, _share(row)), row
    for name, account in accounts.items():
        _check_above(accounts, account, lines[name])
    return Tree(accounts, {user: frozenset(names) for user, names in users.items()})


def _share(row: Row) -> int | None:
    return None if row.text("Share") == "parent" else row.whole("Share", missing=1)


def _check_above(accounts: Mapping[str, Account], account: Account, row: Row) -> None:
    seen, above = {account.name}, account.parent
    while above != ROOT:
        if above not in accounts:
            raise row.fault("ParentName", f"there is no account {above}")
        if above in seen:
            raise row.fault("ParentName", f"{account.name} hangs below itself")
        seen.add(above)
        above = accounts[above].parent


# --- from what is there to what should be -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as it should be, in words, with the commands that put it right (none: people look)."""

    account: str
    what: str
    is_now: str
    should_be: str
    commands: Sequence[Sequence[str]] = ()


def differences(wanted: Tree, found: Tree, cluster: str) -> list[Difference]:
    """What lacks or differs, parents before their children. Nothing is ever deleted: what is too much is only said."""
    among = [f"cluster={cluster}"] if cluster else []
    told: list[Difference] = []
    for account in _downwards(wanted):
        told += _of_account(account, found.accounts.get(account.name), among)
    for user, names in sorted(wanted.users.items()):
        for name in sorted(names - found.users.get(user, frozenset())):
            command = ["sacctmgr", "--immediate", "add", "user", user, f"account={name}", *among]
            told.append(Difference(name, f"user {user}", "may not use it", "may use it", [command]))
    for name in sorted(set(found.accounts) - set(wanted.accounts)):
        told.append(Difference(name, "account", "is in Slurm", "is no budget's: left alone"))
    return told


def _downwards(tree: Tree) -> list[Account]:
    found: list[Account] = []
    parents = [ROOT]
    while parents:
        below = [account for parent in parents for account in tree.children(parent)]
        found += below
        parents = [account.name for account in below]
    return found


def _of_account(want: Account, has: Account | None, among: Sequence[str]) -> list[Difference]:
    name, share = want.name, want.share if want.share is not None else "parent"
    if has is None:
        command = ["sacctmgr", "--immediate", "add", "account", name, f"parent={want.parent}", f"fairshare={share}"]
        what = f"below {want.parent}, fairshare {share}"
        return [Difference(name, "account", "is missing", what, [[*command, *among]])]
    modify = ["sacctmgr", "--immediate", "modify", "account", "where", f"name={name}", *among, "set"]
    told = []
    if has.parent != want.parent:
        told.append(Difference(name, "parent", has.parent, want.parent, [[*modify, f"parent={want.parent}"]]))
    if has.share != want.share:
        now = "parent" if has.share is None else str(has.share)
        told.append(Difference(name, "fairshare", now, str(share), [[*modify, f"fairshare={share}"]]))
    return told
