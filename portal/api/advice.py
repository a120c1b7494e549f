"""Advice on a program before it is submitted, and what was kept of it when it was; it is read, and never run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.http import Http404
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.models import Cluster
from portal.api.base import Api
from portal.api.figures import between, ratio
from portal.api.nodes import OfCluster
from portal.api.problems import Strict
from portal.api.scopes import OPERATE, SUBMIT
from portal.api.serializers import moment
from portal.api.usage import PERIOD
from portal.period import period_named
from portal.views.workload import workload_named
from scheduler.advisor import MAX_FILES, RULES, Finding, Severity, advise
from scheduler.models import AdviceFinding
from scheduler.queries import advice
from scheduler.queries.advice import Share
from scheduler.services import advice as choosing

MAX_NAME_CHARS = 255
MOST = 1_000_000
SCRIPT = "script.py"


class Source(serializers.CharField):
    """The text of a file, with all its white space."""

    def __init__(self, **more: Any) -> None:
        """It may be empty."""
        super().__init__(**{"allow_blank": True, "trim_whitespace": False, **more})


class AdviceIn(Strict):
    """A program: one of `files` (the text of each file by its path) and `script` (the text of one Python file)."""

    files = serializers.DictField(
        child=Source(), required=False, allow_empty=False, help_text="text by path: Python (.py), launch scripts (.sh)"
    )
    script = Source(required=False)
    gpus = serializers.IntegerField(min_value=0, max_value=MOST, help_text="GPUs asked for, on all nodes together")
    nodes = serializers.IntegerField(
        min_value=1, max_value=MOST, required=False, help_text="on how many nodes; else as the launch script says, or 1"
    )
    is_interactive_pool = serializers.BooleanField(
        default=False, help_text="it is for a pool where people work interactively"
    )

    def validate(self, said: dict[str, Any]) -> dict[str, Any]:
        """One of both; names that a line can show."""
        if ("files" in said) == ("script" in said):
            raise ValidationError({"files": [gettext("Say exactly one of files and script.")]})
        files = said.pop("files", None) or {SCRIPT: said.pop("script", "")}
        if len(files) > MAX_FILES:
            raise ValidationError({"files": [gettext("At most {most} files.").format(most=MAX_FILES)]})
        if not all(0 < len(name) <= MAX_NAME_CHARS and name.isprintable() for name in files):
            message = gettext("The path of a file is one line of at most {most} characters.")
            raise ValidationError({"files": [message.format(most=MAX_NAME_CHARS)]})
        return {**said, "files": files}


class FindingOut(serializers.Serializer):
    """One thing that was found; the rules are those of docs/advisor.md."""

    rule = serializers.CharField()
    severity = serializers.ChoiceField([each.value for each in Severity])
    file = serializers.CharField()
    line = serializers.IntegerField(help_text="from 1; 0 is the file as a whole")
    evidence = serializers.CharField(help_text="the line itself, shortened")
    what = serializers.CharField()
    fix = serializers.CharField()
    effect = serializers.CharField(help_text="what was published about it")
    source = serializers.CharField(help_text="where")  # type: ignore[assignment]


class CountsOut(serializers.Serializer):
    """How many findings there are of each severity."""

    error = serializers.IntegerField()
    warn = serializers.IntegerField()
    info = serializers.IntegerField()
    unknown = serializers.IntegerField()


class AdviceOut(serializers.Serializer):
    """What was found, the worst first. `unknown` is what only the run knows: it is not a good mark."""

    findings = FindingOut(many=True)
    counts = CountsOut()


class Advice(Api):
    """What in a program is known to leave GPUs idle."""

    scopes = {"POST": SUBMIT}

    @extend_schema(request=AdviceIn, responses=AdviceOut)
    def post(self, request: Request) -> Response:
        """Check a program. It is parsed and never run; nothing of it is kept, and nothing is refused for it.

        (With an Idempotency-Key the answer is kept for 48 h, as every answer.)
        """
        said = self.read(AdviceIn(data=request.data))
        findings = advise(
            said["files"],
            gpus=said["gpus"],
            nodes=said.get("nodes"),
            is_interactive_pool=said["is_interactive_pool"],
        )
        return Response({"findings": [asdict(each) for each in findings], "counts": counts_of(findings)})


def counts_of(findings: Iterable[Finding | AdviceFinding]) -> dict[str, int]:
    """CountsOut."""
    counts = Counter(str(each.severity) for each in findings)
    return {each.value: counts[each.value] for each in Severity}


# --- what was kept ----------------------------------------------------------------------------------------------------


class MeasuredOut(serializers.Serializer):
    """What nodes measured of all its runs. Ratios are [numerator, denominator]."""

    utilization = serializers.ListField(child=serializers.IntegerField(), help_text="activity, and time measured")
    memory_milli = serializers.IntegerField(
        allow_null=True, help_text="the most of a GPU's memory in use, in thousandths; null: not measured"
    )
    findings = FindingOut(many=True, help_text="what that says after the fact")


class WorkloadAdviceOut(serializers.Serializer):
    """What the advisor found in a workload's program when it was submitted."""

    workload = serializers.CharField()
    read_at = serializers.DateTimeField(allow_null=True, help_text="null: nothing was given, and nothing found")
    files = serializers.IntegerField(help_text="that were given; 0: its command alone was read")
    overrode = serializers.ListField(
        child=serializers.CharField(), help_text="rules that refuse it here; an operator submitted it all the same"
    )
    findings = FindingOut(many=True)
    counts = CountsOut()
    measured = MeasuredOut(
        allow_null=True,
        help_text="null while it is open, where less than 10 minutes were measured, and for all but its owner and "
        "the managers above",
    )


