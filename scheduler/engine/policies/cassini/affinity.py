"""CASSINI's affinity graph: from shifts on each link to one shift for each workload.

Workloads and the links that two or more of them share are its vertices; the edge between a workload and a link weighs
by how much the workload is to be shifted there. Without a cycle every link can have what it asks for: go from one
workload across a link to the next, t_k = (t_j - t_j^l + t_k^l) mod T_k. With one, no such shifts need exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence


class Cycle(ValueError):
    """A graph that has a cycle; `path` goes once around it, workloads and links by turns, and ends where it began."""

    def __init__(self, path: Sequence[str]) -> None:
        """Say where it is."""
        super().__init__(f"the affinity graph has a cycle: {' - '.join(path)}")
        self.path = tuple(path)


def shifts_of(
    links: Mapping[str, Mapping[str, int]], periods_ms: Mapping[str, int], reference: str | None = None
) -> dict[str, int]:
    """By how much each workload is shifted, from 0 to below its period, so that every link has its relative shifts.

    Args:
        links: by link, the shift that it asks for of each workload on it. A link with one workload asks for nothing.
        periods_ms: of all workloads, by name.
        reference: who is not shifted among those that hang together with it; of others the first by name is not.

    Raises:
        Cycle: the graph has one.
        ValueError: a period below 1 ms, or a workload or a reference that has no period.
    """
    for name, period_ms in periods_ms.items():
        if period_ms < 1:
            raise ValueError(f"{name}: a period must be at least 1 ms, but is {period_ms}")
    if reference is not None and reference not in periods_ms:
        raise ValueError(f"{reference}: there is no such workload to be the reference")
    links_of: dict[str, list[str]] = {name: [] for name in sorted(periods_ms)}
    for link in sorted(links):
        for name in links[link] if len(links[link]) > 1 else ():
            if name not in links_of:
                raise ValueError(f"{link}: {name} has no period")
            links_of[name].append(link)
    first = [] if reference is None else [reference]
    shifts: dict[str, int] = {}
    for start in [*first, *links_of]:
        if start not in shifts:
            _go_from(start, links, links_of, periods_ms, shifts)
    return shifts


def _go_from(
    start: str,
    links: Mapping[str, Mapping[str, int]],
    links_of: Mapping[str, Sequence[str]],
    periods_ms: Mapping[str, int],
    shifts: dict[str, int],
) -> None:
    """Everything that hangs together with one, breadth first."""
    shifts[start] = 0
    came_by: dict[str, str | None] = {start: None}
    link_from: dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        for link in links_of[name]:
            if link == came_by[name]:
                continue
            if link in link_from:
                raise Cycle(_around(name, link, came_by, link_from))
            link_from[link] = name
            asked = links[link]
            for other in sorted(asked):
                if other == name:
                    continue
                if other in came_by:
                    raise Cycle(_around(other, link, came_by, link_from))
                came_by[other] = link
                shifts[other] = (shifts[name] - asked[name] + asked[other]) % periods_ms[other]
                waiting.append(other)


def _around(name: str, link: str, came_by: Mapping[str, str | None], link_from: Mapping[str, str]) -> list[str]:
    """The cycle that the edge between a workload and a link closes."""

    def back(name: str) -> list[str]:
        """From a workload to where the walk began."""
        path = [name]
        while (by := came_by[path[-1]]) is not None:
            path += [by, link_from[by]]
        return path

    one, other = back(name), [link, *back(link_from[link])]
    while len(one) > 1 and len(other) > 1 and one[-2] == other[-2]:
        one.pop()
        other.pop()
    return [*one, *reversed(other[:-1]), name]
