"""One workload: the reason first, then the numbers from the root down, its runs, and what happened to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import partial

from django.contrib import messages
from django.db.models import Min
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, gettext_lazy

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import Person
from portal import advised, delayed, formats, order_words, queue_rows, shifted, spread_words, throughput
from portal.binding import binding_of, lines_of
from portal.foretold import Said, said_of
from portal.formats import NOT_APPLICABLE
from portal.forms.reason import CancelForm
from portal.forms.trying import TryForm
from portal.pages import Page, is_part, render_page
from portal.pieces import rendered
from portal.run_line import drawings
from portal.templatetags.allotment import bar_value, chip
from scheduler.models import LogChunk, Rank, Workload
from scheduler.queries import forecast, spreading
from scheduler.queries.levels import Level
from scheduler.queries.moments import Moment, moment_of, shared
from scheduler.queries.workload import EventLine, Explanation, explanation, present_of
from scheduler.services import retries, workloads
from scheduler.services.runs import HOLDING_STATES

REFRESH_S = 10
"""How often the page asks again while its workload is not over: as often as a pass is made."""
STOP_POLLING = 286
RELATIONS = ("cluster", "leaf", "owner", "after", "advice")
LOG_TAIL_CHARS = 20_000
LOG_CHUNKS_READ = 40
EVENT_WORDS = {
    "submitted": ("", gettext_lazy("Submitted.")),
    "refused": ("stop", gettext_lazy("Refused at the door.")),
    "cancelled": ("stop", gettext_lazy("Cancelled.")),
    "cancel_asked": ("stop", gettext_lazy("Told to stop: it was cancelled.")),
    "held": ("", gettext_lazy("Held.")),
    "released": ("", gettext_lazy("Back in the queue in its old place.")),
    "failed": ("stop", gettext_lazy("It has failed, and is not tried again.")),
    "run_started": ("run", gettext_lazy("{run} got its devices.")),
    "run_running": ("run", gettext_lazy("{run}: every rank runs; its contract begins.")),
    "run_stopping": ("stop", gettext_lazy("{run} was told to stop{by}.")),
    "run_ended": ("", gettext_lazy("{run} left its devices.")),
    "run_unreachable": ("", gettext_lazy("A node of {run} fell silent.")),
    "run_back": ("", gettext_lazy("The node of {run} is heard again.")),
    "claim_made": ("", gettext_lazy("Devices were chosen for it; the runs there leave.")),
    "claim_ended": ("", gettext_lazy("The plan that held devices for it ended.")),
    "reservation_made": ("", gettext_lazy("Devices were reserved for it.")),
    "reservation_ended": ("", gettext_lazy("Its reservation ended.")),
}


@dataclass(frozen=True, slots=True)
class Happened:
    """One event in words."""

    at: datetime
    kind: str
    words: str
    code: str
    by: str | None


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A level on the way to the leaf, and its siblings in the order in which they are served, a line for each."""

    node: Level
    siblings: SafeString
    words: str


class WorkloadPage(Page):
    """Everyone may read why it waits; command, log and owner are for those inside."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The whole page, or its live part."""
        workload = workload_named(code, ("cluster", "leaf"))
        self.allow("workload.see", workload)
        now = timezone.now()
        with moment_of(workload.cluster, now, "workload", is_poll=is_part(request)) as moment:
            return self.at(moment, request, workload, now)

    def at(self, moment: Moment, request: HttpRequest, workload: Workload, now: datetime) -> HttpResponse:
        """What it says of it at that moment of its cluster."""
        told = explanation(workload, now, shared(moment, "present", lambda: present_of(workload.cluster)))
        person: Person = request.user  # type: ignore[assignment]
        inside = may(person, "workload.see_inside", workload)
        said = foretold_of(told, lambda: shared(moment, "forecast", lambda: forecast.latest_of(workload.cluster, now)))
        context = {
            "here": "queue",
            "workload": workload,
            "cluster": workload.cluster,
            "told": told,
            "now": told.now,
            "inside": inside,
            "waited": formats.duration(int((told.now - told.waits_since).total_seconds())),
            "is_open": workload.state in Workload.OPEN_STATES,
            "may_cancel": can_cancel(person, workload),
            "may_release": can_release(person, workload),
            "may_stop": workload.state in HOLDING_STATES and may(person, "node.operate", workload.cluster),
            "lookback_days": told.window_s // 86_400,
            "order_inside": order_words.inside_a_project(told.policy),
            "use_decays": order_words.use_decays(told.policy),
            "among": order_words.among_siblings(told.policy, is_funded=workload.min_runtime_s > 0),
            "taker": order_words.who_may_take(told.policy),
            "same_leaf": rendered("workload/_leaf_row.html", queue_rows.shown_in_leaf(told)),
            "ahead": rendered("workload/_ahead_row.html", queue_rows.shown_ahead(told)),
            "steps": shown_steps(told, moment) if workload.state == Workload.State.QUEUED else [],
            "drawings": drawings(told, workload.leaf.colour),
            "said": said,
            "spreading": spread_words.said_of(
                spreading.of_workload(workload), told.now, None if said is None else said.foretold
            ),
            "failures": delayed.failures_of(told),
            "delays": delayed.shown(told.delays),
            "binding": binding_of(told),
            "groups": lines_of(told),
            "try_form": TryForm(None, workload=workload, cluster=workload.cluster),
            "happened": [in_words(each) for each in told.events],
            "log": (log_tail(workload) if told.runs else "") if inside else None,
            "advice": advised.of_workload(workload, person) if inside else None,
            **(throughput.reported(workload) if inside and told.runs else {}),
            "shift": shifted.of_workload(workload),
            "checkpoint_at": last_checkpoint_at(workload) if any(run.ended_at is None for run in told.runs) else None,
            "secret_names": sorted(workload.secrets) if inside else [],
            "refresh_s": REFRESH_S,
        }
        is_over = bool(request.htmx) and not context["is_open"]  # type: ignore[attr-defined]
        return render_page(request, "workload", context, part="_live", status=STOP_POLLING if is_over else 200)


