"""The shares given here, as Slurm's account tree: what should be there, what differs, and who had it written.

An account stands for a budget node, below the account of its parent; the organisation itself is Slurm's own root.
Fairshares are basis points, so siblings weigh as their shares do. Nothing in Slurm is ever deleted. Where decisions are
made here the fairshares decide nothing, and the accounts say whose jobs are whose.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from budgets import queries
from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import BudgetNode, Cluster, Person, Role, RoleGrant
from scheduler.executors.slurm import SlurmError, Unreadable, accounts, commands
from scheduler.executors.slurm.accounts import ROOT, Account, Difference, Tree
from scheduler.executors.slurm.calling import WRITE_TIMEOUT_S, Caller
from scheduler.models import SlurmAccount, SlurmLink, SlurmOrder

DRIFT_S = 60
"""How often the account tree is compared."""
DRIFT_SHOWN = 500
WRITTEN_A_LOOK = 20
"""So many differences are written in one look: each takes half a second, and jobs wait meanwhile."""
NAME_MAX = 60
UNIX_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}", re.ASCII)
"""Whom Slurm can know. Others here are called what no user of Unix is, or what sacctmgr would take for an option."""


def tend(link: SlurmLink, caller: Caller, now: datetime) -> list[str]:
    """Compare, write what the portal owns, and do what was asked for. Says what went wrong, in words.

    Slurm's database may be away for long while its controller works: that stops no job.
    """
    waiting = list(SlurmOrder.objects.filter(cluster=link.cluster, outcome=SlurmOrder.Outcome.WAITING).order_by("pk"))
    is_due = link.drift_at is None or now - link.drift_at >= timedelta(seconds=DRIFT_S)
    if not waiting and not is_due:
        return []
    try:
        found = compare(link, caller)
        is_all = True
        if waiting or link.writes:
            is_all = _write(link, caller, found, waiting, now)
            found = compare(link, caller)
    except (SlurmError, Unreadable) as error:
        return [f"accounts: {error}"[:400]]
    _keep(link, found, now if is_all else now - timedelta(seconds=DRIFT_S))
    return []


def compare(link: SlurmLink, caller: Caller) -> list[Difference]:
    """Where the account tree is not as the shares of today say.

    Raises:
        SlurmError, Unreadable: it did not answer, or not as it should.
    """
    there = accounts.read("sacctmgr", caller(accounts.list_of(link.name)))
    return accounts.differences(wanted(link), there, link.name)


def _keep(link: SlurmLink, found: Sequence[Difference], now: datetime) -> None:
    codes = dict(SlurmAccount.objects.filter(cluster=link.cluster).values_list("name", "node__code"))
    link.drift = [_as_json(each, codes.get(each.account, "")) for each in found[:DRIFT_SHOWN]]
    link.drift_at = now
    link.save(update_fields=["drift", "drift_at"])


def _as_json(each: Difference, code: str) -> dict[str, Any]:
    return {
        "account": each.account,
        "node": code,
        "what": each.what,
        "is_now": each.is_now,
        "should_be": each.should_be,
        "commands": [commands.shown(command) for command in each.commands],
    }


# --- what should be there ---------------------------------------------------------------------------------------------


def wanted(link: SlurmLink) -> Tree:
    """The account tree that today's shares make. Budget nodes without an account get one, named like their code."""
    cluster = link.cluster
    rows = [row for row in queries.tree_on(cluster, queries.today()) if not row.is_closed]
    names = _names(cluster, [row.node for row in rows if row.parent_id is not None])
    found = {}
    for row in rows:
        if row.parent_id is not None:
            above = names.get(row.parent_id, ROOT)
            found[names[row.node.pk]] = Account(names[row.node.pk], above, row.basis_points)
    leaves = {row.node.pk for row in rows if not row.has_children}
    users = _users(names, rows, leaves)
    if cluster.executor == Cluster.Executor.SLURM and not link.run_as_owner:
        ourselves = pwd.getpwuid(os.geteuid()).pw_name  # who submits everybody's jobs
        users[ourselves] = frozenset(names[pk] for pk in leaves if pk in names)
    return Tree(found, users)


def _names(cluster: Cluster, nodes: Iterable[BudgetNode]) -> dict[int, str]:
    """The account of each node, made up where it has none yet."""
    names = dict(SlurmAccount.objects.filter(cluster=cluster).values_list("node_id", "name"))
    taken = {*names.values(), ROOT}
    fresh = []
    for node in nodes:
        if node.pk not in names:
            name = _free_name(node.code, taken)
            taken.add(name)
            names[node.pk] = name
            fresh.append(SlurmAccount(cluster=cluster, node=node, name=name))
    SlurmAccount.objects.bulk_create(fresh)
    return names


