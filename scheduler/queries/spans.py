"""Spans of time cut into steps, for figures over time: hours, or the organisation's days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from budgets import queries as budget_queries
from scheduler.queries.usage import Step

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Steps:
    """[start, end) in whole hours, cut where a step begins: `starts` are the beginnings, the first one `start`."""

    step: Step
    starts: Sequence[datetime]
    end: datetime

    @property
    def start(self) -> datetime:
        """Where it begins."""
        return self.starts[0]

    def bounds(self) -> list[tuple[datetime, datetime]]:
        """(start, end) of each step."""
        return list(zip(self.starts, [*self.starts[1:], self.end], strict=True))


def steps(start: datetime, end: datetime, step: Step | str) -> Steps:
    """Cut [start, end) into hours or days. At least one step: the end comes after the start."""
    step = Step(step)
    assert start < end, "a span of time ends after it begins"
    # in UTC, since two instants of one local zone differ by their clocks, not by the time between them
    starts, at, end = [], start.astimezone(UTC), end.astimezone(UTC)
    while at < end:
        starts.append(at)
        if step is Step.HOUR:
            at += HOUR
        else:
            at = budget_queries.midnight(budget_queries.day_of(at) + timedelta(days=1)).astimezone(UTC)
    return Steps(step, starts, end)
