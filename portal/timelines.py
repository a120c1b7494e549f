"""GPU timelines on pages: a stretch of time and nodes that an address names, drawn, with its sentence and its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from budgets.queries import midnight
from portal import formats
from scheduler.simulator.timeline import Bar, Row, Team, Timeline
from scheduler.simulator.timeline_cells import Cells, View
from scheduler.simulator.timeline_figures import Sum, TeamLine, sum_of
from scheduler.simulator.timeline_svg import Look, draw_bars, draw_cells
from scheduler.simulator.timeline_words import DAY_S, Tick, step_of

WIDTH, HALF_WIDTH = 1_060.0, 640.0
"""Of one timeline, and of each of two."""
TICKS_MAX, TICKS_HALF = 12, 8
SHORTEST_S = 60
LONGEST_S = 400 * DAY_S
CLOSER, STEP = 2, 2
"""One step closer shows half as much; one step aside moves by half."""
LINES_SHOWN, TEAMS_SHOWN = 40, 24
"""Lines of the table, and teams of the legend: a drawing has eight colours."""
INSTANT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Panel:
    """One timeline as templates show it."""

    name: str
    svg: SafeString
    total: Sum
    lines: Sequence[TeamLine]
    shows_bars: bool

    @property
    def shown(self) -> Sequence[TeamLine]:
        """The lines of the table: where there are very many, of those that held most."""
        return most(self.lines, LINES_SHOWN)

    @property
    def left_off(self) -> int:
        """How many lines the table leaves off."""
        return max(0, len(self.lines) - LINES_SHOWN)

    @property
    def held(self) -> Fraction | None:
        """How much of the known device time was held, 0 to 1."""
        return Fraction(self.total.held_milli_s, self.total.known_milli_s) if self.total.known_milli_s else None

    @property
    def unallocated(self) -> Fraction | None:
        """How much of what was held is charged to nobody, 0 to 1."""
        return Fraction(self.total.unallocated_milli_s, self.total.held_milli_s) if self.total.held_milli_s else None


def draw(
    timeline: Timeline,
    view: View,
    what: Sequence[Bar] | Cells,
    lines: Sequence[TeamLine],
    look: Look,
    name: str,
) -> Panel:
    """A panel of what was found for a view: its bars, or its cells."""
    if isinstance(what, Cells):
        svg = draw_cells(timeline, what, look)
    else:
        svg = draw_bars(timeline, what, view, look)
    # the drawing escapes every name that it writes
    return Panel(name, mark_safe(svg), sum_of(timeline, lines, view), lines, not isinstance(what, Cells))


def most(lines: Sequence[TeamLine], limit: int) -> Sequence[TeamLine]:
    """Those that held most, in the order of the teams."""
    if len(lines) <= limit:
        return lines
    chosen = sorted(range(len(lines)), key=lambda at: (-lines[at].held_milli_s, at))[:limit]
    return [lines[at] for at in sorted(chosen)]


def teams_shown(panels: Sequence[Panel]) -> list[Team]:
    """The teams of all panels, each once, in their order; of very many, those that held most."""
    return list(dict.fromkeys(line.team for panel in panels for line in most(panel.lines, TEAMS_SHOWN)))


def teams_left_off(panels: Sequence[Panel]) -> int:
    """How many teams `teams_shown` leaves off."""
    return len({line.team for panel in panels for line in panel.lines}) - len(teams_shown(panels))


def address(path: str, view: View, rows: Sequence[Row], kept: dict[str, str], start: datetime) -> str:
    """The permalink of a view; `start` is second 0 of the view's clock, `kept` what else the address says."""
    asked = {
        "from": (start + timedelta(seconds=view.from_s)).strftime(INSTANT),
        "until": (start + timedelta(seconds=view.until_s)).strftime(INSTANT),
        **kept,
    }
    if (view.first_row, view.end_row) != (0, len(rows)):
        asked["nodes"] = f"{rows[view.first_row].name}:{rows[view.end_row - 1].name}"
    return f"{path}?{urlencode(asked)}"


