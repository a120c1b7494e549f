"""What the advisor says of a program that is submitted: read first, kept with the workload, refused where one chose so.

Programs are parsed and never run, and nothing of them is kept but the lines that findings show. A finding refuses
nothing by itself: it does so on a cluster whose operator chose its rule (`block`), for everybody but operators. What
is unknown refuses nothing; except by READ, the rule of what could not be read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import Cluster, Person
from budgets.sentences import said
from budgets.services import ledger
from scheduler.advisor import COMMAND, ENVIRONMENT, RULES, Finding, Severity, advise
from scheduler.models import WHOLE_DEVICE_MILLI, Advice, AdviceFinding, BlockingRule, Node, Workload
from scheduler.services import events
from scheduler.services.asked import Asked

UNREAD = "READ"
"""The rule of what was not read."""
INTERACTIVE_UP_TO_S = 900
"""Debug runs, and unallocated work, are where people may work interactively (semantics.md section 10)."""
REASON_MAX_CHARS = 200
"""Whoever is refused reads it."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in a program: `files` is how many were given beside its command."""

    files: int = 0
    findings: Sequence[Finding] = ()

    @property
    def kept(self) -> Sequence[Finding]:
        """Without programs nobody said what they consist of: that they were not read is no news."""
        return self.findings if self.files else [each for each in self.findings if each.rule != UNREAD]


# --- reading ----------------------------------------------------------------------------------------------------------