class WorkloadAdvice(Api):
    """The advice that was kept with a workload."""

    out = WorkloadAdviceOut

    @extend_schema(operation_id="workload_advice", responses=WorkloadAdviceOut)
    def get(self, request: Request, code: str) -> Response:
        """For those who see inside it: its findings, and what was measured afterwards."""
        workload = workload_named(code)
        if not may(self.person(), "workload.see_inside", workload):
            raise Http404(gettext("There is no workload {code!r} that you see inside of.").format(code=code))
        kept = workload.advice
        findings = advice.findings_of(workload) if kept else []
        measured = advice.measured_of(workload) if may(self.person(), "workload.see_measured", workload) else None
        return Response(
            {
                "workload": code,
                "read_at": moment(kept.read_at) if kept else None,
                "files": kept.files if kept else 0,
                "overrode": kept.overrode if kept else [],
                "findings": [finding(each) for each in findings],
                "counts": counts_of(findings),
                "measured": measured
                and {
                    "utilization": [measured.busy_milli_s, measured.measured_milli_s],
                    "memory_milli": measured.memory_milli,
                    "findings": [asdict(each) for each in measured.findings],
                },
            }
        )


def finding(row: AdviceFinding) -> dict[str, Any]:
    """FindingOut of a stored one; what to do about a rule that is no more is empty."""
    rule = RULES.get(row.rule)
    return {
        "rule": row.rule,
        "severity": row.severity,
        "file": row.file,
        "line": row.line,
        "evidence": row.evidence,
        "what": row.what,
        "fix": rule.fix if rule else "",
        "effect": rule.effect if rule else "",
        "source": rule.source if rule else "",
    }


# --- how often rules were right, and what refuses ---------------------------------------------------------------------


class ShareOut(serializers.Serializer):
    """Submissions that were measured, how many of them were at most half busy, and where that share may lie."""

    measured = serializers.IntegerField()
    low = serializers.IntegerField()
    share = serializers.ListField(
        child=serializers.IntegerField(), allow_null=True, help_text="[low, measured]; null: nothing was measured"
    )
    interval = serializers.ListField(
        child=serializers.FloatField(), allow_null=True, help_text="Wilson's, at 95 %: two numbers from 0 to 1"
    )


class RuleOut(serializers.Serializer):
    """A rule: what it looks for, whether its findings are refused here, and how it did.

    READ warns of nothing, so it has no record.
    """

    rule = serializers.CharField()
    severity = serializers.ChoiceField([each.value for each in Severity])
    pattern = serializers.CharField(help_text="what it looks for")
    fix = serializers.CharField()
    effect = serializers.CharField(help_text="what was published about it")
    is_blocking = serializers.BooleanField(help_text="programs in which it finds something are refused")
    warned = serializers.IntegerField(allow_null=True, help_text="submissions")
    unknown = serializers.IntegerField(allow_null=True, help_text="where it could not tell: they count as neither")
    with_warning = ShareOut(allow_null=True)
    without = ShareOut(allow_null=True)


