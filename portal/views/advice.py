"""How often the advisor's rules were right on a cluster, and which of them refuse programs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext

from budgets.authority import may
from budgets.models import Cluster, Person
from portal import formats
from portal.advised import SEVERITY
from portal.forms.advice import RuleForm
from portal.pages import Once, cluster_named, clusters, new_action, render_page
from portal.period import period_named
from scheduler.advisor import RULES
from scheduler.models import BlockingRule
from scheduler.queries import advice
from scheduler.queries.advice import Record, RuleRecord, Share
from scheduler.services import advice as choosing

DONE: Mapping[str, str | Promise] = {
    "block": gettext_lazy("Programs in which it finds something are refused here from now on."),
    "unblock": gettext_lazy("It warns again, and refuses nothing."),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A rule: how sure it is, what it looks for, how it did, and who had it refuse programs."""

    rule: str
    look: str
    severity: str | Promise
    pattern: str
    record: RuleRecord | None
    blocking: BlockingRule | None


class AdvicePage(Once):
    """`?window=`, `?from=&until=` and `?as_of=` choose the time. Operators choose what refuses."""

    verbs = tuple(DONE)

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The page."""
        self.allow("cluster.see")
        return self.show(request, cluster_named(cluster, clusters()), {})

    def post(self, request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
        """Have a rule refuse programs, or warn again."""
        self.allow("cluster.see")
        where = cluster_named(cluster, clusters())
        if verb not in DONE:
            raise Http404(gettext("There is no {verb!r} here.").format(verb=verb))
        if not may(request.user, "policy.change", where):
            raise PermissionDenied(gettext("The rules of a cluster are for its operators to change."))
        form = RuleForm(request.POST, auto_id=f"{verb}_%s", rules=RULES)
        service = choosing.block if verb == "block" else choosing.unblock
        person: Person = request.user  # type: ignore[assignment]
        address = reverse("advice", args=[where.name])
        answer, status = self.once(
            request,
            form,
            address,
            str(DONE[verb]),
            lambda said: service(cluster=where, rules=[said["rule"]], by=person, reason=said["reason"]),
        )
        return answer or self.show(request, where, {verb: form}, status)

    def show(
        self, request: HttpRequest, cluster: Cluster, forms: Mapping[str, RuleForm], status: int = 200
    ) -> HttpResponse:
        """The page; a form with errors in place of a fresh one."""
        period = period_named(request, "28d")
        record = advice.record(cluster, period.start, period.live_end)
        blocking = {each.rule: each for each in choosing.rules_of(cluster)}
        may_change = may(request.user, "policy.change", cluster)
        context = {
            **period.context(),
            "here": "advice",
            "clusters": clusters(),
            "cluster": cluster,
            "record": record,
            "rows": rows(record, blocking),
            "blocking": list(blocking.values()),
            "sentence": sentence(record),
            "is_invented": cluster.executor == Cluster.Executor.SIMULATED,
            "may_change": may_change,
            "forms": _forms(forms, blocking) if may_change else {},
        }
        return render_page(request, "advice", context, status=status)


def _forms(given: Mapping[str, RuleForm], blocking: Mapping[str, BlockingRule]) -> dict[str, RuleForm | None]:
    offered = {"block": [each for each in RULES if each not in blocking], "unblock": list(blocking)}
    return {
        verb: given.get(verb)
        or (RuleForm(rules=rules, auto_id=f"{verb}_%s", initial={"action": new_action()}) if rules else None)
        for verb, rules in offered.items()
    }


def rows(record: Record, blocking: Mapping[str, BlockingRule]) -> Sequence[Row]:
    """All rules in the catalogue's order."""
    records = {each.rule: each for each in record.rules}
    return [
        Row(
            rule=rule.code,
            look=SEVERITY[rule.severity][0],
            severity=SEVERITY[rule.severity][1],
            pattern=gettext(rule.pattern),
            record=records.get(rule.code),
            blocking=blocking.get(rule.code),
        )
        for rule in RULES.values()
    ]


def sentence(record: Record) -> str:
    """What was read and measured, as one would say it."""
    if not record.read:
        return gettext("No program was given to be read in this time.")
    read = ngettext(
        "The advisor read {count} submission with its program.",
        "The advisor read {count} submissions with their programs.",
        record.read,
    ).format(count=formats.count(record.read))
    if not record.all.measured:
        return f"{read} " + gettext("None of them has ended and was measured yet, so nothing is known of its rules.")
    measured = ngettext(
        "{count} of them has ended and was measured: {low} used at most half of its GPUs' time ({share}).",
        "{count} of them have ended and were measured: {low} used at most half of their GPUs' time ({share}).",
        record.all.measured,
    ).format(
        count=formats.count(record.all.measured),
        low=formats.count(record.all.low),
        share=formats.measured_percent(record.all.fraction),
    )
    return f"{read} {measured}"


def bounds_words(share: Share) -> str:
    """Between which the share lies, in whole per cent."""
    found = share.bounds
    if found is None:
        return formats.NOT_APPLICABLE
    low, high = (formats.half_up(Fraction(each) * 100, 0) for each in found)
    return gettext("{low} to {high} %").format(low=low, high=high)
