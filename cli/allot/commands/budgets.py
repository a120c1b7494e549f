"""`allot tree`, `allot usage`, `allot shares` and `allot cells`: who is entitled to what, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Any

import click

from allot.app import App, asks, budget_argument, on_cluster
from allot.failures import USAGE, Failure
from allot.screen import Column, Screen, Table, put
from allot.words import (
    Day,
    ShareOf,
    half_up,
    hours,
    hours_word,
    now,
    parsed,
    percent,
    plural,
    ratio,
    share,
    unit,
    with_unit,
    zone,
)

WHOLE = 10_000
BOOKS = [
    Column("ENTITLED", is_number=True),
    Column("USED", is_number=True),
    Column("", spare=1),
    Column("BORROWED", is_number=True),
    Column("NOT GIVEN", is_number=True),
    Column("NOT ASKED", is_number=True, spare=2),
    Column("IN REPAIR", is_number=True, spare=3),
    Column("UNALLOCATED", is_number=True, spare=4),
]
"""The parts of a node's books."""


@click.command(short_help="The budget tree: shares, and what they come to.")
@budget_argument(required=False)
@on_cluster
@click.option("--as-of", type=Day(), help="As of this day. [default: today]")
@click.option("-d", "--depth", type=click.IntRange(1), help="So many levels at most.")
@asks
def tree(app: App, *, code: str | None, cluster: str | None, as_of: date | None, depth: int | None) -> None:
    """The budget tree of a cluster, or what is at and below NODE."""
    name = app.cluster(cluster)
    rows = app.portal.get("clusters", name, "tree", as_of=as_of)
    top = 0
    if code is not None:
        rows = below(rows, code)
        top = rows[0]["depth"]
    rows = [row for row in rows if depth is None or row["depth"] - top < depth]
    if app.give(rows):
        return
    kind = app.unit(name)
    size = next((each["size_milli"] for each in app.clusters if each["name"] == name), 0)
    table = Table(
        [
            Column("NODE"),
            Column("NAME", is_text=True),
            Column("KIND", spare=3),
            Column("SHARE", is_number=True),
            Column("OF THE CLUSTER", is_number=True, spare=1),
            Column(unit(kind).upper(), is_number=True),
            Column("UNASSIGNED", is_number=True, spare=2),
        ]
    )
    for row in rows:
        part = ratio(row["entitlement"]) or Fraction(0)
        leaf = not row["unassigned_basis_points"] or row["unassigned_basis_points"] == WHOLE
        table.add(
            "  " * (row["depth"] - top) + row["code"],
            row["name"] + (" (closed)" if row["is_closed"] else ""),
            row["kind"],
            share(row["basis_points"]),
            percent(part, 2),
            half_up(part * size / 1_000, 1),
            "" if leaf else share(row["unassigned_basis_points"]),
            row="dim" if row["is_closed"] else "bold" if row["depth"] == top else "",
        )
    table.show(app.screen)


def below(rows: Sequence[Mapping[str, Any]], code: str) -> list[Mapping[str, Any]]:
    """A node and everything below it; parents come before their children.

    Raises:
        Failure: the node is not in the tree.
    """
    kept: set[str] = set()
    found = []
    for row in rows:
        if row["code"] == code or row["parent"] in kept:
            kept.add(row["code"])
            found.append(row)
    if not found:
        raise Failure(f"there is no node {code!r} in the tree", 5)
    return found


@click.command(short_help="What a node was entitled to, what it got, and what it did not ask for.")
@budget_argument(required=False)
@on_cluster
@click.option("--from", "from_day", type=Day(), help="From this day on. [default: 7 days ago]")
@click.option("--until", "until_day", type=Day(), help="Up to this day, included. [default: now]")
@click.option("--step", type=click.Choice(["hour", "day"]), default="day", show_default=True, help="A line for each.")
@click.option("--people", is_flag=True, help="By person: all for who manages the node, else your own.")
@asks
def usage(
    app: App,
    *,
    code: str | None,
    cluster: str | None,
    from_day: date | None,
    until_day: date | None,
    step: str,
    people: bool,
) -> None:
    """The books of NODE, day by day; without one, those of the top of the tree and of each node below it.

    entitled = within + not delivered + not asked for + in repair; borrowed is what it got beyond.
    """
    app.options = {"from": "--from", "until": "--until"}
    if until_day is not None and from_day is None:
        raise Failure("--until: say --from as well", USAGE)
    name = app.cluster(cluster)
    period = period_of(from_day, until_day)
    if people:
        tell_people(app, code, name, period)
    elif code is None:
        tell_nodes(app, name, period)
    else:
        tell_books(app, code, name, period, step)


def period_of(from_day: date | None, until_day: date | None) -> dict[str, Any]:
    """The time that is asked for; the last seven days unless said."""
    if from_day is None:
        return {}
    return {"from": str(from_day), "until": str(until_day or now().astimezone().date())}


