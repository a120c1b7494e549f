"""From files to findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.advisor import package as packages
from scheduler.advisor.findings import MAX_EVIDENCE_CHARS, ORDER, Finding, Rule, Severity, Spot
from scheduler.advisor.package import Package
from scheduler.advisor.rules import catalogue

MAX_OF_A_RULE = 20
"""More of the same tell nothing new."""


def advise(
    files: Mapping[str, str | bytes],
    *,
    gpus: int,
    nodes: int | None = None,
    is_interactive_pool: bool = False,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[Finding]:
    """What is known to waste GPUs in these files of one package.

    Args:
        files: text by path; Python modules and launch scripts. Modules that import each other belong together.
        gpus: how many are asked for, on all nodes together.
        nodes: on how many nodes; None is as a launch script says, or one.
        is_interactive_pool: it is meant for a pool where people work interactively.
        command: the argument list that starts the program; its file is `COMMAND`.
        environment: the variables that are set for it; their file is `ENVIRONMENT`.

    Returns:
        The worst first, then by file and line. A file that can't be read is one finding, and the others are read.

    Raises:
        ValueError: gpus or nodes are no sensible numbers.
    """
    package = packages.read(
        files,
        gpus=gpus,
        nodes=nodes,
        is_interactive_pool=is_interactive_pool,
        command=command,
        environment=environment,
    )
    found = [finding for rule in catalogue() for finding in _of(rule, package)]
    places = {path: index for index, path in enumerate(files)}
    return sorted(found, key=lambda each: (ORDER[each.severity], places.get(each.file, -1), each.line, each.rule))


def _of(rule: Rule, package: Package) -> list[Finding]:
    spots: dict[tuple[str, int, bool], Spot] = {}
    for spot in rule.look(package):
        spots.setdefault((spot.file, spot.line, spot.is_unknown), spot)
        if len(spots) == MAX_OF_A_RULE:
            break
    return [_finding(rule, spot, package) for spot in spots.values()]


def _finding(rule: Rule, spot: Spot, package: Package) -> Finding:
    lines = package.texts.get(spot.file, [])
    evidence = " ".join(lines[spot.line - 1].split()) if 0 < spot.line <= len(lines) else ""
    if len(evidence) > MAX_EVIDENCE_CHARS:
        evidence = evidence[: MAX_EVIDENCE_CHARS - 1] + "…"
    severity = Severity.UNKNOWN if spot.is_unknown else spot.severity or rule.severity
    return Finding(
        rule=rule.code, severity=severity, file=spot.file, line=spot.line, evidence=evidence,
        what=" ".join(spot.what.split()),
        fix=rule.fix, effect=rule.effect, source=rule.source,
    )  # fmt: skip
