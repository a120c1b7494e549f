"""Workloads of before a scenario's start: those that wait when it begins, and those that hold devices.

In the file, such a workload has `before` in place of `submit`; instants are negative or 0, and only the first key is
needed, with `since` for one that holds devices:

    "before": {"submitted": "-3h", "first_start": "-2h", "done": "30m",
               "holds": {"h1": 8}, "since": "-1h", "running": "-59m", "funded": true}

One that waits may have `waits_since` in place of the last line: when its last run ended, if it has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.engine import Node

from .fields import Fields, ScenarioError, duration, flag, instant, shown, size_milli


@dataclass(frozen=True, slots=True)
class Before:
    """How a workload of before the start stands at the start. Its instants are negative or 0.

    Attributes:
        submitted_s: its first submission.
        first_start_s: of its first run, None if it had none.
        done_s: work of its duration that ended runs have done.
        holdings: what it holds (thousandths by node's name); empty if it waits.
        since_s, running_s: when that run began, and when every rank ran (None: it is starting up).
        is_funded: whether that run is charged.
        waits_since_s: when its last run ended, of one that waits; None for one that has not run.
    """

    submitted_s: int
    first_start_s: int | None = None
    done_s: int = 0
    holdings: Mapping[str, int] = field(default_factory=dict)
    since_s: int = 0
    running_s: int | None = None
    is_funded: bool = True
    waits_since_s: int | None = None


def read_before(value: object, path: str) -> Before:
    """The object in the file.

    Raises:
        ScenarioError: names the key and what is wrong with it.
    """
    given = Fields(value, path)
    submitted_s = given.need("submitted", _past)
    holdings: dict[str, int] = given.take("holds", _holdings, {})
    since_s = given.need("since", _past) if holdings else 0
    found = Before(
        submitted_s=submitted_s,
        first_start_s=given.take("first_start", _past, since_s if holdings else None),
        done_s=given.take("done", duration, 0),
        holdings=holdings,
        since_s=since_s,
        running_s=given.take("running", _past, None) if holdings else None,
        is_funded=given.take("funded", flag, True) if holdings else True,
        waits_since_s=None if holdings else given.take("waits_since", _past, None),
    )
    given.finish()
    first_s = since_s if found.first_start_s is None else found.first_start_s
    if found.first_start_s is not None and not submitted_s <= first_s:
        raise ScenarioError(f"{path}.first_start", "must not be before its submission")
    if holdings and not first_s <= since_s:
        raise ScenarioError(f"{path}.since", "must not be before its first start")
    if found.running_s is not None and found.running_s < since_s:
        raise ScenarioError(f"{path}.running", "must not be before `since`")
    return found


def _past(value: object, path: str) -> int:
    at_s = instant(value, path)
    if at_s > 0:
        raise ScenarioError(path, "must not be after the start, 0")
    return at_s


def _holdings(value: object, path: str) -> dict[str, int]:
    given = Fields(value, path)
    found = {name: size_milli(each, given.at(name)) for name, each in given.items()}
    if not found:
        raise ScenarioError(path, "must name at least one node")
    return found


def check_room(before: Iterable[tuple[str, Before]], nodes: Iterable[Node]) -> None:
    """Whether the nodes have what is held on them at the start. `before` are pairs of key path and value.

    Raises:
        ScenarioError: names the first workload for which there is no room.
    """
    left = {node.name: node.capacity_milli for node in nodes}
    for path, each in before:
        for name, amount_milli in each.holdings.items():
            if name not in left:
                raise ScenarioError(f"{path}.holds", f"there is no node {shown(name)}")
            left[name] -= amount_milli
            if left[name] < 0:
                raise ScenarioError(f"{path}.holds", f"node {shown(name)} has no room for it at the start")
