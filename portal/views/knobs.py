"""A cluster's policy: each knob with its value, since when and by whom; operators change them, once they saw what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.forms import BoundField
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from budgets.authority import may
from budgets.errors import ConflictError, InputError
from budgets.models import BudgetNode, Cluster, Person
from portal import formats, knob_words, trials
from portal.forms.knobs import KnobsForm, typed
from portal.pages import Once, cluster_named, clusters, render_page, status_of, whole_number
from scheduler.knobs import GROUPS, KNOBS, Knob
from scheduler.models import PolicyVersion, Workload
from scheduler.queries import policy_history
from scheduler.services import policies

PER_PAGE = 20
"""Versions of the history on one page."""
CONFLICT = 409


@dataclass(frozen=True, slots=True)
class Row:
    """A knob on the page: its value in words, and what a word means; `since` is the version that gave it, if any."""

    knob: Knob
    value: str
    meaning: str
    default: str
    unit: str
    is_default: bool
    only_with: str
    since: PolicyVersion | None
    trial: str
    field: BoundField
    is_changed: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one knob, in words."""

    knob: Knob
    before: str
    after: str
    only_with: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """A version with what it changed."""

    version: PolicyVersion
    changes: list[Change]


class PolicyPage(Once):
    """Everybody who is signed in reads it; what operators change is shown once more before it is done."""

    verbs = ("change",)

    def get(self, request: HttpRequest, cluster: str = "") -> HttpResponse:
        """The page."""
        self.allow("cluster.see")
        where, now = self.place(cluster)
        return self.show(request, where, now, form_of(now))

    def post(self, request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
        """Show what would change, or change it."""
        self.allow("cluster.see")
        where, now = self.place(cluster)
        if verb not in self.verbs:
            raise Http404(gettext("There is no {verb!r} here.").format(verb=verb))
        if not may(request.user, "policy.change", where):
            raise PermissionDenied(gettext("The policy of a cluster is for its operators to change."))
        form = form_of(version_said(where, request.POST) or now, request.POST)
        if not form.is_valid():
            return self.show(request, where, now, form, 400)
        if form.cleaned_data["back"]:
            return self.show(request, where, now, form_of(now, over=form))
        if form.cleaned_data["sure"]:
            return self.change(request, where, form)
        try:
            after = policies.would_be(cluster=where, knobs=form.changes(), version=form.cleaned_data["version"])
        except ConflictError:
            return self.too_late(request, where, form)
        except InputError as error:
            form.take(error)
            return self.show(request, where, now, form, status_of(error))
        changed = {name: after[name] for name in KNOBS if after[name] != form.values[name]}
        if not changed:
            form.add_error(None, gettext("Nothing is changed: every knob has the value that it has already."))
            return self.show(request, where, now, form, 400)
        return self.ask(request, where, form, changed)

    def change(self, request: HttpRequest, where: Cluster, form: KnobsForm) -> HttpResponse:
        """Put it in force, once."""
        person: Person = request.user  # type: ignore[assignment]
        answer, status = self.once(
            request,
            form,
            reverse("policy", args=[where.name]),
            lambda made: gettext("Version {number} is in force from the next pass on.").format(number=made.number),
            lambda said: policies.change(
                cluster=where, knobs=form.changes(), by=person, reason=said["reason"], version=said["version"]
            ),
        )
        if answer is None and status == CONFLICT:
            return self.too_late(request, where, form)
        return answer or self.show(request, where, policies.latest(where), form, status)

    def too_late(self, request: HttpRequest, where: Cluster, form: KnobsForm) -> HttpResponse:
        """Somebody changed it meanwhile: what was typed stands beside what is in force now, to be sent again."""
        now = policies.latest(where)
        said = gettext(
            "Version {number} is in force now, by {person}: “{reason}”. Nothing was changed. What you typed still "
            "stands below, beside what is in force: look at both, and send it again."
        )
        words = said.format(number=now.number, person=now.made_by or gettext("the system"), reason=now.reason)
        return self.show(request, where, now, form_of(now, over=form), CONFLICT, words)

    def place(self, cluster: str) -> tuple[Cluster, PolicyVersion]:
        """The cluster, and the version in force."""
        where = cluster_named(cluster, clusters())
        policies.ensure(where)
        return where, policies.latest(where)

    def ask(self, request: HttpRequest, where: Cluster, form: KnobsForm, changed: Mapping[str, Any]) -> HttpResponse:
        """What would change, and the button that does it."""
        after = {**form.values, **changed}
        context = {
            "here": "policy",
            "cluster": where,
            "form": form,
            "changes": changes_of({name: (form.values[name], value) for name, value in changed.items()}, after),
            "sent": {name: form[name].value() for name in form.changes()},
            "follows": what_follows(where, changed, form.cleaned_data["version"] + 1),
            "trial": trials.of_changes(where, changed),
        }
        return render_page(request, "policy_sure", context)

    def show(
        self,
        request: HttpRequest,
        where: Cluster,
        now: PolicyVersion,
        form: KnobsForm,
        status: int = 200,
        too_late: str = "",
    ) -> HttpResponse:
        """The page."""
        root = BudgetNode.objects.filter(parent=None).first()
        rows = rows_of(where, now, form)
        pages = -(-now.number // PER_PAGE)
        number = min(whole_number(request, "page", 1), pages)
        found = policy_history.steps(where, (number - 1) * PER_PAGE, PER_PAGE)
        context = {
            "here": "policy",
            "cluster": where,
            "clusters": clusters(),
            "version": now,
            "groups": [(group, [rows[knob.name] for knob in group.knobs]) for group in GROUPS],
            "count": len(rows),
            "others": sum(not row.is_default for row in rows.values()),
            "form": form,
            "too_late": too_late,
            "may_change": may(request.user, "policy.change", where),
            "sees_ledger": root is not None and may(request.user, "node.see_ledger", root),
            "history": [Past(step.version, changes_of(step.changes)) for step in found],
            "number": number,
            "pages": pages,
        }
        return render_page(request, "policy", context, status=status)


def version_said(where: Cluster, said: QueryDict) -> PolicyVersion | None:
    """The version that a form was made from; None where it names none that there has been."""
    number = said.get("version", "")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        return None
    return PolicyVersion.objects.filter(cluster=where, number=int(number)).first()


def form_of(base: PolicyVersion, said: QueryDict | None = None, *, over: KnobsForm | None = None) -> KnobsForm:
    """The form of a version.

    Args:
        said: what was sent; a knob that it leaves out keeps its value.
        over: an earlier form, whose changes and reason stand in this one as they were typed.
    """
    values = policies.effective(base)
    if said is not None:
        data = said.copy()
        for name, text in typed(values).items():
            data.setdefault(name, text)
        return KnobsForm(data, values=values, version=base.number)
    kept = {} if over is None else {name: over[name].value() for name in ("reason", *over.changes())}
    return KnobsForm(values=values, version=base.number, initial=kept)


def rows_of(where: Cluster, now: PolicyVersion, form: KnobsForm) -> dict[str, Row]:
    """By knob, what the page shows of it."""
    values, since = policies.effective(now), policy_history.since(where)
    stands = typed(values)
    found = {}
    for name, knob in KNOBS.items():
        default = policies.DEFAULTS[name]
        found[name] = Row(
            knob,
            knob_words.shown(knob, values[name]),
            knob_words.meaning_of(knob, values[name]),
            knob_words.shown(knob, default),
            knob_words.unit_of(knob),
            values[name] == default,
            knob_words.only_with(knob, values),
            since.get(name),
            trials.of_knob(where, knob, values[name]),
            form[name],
            form[name].value() != stands[name],
        )
    return found


def changes_of(changes: Mapping[str, tuple[Any, Any]], after: Mapping[str, Any] | None = None) -> list[Change]:
    """In words; where all that comes after is told, also what has no effect then."""
    found = []
    for name, (old, new) in changes.items():
        knob = KNOBS[name]
        words = "" if after is None else knob_words.only_with(knob, after)
        found.append(Change(knob, knob_words.shown(knob, old), knob_words.shown(knob, new), words))
    return found


def what_follows(where: Cluster, changed: Mapping[str, Any], number: int) -> list[str]:
    """What a change brings about, in sentences."""
    said = gettext("The next pass on {cluster} goes by it, as version {number}; every pass names its version.")
    follows = [said.format(cluster=where.name, number=number)]
    if any(KNOBS[name].moves_order for name in changed):
        waiting = Workload.objects.filter(cluster=where, state=Workload.State.QUEUED).count()
        if waiting:
            words = ngettext(
                "{count} workload waits now: what is next may be another one.",
                "{count} workloads wait now: what is next may be another one.",
                waiting,
            )
            follows.append(words.format(count=formats.count(waiting)))
    return follows
