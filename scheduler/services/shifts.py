"""Time shifts of runs that start: each is laid beside those that run already, where it shares their links best.

A run that spans several leaves sends through the uplink of each. What it sends was said at submission; its place on the
network is handed to it with its environment, once: those that run stay where they are. CASSINI's method
(engine/policies/cassini), for one that comes at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.engine import Policy, cassini
from scheduler.models import Rank, Run

MBPS = 1_000
"""In one Gbit/s."""


class Going(NamedTuple):
    """A run that has not ended, and says what it sends."""

    pk: int
    workload: str
    profile: cassini.Profile
    leaves: frozenset[str]
    shift_ms: int | None


def hand_out(*, cluster_id: int, started: Sequence[int], policy: Policy) -> None:
    """Give each of these runs, which start now, its shift; in the transaction of their start.

    Nobody is shifted where the policy does not say what a leaf's uplink carries, nor who says nothing of what it sends,
    nor who is below one leaf, or on a node whose leaf nobody knows. One query where none of them says anything.
    """
    if not policy.leaf_uplink_gbps or not _say_something(started):
        return
    capacity_mbps = policy.leaf_uplink_gbps * MBPS
    going = _going(cluster_id)
    wanted = set(started)
    placed = [each for each in going if each.pk not in wanted and each.shift_ms is not None]
    for each in (each for each in going if each.pk in wanted):
        links = {leaf: [other for other in placed if leaf in other.leaves] for leaf in sorted(each.leaves)}
        place = cassini.place_beside(
            each.profile,
            {
                leaf: cassini.SharedLink(
                    capacity_mbps, [cassini.Neighbour(other.profile, other.shift_ms or 0) for other in others]
                )
                for leaf, others in links.items()
            },
        )
        Run.objects.filter(pk=each.pk).update(time_shift=_told(each, place, links))
        placed.append(each._replace(shift_ms=place.shift_ms))


def variables_of(run: Run) -> dict[str, str]:
    """What a run is told of its place, by the name of the variable; nothing where it has none.

    Shift, period, and whether the place is to be kept, in this order.
    """
    told: Mapping[str, Any] | None = run.time_shift
    if told is None:
        return {}
    return {
        "ALLOTMENT_TIME_SHIFT_MS": str(told["shift_ms"]),
        "ALLOTMENT_PERIOD_MS": str(told["period_ms"]),
        "ALLOTMENT_TIME_SHIFT_KEEPS": "1" if told["score"] == 1 else "",
    }


def _say_something(runs: Iterable[int]) -> bool:
    return Run.objects.filter(pk__in=runs, workload__communication__isnull=False).exists()


def _going(cluster_id: int) -> list[Going]:
    """All that are on the network, in the order of their starts. Two queries."""
    rows = (
        Run.objects.filter(cluster=cluster_id, workload__communication__isnull=False)
        .exclude(state=Run.State.ENDED)
        .order_by("started_at", "pk")
        .values_list("pk", "workload__code", "workload__communication", "time_shift")
    )
    leaves: dict[int, set[str]] = {}
    ranks = Rank.objects.filter(run__in=[pk for pk, *_ in rows]).order_by()
    for run_id, leaf in ranks.values_list("run_id", "node__leaf").distinct():
        leaves.setdefault(run_id, set()).add(leaf)
    return [
        Going(pk, code, cassini.read_profile(said), frozenset(leaves[pk]), None if told is None else told["shift_ms"])
        for pk, code, said, told in rows
        if len(leaves.get(pk, ())) > 1 and "" not in leaves[pk]
    ]


def _told(run: Going, place: cassini.Place, links: Mapping[str, Sequence[Going]]) -> dict[str, Any]:
    """As `Run.time_shift` holds it."""
    return {
        "shift_ms": place.shift_ms,
        "period_ms": run.profile.period_ms,
        "score": place.score,
        "links": [
            {"leaf": leaf, "beside": [other.workload for other in others], "score": place.scores[leaf]}
            for leaf, others in links.items()
            if others
        ],
    }
