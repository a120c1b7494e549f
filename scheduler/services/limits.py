"""What budget nodes should, and may, hold at once: minima, maxima and weights of a node's children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from budgets import queries
from budgets.errors import InputError
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Limit, Person
from budgets.services import checks, ledger
from scheduler import engine
from scheduler.models import WHOLE_DEVICE_MILLI, Device

MOST_MILLI = 10**12
FACTOR_MOST_MILLI = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one node on one cluster, as `Limit` has them. The defaults are none."""

    minimum_milli: int = 0
    maximum_milli: int | None = None
    factor_milli: int = 1_000


NO_LIMITS = Limits()


def on(cluster: Cluster) -> dict[int, Limits]:
    """The limits of all nodes of a cluster that have any, by the node's id."""
    rows = Limit.objects.filter(cluster=cluster)
    return {
        pk: Limits(minimum_milli, maximum_milli, factor_milli)
        for pk, minimum_milli, maximum_milli, factor_milli in rows.values_list(
            "node_id", "minimum_milli", "maximum_milli", "factor_milli"
        )
    }


def capacity_milli(cluster: Cluster) -> int:
    """What the cluster has, fit or not; retired nodes do not count."""
    return Device.objects.filter(node__cluster=cluster, node__retired_at=None).count() * WHOLE_DEVICE_MILLI


def set_limits(
    *,
    parent: BudgetNode,
    cluster: Cluster,
    limits: Mapping[BudgetNode, Limits],
    by: Person | None,
    reason: str = "",
    version: int | None = None,
) -> None:
    """Give children of `parent` these limits, from the next pass on; other children keep theirs.

    Who may set the children's shares may set them, and as with shares nobody raises what they have a part in. What
    holds its devices goes on, and promises stand, whatever the maximum is now.

    Raises:
        InputError: names the child and what is wrong: what is no child, an amount that is no whole number of
            thousandths from 0 on, a minimum above the maximum, a weight of 0 or above 1,000; or minima that cannot all
            be kept, and the node at which. ConflictError: the parent was changed since `version`.
        NotAllowed: it isn't theirs to decide.
    """
    with transaction.atomic():
        row = checks.locked(parent, version)
        checks.allowed(by, "share.change", row)
        children = {child.pk: child for child in row.children.all()}
        before = on(cluster)
        for child, wanted in limits.items():
            _check(child, wanted, children, row)
        changed = {child: each for child, each in limits.items() if before.get(child.pk, NO_LIMITS) != each}
        why = checks.reason(reason, by)
        if by is not None:
            checks.not_own(
                by, [child for child in changed if _is_raised(before.get(child.pk, NO_LIMITS), changed[child])]
            )
        _check_kept(cluster, before | {child.pk: each for child, each in changed.items()})
        for child, each in changed.items():
            Limit.objects.update_or_create(node=child, cluster=cluster, defaults=asdict(each))
            old = before.get(child.pk, NO_LIMITS)
            ledger.record(
                verb="limits.changed",
                node=child,
                cluster=cluster,
                by=by,
                before=asdict(old),
                after=asdict(each),
                reason=why,
            )
        if changed:
            BudgetNode.objects.filter(pk=row.pk).update(version=F("version") + 1)
            checks.announce([cluster.pk])


def _check(child: BudgetNode, wanted: Limits, children: Mapping[int, BudgetNode], parent: BudgetNode) -> None:
    field = f"limits[{child.code}]"
    if child.pk not in children:
        message = gettext("{child} is no child of {parent}").format(child=child.code, parent=parent.code)
        raise InputError(field, message)
    for name, amount, least, most in (
        ("minimum_milli", wanted.minimum_milli, 0, MOST_MILLI),
        ("maximum_milli", wanted.maximum_milli, 0, MOST_MILLI),
        ("factor_milli", wanted.factor_milli, 1, FACTOR_MOST_MILLI),
    ):
        if amount is None and name == "maximum_milli":
            continue
        if type(amount) is not int or not least <= amount <= most:
            message = gettext("must be a whole number of thousandths from {least:,} to {most:,}")
            raise InputError(f"{field}.{name}", message.format(least=least, most=most))
    if wanted.maximum_milli is not None and wanted.minimum_milli > wanted.maximum_milli:
        raise InputError(f"{field}.minimum_milli", gettext("is more than the maximum"))


def _is_raised(old: Limits, new: Limits) -> bool:
    most = [MOST_MILLI + 1 if each.maximum_milli is None else each.maximum_milli for each in (old, new)]
    return new.minimum_milli > old.minimum_milli or new.factor_milli > old.factor_milli or most[1] > most[0]


def _check_kept(cluster: Cluster, limits: Mapping[int, Limits]) -> None:
    """All minima can be kept, beside the maxima and on what the cluster has."""
    fault = engine.fault_in_limits(nodes_of(cluster, limits), capacity_milli(cluster))
    if fault is not None:
        message = gettext("minima below {node} come to {needed:,g}, and it may hold {room:,g} at most on {cluster}")
        raise InputError(
            "limits",
            message.format(
                node=fault.node,
                needed=fault.needed_milli / WHOLE_DEVICE_MILLI,
                room=fault.room_milli / WHOLE_DEVICE_MILLI,
                cluster=cluster.name,
            ),
        )


def nodes_of(cluster: Cluster, limits: Mapping[int, Limits]) -> list[engine.BudgetNode]:
    """Today's tree of a cluster as the engine has it, with these limits."""
    rows = queries.tree_on(cluster, queries.today())
    codes = {row.node.pk: row.node.code for row in rows}
    return [
        engine.BudgetNode(
            id=row.node.code,
            parent=None if row.parent_id is None else codes[row.parent_id],
            shares=row.basis_points,
            whole=WHOLE_BASIS_POINTS,
            closed=row.node.is_closed,
            **asdict(limits.get(row.node.pk, NO_LIMITS)),
        )
        for row in rows
    ]


def fair_shares(cluster: Cluster) -> dict[str, int]:
    """By code, what every node would hold on all devices of the cluster if all had work without end: steady shares."""
    return engine.steady_shares(nodes_of(cluster, on(cluster)), capacity_milli(cluster))
