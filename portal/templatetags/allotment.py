"""Filters and tags of the templates: numbers and times as portal/formats.py writes them, chips, bars and the shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

from django import template
from django.db.models import Count, Subquery
from django.db.models.functions import Coalesce
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_lazy

from budgets import authority, queries, sentences
from budgets.models import BudgetNode, Cluster, Message, Person, Role, RoleGrant
from portal import formats, ledger_words
from portal.sheet import Number
from scheduler.models import Workload
from scheduler.queries.levels import Level

register = template.Library()

for name in (
    "change",
    "clock",
    "clock_exact",
    "count",
    "duration",
    "entitled_units",
    "entitlement",
    "instant",
    "measured",
    "measured_percent",
    "memory",
    "ordinal",
    "share",
    "share_percent",
    "short_day",
    "spelt",
    "time_of_day",
    "unit_hours",
    "units",
    "zone",
):
    register.filter(name, getattr(formats, name))

FULL_BAR_PERCENT = 125
"""Where every bar in a cell ends; its tick stands at 100."""


@register.filter
def pairs(query: QueryDict) -> list[tuple[str, str]]:
    """What an address says, for forms that keep it. (`request.GET.items` would look for a parameter of that name.)"""
    return [(name, str(value)) for name, value in query.items()]


@register.filter
def day(value: date) -> str:
    """Thu 2 Jul 2026."""
    return formats.day(value)


@register.filter
def amount(milli: int, cluster: Cluster) -> str:
    """32 GPUs."""
    return formats.amount(milli, cluster.unit)


@register.filter
def unit_hours_alone(milli_s: int, cluster: Cluster) -> str:
    """207.3 GPU-hours."""
    return formats.unit_hours_alone(milli_s, cluster.unit)


@register.filter
def unit_word(cluster: Cluster, milli: int | None = None) -> str:
    """GPUs; GPU of one, or a part of one."""
    return formats.unit_word(cluster.unit, milli)


@register.filter
def hours_word(cluster: Cluster) -> str:
    """GPU-hours."""
    return formats.hours_word(cluster.unit)


@register.filter
def ratio(value: float | None) -> str:
    """A measured ratio as per cent with one decimal and no sign: 93.2; a dash where there is none."""
    return formats.NOT_APPLICABLE if value is None else formats.measured(Fraction(value))


register.filter("said", sentences.said)


@register.filter
def reason_at(text: str, at: datetime | None) -> str:
    """The engine's sentence, in the reader's language, with the instant that it only points at."""
    if at is not None and sentences.AT_GIVEN in text:
        text = text.replace(sentences.AT_GIVEN, f"by {formats.near_instant(at, datetime.now(UTC))}")
    return sentences.said(text)


@register.filter
def bare_reason(text: str) -> str:
    """A reason without the word that the state beside it says already."""
    bare = text.removeprefix(gettext("Waiting:")).lstrip()
    return bare[:1].upper() + bare[1:]


@register.filter
def near(at: datetime, now: datetime) -> str:
    """The time of an instant, with its day unless that is today."""
    return formats.near_instant(at, now)


@register.filter
def since(at: datetime, now: datetime) -> str:
    """How long ago an instant was."""
    return formats.duration(int((now - at).total_seconds()))


@register.filter
def day_text(value: str) -> str:
    """Thu 2 Jul 2026, of a date that is stored as text."""
    return formats.day(date.fromisoformat(value))


@register.filter
def difference(after: int, before: int) -> str:
    """The change from one share to another: +5.00."""
    return formats.change(after - before)


@register.filter
def hours_exact(milli_s: int) -> str:
    """Device time in hours with one decimal, for the tables behind charts, whose rows are small."""
    return formats.half_up_ratio(milli_s, formats.MILLI_S_PER_HOUR, 1)


@register.filter
def fraction_hours(milli_s: Fraction) -> str:
    """Exact device time in hours with one decimal."""
    return formats.half_up(milli_s / formats.MILLI_S_PER_HOUR, 1)


@register.filter
def bar_value(fraction: Fraction) -> str:
    """The length of a bar, in per cent, for its style."""
    return f"{min(float(fraction * 100), 10 * FULL_BAR_PERCENT):.1f}"


@register.filter
def near_exact(at: datetime, now: datetime) -> str:
    """The time to the second, with its day unless that is today; the zone stands in the table's caption."""
    on, today = formats.local(at).date(), formats.local(now).date()
    return formats.clock_exact(at) if on == today else f"{formats.short_day(on)}, {formats.clock_exact(at)}"


@register.filter
def exit_words(code: int) -> str:
    """exit 1, or the signal that ended it."""
    if code < 0:
        return gettext("signal {number}").format(number=-code)
    return gettext("exit {number}").format(number=code)


