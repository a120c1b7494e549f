"""A study as one HTML file that needs nothing else: it opens from disk, in light or dark, and prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from ..sampled import Sample
from . import charts, fragmentation, gaming

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--ink:#14171a;--ink-2:#4a5159;--line:#e4e7eb;--sunk:#f5f6f8;
--a:#3669cf;--b:#c66809;--c:#015f3f;--good:#11663a;--bad:#a8241b}
@media screen and (prefers-color-scheme:dark){:root{--bg:#131619;--ink:#eceef1;--ink-2:#b0b7c0;--line:#2a2f35;
--sunk:#1f2429;--a:#6e92eb;--b:#dd7c43;--c:#8debce;--good:#83d6a4;--bad:#ff9f96}}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:960px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:28px;line-height:1.2;margin:0 0 8px}h2{font-size:19px;margin:40px 0 4px}
p{margin:0 0 12px;color:var(--ink-2);max-width:75ch}
figure{margin:0 0 16px;}figcaption{font-size:14px;color:var(--ink-2)}
svg{display:block;width:100%;max-width:680px;height:auto}
svg text{font-size:11px;fill:var(--ink-2);font-variant-numeric:tabular-nums}svg text.b{fill:var(--ink)}
.grid{stroke:var(--line);fill:none}.line{fill:none;stroke-width:1.75}.band{fill:var(--sunk)}
.a{stroke:var(--a)}.b2{stroke:var(--b)}.c{stroke:var(--c)}
.range{stroke:var(--a);stroke-width:6;stroke-linecap:round;opacity:.35}.dot{fill:var(--a)}
.pair{display:grid;gap:4px 32px;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr))}
.interval{stroke-width:2}.at{stroke-width:2}.real{stroke:var(--ink-2);stroke-dasharray:2 3}
.base{color:var(--ink)}.good{color:var(--good)}.bad{color:var(--bad)}.open{color:var(--a)}
.interval{stroke:currentColor}.at{stroke:currentColor;fill:currentColor}.at.open{fill:var(--bg)}
.mark{display:inline-block;width:9px;height:9px;border:2px solid;border-radius:50%;margin-right:6px}
.mark:not(.open){background:currentColor}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:4px 0 0;padding:0;font-size:13px}
.key{display:inline-block;width:18px;border-top:3px solid;margin-right:6px;vertical-align:middle}
.key.a{border-color:var(--a)}.key.b2{border-color:var(--b)}.key.c{border-color:var(--c)}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:12px 0;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:5px 14px 5px 0;text-align:right;border-top:1px solid var(--line);white-space:nowrap;font-weight:400}
thead th{color:var(--ink-2);border:0}th:first-child,td:first-child{text-align:left}dt{font-weight:600}
.sides th,.sides td{vertical-align:top}.sides thead th{white-space:normal;vertical-align:bottom;min-width:110px}
small{display:block;font-size:12px;color:var(--ink-2)}
dd{margin:0 0 12px;color:var(--ink-2);max-width:75ch}
"""
HOUR_S, DAY_S = 3_600, 86_400


class Table(NamedTuple):
    """A table with its title."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def percent(part: float) -> str:
    """12.3 %, with a sign only where it is negative."""
    return f"{100 * part:.1f} %"


def signed(part: float) -> str:
    """+1.2 %."""
    return f"{100 * part:+.1f} %"


def hours(seconds: float) -> str:
    """Whole hours, or minutes below two hours."""
    return f"{seconds / 60:.0f} min" if abs(seconds) < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"


def as_file(title: str, about: str, body: str) -> str:
    """The whole file around a body of HTML."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><main><h1>{escape(title)}</h1><p>{escape(about)}</p>{body}</main></body></html>\n"
    )


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


# --- fragmentation ----------------------------------------------------------------------------------------------------

FRAGMENTATION_HEAD = (
    "varied", "large wait, median", "p90", "never started", "free or interruptible", "largest gang", "gang over that",
    "occupancy", "delivery", "debug p90",
)  # fmt: skip


FRAGMENTATION_PLOTS: tuple[tuple[str, str, int, Callable[[float], str]], ...] = (
    ("large_p90_s", "Wait of large funded gangs, 90th percentile", HOUR_S, lambda hours: f"{hours:.3g} h"),
    ("usable", "Largest gang over all that is free or interruptible", 1, percent),
)
"""What is drawn for each factor: the figure, its title, what it is divided by, and how it is written."""


