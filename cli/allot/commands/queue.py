"""`allot queue`: who waits in which order, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click

from allot import complete
from allot.app import App, asks, on_cluster
from allot.screen import Column, Screen, Table, clean, put
from allot.sentences import ago, fitting_reason
from allot.words import (
    DASH,
    amount,
    clock,
    contract,
    duration,
    half_up,
    instant,
    now,
    plural,
    ratio,
    unit,
    with_unit,
    zone,
)

ROWS, LIMIT = 50, 200
CLASSES = ("debug", "standard", "large", "unallocated")


@click.command(short_help="Who waits, in which order, and why.")
@on_cluster
@click.option("-n", "--rows", type=click.IntRange(1), default=ROWS, show_default=True, help="So many at most.")
@click.option(
    "-p", "--project", metavar="CODE", shell_complete=complete.budgets, help="Only what waits at or below this node."
)
@click.option("--class", "workload_class", type=click.Choice(CLASSES), help="Only this class.")
@click.option("--find", metavar="TEXT", help="Only ids, and names that you may see, with this in them.")
@click.option("--levels/--no-levels", default=None, help="Also the numbers of each level that make the order.")
@asks
def queue(
    app: App,
    *,
    cluster: str | None,
    rows: int,
    project: str | None,
    workload_class: str | None,
    find: str | None,
    levels: bool | None,
) -> None:
    """The order in which waiting workloads are considered, as of the last pass.

    Whoever has had less of its share goes first: program before program, then project before project, then priority,
    then time of submission, unless the cluster's policy names another order. SERVED is what each had of its share, from
    the top of the tree down, or holds of it now where the order goes by that.
    """
    name = app.cluster(cluster)
    asked = {"project": project, "class": workload_class, "find": find, "limit": min(rows, LIMIT)}
    page = app.portal.get("clusters", name, "queue", **asked)
    if app.as_json:
        app.give(page if rows <= LIMIT else {**page, "rows": list(_rows(app, name, page, rows, asked))})
        return
    at = now()
    shown = list(_rows(app, name, page, rows, asked))
    cluster_now = app.portal.get("clusters", name)
    kind = cluster_now["unit"]
    head(app.screen, page, cluster_now, at)
    if shown:
        put()
        order(app.screen, shown, kind, at)
    elif project or workload_class or find:
        app.screen.say("Nothing that waits fits this filter.")
    if page["count"] > len(shown):
        put(app.screen.paint(f"… and {page['count'] - len(shown):,} more; --rows {page['count']} shows all", "dim"))
    if levels:
        numbers(app.screen, page, kind)


def _rows(app: App, cluster: str, page: Mapping[str, Any], most: int, asked: Mapping[str, Any]) -> Iterator[Any]:
    """So many rows, page after page."""
    left = most
    while True:
        yield from page["rows"][:left]
        left -= len(page["rows"])
        if left <= 0 or page["page"] >= page["pages"]:
            return
        page = app.portal.get("clusters", cluster, "queue", page=page["page"] + 1, **asked)


def head(screen: Screen, page: Mapping[str, Any], cluster: Mapping[str, Any], at: datetime) -> None:
    """The cluster in two lines: who waits, and what is in use; and what keeps it from starting anything."""
    name, kind, figures = cluster["name"], cluster["unit"], cluster["figures"]
    if page["as_of"] is None:
        screen.beside(name, ["no pass has been made yet"])
        return
    waits, size = figures["waiting_funded"], with_unit(figures["waiting_funded_milli"], kind)
    words = [f"{plural(waits, 'funded workload')} {'waits' if waits == 1 else 'wait'} for {size}"]
    if not waits:
        words = ["no funded workload waits"]
    if figures["waiting_unallocated"]:
        words.append(f"{figures['waiting_unallocated']:,} unallocated")
    if figures["held_workloads"]:
        words.append(f"{figures['held_workloads']:,} held back")
    used = f"{amount(figures['held_milli'])} of {with_unit(figures['healthy_milli'], kind)} in use"
    free = f"{amount(figures['interruptible_milli'])} of them can be interrupted"
    screen.beside(name, [", ".join(words), f"{used}, {free}; as of {instant(page['as_of'], at)}"])
    if cluster["stopped"]:
        stopped = cluster["stopped"]
        screen.say(f"STOPPED by {stopped['by']} {ago(stopped['since'], at)}: {clean(stopped['reason'])}", "bad")
    elif cluster["rules"] == "shadow":
        screen.say("The rules are only shown here: decisions are not carried out yet.", "warn")


def order(screen: Screen, rows: list[Any], kind: str, at: datetime) -> None:
    """The rows; sentences where they fit on a line, else words."""
    table = Table(
        [
            Column("#", is_number=True),
            Column("ID"),
            Column("PROJECT", spare=6),
            Column("NAME", spare=5),
            Column(unit(kind).upper(), is_number=True),
            Column("CONTRACT", is_number=True, spare=3),
            Column("WAITS", is_number=True, spare=2),
            Column("SERVED %", is_number=True, spare=4),
            Column(f"STARTS BY, {zone()}"),
            Column("WHY IT WAITS", is_text=True),
        ]
    )
    for row in rows:
        by, style = starts(row, at)
        table.add(
            DASH if row["place"] is None else str(row["place"]),
            row["code"],
            row["leaf"],
            row.get("name") or "",
            amount(row["size_milli"]),
            contract(row["min_runtime_s"]),
            duration(row["waited_s"]),
            served(row),
            by,
            "",
            row="mine" if row.get("is_mine") else "",
            c8=style,
            c9="dim",
        )
    room = table.text_room(screen)
    for cells, row in zip(table.rows, rows):
        cells[-1] = clean(fitting_reason(row, at, room))
    table.show(screen)


def served(row: Mapping[str, Any]) -> str:
    """What each level on the way to its project has been served."""
    if not row["min_runtime_s"] or not row["served"]:
        return DASH
    parts = [ratio(each) for each in row["served"]]
    return " › ".join(DASH if part is None else half_up(part * 100, 1) for part in parts)


def starts(row: Mapping[str, Any], at: datetime) -> tuple[str, str]:
    """The latest start where it is promised, else when there is room, and how that is painted."""
    if row["state"] == "held":
        return "held back", "bad"
    if row["is_promised"] and row["certain_at"]:
        return clock(row["certain_at"], at), "good"
    if row["reason_code"] == "waiting_victims" and row["earliest_start_at"]:
        return clock(row["earliest_start_at"], at), "good"
    if row["earliest_start_at"]:
        return f"room {clock(row['earliest_start_at'], at)}", "dim"
    return DASH, "dim"


def numbers(screen: Screen, page: Mapping[str, Any], kind: str) -> None:
    """Every level of the tree, as the last pass had it."""
    from allot.commands.why import level_cells, level_columns

    screen.head("The numbers that make it", "served = (used in the lookback + committed) / entitled")
    table = Table(level_columns(kind, True))
    depths: dict[str | None, int] = {None: -1}
    for level in page["levels"]:
        depth = depths[level["node"]] = depths.get(level["parent"], -1) + 1
        if depth:
            table.add(*level_cells(screen, level, "  " * (depth - 1), True), row="" if level["waiting"] else "dim")
    table.show(screen)
