"""What the advisor found, as pages say it: in the reader's language, with what to do and what was published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext

from budgets.authority import may
from budgets.models import Person
from budgets.sentences import said
from portal import formats
from scheduler.advisor import RULES, Finding, Severity
from scheduler.advisor.measured import EFFECTS, FIXES
from scheduler.models import AdviceFinding, Workload
from scheduler.queries import advice
from scheduler.services.advice import place

SEVERITY: dict[str, tuple[str, str | Promise]] = {
    Severity.ERROR: ("stop", gettext_lazy("error")),
    Severity.WARN: ("wait", gettext_lazy("warning")),
    Severity.INFO: ("info", gettext_lazy("hint")),
    Severity.UNKNOWN: ("plain", gettext_lazy("unknown")),
}
"""Of each severity: the look of its tag, and its word."""


@dataclass(frozen=True, slots=True)
class Line:
    """One finding in words."""

    rule: str
    look: str
    severity: str | Promise
    place: str
    evidence: str
    what: str
    fix: str
    effect: str


@dataclass(frozen=True, slots=True)
class Shown:
    """Findings in words, the worst first, and how many of what there are, in a sentence."""

    lines: Sequence[Line]
    sentence: str


@dataclass(frozen=True, slots=True)
class Advised:
    """What the advisor found in a workload's program, and what was measured afterwards, for those who may see that."""

    read_at: datetime | None
    files: int
    overrode: Sequence[str]
    told: Shown
    measured: advice.Measured | None
    after: Shown

    @property
    def busy(self) -> Fraction | None:
        """Activity over the time that was measured."""
        known = self.measured
        return None if known is None else Fraction(known.busy_milli_s, known.measured_milli_s)

    @property
    def memory(self) -> Fraction | None:
        """The most of a GPU's memory that was in use; None where that was not measured."""
        known = None if self.measured is None else self.measured.memory_milli
        return None if known is None else Fraction(known, 1_000)


def of_workload(workload: Workload, person: Person) -> Advised | None:
    """What stands on the page of one that the person sees inside of; None where nothing was read or measured."""
    kept = workload.advice
    sees_measured = may(person, "workload.see_measured", workload)
    measured = advice.measured_of(workload) if sees_measured else None
    if kept is None and measured is None:
        return None
    return Advised(
        read_at=kept.read_at if kept else None,
        files=kept.files if kept else 0,
        overrode=kept.overrode if kept else (),
        told=shown(advice.findings_of(workload) if kept else ()),
        measured=measured,
        after=shown(measured.findings if measured else ()),
    )


def shown(findings: Iterable[Finding | AdviceFinding]) -> Shown:
    """In the reader's language. What to do about a rule that is no more is not known any more."""
    found = list(findings)
    return Shown([_line(each) for each in found], _sentence(Counter(each.severity for each in found)))


def _line(each: Finding | AdviceFinding) -> Line:
    look, word = SEVERITY[each.severity]
    rule = RULES.get(each.rule)
    fix = rule.fix if rule else FIXES.get(each.rule, "")
    effect = rule.effect if rule else EFFECTS.get(each.rule, "")
    return Line(
        rule=each.rule,
        look=look,
        severity=word,
        place=place(each.file, each.line),
        evidence=each.evidence,
        what=said(each.what),
        fix=gettext(fix) if fix else "",
        effect=gettext(effect) if effect else "",
    )


def _sentence(counts: Counter[str]) -> str:
    parts = [
        words.format(count=formats.count(counts[severity]))
        for severity, words in (
            (Severity.ERROR, ngettext("{count} error", "{count} errors", counts[Severity.ERROR])),
            (Severity.WARN, ngettext("{count} warning", "{count} warnings", counts[Severity.WARN])),
            (Severity.INFO, ngettext("{count} hint", "{count} hints", counts[Severity.INFO])),
            (Severity.UNKNOWN, ngettext("{count} unknown", "{count} unknowns", counts[Severity.UNKNOWN])),
        )
        if counts[severity]
    ]
    return formats.joined(parts) if parts else ""