def look(request: Asked) -> Look:
    """Read what a submission consists of; the system's own work, and the demo's, is not read."""
    if request.owner is None or request.demo:
        return Look()
    findings = advise(
        request.program,
        gpus=-(-request.size_milli // WHOLE_DEVICE_MILLI),
        nodes=_nodes(request.cluster, request.size_milli),
        is_interactive_pool=request.min_runtime_s <= INTERACTIVE_UP_TO_S,
        command=request.command,
        environment=request.environment,
    )
    return Look(len(request.program), findings)


def _nodes(cluster: Cluster, size_milli: int) -> int:
    """On how many nodes: more than one node's worth takes whole nodes."""
    if size_milli <= WHOLE_DEVICE_MILLI:
        return 1
    sizes = Node.objects.filter(cluster=cluster, retired_at=None).annotate(size=Count("devices"))
    node_milli = (sizes.aggregate(most=Max("size"))["most"] or 0) * WHOLE_DEVICE_MILLI
    return -(-size_milli // node_milli) if node_milli else 1


def refuse(found: Look, request: Asked) -> list[str]:
    """Nothing, where no finding is of a rule that refuses here; for an operator, the rules that would have.

    Raises:
        InputError: a finding is: which rule, where, and who chose so.
    """
    if not found.findings:
        return []
    blocking = {each.rule: each for each in rules_of(request.cluster)}
    hits = [each for each in found.findings if each.rule in blocking and _counts(each)]
    if not hits:
        return []
    if request.owner is not None and may(request.owner, "advice.override", request.cluster):
        return sorted({each.rule for each in hits})
    raise InputError("program", _refusal(hits, blocking[hits[0].rule], request.cluster))


def _counts(finding: Finding) -> bool:
    return finding.severity != Severity.UNKNOWN or finding.rule == UNREAD


def _refusal(hits: Sequence[Finding], chosen: BlockingRule, cluster: Cluster) -> str:
    first = hits[0]
    words = gettext(
        "{place}: {what} {rule} is not taken on {cluster}, as {person} decided: “{reason}”. To do: {fix} An operator "
        "may submit it all the same."
    ).format(
        place=place(first.file, first.line),
        what=said(first.what),
        rule=first.rule,
        cluster=cluster.name,
        person=chosen.made_by,
        reason=chosen.reason,
        fix=gettext(first.fix),
    )
    more = len(hits) - 1
    if more:
        words += " " + ngettext(
            "{count} more place is refused by such a rule.", "{count} more places are refused by such rules.", more
        ).format(count=more)
    return words


def place(file: str, line: int) -> str:
    """Where a finding is, as one says it: train.py, line 12."""
    if file == COMMAND:
        return gettext("the command")
    if file == ENVIRONMENT:
        return gettext("the environment")
    return gettext("{file}, line {line}").format(file=file, line=line) if line else file


def keep(found: Look, cluster: Cluster, overrode: Sequence[str], at: datetime) -> Advice | None:
    """Keep what was found, in the submission's transaction; None where nothing was given and nothing found."""
    if not found.files and not found.kept and not overrode:
        return None
    advice = Advice.objects.create(cluster=cluster, read_at=at, files=found.files, overrode=list(overrode))
    AdviceFinding.objects.bulk_create(
        AdviceFinding(
            advice=advice,
            position=position,
            rule=each.rule,
            severity=each.severity.value,
            file=each.file,
            line=each.line,
            evidence=each.evidence,
            what=each.what,
        )
        for position, each in enumerate(found.kept)
    )
    return advice


def keep_with(workload: Workload, found: Look) -> None:
    """Keep what was found in the program of a workload of the past, in the caller's transaction."""
    told = keep(found, workload.cluster, (), workload.submitted_at)
    Workload.objects.filter(pk=workload.pk, advice=None).update(advice=told)


# --- what refuses -----------------------------------------------------------------------------------------------------


def rules_of(cluster: Cluster) -> list[BlockingRule]:
    """The rules that refuse on a cluster; out of the box there is none."""
    return list(BlockingRule.objects.filter(cluster=cluster).select_related("made_by").order_by("rule"))


def block(
    *, cluster: Cluster, rules: Collection[str], by: Person, reason: str, now: datetime | None = None
) -> list[str]:
    """Have what these rules find be refused on a cluster from now on; in the ledger. Those that were not yet.

    Raises:
        InputError: there is no such rule, or no reason. NotAllowed: not theirs to decide.
    """
    _check(cluster, rules, by, reason)
    at = (now or timezone.now()).replace(microsecond=0)
    with events.changing(cluster.pk):
        before = [each.rule for each in rules_of(cluster)]
        new = sorted(set(rules) - set(before))
        BlockingRule.objects.bulk_create(
            BlockingRule(cluster=cluster, rule=rule, made_at=at, made_by=by, reason=reason.strip()) for rule in new
        )
        if new:
            _record(cluster, before, sorted({*before, *new}), by, reason)
    return new


def unblock(*, cluster: Cluster, rules: Collection[str], by: Person, reason: str) -> list[str]:
    """Have these rules warn again, and refuse nothing; in the ledger. Those that had refused.

    Raises:
        InputError: there is no such rule, or no reason. NotAllowed: not theirs to decide.
    """
    _check(cluster, rules, by, reason)
    with events.changing(cluster.pk):
        before = [each.rule for each in rules_of(cluster)]
        gone = sorted(set(rules) & set(before))
        BlockingRule.objects.filter(cluster=cluster, rule__in=gone).delete()
        if gone:
            _record(cluster, before, [each for each in before if each not in gone], by, reason)
    return gone


def _check(cluster: Cluster, rules: Collection[str], by: Person, reason: str) -> None:
    if not may(by, "policy.change", cluster):
        raise NotAllowed("policy.change")
    unknown = sorted(set(rules) - set(RULES))
    if unknown or not rules:
        raise InputError(
            "rules",
            gettext("there is no rule {rule!r}; there are {rules}").format(
                rule=unknown[0][:80] if unknown else "", rules=", ".join(RULES)
            ),
        )
    if not reason.strip():
        raise InputError("reason", gettext("say why, in a sentence"))
    if len(reason) > REASON_MAX_CHARS:
        raise InputError("reason", gettext("has more than {most:,} characters").format(most=REASON_MAX_CHARS))


def _record(cluster: Cluster, before: Sequence[str], after: Sequence[str], by: Person, reason: str) -> None:
    ledger.record_of_all(
        verb="cluster.advice",
        by=by,
        before={"rules": list(before)},
        after={"rules": list(after)},
        reason=reason.strip(),
        cluster=cluster,
    )