def tell_books(app: App, code: str, cluster: str, period: Mapping[str, Any], step: str) -> None:
    """A node's books over time."""
    told = app.portal.get("budget", code, "usage", cluster=cluster, step=step, **period)
    if app.give(told):
        return
    kind, screen = app.unit(cluster), app.screen
    total, points = told["total"], told["points"]
    screen.say(f"{code} on {cluster}, in {hours_word(kind)}: {said_of(total)}")
    if not points:
        return
    put()
    table = Table(
        [
            Column(f"{'HOUR' if step == 'hour' else 'DAY'}, {zone()}"),
            *BOOKS,
        ]
    )
    for point in points:
        start = parsed(point["start"]).astimezone()
        table.add(f"{start:%a %d %b}" + (f" {start:%H:%M}" if step == "hour" else ""), *_books(screen, point))
    table.add("in all", *_books(screen, total), row="bold")
    table.show(screen)


def _books(screen: Screen, row: Mapping[str, Any]) -> list[str]:
    entitled = row["entitled_milli_s"]
    used = row["within_milli_s"] + row["borrowed_milli_s"]
    return [
        hours(entitled),
        hours(used),
        screen.bar(Fraction(used, entitled) if entitled else None),
        hours(row["borrowed_milli_s"]),
        hours(row["not_delivered_milli_s"]),
        hours(row["not_asked_milli_s"]),
        hours(row["in_repair_milli_s"]),
        hours(row["uncharged_milli_s"]),
    ]


def said_of(total: Mapping[str, Any]) -> str:
    """The whole time in a sentence."""
    entitled = total["entitled_milli_s"]
    if not entitled:
        return "it was entitled to nothing in this time."
    within, borrowed = total["within_milli_s"], total["borrowed_milli_s"]
    part = percent(Fraction(within, entitled))
    words = [f"of {hours(entitled)} that it was entitled to, it used {hours(within)} ({part})"]
    if borrowed:
        words.append(f"and borrowed {hours(borrowed)} beyond")
    if total["not_delivered_milli_s"]:
        words.append(f"{hours(total['not_delivered_milli_s'])} that it asked for were not given")
    if total["not_asked_milli_s"]:
        words.append(f"{hours(total['not_asked_milli_s'])} it did not ask for")
    return f"{'; '.join(words)}.".replace("; and ", " and ")


def tell_nodes(app: App, cluster: str, period: Mapping[str, Any]) -> None:
    """The books of the top of the tree, and of each node below it."""
    told = app.portal.get("clusters", cluster, "usage", **period)
    if app.give(told):
        return
    kind, screen = app.unit(cluster), app.screen
    begin, end = (parsed(told[name]).astimezone() for name in ("start", "end"))
    span = f"{begin:%a} {begin.day} {begin:%b} to {end:%a} {end.day} {end:%b}, {zone()}"
    screen.say(f"{cluster}, {span}, in {hours_word(kind)}: {said_of(told['node'])}")
    put()
    table = Table([Column("NODE"), Column("NAME", is_text=True), *BOOKS])
    for row in (told["node"], *told["children"]):
        is_top = row is told["node"]
        lead = "" if is_top else "  "
        table.add(lead + row["node"], row["name"], *_books(screen, row), row="bold" if is_top else "")
    table.show(screen)


def tell_people(app: App, code: str | None, cluster: str, period: Mapping[str, Any]) -> None:
    """What people used."""
    told = app.portal.get("clusters", cluster, "usage", by="person", node=code, **period)
    if app.give(told):
        return
    if not told["people"]:
        app.screen.say(f"Nothing of {told['node']['node']} on {cluster} was used by people whose use is yours to see.")
        return
    word = hours_word(app.unit(cluster))
    table = Table(
        [
            Column("PERSON", is_text=True),
            Column(f"CHARGED {word}", is_number=True),
            Column("UNALLOCATED", is_number=True),
            Column("WORKLOADS", is_number=True, spare=1),
        ]
    )
    for row in told["people"]:
        name = plural(row["others"], "other") if row["others"] else row["name"] or "(nobody)"
        table.add(name, hours(row["charged_milli_s"]), hours(row["uncharged_milli_s"]), f"{row['workloads']:,}")
    table.show(app.screen)


@click.command(short_help="The shares of a node's children; --set changes them.")
@budget_argument()
@on_cluster
@click.option(
    "--set", "changes", type=ShareOf(), multiple=True, help="A child's new share (A1=40%); others keep theirs."
)
@click.option("--from", "from_day", type=Day(), help="With --set: from this day on. [default: today]")
@click.option("--until", "until_day", type=Day(), help="With --set: the first day without them. [default: for good]")
@click.option("--reason", default="", help="With --set: why; it is kept for good.")
@asks
def shares(
    app: App,
    *,
    code: str,
    cluster: str | None,
    changes: Sequence[tuple[str, int]],
    from_day: date | None,
    until_day: date | None,
    reason: str,
) -> None:
    """How NODE divides what it has among its children, on all days from today."""
    app.options = {"shares": "--set", "valid_from": "--from", "valid_until": "--until", "reason": "--reason"}
    name = app.cluster(cluster)
    if changes:
        if not reason.strip():
            raise Failure("--reason: say why, with --set", USAGE)
        version = app.portal.get("budget", code)["version"]
        body = {
            "shares": dict(changes),
            "valid_from": str(from_day or now().astimezone().date()),
            "valid_until": None if until_day is None else str(until_day),
            "reason": reason,
            "version": version,
        }
        rows = app.portal.post("clusters", name, "shares", code, body=body)
    else:
        rows = app.portal.get("clusters", name, "shares", code)
    if not app.give(rows):
        tell_shares(app, code, name, rows)