class BlockingOut(serializers.Serializer):
    """A rule whose findings are refused, and who chose so."""

    rule = serializers.CharField()
    since = serializers.DateTimeField()
    by = serializers.CharField()
    reason = serializers.CharField()


class ClusterAdviceOut(serializers.Serializer):
    """What the advisor read on a cluster in a time, what came of it, and which rules refuse programs.

    `is_invented`: its nodes are simulated, and so is what they measured.
    """

    cluster = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    is_invented = serializers.BooleanField()
    read = serializers.IntegerField(help_text="submissions whose program was given; an array is one")
    all = ShareOut()
    rules = RuleOut(many=True)
    blocking = BlockingOut(many=True)


class BlockIn(Strict):
    """Rules of the advisor, and why they refuse from now on, or warn again."""

    rules = serializers.ListField(child=serializers.ChoiceField(list(RULES)), min_length=1)
    reason = serializers.CharField(max_length=choosing.REASON_MAX_CHARS)


class BlockedOut(serializers.Serializer):
    """What changed, and which rules refuse now."""

    changed = serializers.ListField(child=serializers.CharField())
    blocking = BlockingOut(many=True)


class ClusterAdvice(OfCluster):
    """The advisor's rules on a cluster."""

    out = ClusterAdviceOut
    filters = PERIOD

    @extend_schema(operation_id="cluster_advice", responses=ClusterAdviceOut)
    def get(self, request: Request, cluster: str) -> Response:
        """How often each was right, by what was measured later, and what is refused. The last 28 days unless said."""
        where, period = self.cluster(), period_named(request, "28d")
        found = advice.record(where, period.start, period.live_end)
        records = {each.rule: each for each in found.rules}
        blocking = blocking_of(where)
        names = {each["rule"] for each in blocking}
        rules = []
        for rule in RULES.values():
            record = records.get(rule.code)
            rules.append(
                {
                    "rule": rule.code,
                    "severity": rule.severity.value,
                    "pattern": rule.pattern,
                    "fix": rule.fix,
                    "effect": rule.effect,
                    "is_blocking": rule.code in names,
                    "warned": record and record.warned,
                    "unknown": record and record.unknown,
                    "with_warning": record and share(record.with_warning),
                    "without": record and share(record.without),
                }
            )
        return Response(
            {
                "cluster": where.name,
                **between(period),
                "is_invented": where.executor == Cluster.Executor.SIMULATED,
                "read": found.read,
                "all": share(found.all),
                "rules": rules,
                "blocking": blocking,
            }
        )


def share(found: Share) -> dict[str, Any]:
    """ShareOut."""
    return {
        "measured": found.measured,
        "low": found.low,
        "share": ratio(found.low, found.measured),
        "interval": found.bounds and list(found.bounds),
    }


def blocking_of(cluster: Cluster) -> list[dict[str, Any]]:
    """BlockingOut of each."""
    return [
        {"rule": each.rule, "since": moment(each.made_at), "by": str(each.made_by), "reason": each.reason}
        for each in choosing.rules_of(cluster)
    ]


class Block(OfCluster):
    """Rules that refuse programs."""

    scopes = {"POST": OPERATE}

    @extend_schema(operation_id="advice_block", request=BlockIn, responses=BlockedOut)
    def post(self, request: Request, cluster: str) -> Response:
        """Refuse programs in which these rules find something, except to operators. Again changes nothing."""
        where, said = self.operated(), self.read(BlockIn(data=request.data))
        changed = choosing.block(cluster=where, rules=said["rules"], by=self.person(), reason=said["reason"])
        return Response({"changed": changed, "blocking": blocking_of(where)})


class Unblock(OfCluster):
    """The end of that."""

    scopes = {"POST": OPERATE}

    @extend_schema(operation_id="advice_unblock", request=BlockIn, responses=BlockedOut)
    def post(self, request: Request, cluster: str) -> Response:
        """Have these rules warn, and refuse nothing. Again changes nothing."""
        where, said = self.operated(), self.read(BlockIn(data=request.data))
        changed = choosing.unblock(cluster=where, rules=said["rules"], by=self.person(), reason=said["reason"])
        return Response({"changed": changed, "blocking": blocking_of(where)})