def _free_name(code: str, taken: Collection[str]) -> str:
    """Slurm's accounts are of small letters."""
    name = re.sub(r"[^a-z0-9_]", "_", code.lower())[:NAME_MAX]
    number = 2
    found = name
    while found in taken:
        found = f"{name[: NAME_MAX - 4]}_{number}"
        number += 1
    return found


def _users(
    names: dict[int, str], rows: Sequence[queries.TreeRow], leaves: Collection[int]
) -> dict[str, frozenset[str]]:
    """Who may use which accounts: members, at a leaf or above it."""
    grants = RoleGrant.objects.filter(queries.in_force(queries.today()), role=Role.MEMBER, person__is_active=True)
    members: dict[int, list[str]] = {}
    for node_id, user in grants.values_list("node_id", "person__username"):
        if UNIX_USER.fullmatch(user):
            members.setdefault(node_id, []).append(user)
    found: dict[str, set[str]] = {}
    for row in rows:
        if row.node.pk in leaves and row.node.pk in names:
            for above in row.node.path:
                for user in members.get(above, ()):
                    found.setdefault(user, set()).add(names[row.node.pk])
    return {user: frozenset(each) for user, each in found.items()}


# --- writing ----------------------------------------------------------------------------------------------------------


def ask(*, cluster: Cluster, node: BudgetNode | None, by: Person | None, now: datetime | None = None) -> SlurmOrder:
    """Ask for the shares of a node and what is below it (of all, without one) to be written now.

    The same question while one waits is that one.

    Raises:
        NotAllowed: not an operator. InputError: the cluster has no Slurm.
    """
    if by is not None and not may(by, "node.operate", cluster):
        raise NotAllowed("node.operate")
    if not SlurmLink.objects.filter(cluster=cluster).exists():
        raise InputError("cluster", f"{cluster.name} has no Slurm")
    waiting = SlurmOrder.objects.filter(cluster=cluster, node=node, outcome=SlurmOrder.Outcome.WAITING).first()
    at = (now or timezone.now()).replace(microsecond=0)
    return waiting or SlurmOrder.objects.create(cluster=cluster, node=node, asked_by=by, asked_at=at)


def _write(
    link: SlurmLink, caller: Caller, found: Sequence[Difference], waiting: Sequence[SlurmOrder], now: datetime
) -> bool:
    """Write what the portal owns, a part of it at a time; whether that was all. Jobs wait meanwhile."""
    is_all = True
    if link.writes:
        chosen, is_all = _some(found)
        _do(caller, chosen)
        found = compare(link, caller) if waiting else []
    for order in waiting:
        _answer(link, caller, order, found, now)
    return is_all


def _some(found: Sequence[Difference]) -> tuple[Sequence[Difference], bool]:
    """The first of them, parents before their children, and whether these are all."""
    with_commands = [each for each in found if each.commands]
    return with_commands[:WRITTEN_A_LOOK], len(with_commands) <= WRITTEN_A_LOOK


def _answer(link: SlurmLink, caller: Caller, order: SlurmOrder, found: Sequence[Difference], now: datetime) -> None:
    """Carry one order out, and write down what was done."""
    chosen = found if order.node is None else [each for each in found if each.account in _below(link, order.node)]
    order.commands = [commands.shown(command) for each in chosen for command in each.commands]
    order.done_at, order.outcome = now, SlurmOrder.Outcome.DONE
    if not order.commands:
        order.message = "Everything was as it should be."
    if not link.writes and order.commands:
        order.outcome, order.message = (
            SlurmOrder.Outcome.FAILED,
            "Writing is off for this cluster: nothing was changed.",
        )
    else:
        try:
            _do(caller, chosen)
        except SlurmError as error:
            order.outcome, order.message = SlurmOrder.Outcome.FAILED, str(error)[:400]
    order.save()


def _below(link: SlurmLink, node: BudgetNode) -> set[str]:
    """The accounts of a node and of what is below it."""
    rows = SlurmAccount.objects.filter(cluster=link.cluster, node__path__contains=[node.pk])
    return set(rows.values_list("name", flat=True))


def _do(caller: Caller, found: Sequence[Difference]) -> None:
    for each in found:
        for command in each.commands:
            caller(command, timeout_s=WRITE_TIMEOUT_S)
