"""The reallocation editor: the children of one node on one cluster, what is proposed for them, and what it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext

from budgets import desks
from budgets.authority import may, parts_of
from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Person, Reallocation, Request, State
from budgets.queries import entitlement_on, today
from budgets.services import reallocation_rows, reallocations
from portal import formats, pinned
from portal.clusters import sizes_milli
from portal.forms.reallocation import ReallocationForm, cell
from portal.pages import Page, cluster_named, clusters, new_action, render_page, spend, spent_on, status_of
from portal.sheet import NothingToTake, Sheet, sheet, take
from portal.views.node import node_named
from portal.views.simulator import context_of
from scheduler.queries import at_risk, usage
from scheduler.queries import simulations as replays
from scheduler.services import simulations

LOOKED_AT = timedelta(days=7)
"""The time whose use stands beside the shares."""


@dataclass
class Desk:
    """What one edits: the node, the cluster, the open children, and whoever is at it."""

    person: Person
    node: BudgetNode
    cluster: Cluster
    children: Sequence[BudgetNode]
    ways: Sequence[Person | None]
    request: Request | None = None
    draft: Reallocation | None = None
    day: date = field(default_factory=today)

    @cached_property
    def now(self) -> dict[int, int]:
        """Basis points by child on the first day."""
        return reallocation_rows.shares_on(self.node, self.cluster, max(self.day, today()))

    @cached_property
    def books(self) -> dict[int, usage.Books]:
        """The books of the last days, by child."""
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        return usage.totals(list(self.children), self.cluster, end - LOOKED_AT, end)

    @cached_property
    def units(self) -> Fraction:
        """What the node is entitled to on the first day, in units of the cluster."""
        size = Fraction(sizes_milli().get(self.cluster.pk, 0), formats.MILLI)
        return entitlement_on(self.node, self.cluster, max(self.day, today())) * size

    @cached_property
    def parts(self) -> set[int]:
        """Ids of the children in which the person has a part."""
        return {child.pk for child in self.children} & parts_of(self.person)

    def sheet(self, proposed: dict[int, int], base: dict[int, int], kept: set[int]) -> Sheet:
        """What these shares mean."""
        return sheet(
            node=self.node,
            cluster=self.cluster,
            children=self.children,
            now=self.now,
            proposed=proposed,
            base=base,
            units=self.units,
            books=self.books,
            at_risk=at_risk.after_contract(self.children, self.cluster, datetime.now(UTC)),
            parts=self.parts,
            kept=kept,
            starts=formats.day(max(self.day, today())),
        )


class Reallocate(Page):
    """For the node's managers, those above, and whoever stands in for them. `?request=` answers one, `?draft=` goes on
    with one's own."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The editor with the shares of now, of the draft, or with what the request asks for."""
        at = self.desk(request, code, request.GET.get("request"), request.GET.get("draft"))
        proposed = dict(at.now)
        initial: dict[str, Any] = {"starts_on": today()}
        if at.draft is not None:
            proposed.update({line.node_id: line.after for line in at.draft.lines.all()})
            initial = {
                "starts_on": at.draft.starts_on,
                "ends_on": at.draft.ends_on,
                "reason": at.draft.reason,
                "draft": at.draft.pk,
                "draft_version": at.draft.version,
            }
        elif at.request is not None:
            asked = at.request
            proposed[asked.node_id] = min(10_000, proposed.get(asked.node_id, 0) + asked.more_basis_points)
            initial = {
                "starts_on": max(asked.starts_on, today()), "ends_on": asked.ends_on, "request": asked.pk,
            }  # fmt: skip
        form = self.form(at, None, {**initial, **{cell(c): formats.share(proposed.get(c.pk, 0)) for c in at.children}})
        return self.show(request, at, form, at.sheet({c.pk: proposed.get(c.pk, 0) for c in at.children}, at.now, set()))

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Compute again, or draft, propose or apply once."""
        said = request.POST
        at = self.desk(request, code, said.get("request"), said.get("draft"))
        before = spent_on(request, said.get("action", ""))
        if before is not None:
            messages.info(request, gettext("This had been sent already; nothing was changed again."))
            return HttpResponseRedirect(before)
        form = self.form(at, said)
        is_valid = form.is_valid()
        at.day = form.cleaned_data.get("starts_on") or today()
        do = form.cleaned_data.get("do", "")
        if is_valid and do in ("draft", "apply", "propose"):
            return self.decide(request, at, form, do)
        sheet = at.sheet(form.proposed(), form.base(), form.kept())
        if do in ("evenly", "proportion", "unused", "back"):
            return self.computed(request, at, form, sheet, do)
        if do in ("pin", "unpin", "whatif"):
            return self.tried(request, at, form, sheet, do)
        if do == "recount" and not form.non_field_errors():
            return self.recounted(request, at, form, sheet)
        return self.show(request, at, form, sheet, status=400)

    def decide(self, request: HttpRequest, at: Desk, form: ReallocationForm, do: str) -> HttpResponse:
        """Ask the service; say beside its field what can't be done, and lay a conflict side by side."""
        said = form.cleaned_data
        try:
            done = self.carry_out(at, form, do)
        except InputError as error:
            form.take(error)
            status = status_of(error)
            at.node.refresh_from_db()
            at.__dict__.pop("now", None)
            sheet = at.sheet(form.proposed(), form.base(), form.kept())
            return self.show(request, at, form, sheet, status=status, conflict=status == 409)
        led_to = reverse("reallocation", args=[done.pk])
        if do == "draft":
            led_to = f"{reverse('reallocate', args=[at.node.code])}?cluster={at.cluster.name}&draft={done.pk}"
        words = {
            "draft": gettext("{done} is kept as a draft; nobody but you sees it.").format(done=done),
            "propose": gettext("{done} is proposed. It waits for {desk}.").format(done=done, desk=done.desk.code),
            "apply": gettext("{done} is decided: the shares of {node} on {cluster} change from {starts_on}.").format(
                done=done, node=at.node.code, cluster=at.cluster.name, starts_on=formats.day(done.starts_on)
            ),
        }
        spend(request, said["action"], led_to)
        messages.info(request, words[do])
        return HttpResponseRedirect(led_to)

    def carry_out(self, at: Desk, form: ReallocationForm, do: str) -> Reallocation:
        """Draft, propose or apply what is typed."""
        said = form.cleaned_data
        acting_for = next((way for way in at.ways if way is not None and str(way.pk) == said["acting_for"]), None)
        common: dict[str, Any] = {
            "shares": form.shares(), "starts_on": said["starts_on"], "ends_on": said["ends_on"], "by": at.person,
            "reason": said["reason"],
        }  # fmt: skip
        if do == "apply":
            if at.draft is not None:
                common["draft"] = at.draft
            return reallocations.apply_directly(
                parent=at.node, cluster=at.cluster, acting_for=acting_for, version=said["version"], request=at.request,
                look_again_on=said["look_again_on"], evidence=evidence_of(at.person, said["simulation"]), **common,
            )  # fmt: skip
        if at.draft is not None:
            kept = reallocations.save_draft(reallocation=at.draft, version=said["draft_version"], **common)
        else:
            kept = reallocations.draft(
                parent=at.node, cluster=at.cluster, acting_for=acting_for, request=at.request, version=said["version"],
                **common,
            )  # fmt: skip
        return reallocations.propose(reallocation=kept, by=at.person) if do == "propose" else kept

    def computed(self, request: HttpRequest, at: Desk, form: ReallocationForm, sheet: Sheet, do: str) -> HttpResponse:
        """The editor with what is missing taken, or with everything back to now."""
        status = 200
        proposed = at.now
        try:
            if do != "back":
                proposed = take(do, sheet.rows, at.books)
        except NothingToTake as fault:
            form.add_error(None, str(fault))
            proposed, status = form.proposed(), 400
        data = request.POST.copy()
        for child in at.children:
            if child.pk in proposed or do == "back":
                data[cell(child)] = formats.share(proposed.get(child.pk, 0))
        again = self.form(at, data)
        again.is_valid()
        if status == 400:
            again.add_error(None, form.non_field_errors())
        return self.show(
            request, at, again, at.sheet(again.proposed(), again.base(), again.kept()), status=status, part="_editor"
        )

    def tried(self, request: HttpRequest, at: Desk, form: ReallocationForm, sheet: Sheet, do: str) -> HttpResponse:
        """Pin what is typed, forget what is pinned, or replay the last weeks with it; the shares stay as they are."""
        data = request.POST.copy()
        shares = {row.node.code: row.now if row.proposed is None else row.proposed for row in sheet.rows}
        status = 200
        again = self.form(at, data)
        again.is_valid()
        try:
            pins = pinned.read(request.POST.get("pins", ""))
            if do == "pin":
                pins = pinned.with_one_more(pins, shares)
            elif do == "unpin":
                pins = []
            elif not sheet.balances:
                raise InputError("", gettext("shares that balance are needed to replay with them"))
            else:
                asked = simulations.propose(
                    by=at.person,
                    parent=at.node,
                    cluster=at.cluster,
                    proposals={**{pin.name: pin.shares for pin in pins}, pinned.TYPED: shares},
                    weeks=form.cleaned_data.get("weeks") or 4,
                    action=request.POST.get("action", ""),
                )
                data["simulation"] = str(asked.pk)
            data["pins"] = pinned.written(pins)
            data["action"] = new_action()
            again = self.form(at, data)
            again.is_valid()
            again.errors.pop("reason", None)
        except InputError as error:
            again.take(error)
            status = 400
        return self.show(request, at, again, sheet, status=status)

    def recounted(self, request: HttpRequest, at: Desk, form: ReallocationForm, sheet: Sheet) -> HttpResponse:
        """To htmx the computed cells alone, each replaced where it stands; else the whole page."""
        if not request.htmx:  # type: ignore[attr-defined]
            return self.show(request, at, form, sheet)
        return self.show(request, at, form, sheet, part="_numbers")

    def what_if(self, person: Person, form: ReallocationForm) -> dict[str, Any] | None:
        """What the simulation that the form names shows, if there is one."""
        number = str(form["simulation"].value() or "")
        found = replays.named(person, int(number)) if number.isascii() and number.isdigit() else None
        return None if found is None else {**context_of(found, person), "can_change": False}

    def desk(self, request: HttpRequest, code: str, asked: str | None, drafted: str | None) -> Desk:
        """What is edited, if the person may.

        Raises:
            PermissionDenied: its shares are not theirs to divide. Http404: no such request or draft, or one that is not
                theirs to see; or nothing to divide.
        """
        person: Person = request.user  # type: ignore[assignment]
        node = node_named(code)
        ways: list[Person | None] = [None] if may(person, "share.change", node) else []
        ways += list({each.giver.pk: each.giver for each in desks.delegations_of(person, node)}.values())
        cluster = cluster_named(request.GET.get("cluster"), clusters())
        answers = _one(Request, asked, "request.see", person, node) if asked else None
        draft = _one(Reallocation, drafted, "reallocation.see", person, node) if drafted else None
        if draft is not None and (draft.state != State.DRAFT or draft.author_id != person.pk):
            raise Http404(gettext("{draft} is no draft of yours.").format(draft=draft))
        if answers is None and draft is not None:
            answers = draft.request
        if answers is not None:
            cluster = answers.cluster
            ways = desks.ways_to_decide(person, desks.matter_of(answers)) or ways
        if draft is not None:
            cluster = draft.cluster
        if not ways:
            raise PermissionDenied(gettext("The shares of {code} are for its managers to change.").format(code=code))
        children = list(node.children.filter(closed_at=None).order_by("code"))
        if not children:
            raise Http404(gettext("{code} has no children to share between.").format(code=code))
        day = draft.starts_on if draft is not None else answers.starts_on if answers is not None else today()
        return Desk(person, node, cluster, children, ways, answers, draft, day)

    def form(self, at: Desk, data: Any, initial: dict[str, Any] | None = None) -> ReallocationForm:
        """The form, bound where something was sent."""
        first = {"action": new_action(), "version": at.node.version, "do": "recount", **(initial or {})}
        return ReallocationForm(data, children=at.children, now=at.now, ways=at.ways, initial=first)

    def show(
        self,
        request: HttpRequest,
        at: Desk,
        form: ReallocationForm,
        sheet: Sheet,
        *,
        status: int = 200,
        conflict: bool = False,
        part: str = "",
    ) -> HttpResponse:
        """The page with the editor. After a conflict the form goes on from the version of now."""
        context = {
            "here": "tree",
            "node": at.node,
            "cluster": at.cluster,
            "form": form,
            "sheet": sheet,
            "lines": lines(form, sheet),
            "asked": at.request,
            "draft": at.draft,
            "conflict": conflict,
            "version": at.node.version,
            "starts": max(at.day, today()),
            "looked_at": LOOKED_AT.days,
            "goes_up": any(row.has_part and row.change > 0 for row in sheet.rows),
            "pins": _pins(form),
            "what_if": self.what_if(at.person, form),
            "address": f"{reverse('reallocate', args=[at.node.code])}?cluster={at.cluster.name}",
        }
        return render_page(request, "reallocate", context, part=part, status=status)


