"""CASSINI's choice among the placements that a scheduler could make: the most compatible one without a cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from .affinity import Cycle, shifts_of
from .circle import best_fit
from .profiles import Profile


class Shared(NamedTuple):
    """A link and who would use it."""

    capacity_mbps: int
    workloads: Collection[str]


class Network(NamedTuple):
    """What is known of a cluster's network: what each leaf's uplink carries, and what workloads send, by name."""

    uplink_mbps: int
    profiles: Mapping[str, Profile]


class Group(NamedTuple):
    """Workloads that hang together by the links they share: they can be shifted in common as one likes.

    Attributes:
        workloads: by name.
        links: that two or more of them share.
        score: that of the worst of these links.
    """

    workloads: tuple[str, ...]
    links: tuple[str, ...]
    score: float


class Choice(NamedTuple):
    """The placement that was chosen.

    Attributes:
        number: of the candidates, from 0.
        score: the mean over its shared links; 1 where it has none.
        scores: by shared link.
        shifts_ms: by workload, of those that share links.
        groups: of workloads that hang together.
    """

    number: int
    score: float
    scores: Mapping[str, float]
    shifts_ms: Mapping[str, int]
    groups: Sequence[Group]


def choose(candidates: Sequence[Mapping[str, Shared]], profiles: Mapping[str, Profile]) -> Choice | None:
    """The candidate of the highest score, the first of equals; None where each has a cycle.

    Args:
        candidates: each is the links of the whole network, by name, as they would be used.
        profiles: of the workloads on these links; one that has none is as if it were not there.
    """
    best: Choice | None = None
    for number, links in enumerate(candidates):
        found = _scored(number, links, profiles)
        if found is not None and (best is None or found.score > best.score):
            best = found
    return best


def _scored(number: int, links: Mapping[str, Shared], profiles: Mapping[str, Profile]) -> Choice | None:
    scores: dict[str, float] = {}
    asked: dict[str, dict[str, int]] = {}
    for link, (names, capacity_mbps) in without_copies(links, profiles).items():
        fit = best_fit([profiles[name] for name in names], capacity_mbps)
        scores[link] = fit.score
        asked[link] = dict(zip(names, fit.shifts_ms, strict=True))
    concerned = sorted({name for each in asked.values() for name in each})
    try:
        shifts_ms = shifts_of(asked, {name: profiles[name].period_ms for name in concerned})
    except Cycle:
        return None
    score = sum(scores.values()) / len(scores) if scores else 1.0
    return Choice(number, score, scores, shifts_ms, _groups(asked, scores))


def _groups(asked: Mapping[str, Mapping[str, int]], scores: Mapping[str, float]) -> list[Group]:
    """By the first of their names."""
    found: list[tuple[set[str], set[str]]] = []
    for link, names in asked.items():
        joined = set(names), {link}
        apart = []
        for each in found:
            if each[0] & joined[0]:
                joined = joined[0] | each[0], joined[1] | each[1]
            else:
                apart.append(each)
        found = [*apart, joined]
    groups = [
        Group(tuple(sorted(names)), tuple(sorted(links)), min(scores[link] for link in links)) for names, links in found
    ]
    return sorted(groups)


def without_copies(
    links: Mapping[str, Shared], profiles: Mapping[str, Profile]
) -> dict[str, tuple[tuple[str, ...], int]]:
    """The links that two or more share, with who shares them; of those that the very same share, the narrowest.

    Two links that carry the same workloads ask for the same shifts, so that the second is no second condition; without
    this a gang over two leaves would close a cycle with every other gang over both.
    """
    narrowest: dict[tuple[str, ...], tuple[int, str]] = {}
    for link, (capacity_mbps, workloads) in links.items():
        names = tuple(sorted(name for name in set(workloads) if name in profiles))
        if len(names) > 1:
            found = capacity_mbps, link
            narrowest[names] = min(narrowest.get(names, found), found)
    return {link: (names, capacity_mbps) for names, (capacity_mbps, link) in narrowest.items()}
