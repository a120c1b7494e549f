"""What work waited for, and why runs failed, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from scheduler import failure_words
from scheduler.failures import Origin
from scheduler.queries.delays import Cause, Delay
from scheduler.queries.workload import Explanation

CAUSES: Mapping[Cause, str | Promise] = {
    Cause.FAIR_SHARE: gettext_lazy("its fair share"),
    Cause.CONTRACTS: gettext_lazy("contracts and promises of others"),
    Cause.FRAGMENTATION: gettext_lazy("room in one place"),
    Cause.NODES: gettext_lazy("nodes that are fit"),
    Cause.HELD: gettext_lazy("held, or its cluster stopped"),
    Cause.UNSEEN: gettext_lazy("the next pass"),
}
MEANINGS: Mapping[Cause, str | Promise] = {
    Cause.FAIR_SHARE: gettext_lazy(
        "others went before it in the order, or nobody came after it that it could take over from"
    ),
    Cause.CONTRACTS: gettext_lazy("what it might have was inside contracts, promised, or still being left"),
    Cause.FRAGMENTATION: gettext_lazy("enough was free, but not where it would be together: fragmentation"),
    Cause.NODES: gettext_lazy("too many nodes were down, draining or in maintenance"),
    Cause.HELD: gettext_lazy("it had no allocation, was stopped, or had failed and was looked at"),
    Cause.UNSEEN: gettext_lazy("no pass had looked at it yet, or what passes said was not kept"),
}


WHOSE: Mapping[Origin, str | Promise] = {
    Origin.OWN: gettext_lazy("its own"),
    Origin.INFRASTRUCTURE: gettext_lazy("the infrastructure's"),
    Origin.UNKNOWN: gettext_lazy("not known"),
}


SWATCHES: Mapping[Cause | Origin, str] = {
    Cause.FAIR_SHARE: "",
    Cause.CONTRACTS: "borrowed",
    Cause.FRAGMENTATION: "short",
    Cause.NODES: "in",
    Cause.HELD: "unal",
    Cause.UNSEEN: "promise",
    Origin.OWN: "",
    Origin.INFRASTRUCTURE: "short",
    Origin.UNKNOWN: "unal",
}
"""How legends show them, as the charts draw them (figure_charts.py)."""


@dataclass(frozen=True, slots=True)
class Waited:
    """One cause in words."""

    words: str
    meaning: str
    waited_s: int
    waited_milli_s: int


@dataclass(frozen=True, slots=True)
class WhyFailed:
    """Why one run failed, in words; `line` for those who may see what it printed."""

    run: int
    words: str
    whose: str
    line: str


def shown(delays: Iterable[Delay]) -> list[Waited]:
    """Those in words."""
    return [
        Waited(str(CAUSES[each.cause]), str(MEANINGS[each.cause]), each.waited_s, each.waited_milli_s)
        for each in delays
    ]


def names() -> dict[Cause, str]:
    """The causes, as charts and tables have them."""
    return {cause: str(words) for cause, words in CAUSES.items()}


def legend(names_of: Mapping[Cause, str] | Mapping[Origin, str]) -> list[tuple[str, str]]:
    """Of a chart of these: swatches and names."""
    return [(SWATCHES[each], words) for each, words in names_of.items()]


def failures_of(told: Explanation) -> list[WhyFailed]:
    """Of its runs that failed and were judged, the latest first."""
    return [
        WhyFailed(
            run.number,
            gettext(failure_words.CLASSES[run.failure]),
            gettext(failure_words.ORIGINS[run.failure_origin]),
            run.failure_line,
        )
        for run in reversed(told.runs)
        if run.failure is not None and run.failure_origin is not None
    ]