def tell_shares(app: App, code: str, cluster: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The shares that hold today, and those to come; beside those of today the cells, where anybody has some."""
    today = str(now().astimezone().date())
    standing = [row for row in rows if row["valid_until"] is None or row["valid_until"] > today]
    if not standing:
        app.screen.say(f"{code} has given no shares of {cluster}.")
        return
    held = {row["node"]: cells_said(row["cells"]) for row in app.portal.get("clusters", cluster, "cells")}
    columns = [Column("NODE"), Column("SHARE", is_number=True), Column("", spare=1), Column("FROM"), Column("UNTIL")]
    table = Table([*columns, Column("CELLS", spare=2)] if held else columns)
    for row in standing:
        is_now = row["valid_from"] <= today
        table.add(
            row["node"],
            share(row["basis_points"]),
            app.screen.bar(Fraction(row["basis_points"], WHOLE), 20, 20),
            row["valid_from"],
            row["valid_until"] or "",
            *([held.get(row["node"], "") if is_now else ""] if held else []),
            row="" if is_now else "dim",
        )
    left = WHOLE - sum(row["basis_points"] for row in standing if row["valid_from"] <= today)
    last = ["", "", ""] if held else ["", ""]
    table.add("unassigned", share(left), app.screen.bar(Fraction(left, WHOLE), 20, 20), *last, row="dim")
    table.show(app.screen)


@click.command(short_help="Whole nodes and racks that are a node's own; --nodes and --racks change them.")
@budget_argument()
@on_cluster
@click.option("--nodes", type=click.IntRange(0), help="So many whole nodes; racks stay as they are unless said.")
@click.option("--racks", type=click.IntRange(0), help="So many racks; whole nodes stay as they are unless said.")
@click.option("--reason", default="", help="With --nodes or --racks: why; it is kept for good.")
@asks
def cells(app: App, *, code: str, cluster: str | None, nodes: int | None, racks: int | None, reason: str) -> None:
    """What NODE has of a cluster to itself beside its share, and what could still be granted. 0 of both withdraws."""
    app.options = {"cells.node": "--nodes", "cells.rack": "--racks", "reason": "--reason"}
    name = app.cluster(cluster)
    answer = app.portal.send("GET", "clusters", name, "cells", code)
    told = answer.body
    if nodes is not None or racks is not None:
        if not reason.strip():
            raise Failure("--reason: say why, with --nodes or --racks", USAGE)
        wanted = {"node": nodes, "rack": racks}
        wanted = {level: told["cells"][level] if count is None else count for level, count in wanted.items()}
        body = {"cells": wanted, "reason": reason}
        tag = {"If-Match": answer.headers["ETag"]}
        told = app.portal.send("PUT", "clusters", name, "cells", code, body=body, headers=tag).body
    if not app.give(told):
        tell_cells(app, code, name, told)


def tell_cells(app: App, code: str, cluster: str, told: Mapping[str, Any]) -> None:
    """What it has, what it uses of that, and what there is left."""
    has, left = cells_said(told["cells"]), cells_said(told["grantable"], " or ")
    say = app.screen.say
    if has:
        size = with_unit(told["devices_milli"], app.unit(cluster))
        say(f"{code} has {has} of {cluster} to itself: {plural(told['nodes'], 'node')}, {size}.")
        using = ", ".join(told["in_use"])
        say(f"In use now: {len(told['in_use'])} of {told['nodes']}{f' ({using})' if using else ''}.")
    else:
        say(f"{code} has no whole nodes or racks of {cluster} to itself.")
    if told["is_over_entitlement"] and has:
        say("That is more than its share comes to.")
    for level, count in told["short"].items():
        if count:
            say(f"{cluster} is {cells_said({level: count})} short of what is granted.")
    for level, count in told["unfit"].items():
        if count:
            said = cells_said({level: count})
            say(f"{said} of what is granted on {cluster} can't be had today: nodes are unfit or to be emptied.")
    say(f"Still grantable: {f'up to {left}' if left else 'nothing'}.")


def cells_said(counts: Mapping[str, int], between: str = " and ") -> str:
    """2 whole nodes and 1 rack; nothing of none."""
    words = {"node": "whole node", "rack": "rack"}
    return between.join(plural(counts[level], word) for level, word in words.items() if counts.get(level))
