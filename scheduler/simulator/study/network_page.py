"""The study of the network as tables and as one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import isinf
from typing import Any, NamedTuple

from . import charts, network
from .page import Table, as_file, as_table, percent

WAYS_HEAD = ("placed", "iteration, mean", "99th", "completion, mean", "95th", "links overloaded", "asked too much")
PAIRS_HEAD = ("score", "pairs", "iteration, mean", "shifted", "99th", "shifted", "overloaded", "shifted")
PUBLISHED_HEAD = ("better than", "mean", "tail", "asked too much")
AGAINST = {
    "own": "the host's own places",
    "scored": "the same places, no shifts",
    "random": "random places",
    "pairs": "no shifts: two on one link, score 1",
}
MIX_TITLES = {
    network.IN_STEP: "Gangs whose periods are in step",
    network.OWN_BATCHES: "Gangs with batches, and so periods, of their own",
}
PLOTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("iteration_mean", "Iterations, mean: times as long as alone", lambda times: f"{times:.3g}"),
    ("completion_mean_s", "Completion, mean", lambda seconds: f"{seconds:.0f} s"),
    ("overload", "Links asked for more than they carry, part of the time", percent),
)


class Told(NamedTuple):
    """What the study found.

    Attributes:
        about: what was simulated.
        by_mix: `network.run` for each seed, by mix.
        pairs: rows of `network.pairs`, of all seeds.
    """

    about: str
    by_mix: Mapping[str, Sequence[Mapping[str, Any]]]
    pairs: Sequence[Mapping[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """For programs. What is infinitely better, as nothing was asked too much, is null."""
        compared = {mix: network.beside_published(found, self.pairs) for mix, found in self.by_mix.items()}
        return {
            "study": "network",
            "about": self.about,
            "published": network.PUBLISHED,
            "mixes": [
                {
                    "mix": mix,
                    "ways": network.table(found),
                    "times_better": [
                        {
                            name: cell if isinstance(cell, str) else [None if isinf(each) else each for each in cell]
                            for name, cell in line.items()
                        }
                        for line in compared[mix]
                    ],
                    "runs": found,
                }
                for mix, found in self.by_mix.items()
            ],
            "pairs": network.pair_table(self.pairs),
        }


def tables(told: Told) -> list[Table]:
    """All that is printed."""
    found = []
    for mix, results in told.by_mix.items():
        found.append(Table(MIX_TITLES[mix], WAYS_HEAD, _ways_rows(network.table(results))))
        published = ["published, up to", *(f"{network.PUBLISHED[name]:g}" for name in ("mean", "tail", "excess"))]
        rows = [_published_row(line) for line in network.beside_published(results, told.pairs)]
        title = f"{MIX_TITLES[mix]}: how many times better with shifts, in the middle (at most)"
        found.append(Table(title, PUBLISHED_HEAD, [*rows, published]))
    found.append(
        Table("Every two models on one link, by their score", PAIRS_HEAD, _pair_rows(network.pair_table(told.pairs)))
    )
    return found


def _ways_rows(lines: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [
        [
            line["way"],
            f"{line['iteration_mean'][1]:.3f}",
            f"{line['iteration_p99'][1]:.2f}",
            f"{line['completion_mean_s'][1]:.0f} s",
            f"{line['completion_p95_s'][1]:.0f} s",
            percent(line["overload"][1]),
            f"{line['excess_gbit'][1]:,.0f} Gbit",
        ]
        for line in lines
    ]


def _published_row(line: Mapping[str, Any]) -> list[str]:
    cells = [f"{_times(line[name][1])} ({_times(line[name][2])})" for name in ("mean", "tail", "excess")]
    return [AGAINST[line["against"]], *cells]


def _times(times: float) -> str:
    """Two digits after the point, or whole."""
    if isinf(times):
        return "all"
    return f"{times:.2f}" if times < 10 else f"{times:,.0f}"


def _pair_rows(lines: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for line in lines:
        cells = []
        for figure, say in (("slowdown", "{:.3f}"), ("tail", "{:.2f}"), ("overload", "{:.1%}")):
            for shifts in ("unshifted", "shifted"):
                cells.append(say.format(line[shifts][figure]).replace("%", " %") if line["pairs"] else "–")
        rows.append([line["score"], str(line["pairs"]), *cells])
    return rows


def network_page(told: Told) -> str:
    """The whole file."""
    body = []
    for mix, results in told.by_mix.items():
        lines = network.table(results)
        body.append(f"<h2>{escape(MIX_TITLES[mix])}</h2>")
        for name, title, say in PLOTS:
            rows = [charts.Spread(line["way"], line[name]) for line in lines]
            drawn = charts.spreads(title, rows, say, label_width=LABEL_WIDTH)
            body.append(f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>")
    for table in tables(told):
        body.append(f"<h2>{escape(table.title)}</h2>{as_table(table.head, table.rows)}")
    return as_file("What time shifts on the network are worth", told.about, "".join(body))


LABEL_WIDTH = 170
"""The names of ways are long."""
