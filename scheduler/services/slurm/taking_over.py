"""An existing Slurm site becomes an organisation here: its account tree, its people, and what ran there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from budgets import queries
from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Person, Role, RoleGrant
from budgets.services import roles, shares, tree
from budgets.split import in_proportion
from scheduler.executors.slurm.accounts import ROOT, Account, Tree
from scheduler.models import SlurmAccount

WHOLE_BASIS_POINTS = 10_000
CODE_MAX = 16
REASON = "import of a Slurm site"


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What was made: budget nodes, people and memberships; `unknown` are users without a person here."""

    nodes: int
    people: int
    members: int
    unknown: Sequence[str]


def take_over(*, cluster: Cluster, found: Tree, organisation: str, with_people: bool) -> TakenOver:
    """Make budget nodes of accounts that none stands for yet, with shares in proportion to their fairshares.

    Siblings split the whole among them, exactly, from today on; where some were here before, those keep their shares
    and the new ones split what is unassigned. One transaction: all or nothing.

    Args:
        cluster: whose Slurm it is.
        found: its account tree.
        organisation: the root's name, if one has to be made.
        with_people: make a person of each user who has none, and members of them; they sign in as the installation
            says, since no password is set.

    Raises:
        InputError: names what cannot be taken.
    """
    with transaction.atomic():
        root = BudgetNode.objects.filter(parent=None).first() or tree.create_root(
            code="ROOT", name=organisation, reason=REASON
        )
        known = {row.name: row.node for row in SlurmAccount.objects.filter(cluster=cluster).select_related("node")}
        made = _grow(cluster, root, found, ROOT, known)
        people, members, unknown = _members(found, known, with_people)
    return TakenOver(made, people, members, unknown)


def _grow(cluster: Cluster, parent: BudgetNode, found: Tree, account: str, known: dict[str, BudgetNode]) -> int:
    """Make the nodes below one account, then those below them. How many."""
    below = found.children(account)
    fresh = [each for each in below if each.name not in known]
    taken = set(BudgetNode.objects.values_list("code", flat=True))
    for each in fresh:
        code = _code(each.name, taken)
        taken.add(code)
        kind = BudgetNode.Kind.PROGRAM if account == ROOT else BudgetNode.Kind.PROJECT
        known[each.name] = tree.add_child(parent=parent, kind=kind, code=code, name=each.name, by=None, reason=REASON)
        SlurmAccount.objects.create(cluster=cluster, node=known[each.name], name=each.name)
    parent.refresh_from_db()
    if fresh:
        _share(cluster, parent, fresh, known)
    return len(fresh) + sum(_grow(cluster, known[each.name], found, each.name, known) for each in below)


def _share(cluster: Cluster, parent: BudgetNode, fresh: Sequence[Account], known: Mapping[str, BudgetNode]) -> None:
    rows = {row.node.pk: row for row in queries.tree_on(cluster, queries.today())}
    given = sum(row.basis_points for row in rows.values() if row.parent_id == parent.pk)
    weights = [1 if each.share is None else each.share for each in fresh]
    if not sum(weights):
        return
    parts = in_proportion(max(0, WHOLE_BASIS_POINTS - given), weights)
    shares.set_shares(
        parent=parent,
        cluster=cluster,
        shares={known[each.name]: part for each, part in zip(fresh, parts, strict=True)},
        valid_from=queries.today(),
        by=None,
        reason=REASON,
    )


def _code(name: str, taken: Collection[str]) -> str:
    """A code for life, from an account's name."""
    clean = re.sub(r"[^A-Za-z0-9_.]", "_", name).lstrip("_.")[:CODE_MAX].upper() or "ACCOUNT"
    code, number = clean, 2
    while code in taken:
        end = str(number)
        code = f"{clean[: CODE_MAX - len(end)]}{end}"
        number += 1
    return code


def _members(found: Tree, known: Mapping[str, BudgetNode], with_people: bool) -> tuple[int, int, list[str]]:
    people = {person.username: person for person in Person.objects.filter(username__in=found.users)}
    made = members = 0
    unknown = []
    for user, accounts in sorted(found.users.items()):
        named = [known[name] for name in sorted(accounts) if name in known]
        if not named:
            continue
        person = people.get(user)
        if person is None and with_people:
            person = Person.objects.create_user(username=user, display_name=user)
            made += 1
        if person is None:
            unknown.append(user)
            continue
        for node in named:
            members += _grant(person, node)
    return made, members, unknown


def _grant(person: Person, node: BudgetNode) -> bool:
    """Make the person a member there, unless they are one; whether that was news."""
    held = RoleGrant.objects.filter(queries.in_force(queries.today()), person=person, node=node, role=Role.MEMBER)
    if held.exists():
        return False
    roles.grant(person=person, node=node, role=Role.MEMBER, valid_from=queries.today(), by=None, reason=REASON)
    return True


def change_kind(*, cluster: Cluster, executor: str) -> None:
    """Have a cluster carried out in another way, while nothing of it is open.

    Raises:
        InputError: something waits or runs.
    """
    if cluster.executor == executor:
        return
    if cluster.workloads.exclude(
        state__in=("finished", "failed", "preempted", "lost", "cancelled", "refused")
    ).exists():
        raise InputError("mode", f"something waits or runs on {cluster.name}: end it first")
    cluster.executor = executor
    cluster.save(update_fields=["executor"])
