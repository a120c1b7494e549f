"""Communication profiles: what a workload sends in each of its iterations, measured where nobody else used the network.

An iteration computes, sending nothing, and communicates, in phases of one rate each. Time is whole milliseconds, which
is the grid that CASSINI's circles are rolled on; rates are whole thousandths of a Gbit/s (`_mbps`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

from scheduler.one_line import one_line

MOST_PERIOD_MS = 3_600_000
MOST_PHASES = 32
MOST_GBPS = 100_000
EXAMPLE = "100: 50-100@45"
PHASE = re.compile(r"\s*([0-9]{1,9})\s*-\s*([0-9]{1,9})\s*@\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*")
TYPED = re.compile(rf"\s*(?P<period>[0-9]{{1,9}})\s*:(?P<phases>{PHASE.pattern}(?:,{PHASE.pattern})*)")


class ProfileError(ValueError):
    """A profile that no workload can have; the text names the place in it."""


class Phase(NamedTuple):
    """What is sent in [from_ms, until_ms) of each iteration, at one rate."""

    from_ms: int
    until_ms: int
    mbps: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One iteration of a workload.

    Attributes:
        period_ms: how long it takes where nobody else uses the network.
        phases: what it sends meanwhile, by time, without overlap; between them it sends nothing.

    Raises:
        ProfileError: no whole number of milliseconds, no phase, or one that is empty, sends nothing, overlaps another
            or does not lie in the period.
    """

    period_ms: int
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        """Refuse what no workload can do."""
        if not _is_whole(self.period_ms) or not 1 <= self.period_ms <= MOST_PERIOD_MS:
            raise ProfileError(
                f"period_ms: must be a whole number from 1 to {MOST_PERIOD_MS:,}, but is {_quoted(self.period_ms)}"
            )
        if not 1 <= len(self.phases) <= MOST_PHASES:
            raise ProfileError(f"phases: must be 1 to {MOST_PHASES}, but are {len(self.phases)}")
        for number, phase in enumerate(self.phases):
            for name, value in zip(Phase._fields, phase, strict=True):
                if not _is_whole(value):
                    raise ProfileError(f"phases[{number}].{name}: must be a whole number, but is {_quoted(value)}")
            if not 0 <= phase.from_ms < phase.until_ms <= self.period_ms:
                raise ProfileError(
                    f"phases[{number}]: must begin before it ends, inside the period of {self.period_ms:,} ms, but "
                    f"goes from {phase.from_ms:,} to {phase.until_ms:,} ms"
                )
            if not 1 <= phase.mbps <= MOST_GBPS * 1_000:
                raise ProfileError(
                    f"phases[{number}].gbps: must be above 0 and at most {MOST_GBPS:,}, but is {phase.mbps / 1_000:g}"
                )
        for number, (before, after) in enumerate(pairwise(self.phases), start=1):
            if after.from_ms < before.until_ms:
                raise ProfileError(
                    f"phases[{number}]: begins at {after.from_ms:,} ms, before the one before it ends at "
                    f"{before.until_ms:,} ms"
                )

    @property
    def volume_kbit(self) -> int:
        """What one iteration sends."""
        return sum((phase.until_ms - phase.from_ms) * phase.mbps for phase in self.phases)

    @property
    def mean_mbps(self) -> float:
        """What it sends on average."""
        return self.volume_kbit / self.period_ms

    def pieces(self) -> Iterator[Phase]:
        """The whole iteration, one piece after the other: also those in which nothing is sent, at rate 0."""
        at_ms = 0
        for phase in self.phases:
            if phase.from_ms > at_ms:
                yield Phase(at_ms, phase.from_ms, 0)
            yield phase
            at_ms = phase.until_ms
        if at_ms < self.period_ms:
            yield Phase(at_ms, self.period_ms, 0)


def read_profile(given: object) -> Profile:
    """A profile from JSON: {"period_ms": 100, "phases": [{"from_ms": 50, "until_ms": 100, "gbps": 45}]}.

    Phases may come in any order.

    Raises:
        ProfileError: it is something else; the text names the place in it.
    """
    fields = _fields(given, "", ("period_ms", "phases"))
    rows = fields["phases"]
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ProfileError("phases: must be a list")
    phases = []
    for number, row in enumerate(rows):
        place = f"phases[{number}]"
        found = _fields(row, place, ("from_ms", "until_ms", "gbps"))
        gbps = found["gbps"]
        if isinstance(gbps, bool) or not isinstance(gbps, int | float | Decimal) or not isfinite(gbps):
            raise ProfileError(f"{place}.gbps: must be a number, but is {_quoted(gbps)}")
        if not 0 < gbps <= MOST_GBPS:
            raise ProfileError(f"{place}.gbps: must be above 0 and at most {MOST_GBPS:,}, but is {gbps:g}")
        phases.append(Phase(found["from_ms"], found["until_ms"], max(1, round(gbps * 1_000))))
    if all(_is_whole(phase.from_ms) for phase in phases):
        phases.sort()
    return Profile(fields["period_ms"], tuple(phases))


def typed_profile(text: str) -> Profile:
    """A profile as people type it, in milliseconds and Gbit/s: "100: 50-100@45", more phases after commas.

    Raises:
        ProfileError: it is something else.
    """
    found = TYPED.fullmatch(text)
    if found is None:
        raise ProfileError(f'must be such as "{EXAMPLE}": the period, and from when until when it sends at which rate')
    phases = [
        {"from_ms": int(from_ms), "until_ms": int(until_ms), "gbps": float(gbps)}
        for from_ms, until_ms, gbps in PHASE.findall(found["phases"])
    ]
    return read_profile({"period_ms": int(found["period"]), "phases": phases})


def written_profile(profile: Profile) -> dict[str, Any]:
    """As `read_profile` reads it."""
    phases = [
        {"from_ms": phase.from_ms, "until_ms": phase.until_ms, "gbps": phase.mbps / 1_000} for phase in profile.phases
    ]
    return {"period_ms": profile.period_ms, "phases": phases}


def _fields(given: object, place: str, names: Sequence[str]) -> Mapping[str, Any]:
    """An object that has these fields and no other."""
    before = f"{place}: " if place else ""
    if not isinstance(given, Mapping):
        raise ProfileError(f"{before}must be an object with {', '.join(names)}")
    for name in names:
        if name not in given:
            raise ProfileError(f"{place}.{name}: is missing" if place else f"{name}: is missing")
    for name in given:
        if name not in names:
            raise ProfileError(f"{before}there is no field {_quoted(name)}; there are {', '.join(names)}")
    return given


def _quoted(value: object) -> str:
    """As it was given, cut to one line."""
    return one_line(repr(value), 60)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
