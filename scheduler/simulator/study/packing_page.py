"""The study of packing as tables and as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from . import charts, packing
from .page import Table, as_file, as_table
from .spread import least_middle_most

HEAD = ("rule", "given out when the first waits", "at 100 %", "most", "waiting at 100 %")
LEFT_HEAD = ("rule", "stranded of the free", "whole free GPUs", "untouched nodes")
SAVED_HEAD = ("rule", "GPUs saved", "of the fractions' GPUs")
PLOTTED = ("first_refused", "allocated")
LABEL_WIDTH = 160


def as_json(about: str, results: Sequence[Mapping[str, Any]], replayed: Mapping[str, Any]) -> dict[str, Any]:
    """For programs."""
    return {
        "study": "packing",
        "about": about,
        "published": {"saved": packing.PUBLISHED_SAVED},
        "rows": packing.table(results),
        "replay": dict(replayed),
        "runs": list(results),
    }


def replay_told(replayed: Mapping[str, Any]) -> str:
    """In a sentence."""
    return (
        f"Replayed as it was, the trace fills {_percent(replayed['mean'])} of the GPUs on average, "
        f"{_percent(replayed['most'])} at most, and {replayed['refused']:,} pods find no place: it is too idle to tell "
        "rules apart, so pods are drawn with replacement until the cluster is full."
    )


def tables(results: Sequence[Mapping[str, Any]]) -> list[Table]:
    """All that is printed: means over the seeds."""
    lines = packing.table(results)
    given = [
        [line["rule"], *(_percent(line[key]) for key in ("first_refused", "allocated", "most_allocated")),
         f"{line['refused']:,.0f}"]
        for line in lines
    ]  # fmt: skip
    left = [
        [line["rule"], _percent(line["stranded"]), f"{line['whole_gpus']:,.0f}", f"{line['whole_nodes']:,.0f}"]
        for line in lines
    ]
    saved = [[line["rule"], _percent(line["saved"]), _percent(line["saved_of_fractions"])] for line in lines]
    saved.append(["published, of all GPUs in use", _percent(packing.PUBLISHED_SAVED), ""])
    return [
        Table("GPUs that are given out", HEAD, given),
        Table(f"What is left when {packing.EARLY:.0%} of the GPUs were asked for", LEFT_HEAD, left),
        Table("What sharing saves, against a whole GPU for each fraction", SAVED_HEAD, saved),
    ]


def _percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def packing_page(about: str, results: Sequence[Mapping[str, Any]], replayed: Mapping[str, Any]) -> str:
    """The whole file."""
    body = []
    for key, title in zip(PLOTTED, ("Given out when the first pod waits", "Given out at 100 %"), strict=True):
        rows = [
            charts.Spread(name, least_middle_most(each[key] for each in results if each["rule"] == name))
            for name in packing.RULES
        ]
        drawn = charts.spreads(title, rows, _percent, label_width=LABEL_WIDTH)
        body.append(f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>")
    body.append(f"<p>{escape(replay_told(replayed))}</p>")
    for table in tables(results):
        body.append(f"<h2>{escape(table.title)}</h2>{as_table(table.head, table.rows)}")
    return as_file("How rules of packing fill a cluster of fractional GPUs", about, "".join(body))
