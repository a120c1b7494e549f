"""Why runs failed: by class, with what they had held, whose it was, and over time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext

from portal import delayed, figure_charts, formats
from portal.pages import Page, cluster_named, clusters, render_page
from portal.period import period_named
from portal.views.waits import node_of, nodes_offered
from scheduler import failure_words
from scheduler.queries import failed
from scheduler.queries.failed import Losses, Lost


@dataclass(frozen=True, slots=True)
class Line:
    """One class in words."""

    words: str
    whose: str
    lost: Lost
    part: Fraction


class FailuresPage(Page):
    """`?node=` chooses whose runs, `?window=`, `?from=&until=` and `?as_of=` the time."""

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        """The whole page."""
        self.allow("cluster.see")
        among = clusters()
        where, period, node = cluster_named(cluster, among), period_named(request), node_of(request)
        found = failed.of_node(node, where, period.steps.starts, period.live_end)
        whose = {origin: str(words) for origin, words in delayed.WHOSE.items()}
        context = {
            **period.context(),
            "here": "waits",
            "clusters": among,
            "cluster": where,
            "node": node,
            "nodes": nodes_offered(node),
            "found": found,
            "lines": [
                Line(
                    gettext(failure_words.CLASSES[each.kind]),
                    whose[each.origin],
                    each,
                    Fraction(each.runs, found.failed),
                )
                for each in found.lines
            ],
            "sentence": sentence(found),
            "legend": delayed.legend(whose),
            "chart": figure_charts.losses_over_time(found, period.steps, where, whose) if found.lines else None,
        }
        return render_page(request, "failures", context)


def sentence(found: Losses) -> str:
    """What they say, as one would say it."""
    if not found.failed:
        return gettext("No run failed in this time.")
    words = ngettext(
        "{failed} of {ended} run that ended had failed.", "{failed} of {ended} runs that ended had failed.", found.ended
    )
    return words.format(failed=formats.count(found.failed), ended=formats.count(found.ended))
