"""A cluster's rules: which it follows from when, and how its nodes are repaired. Operators change both, once asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy, ngettext

from budgets.authority import may
from budgets.models import Cluster
from budgets.services import webhooks
from portal import formats
from portal.forms.operating import HookForm, RulesForm, SureForm, UnhookForm
from portal.pages import Once, cluster_named, clusters, new_action, render_page
from scheduler.models import Node, RepairHook, RolloutStep, Run, Workload
from scheduler.services import repairs, rollout

PAST_SHOWN = 10
FORMS: Mapping[str, type[SureForm]] = {"plan": RulesForm, "hook": HookForm, "unhook": UnhookForm}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked before it is done: in the heading, what follows in sentences, and the word of the button."""

    heading: str
    follows: list[str]
    button: str


class ClusterRules(Once):
    """What everybody may read; what operators change is asked about once more before it is done."""

    verbs = tuple(FORMS)

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        """The page."""
        self.allow("cluster.see")
        return self.show(request, cluster_named(cluster, clusters()), {})

    def post(self, request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
        """Ask whether they are sure, or do it."""
        self.allow("cluster.see")
        where = cluster_named(cluster, clusters())
        if verb not in FORMS:
            raise Http404(gettext("There is no {verb!r} here.").format(verb=verb))
        if not may(request.user, "policy.change", where):
            raise PermissionDenied(gettext("The rules of a cluster are for its operators to change."))
        form = FORMS[verb](request.POST, auto_id=f"{verb}_%s")
        if not form.is_valid():
            return self.show(request, where, {verb: form}, 400)
        if not form.cleaned_data["sure"]:
            return self.ask(request, where, verb, form)
        led_to = reverse("rules", args=[where.name])
        made: list[object] = []
        answer, status = self.once(
            request, form, led_to, str(DONE[verb]), lambda said: made.append(self.do(where, verb, said))
        )
        if made and isinstance(made[0], RepairHook) and made[0].kind == RepairHook.Kind.WEBHOOK:
            answer = self.show(request, where, {}, secret=made[0].secret)
            answer.headers["Cache-Control"] = "no-store"
        return answer or self.show(request, where, {verb: form}, status)

    def do(self, cluster: Cluster, verb: str, said: Mapping[str, Any]) -> object:
        """Carry it out.

        Raises:
            InputError: names the field.
        """
        now = datetime.now(UTC)
        who: dict[str, Any] = {"cluster": cluster, "by": self.request.user, "reason": said["reason"]}
        if verb == "plan":
            starts_at = said["starts_at"] or now.replace(microsecond=0)
            return rollout.plan(**who, mode=said["mode"], starts_at=starts_at, now=now)
        if verb == "unhook":
            return repairs.remove_hook(**who)
        how = {name: said[name] for name in ("kind", "command", "url", "attempts")}
        return repairs.set_hook(**who, **how, timeout_s=said["within"])

    def ask(self, request: HttpRequest, cluster: Cluster, verb: str, form: SureForm) -> HttpResponse:
        """What follows, and the button that does it."""
        question = QUESTIONS[verb](cluster, form.cleaned_data)
        context = {"here": "nodes", "cluster": cluster, "verb": verb, "form": form, "question": question}
        return render_page(request, "rules_sure", context)

    def show(
        self, request: HttpRequest, cluster: Cluster, forms: Mapping[str, SureForm], status: int = 200, secret: str = ""
    ) -> HttpResponse:
        """The page; a form with errors in place of a fresh one; the secret of a new webhook, once."""
        now = datetime.now(UTC)
        may_change = may(request.user, "policy.change", cluster)
        hook = RepairHook.objects.filter(cluster=cluster).first()
        steps = RolloutStep.objects.filter(cluster=cluster).select_related("made_by")
        context = {
            "here": "nodes",
            "cluster": cluster,
            "clusters": clusters(),
            "mode": rollout.mode_of(cluster, now),
            "coming": list(steps.filter(starts_at__gt=now).order_by("starts_at", "pk")),
            "past": list(steps.filter(starts_at__lte=now).order_by("-starts_at", "-pk")[:PAST_SHOWN]),
            "may_change": may_change,
            "hook": hook,
            "secret": secret,
            "signature_header": webhooks.SIGNATURE_HEADER,
            "hook_command": shlex.join(hook.command) if hook is not None else "",
            "forms": {verb: forms.get(verb) or _fresh(verb, hook) for verb in FORMS} if may_change else {},
        }
        return render_page(request, "rules", context, status=status)


def _fresh(verb: str, hook: RepairHook | None) -> SureForm:
    first: dict[str, Any] = {"action": new_action()}
    if verb == "plan":
        first |= {"mode": RolloutStep.Mode.CONTRACTS}
    elif verb == "hook":
        first |= {"kind": RepairHook.Kind.NODE, "attempts": 2, "within": formats.duration(1_800)}
        if hook is not None:
            first |= {"kind": hook.kind, "attempts": hook.attempts, "within": formats.duration(hook.timeout_s)}
            first |= {"url": hook.url, "command": shlex.join(hook.command)}
    return FORMS[verb](initial=first, auto_id=f"{verb}_%s")


# --- what follows -----------------------------------------------------------------------------------------------------


def _about_rules(cluster: Cluster, said: Mapping[str, Any]) -> Question:
    now = datetime.now(UTC)
    starts_at = said["starts_at"]
    when = gettext("now") if starts_at is None else formats.instant(starts_at)
    waiting = Workload.objects.filter(cluster=cluster, state=Workload.State.QUEUED).count()
    running = Run.objects.filter(cluster=cluster).exclude(state=Run.State.ENDED).count()
    dropped = RolloutStep.objects.filter(cluster=cluster, starts_at__gte=starts_at or now).count()
    if said["mode"] == RolloutStep.Mode.SHADOW:
        heading = gettext("Have {cluster} shadow from {when} on?").format(cluster=cluster.name, when=when)
        follows = [
            gettext("Decisions are made and shown, and none is carried out: nothing starts, nobody is preempted."),
            ngettext(
                "{count} run goes on, and ends by itself.", "{count} runs go on, and end by themselves.", running
            ).format(count=running),
        ]
    else:
        heading = gettext("Have {cluster} follow contracts from {when} on?").format(cluster=cluster.name, when=when)
        follows = [
            gettext("From that instant decisions are carried out: workloads start, and are preempted by the rules."),
            ngettext("{count} workload waits for that now.", "{count} workloads wait for that now.", waiting).format(
                count=waiting
            ),
        ]
    if dropped:
        follows.append(
            ngettext(
                "{count} change that was planned for later is dropped.",
                "{count} changes that were planned for later are dropped.",
                dropped,
            ).format(count=dropped)
        )
    return Question(heading, follows, gettext("Decide so"))


def _about_hook(cluster: Cluster, said: Mapping[str, Any]) -> Question:
    what = {
        RepairHook.Kind.NODE: gettext("The agent of an unhealthy node that is empty runs its own repair command."),
        RepairHook.Kind.WEBHOOK: gettext(
            "For an unhealthy node that is empty a signed message is posted to {url}. Its secret is a new one, and is "
            "shown once."
        ).format(url=said["url"]),
        RepairHook.Kind.PORTAL: gettext(
            "For an unhealthy node that is empty a worker on the portal's machine runs: {command}"
        ).format(command=shlex.join(said["command"])),
    }[RepairHook.Kind(said["kind"])]
    unfit = Node.objects.filter(Q(health="unhealthy") | Q(health="down"), cluster=cluster, retired_at=None).count()
    follows = [
        what,
        gettext("After {tries} tries that did not help within {within} each, operators are told.").format(
            tries=said["attempts"], within=formats.duration(said["within"])
        ),
        ngettext("{count} node is unfit now.", "{count} nodes are unfit now.", unfit).format(count=unfit),
    ]
    heading = gettext("Have nodes of {cluster} repaired without a person?").format(cluster=cluster.name)
    return Question(heading, follows, gettext("Set the hook"))


def _about_unhooking(cluster: Cluster, _said: Mapping[str, Any]) -> Question:
    heading = gettext("Repair nothing on {cluster} without a person any more?").format(cluster=cluster.name)
    follows = [gettext("Operators are told of each node that is empty and does not recover by itself in 10 minutes.")]
    return Question(heading, follows, gettext("Remove the hook"))


QUESTIONS = {"plan": _about_rules, "hook": _about_hook, "unhook": _about_unhooking}
DONE = {
    "plan": gettext_lazy("It is decided so."),
    "hook": gettext_lazy("The hook is set."),
    "unhook": gettext_lazy("The hook is removed."),
}