class WorkloadText(Page):
    """The same answer as plain text, for a ticket."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """Text that says what the page says first."""
        workload = workload_named(code)
        self.allow("workload.see", workload)
        told = explanation(workload)
        said = foretold_of(told)
        response = render(
            request,
            "workload/text.txt",
            {
                "workload": workload,
                "cluster": workload.cluster,
                "told": told,
                "now": told.now,
                "said": said,
                "spreading": spread_words.said_of(
                    spreading.of_workload(workload), told.now, None if said is None else said.foretold
                ),
                "binding": binding_of(told),
                "groups": lines_of(told),
            },
            content_type="text/plain; charset=utf-8",
        )
        response["X-Content-Type-Options"] = "nosniff"
        return response


class WorkloadLog(Page):
    """The end of what its last run printed, for those inside; the page asks again for it."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The part alone; with 286 when nothing more will be printed."""
        workload = workload_named(code)
        self.allow("workload.see_inside", workload)
        is_open = workload.state in Workload.OPEN_STATES
        context = {"workload": workload, "log": log_tail(workload), "is_open": is_open}
        is_over = bool(request.htmx) and not is_open  # type: ignore[attr-defined]
        return render(request, "workload/_log.html", context, status=STOP_POLLING if is_over else 200)


class ReleaseWorkload(Page):
    """Let a workload enter the queue that is held until a person says so: it, or its canary, has failed."""

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Do it; a second click finds it done and says so."""
        workload = workload_named(code)
        self.allow("workload.release", workload)
        person: Person = request.user  # type: ignore[assignment]
        did = retries.release(workload=workload, by=person)
        said = (
            gettext("{code} is back in the queue.").format(code=code)
            if did
            else gettext("{code} is not held for that any more; nothing was changed.").format(code=code)
        )
        messages.info(request, said)
        return HttpResponseRedirect(reverse("workload", args=[code]))


class CancelWorkload(Page):
    """Ask once, then cancel: at once if it waits, by a stop signal and its grace if it runs."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The question."""
        workload = self.mine_to_cancel(code)
        return self.ask(request, workload, CancelForm(), 200)

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Do it; a second click finds it done and says so."""
        workload = self.mine_to_cancel(code)
        form = CancelForm(request.POST)
        if not form.is_valid():
            return self.ask(request, workload, form, 400)
        person: Person = request.user  # type: ignore[assignment]
        try:
            did = workloads.cancel(workload=workload, by=person, reason=form.cleaned_data["reason"])
        except InputError as error:
            form.take(error)
            return self.ask(request, workload, form, 400)
        said = (
            gettext("{code} is cancelled.").format(code=code)
            if did
            else gettext("{code} had ended or been cancelled before; nothing was changed.").format(code=code)
        )
        messages.info(request, said)
        return HttpResponseRedirect(reverse("workload", args=[code]))

    def mine_to_cancel(self, code: str) -> Workload:
        """The workload, if it is the person's to cancel."""
        workload = workload_named(code)
        self.allow("workload.cancel", workload)
        return workload

    def ask(self, request: HttpRequest, workload: Workload, form: CancelForm, status: int) -> HttpResponse:
        """The page with the question."""
        context = {"here": "queue", "workload": workload, "cluster": workload.cluster, "form": form}
        return render_page(request, "cancel", context, status=status)


def workload_named(code: str, relations: Sequence[str] = RELATIONS) -> Workload:
    """The workload of that id, with what it belongs to.

    Raises:
        Http404: there is none.
    """
    workload = Workload.objects.filter(code=code).select_related(*relations).first()
    if workload is None:
        raise Http404(gettext("There is no workload {code!r}.").format(code=code))
    return workload


