"""The study of sharing as tables and as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from . import charts, sharing
from .page import Table, as_file, as_table

HEAD = ("shared by", "mean wait", "p90", "most", "longer than apart, mean", "most")
TITLES = {sharing.GANGS: "The tenant with gangs of whole nodes", sharing.SMALL: "The tenant with small work"}
UNDER_ENGINE = "under the engine, with contracts"
LABEL_WIDTH = 130
PLOTTED = (sharing.PACKED, sharing.CELLS, sharing.APART)
"""Where small work is spread, gangs wait so long that nothing else could be seen beside it."""


def as_json(about: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For programs; all in seconds."""
    return {
        "study": "sharing",
        "about": about,
        "published": {"longer_most_min": sharing.PUBLISHED_MIN},
        "rows": sharing.table(results),
        "engine": sharing.table(results, "engine"),
        "runs": list(results),
    }


def tables(results: Sequence[Mapping[str, Any]]) -> list[Table]:
    """All that is printed: medians over the seeds, and of what is longest the most."""
    lines, engine = sharing.table(results), sharing.table(results, "engine")
    found = []
    for tenant, title in TITLES.items():
        rows = _rows(lines, tenant)
        if tenant == sharing.GANGS:
            rows.append(["published, up to", "", "", "", "", f"{sharing.PUBLISHED_MIN:,} min"])
        found.append(Table(title, HEAD, rows))
    found += [Table(f"{title}, {UNDER_ENGINE}", HEAD, _rows(engine, tenant)) for tenant, title in TITLES.items()]
    return found


def _rows(lines: Sequence[Mapping[str, Any]], tenant: str) -> list[list[str]]:
    """A tenant's lines: medians, and of what is longest the most."""
    return [
        [line["way"], *(_minutes(line[name][1]) for name in ("mean_s", "p90_s")), _minutes(line["most_s"][2]),
         _minutes(line["longer_mean_s"][1]), _minutes(line["longer_most_s"][2])]
        for line in lines
        if line["tenant"] == tenant
    ]  # fmt: skip


def _minutes(seconds: float) -> str:
    return f"{round(seconds / 60):,} min"


def sharing_page(about: str, results: Sequence[Mapping[str, Any]]) -> str:
    """The whole file."""
    lines = {line["way"]: line for line in sharing.table(results) if line["tenant"] == sharing.GANGS}
    body = []
    for name, title in (("mean_s", "Gangs: mean wait"), ("longer_most_s", "Gangs: most that one waits longer")):
        rows = [charts.Spread(way, [seconds / 60 for seconds in lines[way][name]]) for way in PLOTTED]
        drawn = charts.spreads(title, rows, lambda minutes: f"{minutes:,.0f} min", label_width=LABEL_WIDTH)
        body.append(f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>")
    for table in tables(results):
        body.append(f"<h2>{escape(table.title)}</h2>{as_table(table.head, table.rows)}")
    return as_file("What sharing costs a tenant", about, "".join(body))