@register.filter
def event_day(at: datetime) -> str:
    """Thu 2 Jul 2026."""
    return formats.day(formats.local(at).date())


@register.filter
def point_name(at: datetime, step: str) -> str:
    """How a row of a chart's table is called: Thu 2 Jul, 14:00; or only the day."""
    on = formats.local(at)
    named = formats.day(on.date(), today=on.date())
    return named if step == "day" else f"{named}, {formats.clock(at)}"


@register.simple_tag
def team(node: BudgetNode, extra: str = "") -> SafeString:
    """A node's chip with its code inside its colour, its name beside it; `extra` is the class of the name."""
    return format_html(
        '<span class="team"><b class="{}">{}</b> <span class="{}" dir="auto">{}</span></span>',
        f"k{node.colour}" if node.colour else "",
        node.code,
        extra,
        node.name,
    )


@register.simple_tag
def chip(node: BudgetNode | Level) -> SafeString:
    """A node's chip alone."""
    return format_html(
        '<span class="team" title="{}"><b class="{}">{}</b></span>',
        node.name,
        f"k{node.colour}" if node.colour else "",
        node.code,
    )


@register.simple_tag
def number(value: Number, *, oob: bool = False) -> SafeString:
    """A computed cell of the reallocation editor; `oob` marks it as replacing the one that stands on the page."""
    mark = mark_safe(' hx-swap-oob="true"') if oob else ""
    return format_html('<span id="{}" class="{}"{}>{}</span>', value.id, value.css, mark, value.text)


@register.simple_tag
def bar(fraction: Fraction | None) -> SafeString:
    """A bar in a cell with its number beside it: 1 is the tick; a dash where the fraction does not apply."""
    if fraction is None:
        return format_html('<span class="muted">{}</span>', formats.NOT_APPLICABLE)
    value = min(float(fraction * 100), 10 * FULL_BAR_PERCENT)
    return format_html(
        '<div class="barcell"><span class="bar" style="--v:{}" aria-hidden="true"></span><span>{}</span></div>',
        f"{value:.1f}",
        formats.measured_percent(fraction),
    )


SPARK_WIDTH, SPARK_HEIGHT, SPARK_EDGE = 88.0, 24.0, 2.0
SPARK_TOP_RATIO = 1.5
"""The ratio at the upper edge of a sparkline; what is higher is drawn there."""


@register.simple_tag
def spark(ratios: Sequence[Fraction | None], words: str) -> SafeString:
    """One ink line of delivered over entitled, a dotted 100 %, a dot at the end; nothing where nothing is known."""
    known = [(index, min(float(ratio), SPARK_TOP_RATIO)) for index, ratio in enumerate(ratios) if ratio is not None]
    if len(known) < 2:
        return format_html('<span class="muted">{}</span>', formats.NOT_APPLICABLE)
    step = (SPARK_WIDTH - SPARK_EDGE) / (len(ratios) - 1)

    def y(ratio: float) -> float:
        return SPARK_HEIGHT - SPARK_EDGE - ratio / SPARK_TOP_RATIO * (SPARK_HEIGHT - 2 * SPARK_EDGE)

    points = " ".join(f"{SPARK_EDGE + index * step:.1f},{y(ratio):.1f}" for index, ratio in known)
    last_x, last_y = SPARK_EDGE + known[-1][0] * step, y(known[-1][1])
    return format_html(
        '<svg class="spark" width="92" height="24" viewBox="0 0 92 24" role="img" aria-label="{}">'
        '<line class="ref" x1="0" x2="90" y1="{}" y2="{}"/>'
        '<polyline points="{}"/><circle cx="{}" cy="{}" r="2.2"/></svg>',
        gettext("{words}: from {first} to {last}").format(
            words=words, first=f"{known[0][1] * 100:.0f}", last=f"{known[-1][1] * 100:.0f}"
        ),
        f"{y(1):.1f}",
        f"{y(1):.1f}",
        points,
        f"{last_x:.1f}",
        f"{last_y:.1f}",
    )


STATE_TAGS = {
    "queued": ("wait", gettext_lazy("Waiting")),
    "held": ("wait", gettext_lazy("Held")),
    "starting": ("run", gettext_lazy("Starting")),
    "running": ("run", gettext_lazy("Running")),
    "leaving": ("stop", gettext_lazy("Leaving")),
    "unreachable": ("wait", gettext_lazy("Unreachable")),
    "finished": ("", gettext_lazy("Finished")),
    "failed": ("stop", gettext_lazy("Failed")),
    "preempted": ("stop", gettext_lazy("Preempted")),
    "lost": ("stop", gettext_lazy("Lost")),
    "cancelled": ("", gettext_lazy("Cancelled")),
    "refused": ("stop", gettext_lazy("Refused")),
}
"""Class and word of a workload's state."""