def foretold_of(told: Explanation, known: Callable[[], forecast.Latest] | None = None) -> Said | None:
    """The forecast of one that waits and was promised nothing; who looks has a fresh one made."""
    if told.workload.state != Workload.State.QUEUED or told.certain_at is not None:
        return None
    latest = known() if known is not None else None
    return said_of(forecast.of_workload(told.workload, told.waits_since, told.now, latest), told.now)


def can_cancel(person: Person, workload: Workload) -> bool:
    """Whether the button is shown."""
    is_open = workload.state in Workload.OPEN_STATES and workload.cancel_asked_at is None
    return is_open and may(person, "workload.cancel", workload)


def can_release(person: Person, workload: Workload) -> bool:
    """Whether the button is shown."""
    is_held = workload.state == Workload.State.HELD and workload.reason_code in retries.RELEASABLE
    return is_held and may(person, "workload.release", workload)


def shown_steps(told: Explanation, moment: Moment) -> list[ShownStep]:
    """From the root down. The siblings of a level are the same for all workloads below it, so they are said once."""
    is_funded = told.workload.min_runtime_s > 0
    found = []
    for step in told.steps:
        key = ("siblings", get_language(), step.node.code, is_funded)
        lines = shared(moment, key, partial(siblings_of, step.siblings, is_funded=is_funded))
        mine = sibling_line(step.mine, is_funded=is_funded, is_mine=True)
        both = (mine if code == step.mine.code else line for code, line in lines.items())
        turn = turn_said(step.mine) if is_funded else ""
        found.append(ShownStep(step.node, format_html_join("", "{}", ((line,) for line in both)), turn))
    return found


def siblings_of(levels: Sequence[Level], *, is_funded: bool) -> dict[str, SafeString]:
    """A line for each, by code. Funded work is ordered by what was served, unallocated work by the free cycles that it
    had; where nothing funded waits, the line stands aside.
    """
    if not is_funded:
        levels = sorted(levels, key=lambda level: (level.uncharged is None, level.uncharged or 0, level.code))
    return {level.code: sibling_line(level, is_funded=is_funded) for level in levels}


def sibling_line(level: Level, *, is_funded: bool, is_mine: bool = False) -> SafeString:
    """Of one of them; `is_mine` is the one that leads to the workload."""
    is_dim = is_funded and not level.waiting
    return format_html(
        '<div class="sib{}{}"><span>{}</span><span>{}{}</span>{}</div>',
        " me" if is_mine else "",
        " dim" if is_dim else "",
        chip(level),
        level.name,
        gettext(", nothing waits") if is_dim else "",
        served_bar(level.served if is_funded else level.uncharged),
    )


def served_bar(part: Fraction | None) -> SafeString:
    """A bar and its number, in the cells of a sibling."""
    if part is None:
        return format_html('<span class="muted">{}</span><span>{}</span>', gettext("no entitlement"), NOT_APPLICABLE)
    return format_html(
        '<span class="bar" style="--v:{}" aria-hidden="true"></span><span>{}</span>',
        bar_value(part),
        formats.measured_percent(part),
    )


def turn_said(mine: Level) -> str:
    """Whose turn it is; nothing where it has none."""
    if not mine.turn:
        return ""
    turn = gettext("first") if mine.turn == 1 else formats.ordinal(mine.turn)
    return gettext("{mine} is {turn} of those that have something funded waiting.").format(mine=mine.code, turn=turn)


def in_words(event: EventLine) -> Happened:
    """An event as a sentence; kinds that are new here are named as they are."""
    kind, words = EVENT_WORDS.get(event.kind, ("", event.kind.replace("_", " ").capitalize() + "."))
    run = gettext("Run {run_number}").format(run_number=event.run_number) if event.run_number else gettext("A run")
    by = gettext(", for {code}").format(code=event.by) if event.by else ""
    return Happened(event.at, kind, words.format(run=run, by=by), event.code, event.by)


def last_checkpoint_at(workload: Workload) -> datetime | None:
    """When a run that goes on wrote its last checkpoint: the oldest of those of its ranks."""
    ranks = Rank.objects.filter(run__workload=workload, checkpoint_at__isnull=False).exclude(run__state="ended")
    return ranks.aggregate(oldest=Min("checkpoint_at"))["oldest"]


def log_tail(workload: Workload) -> str:
    """The end of what rank 0 of the last run printed, at most LOG_TAIL_CHARS."""
    rank = Rank.objects.filter(run__workload=workload, index=0).order_by("-run__number").first()
    if rank is None:
        return ""
    newest = LogChunk.objects.filter(rank=rank).order_by("-offset")[:LOG_CHUNKS_READ]
    return "".join(chunk.text for chunk in reversed(newest))[-LOG_TAIL_CHARS:]