def steps(view: View, rows: int) -> list[tuple[str, View]]:
    """Where one can go from a view: closer, wider, earlier, later, all nodes."""
    quarter_s, half_s = view.span_s // 4, view.span_s // STEP
    found = [
        (gettext("Closer"), view._replace(from_s=view.from_s + quarter_s, until_s=view.until_s - quarter_s)),
        (gettext("Wider"), view._replace(from_s=view.from_s - half_s, until_s=view.until_s + half_s)),
        (gettext("Earlier"), view._replace(from_s=view.from_s - half_s, until_s=view.until_s - half_s)),
        (gettext("Later"), view._replace(from_s=view.from_s + half_s, until_s=view.until_s + half_s)),
    ]
    if (view.first_row, view.end_row) != (0, rows):
        found.append((gettext("All nodes"), view._replace(first_row=0, end_row=rows)))
    return [(words, each) for words, each in found if SHORTEST_S <= each.span_s <= LONGEST_S]


def instant_named(request: HttpRequest, field: str) -> datetime | None:
    """An instant of a URL's parameter, None where it says nothing.

    Raises:
        BadRequest: not an instant such as 2026-07-02T05:30:00Z.
    """
    text = request.GET.get(field, "")
    if not text:
        return None
    try:
        return datetime.strptime(text, INSTANT).replace(tzinfo=UTC)
    except ValueError:
        raise BadRequest(
            gettext("{field}: {text!r} is not an instant such as 2026-07-02T05:30:00Z").format(field=field, text=text)
        ) from None


def rows_named(request: HttpRequest, rows: Sequence[Row]) -> tuple[int, int]:
    """The rows [first, end) that the address asks for; all without `nodes`.

    Raises:
        BadRequest: no such nodes, or the last before the first.
    """
    text = request.GET.get("nodes", "")
    if not text:
        return 0, len(rows)
    first, colon, last = text.partition(":")
    index = {row.name: at for at, row in enumerate(rows)}
    for name in (first, last if colon else first):
        if name not in index:
            raise BadRequest(gettext("nodes: there is no node {name!r} here").format(name=name))
    end = index[last if colon else first] + 1
    if end <= index[first]:
        raise BadRequest(gettext("nodes: {last!r} comes before {first!r}").format(last=last, first=first))
    return index[first], end


def checked(view: View) -> View:
    """The view, if it is one.

    Raises:
        BadRequest: it ends before it begins, or is too short or too long.
    """
    if view.span_s < SHORTEST_S:
        raise BadRequest(gettext("until: must be at least a minute after from"))
    if view.span_s > LONGEST_S:
        raise BadRequest(gettext("until: must be at most 400 days after from"))
    return view


def real_ticks(view: View, start: datetime, ticks_max: int) -> list[Tick]:
    """Ticks on the organisation's clock; `start` is second 0 of the view's. Days begin at its midnights."""
    step_s = step_of(view.span_s, ticks_max)
    begins, ends = (start + timedelta(seconds=at_s) for at_s in (view.from_s, view.until_s))
    ticks: list[Tick] = []
    day = formats.local(begins).date()
    while midnight(day) <= ends:
        following = day + timedelta(days=1)
        if step_s < DAY_S or day.toordinal() % (step_s // DAY_S) == 0:
            at = midnight(day)
            while at < midnight(following) and at <= ends:
                if at >= begins:
                    ticks.append(_tick(at, at == midnight(day), step_s, start))
                at += timedelta(seconds=min(step_s, DAY_S * 2))
        day = following
    return ticks


def _tick(at: datetime, is_midnight: bool, step_s: int, start: datetime) -> Tick:
    words = formats.short_day(formats.local(at).date()) if is_midnight else formats.clock(at)
    if step_s < SHORTEST_S and not is_midnight:
        words = formats.clock_exact(at)
    return Tick(int((at - start).total_seconds()), words, is_midnight and step_s < DAY_S)


def when_really(start: datetime) -> Callable[[int], str]:
    """How an instant is written in a title; `start` is second 0."""

    def words(at_s: int) -> str:
        at = start + timedelta(seconds=at_s)
        return f"{formats.short_day(formats.local(at).date())}, {formats.clock_exact(at)}"

    return words
