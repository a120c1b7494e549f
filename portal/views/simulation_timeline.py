"""Two variants of a simulation as GPU timelines, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language, gettext

from budgets.models import Cluster
from budgets.sentences import said
from portal import timelines
from portal.pages import Page, render_page, whole_number
from portal.timelines import Panel
from portal.views.simulator import person_of, simulation_named
from scheduler.models import Simulation, SimulationPart
from scheduler.queries import overviews
from scheduler.queries.overviews import Overview
from scheduler.simulator.timeline import Timeline
from scheduler.simulator.timeline_cells import BARS_MAX, View, bars_in, whole
from scheduler.simulator.timeline_figures import by_team
from scheduler.simulator.timeline_svg import Look
from scheduler.simulator.timeline_words import duration_word, ticks_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Second 0 of a scenario file, which has no date: addresses count from here."""
CLOSER = {"from", "until", "nodes"}
"""What an address says that looks at a part."""
TIMELINES_KEPT, PANELS_KEPT = 4, 32
"""What a process remembers: a variant's runs never change, and zooming asks for them again and again."""


@dataclass(frozen=True, slots=True)
class Side:
    """A variant that has runs. `is_real` says that its leaves and workloads are those of the portal."""

    pk: int
    number: int
    name: str
    is_real: bool


class SimulationTimeline(Page):
    """Two variants over one stretch of time; to htmx only the part that is drawn anew."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page, or its drawings.

        Raises:
            Http404: no such simulation, or none of its variants has runs.
        """
        row = simulation_named(person_of(request), number)
        sides = sides_of(row)
        if not sides:
            raise Http404(gettext("None of its variants has run yet, or it keeps figures only."))
        chosen = pair(request, sides)
        start = row.from_at or EPOCH
        kept = [overview_of(side) for side in chosen] if not CLOSER & set(request.GET) else []
        seen = [each for each in kept if each is not None]
        language = get_language() or ""
        if seen and len(seen) == len(kept):
            found, view = [each.timeline for each in seen], seen[0].view
            panels = [panel_at_first(side, row.from_at, language) for side in chosen]
        else:
            found = [timeline_of(side) for side in chosen]
            view = view_of(request, found, start)
            as_bars = all(len(bars_in(each, view)) <= BARS_MAX for each in found)
            panels = [panel_of(side, view, row.from_at, as_bars, language) for side in chosen]
        path = reverse("simulation_timeline", args=[row.pk])
        named = {name: str(side.number) for name, side in zip(("left", "right"), chosen, strict=False)}

        def link(to: View) -> str:
            return timelines.address(path, to, found[0].rows, named, start)

        context: dict[str, Any] = {
            "here": "simulator",
            "simulation": row,
            "cluster": row.cluster or Cluster(unit=Cluster.Unit.GPU),
            "sides": sides,
            "left": chosen[0],
            "right": chosen[-1],
            "panels": panels,
            "shows_bars": panels[0].shows_bars,
            "legend": timelines.teams_shown(panels),
            "legend_left_off": timelines.teams_left_off(panels),
            "permalink": link(view),
            "steps": [(words, link(to)) for words, to in timelines.steps(view, len(found[0].rows))],
        }
        return render_page(request, "simulation_timeline", context, part="_drawing")


def sides_of(row: Simulation) -> list[Side]:
    """The variants that keep their runs, in order. One query."""
    parts = SimulationPart.objects.filter(simulation=row, runs__isnull=False).order_by("number")
    is_real = row.from_at is not None
    return [Side(pk, number, name, is_real) for pk, number, name in parts.values_list("pk", "number", "name")]


def pair(request: HttpRequest, sides: Sequence[Side]) -> list[Side]:
    """The two variants that the address names by number; without it the first two, or the only one.

    Raises:
        BadRequest: there is no such variant.
    """
    by_number = {side.number: side for side in sides}
    left = whole_number(request, "left", sides[0].number, at_least=0)
    right = whole_number(request, "right", sides[min(1, len(sides) - 1)].number, at_least=0)
    for name, number in (("left", left), ("right", right)):
        if number not in by_number:
            raise BadRequest(gettext("{name}: there is no variant {number} with runs").format(name=name, number=number))
    return [by_number[left]] if left == right else [by_number[left], by_number[right]]


@lru_cache(maxsize=TIMELINES_KEPT)
def timeline_of(side: Side) -> Timeline:
    """The runs of a variant. At most two queries."""
    return overviews.timeline_of(SimulationPart.objects.only("runs").get(pk=side.pk), is_real=side.is_real)


@lru_cache(maxsize=PANELS_KEPT)
def overview_of(side: Side) -> Overview | None:
    """What was kept for the first look, if anything was. One query."""
    stored = SimulationPart.objects.values_list("overview", flat=True).get(pk=side.pk)
    return None if stored is None else overviews.unpacked(bytes(stored))


def view_of(request: HttpRequest, found: Sequence[Timeline], start: datetime) -> View:
    """What the address asks to see; without it, all.

    Raises:
        BadRequest: as `timelines.checked` and `timelines.rows_named`.
    """
    wholes = [whole(each) for each in found]
    from_s, until_s = min(each.from_s for each in wholes), max(each.until_s for each in wholes)
    asked = [timelines.instant_named(request, name) for name in ("from", "until")]
    if (asked[0] is None) != (asked[1] is None):
        raise BadRequest(gettext("from and until: give both, or neither"))
    if asked[0] is not None and asked[1] is not None:
        from_s, until_s = (int((at - start).total_seconds()) for at in asked if at is not None)
    return timelines.checked(View(from_s, until_s, *timelines.rows_named(request, found[0].rows)))


@lru_cache(maxsize=PANELS_KEPT)
def panel_of(side: Side, view: View, from_at: datetime | None, as_bars: bool, language: str) -> Panel:
    """One variant's drawing. Its words are of the language that is spoken now, which `language` names."""
    timeline = timeline_of(side)
    if not as_bars:
        return drawn(side, overviews.overview_of(timeline, view), from_at)
    bars = bars_in(timeline, view)
    lines = by_team(timeline.teams, bars, view, timeline.now_s)
    return timelines.draw(timeline, view, bars, lines, look_of(side, view, from_at), side.name)


@lru_cache(maxsize=PANELS_KEPT)
def panel_at_first(side: Side, from_at: datetime | None, language: str) -> Panel:
    """One variant's drawing of all there is, as it was kept; `language` as for `panel_of`."""
    found = overview_of(side)
    assert found is not None
    return drawn(side, found, from_at)


def drawn(side: Side, found: Overview, from_at: datetime | None) -> Panel:
    """One variant's drawing in cells."""
    shown = found.cells.grid.view
    return timelines.draw(found.timeline, shown, found.cells, found.lines, look_of(side, shown, from_at), side.name)


def look_of(side: Side, shown: View, from_at: datetime | None) -> Look:
    """How a variant is drawn."""
    return Look(
        prefix=f"v{side.number}",
        width=timelines.HALF_WIDTH,
        label=gettext("GPUs held under {side}, by node and time").format(side=said(side.name)),
        ticks=ticks_of(shown.from_s, shown.until_s, timelines.TICKS_HALF)
        if from_at is None
        else timelines.real_ticks(shown, from_at, timelines.TICKS_HALF),
        when=duration_word if from_at is None else timelines.when_really(from_at),
        workload_href=(lambda code: reverse("workload", args=[code])) if side.is_real else None,
        say=gettext,
    )
