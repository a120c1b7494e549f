"""What the advisor says: a finding, and the rule that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.advisor.package import Package

PAPER = "Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs, ICSE 2024"
"""400 jobs of at most 50% utilization and their 706 issues, August 2021; shares below are of these issues."""

MAX_EVIDENCE_CHARS = 160


class Severity(StrEnum):
    """How sure the harm is. What depends on a value that only the run knows is unknown, and never passed as good."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    UNKNOWN = "unknown"


ORDER = {severity: index for index, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found in one line.

    Attributes:
        rule: the code of the rule, `HOST_GPU.workers`.
        severity: as the rule has it, or unknown.
        file: as it was given.
        line: from 1; 0 is the file, or the package, as a whole.
        evidence: the line itself, shortened; empty for line 0.
        what: one sentence about this place.
        fix: what to do.
        effect: what was published about it.
        source: where; empty where nothing was.
    """

    rule: str
    severity: Severity
    file: str
    line: int
    evidence: str
    what: str
    fix: str
    effect: str
    source: str


@dataclass(frozen=True, slots=True)
class Spot:
    """What a rule has found: a place, and a sentence about it.

    Attributes:
        is_unknown: the rule can't tell, since the value is known at run time only.
        severity: another one than the rule's; None is the rule's own.
    """

    file: str
    line: int
    what: str
    is_unknown: bool = False
    severity: Severity | None = None


Look = Callable[["Package"], Iterator[Spot]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue.

    Attributes:
        code: its name for programs.
        severity: of what it finds.
        pattern: what it looks for, in one line.
        fix: what to do about it.
        effect: what was published: how frequent it is, or what mending it brought.
        source: where that was published; empty where it was not.
        look: finds the places.
    """

    code: str
    severity: Severity
    pattern: str
    fix: str
    effect: str
    source: str
    look: Look


RULES: dict[str, Rule] = {}
"""By code, in the order of the catalogue."""


def rule(
    code: str, severity: Severity, *, pattern: str, fix: str, effect: str, source: str = PAPER
) -> Callable[[Look], Look]:
    """Add a rule to the catalogue: what follows it finds the places."""

    def added(look: Look) -> Look:
        if code in RULES:
            raise ValueError(f"there are two rules {code}")
        RULES[code] = Rule(code, severity, pattern, fix, effect, source, look)
        return look

    return added