def lines(form: ReallocationForm, sheet: Sheet) -> list[tuple[Any, Any, Any, Any]]:
    """Each row with its three fields."""
    return [(row, form[cell(row.node)], form[f"keep_{row.node.pk}"], form[f"base_{row.node.pk}"]) for row in sheet.rows]


def _pins(form: ReallocationForm) -> list[pinned.Pin]:
    """What the form says is pinned; nothing where that can't be read."""
    try:
        return pinned.read(str(form["pins"].value() or ""))
    except InputError:
        return []


def evidence_of(person: Person, number: int | None) -> dict[str, Any] | None:
    """The figures of the replay that was looked at, for the log."""
    found = replays.named(person, number) if number else None
    if found is None:
        return None
    kept = ("delivery", "occupancy", "preemptions", "waits")
    parts = {
        part.name: {name: part.figures[name] for name in kept}
        for part in replays.parts_of(found)
        if part.figures is not None
    }
    return {"simulation": found.pk, "what_if": parts}


def _one(model: Any, text: str, action: str, person: Person, node: BudgetNode) -> Any:
    """The request or draft of that number which is about this node's children.

    Raises:
        BadRequest: not a number. Http404: none, or not theirs to see.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(
            gettext("{text!r} is no number of a {verbose_name}").format(
                text=text, verbose_name=model._meta.verbose_name
            )
        )
    found = model.objects.select_related("cluster", "parent").filter(pk=int(text), parent=node).first()
    if found is None or not may(person, action, found):
        raise Http404(
            gettext("There is no {verbose_name} {text} about {node}.").format(
                verbose_name=model._meta.verbose_name, text=text, node=node.code
            )
        )
    return found