def fragmentation_rows(lines: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The table's cells, a row for each variant."""
    rows = []
    for line in lines:
        label = line["value"] if line["factor"] == fragmentation.BASE.factor else f"{line['factor']} {line['value']}"
        rows.append(
            [
                label,
                _cell(line["large_median_s"], hours),
                _cell(line["large_p90_s"], hours),
                f"{line['large_unstarted']} of {line['large']}",
                *(_cell(line[name], percent) for name in ("could", "largest", "usable", "occupancy", "delivery")),
                _cell(line["debug_p90_s"], hours),
            ]
        )
    return rows


def _cell(values: Sequence[float] | None, say: Callable[[float], str]) -> str:
    return "–" if values is None else say(values[1])


def fragmentation_page(about: str, lines: Sequence[Mapping[str, Any]], samples: Sequence[Sequence[int]]) -> str:
    """The whole file.

    Args:
        about: which scenarios.
        lines: `fragmentation.table`.
        samples: of one run of the base, `Sample` by hour.
    """
    known = [Sample(*each) for each in samples]
    could = [(each.at_s / DAY_S, (each.free_milli + each.interruptible_milli) / 1_000) for each in known]
    largest = [(each.at_s / DAY_S, each.largest_milli / 1_000) for each in known]
    free = [(each.at_s / DAY_S, each.free_milli / 1_000) for each in known]
    drawn = charts.lines(
        "GPUs by hour",
        [
            charts.Series("free or interruptible", "a", could),
            charts.Series("largest gang that could start", "b2", largest),
            charts.Series("free", "c", free),
        ],
        lambda days: f"{days:g} d",
        lambda gpus: f"{gpus:g}",
    )
    body = [f"<h2>What a gang could have, hour by hour (GPUs)</h2><figure>{drawn}</figure>"]
    for factor, title in (
        ("max contract", "longest contract"),
        ("reservations", "reservations"),
        ("packing", "packing"),
    ):
        rows = [line for line in lines if line["factor"] == factor]
        body.append(f"<h2>By {title}</h2>")
        for name, what, unit, say in FRAGMENTATION_PLOTS:
            spreads = [charts.Spread(row["value"], row[name] and [value / unit for value in row[name]]) for row in rows]
            drawn = charts.spreads(what, spreads, say)
            body.append(f"<figure><figcaption>{what}</figcaption>{drawn}</figure>")
    body.append("<h2>In numbers</h2>" + as_table(FRAGMENTATION_HEAD, fragmentation_rows(lines)))
    return as_file("Fragmentation under contracts", about, "".join(body))


# --- gaming -----------------------------------------------------------------------------------------------------------

GAMING_HEAD = ("strategy", "gain", "least", "most", "over twin", "over itself", "charged over twin")

GAMING_ABOUT = (
    "Gain in useful GPU time over an honest twin, the luck of honest twins taken out. A dot is the median over the "
    "seeds, its bar goes from the least to the most, and the shaded ground is 1 % either way."
)


def gaming_rows(lines: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The table's cells, a row for each strategy."""
    rows = []
    for line in lines:
        gain: Sequence[float] | None = line["gain"]
        cells = ["–"] * 3 if gain is None else [signed(gain[1]), signed(gain[0]), signed(gain[2])]
        others = [_cell(line[name], signed) for name in ("over_twin", "over_itself", "charged_over_twin")]
        rows.append([line["strategy"], *cells, *others])
    return rows


def gaming_page(about: str, by_demand: Mapping[int, Sequence[Mapping[str, Any]]]) -> str:
    """The whole file: `gaming.table` for each demand."""
    body = []
    for demand, lines in by_demand.items():
        title = demand_title(demand)
        rows = [charts.Spread(line["strategy"], line["gain"]) for line in lines]
        band = (-gaming.MOST_GAIN, gaming.MOST_GAIN)
        body.append(f"<h2>{escape(title)}</h2><p>{GAMING_ABOUT}</p>")
        body.append(f"<figure>{charts.spreads(title, rows, signed, band)}</figure>")
        body.append(as_table(GAMING_HEAD, gaming_rows(lines)))
        said = [line for line in lines if line["strategy"] != gaming.HONEST.name]
        words = "".join(
            f"<dt>{escape(line['strategy'])}: {escape(line['does'])}</dt><dd>{escape(gaming.verdict(line))}</dd>"
            for line in said
        )
        body.append(f"<dl>{words}</dl>")
    return as_file("What gaming a budget gains", about, "".join(body))


def demand_title(demand: int) -> str:
    """In what world the twins play."""
    if demand == 1:
        return "Both ask for what the laboratory asks for"
    return f"Both ask for {demand} times as much"
