"""How long a workload is thought to execute: the mean of those like it that have ended.

The most specific key that has a past decides: what recurs under one name by one person, then all of that person, then
everybody; with no past at all it is a default. It learns when workloads end, and never looks ahead.
"""

from __future__ import annotations

DEFAULT_S = 600
"""What is thought of a workload where nothing has ended yet."""


class Predictor:
    """Means of durations by key."""

    def __init__(self) -> None:
        """Nothing has ended yet."""
        self._seen: dict[tuple[str, ...], tuple[int, int]] = {}  # number and sum of seconds

    def learn(self, group: str, user: str, duration_s: int) -> None:
        """One has ended after so many seconds of execution; group and user are "" where they are not known."""
        for key in _keys(group, user):
            number, total_s = self._seen.get(key, (0, 0))
            self._seen[key] = number + 1, total_s + duration_s

    def predict(self, group: str, user: str) -> int:
        """Whole seconds, rounded to the nearest."""
        for key in _keys(group, user):
            if key in self._seen:
                number, total_s = self._seen[key]
                return (2 * total_s + number) // (2 * number)
        return DEFAULT_S


def _keys(group: str, user: str) -> list[tuple[str, ...]]:
    """What a workload is like, from the most specific on."""
    keys: list[tuple[str, ...]] = []
    if group:
        keys.append(("group and user", group, user))
        keys.append(("group", group))
    if user:
        keys.append(("user", user))
    return [*keys, ("all",)]