@register.simple_tag
def state_tag(state: str, extra: str = "") -> SafeString:
    """A workload's state: a word with a shape."""
    kind, word = STATE_TAGS[state]
    return format_html('<span class="tag {}">{}{}</span>', kind, word, f" {extra}" if extra else "")


SIMULATION_TAGS = {
    "waiting": ("wait", gettext_lazy("Waiting")),
    "running": ("run", gettext_lazy("Running")),
    "finished": ("plain", gettext_lazy("Finished")),
    "failed": ("stop", gettext_lazy("Failed")),
    "cancelled": ("plain", gettext_lazy("Cancelled")),
}
"""Class and word of the state of a simulation or of one of its variants."""


@register.simple_tag
def simulation_tag(state: str) -> SafeString:
    """The state of a simulation: a word with a shape."""
    kind, word = SIMULATION_TAGS[state]
    return format_html('<span class="tag {}">{}</span>', kind, word)


REQUEST_TAGS = {
    "draft": ("plain", gettext_lazy("Draft")),
    "submitted": ("wait", gettext_lazy("Waits for an answer")),
    "returned": ("wait", gettext_lazy("Returned to its author")),
    "approved": ("info", gettext_lazy("Approved")),
    "applied": ("run", gettext_lazy("In force")),
    "denied": ("stop", gettext_lazy("Denied")),
    "withdrawn": ("plain", gettext_lazy("Withdrawn")),
}
"""Class and word of the state of a request or a reallocation."""


@register.simple_tag
def request_tag(state: str) -> SafeString:
    """The state of a request or a reallocation: a word with a shape."""
    kind, word = REQUEST_TAGS[state]
    return format_html('<span class="tag {}">{}</span>', kind, word)


@register.filter
def verb_words(verb: str) -> str:
    """A verb of the ledger as people say it: request.went_up is "went up"."""
    return ledger_words.short(verb)


@register.filter
def nth(values: Sequence[Any], place: int) -> Any:
    """One of several by its place, from 0."""
    return values[place]


@register.filter
def tenths(milliseconds: int) -> str:
    """Seconds with one decimal."""
    return formats.half_up(Fraction(milliseconds, 1_000), 1)


@register.filter
def item(values: Mapping[str, Any], key: str) -> Any:
    """One of several by its name."""
    return values[key]


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changed: Any) -> str:
    """The page's own address with these parameters changed; None or "" leaves one out."""
    parameters = context["request"].GET.copy()
    for key, value in changed.items():
        parameters.pop(key, None)
        if value not in (None, ""):
            parameters[key] = str(value)
    encoded = parameters.urlencode()
    return f"?{encoded}" if encoded else "?"


ROLE_WORDS = {
    Role.MANAGER: gettext_lazy("Manager of"),
    Role.MEMBER: gettext_lazy("Member of"),
    Role.REVIEWER: gettext_lazy("Reviewer of"),
    Role.OPERATOR: gettext_lazy("Operator at"),
    Role.ADMINISTRATOR: gettext_lazy("Administrator at"),
}
SHOWN_ROLES = 3


def roles_in_words(person: Person) -> list[str]:
    """What a person is today, as they would say it, at most SHOWN_ROLES."""
    grants = RoleGrant.objects.filter(person=person).filter(authority.in_force(queries.today())).select_related("node")
    grants = grants.order_by("node__path", "role")
    return [f"{ROLE_WORDS[Role(grant.role)]} {grant.node.code} {grant.node.name}" for grant in grants[:SHOWN_ROLES]]


def _counts(person: Person) -> tuple[int, int]:
    """How many messages of a person's are unread, and how many workloads wait. One query."""
    unread = Message.objects.filter(person=person.pk, read_at=None).order_by().values("person")
    queued = Workload.objects.filter(state=Workload.State.QUEUED).order_by().values("state")
    counts = [Coalesce(Subquery(rows.annotate(count=Count("pk")).values("count")), 0) for rows in (unread, queued)]
    fresh, waiting = Person.objects.filter(pk=person.pk).values_list(*counts).get()
    return fresh, waiting


@register.inclusion_tag("shell/_navigation.html", takes_context=True)
def shell_navigation(context: dict[str, Any]) -> dict[str, Any]:
    """The navigation, with how many wait, what is new, and who is signed in. Two queries."""
    request = context["request"]
    theme = request.COOKIES.get("theme")
    fresh, waiting = _counts(request.user)
    return {
        "here": context.get("here", ""),
        "person": request.user,
        "roles": roles_in_words(request.user),
        "fresh": fresh,
        "waiting": waiting,
        "theme": theme if theme in ("light", "dark") else "",
        "path": request.get_full_path(),
        "csrf_token": context.get("csrf_token"),
    }
