"""Who may do or see what with clusters and workloads (governance.md). Registered beside the rules of budgets."""

from __future__ import annotations

from typing import Any

import rules

from budgets.authority import INSIDE_ROLES, has_role, register, roles_of, signed_in
from budgets.models import BudgetNode, Person, Role


def _is_member(person: Person, leaf: BudgetNode | None) -> bool:
    """Members of the leaf, or of a node above it, submit there."""
    return leaf is not None and has_role(person, leaf.path, [Role.MEMBER])


def _is_operator(person: Person, _thing: Any) -> bool:
    """Operators see to nodes, drains, maintenance and policy knobs of every cluster."""
    return any(role == Role.OPERATOR for _, role in roles_of(person))


def _sees_inside(person: Person, workload: Any) -> bool:
    """Its owner, the node's people, the managers above and operators."""
    if workload is None:
        return False
    return (
        workload.owner_id == person.pk
        or has_role(person, workload.leaf.path, INSIDE_ROLES)
        or _is_operator(person, None)
    )


def _sees_measured(person: Person, workload: Any) -> bool:
    """Its owner, and the managers of its leaf and above: how well somebody works is nobody else's."""
    if workload is None:
        return False
    return workload.owner_id == person.pk or has_role(person, workload.leaf.path, [Role.MANAGER])


def _may_cancel(person: Person, workload: Any) -> bool:
    """Its owner, the managers of its leaf and above, and operators."""
    if workload is None:
        return False
    return (
        workload.owner_id == person.pk
        or has_role(person, workload.leaf.path, [Role.MANAGER])
        or _is_operator(person, None)
    )


def _sees_simulation(person: Person, simulation: Any) -> bool:
    """Everyone signed in; what if the shares of a node were others, is for its people, as a proposal is."""
    if simulation is None:
        return False
    if simulation.made_by_id == person.pk or simulation.parent is None:
        return True
    return has_role(person, simulation.parent.path, INSIDE_ROLES) or _is_operator(person, None)


def _may_cancel_simulation(person: Person, simulation: Any) -> bool:
    """Who asked for it, and operators."""
    return simulation is not None and (simulation.made_by_id == person.pk or _is_operator(person, None))


is_operator = rules.Predicate(_is_operator, name="is an operator")

register("cluster.see", signed_in)
register("workload.see", signed_in)
register("workload.submit", rules.Predicate(_is_member, name="is a member of the leaf"))
register("workload.see_inside", rules.Predicate(_sees_inside, name="sees inside the workload"))
register("workload.see_measured", rules.Predicate(_sees_measured, name="sees how busy it was"))
register("workload.cancel", rules.Predicate(_may_cancel, name="may cancel"))
register("workload.release", rules.Predicate(_may_cancel, name="may release"))
register("workload.run_any_command", is_operator)
register("node.operate", is_operator)
register("policy.change", is_operator)
register("advice.override", is_operator)
register("simulation.run", signed_in)
register("simulation.see", rules.Predicate(_sees_simulation, name="sees the simulation"))
register("simulation.cancel", rules.Predicate(_may_cancel_simulation, name="asked for it or operates"))
