"""CASSINI's score among placements that are equal otherwise (policies/cassini): whose links are shared best.

It decides only where the order of section 6 leaves nothing but names to decide by, so that it takes nothing from
anybody: no share, no contract, no promise, and no leaf or rail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .cluster import NodeState
from .policies.cassini import Network, Profile, Shared, choose
from .policy import Policy
from .snapshot import Snapshot
from .values import Workload

CANDIDATES = 10
"""So many placements are scored, the one that names alone would choose among them."""


def network_of(policy: Policy, profiles: Mapping[str, Profile]) -> Network | None:
    """What the score goes by: None where the policy asks for none, or does not say what uplinks carry."""
    if policy.placement_score != "cassini" or not policy.leaf_uplink_gbps:
        return None
    return Network(policy.leaf_uplink_gbps * 1_000, profiles)


def most_compatible(
    snapshot: Snapshot, workload: Workload, placements: Iterable[Sequence[NodeState] | None]
) -> Sequence[NodeState] | None:
    """Of some placements, the one of the highest score, the first of equals; the first where each closes a cycle.

    Args:
        snapshot: who runs where, and its `network`.
        workload: who is to be placed. One that says nothing of what it sends takes the first.
        placements: whole nodes each, that of names first; None is none.
    """
    found = iter(placements)
    first = next(found, None)
    network = snapshot.network
    if first is None or network is None or workload.id not in network.profiles or not leaves_of(first):
        return first
    known = [first]
    seen = {frozenset(node.name for node in first)}
    for placement in found:
        if placement is not None and (names := frozenset(node.name for node in placement)) not in seen:
            seen.add(names)
            known.append(placement)
    if len(known) == 1:
        return first
    users: dict[str, list[str]] = {}
    by_name = snapshot.nodes.by_name
    for run in snapshot.runs.values():
        if run.workload in network.profiles:
            for leaf in leaves_of([by_name[name] for name in run.holdings]):
                users.setdefault(leaf, []).append(run.workload)
    candidates = []
    for placement in known:
        links = {leaf: Shared(network.uplink_mbps, names) for leaf, names in users.items()}
        for leaf in leaves_of(placement):
            links[leaf] = Shared(network.uplink_mbps, [*users.get(leaf, ()), workload.id])
        candidates.append(links)
    choice = choose(candidates, network.profiles)
    return first if choice is None else known[choice.number]


def leaves_of(nodes: Sequence[NodeState]) -> list[str]:
    """The leaves whose uplinks a gang on these nodes uses: none below a single one, or where one is not known."""
    leaves = {node.leaf for node in nodes}
    return sorted(leaves) if len(leaves) > 1 and "" not in leaves else []
