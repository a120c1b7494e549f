"""`allot clusters` and `allot nodes`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from allot.app import App, asks, on_cluster
from allot.screen import STATES, Column, Screen, Table
from allot.words import amount, clock, now, parsed, plural, unit, with_unit


@click.command(short_help="The clusters.")
@asks
def clusters(app: App) -> None:
    """The clusters, with what they count and how much of it they have."""
    rows = app.clusters
    if app.give(rows):
        return
    table = Table(
        [
            Column("CLUSTER"),
            Column("TITLE", is_text=True),
            Column("SIZE", is_number=True),
            Column("MODEL", spare=1),
            Column("RULES", spare=2),
            Column(""),
        ]
    )
    for row in rows:
        yours = "yours" if row["name"] == app.settings.cluster else ""
        table.add(
            row["name"],
            row["title"],
            with_unit(row["size_milli"], row["unit"]),
            row["model"] or "",
            row["rules"],
            yours,
            c5="good",
        )
    table.show(app.screen)


@click.command(short_help="The nodes of a cluster: health, and what runs there.")
@on_cluster
@click.option("--trouble", is_flag=True, help="Only those that do not take work as usual.")
@asks
def nodes(app: App, *, cluster: str | None, trouble: bool) -> None:
    """The nodes of a cluster, by name: what runs there, and until when its contracts hold."""
    name = app.cluster(cluster)
    rows = list(app.portal.pages("clusters", name, "nodes"))
    chosen = [row for row in rows if not trouble or row["state"] != "healthy" or row["trouble"] or row["windows"]]
    if app.give(chosen):
        return
    kind, at = app.unit(name), now()
    held, size = sum(row["held_milli"] for row in rows), sum(row["size_milli"] for row in rows)
    healthy = sum(row["state"] == "healthy" for row in rows)
    used = f"{amount(held)} of {with_unit(size, kind)} in use"
    app.screen.say(f"{name}: {plural(len(rows), 'node')}, {healthy:,} healthy; {used}.")
    if chosen:
        app.screen.say()
        table_of(app.screen, chosen, kind, at)


def table_of(screen: Screen, rows: list[Mapping[str, Any]], kind: str, at: datetime) -> None:
    """One line for each; columns that say nothing of any are left out."""
    table = Table(
        [
            Column("NODE"),
            Column("RACK", spare=3),
            Column("RAIL", spare=6),
            Column("LEAF", spare=5),
            Column("CLASS", spare=4),
            Column("STATE"),
            Column(unit(kind).upper(), is_number=True),
            Column("", spare=1),
            Column("CONTRACTS UNTIL", spare=2),
            Column("RUNS", is_text=True),
            Column("TROUBLE", is_text=True),
        ]
    )
    for row in rows:
        ends = [each["contract_ends_at"] for each in row["runs"] if each["contract_ends_at"]]
        last = max(ends, default=None)
        styles = {
            "c5": STATES.get(row["state"], "bad"),
            "c8": "" if last and parsed(last) > at else "dim",
            "c10": "bad" if row["trouble"] else "warn",
        }
        table.add(
            row["name"],
            row["rack"] or "",
            *(row.get(each) or "" for each in ("rail", "leaf", "gpu_class")),  # which portals of before do not say
            row["state"],
            f"{amount(row['held_milli'])}/{amount(row['size_milli'])}",
            devices(screen, row),
            "" if last is None else clock(last, at) if parsed(last) > at else "over",
            ", ".join(each["workload"] for each in row["runs"]),
            troubles(row, at),
            **styles,
        )
    table.show(screen)


def troubles(row: Mapping[str, Any], at: datetime) -> str:
    """What is wrong with a node, or planned for it."""
    said = [row["trouble"], row["drain_reason"]]
    said += [
        f"maintenance {clock(each['starts_at'], at)} to {clock(each['ends_at'], at)}" for each in row["windows"][:1]
    ]
    return "; ".join(each for each in said if each)


def devices(screen: Screen, row: Mapping[str, Any]) -> str:
    """A square for each device, filled where it is in use, half where a part of it is free.

    Nothing where there are too many to count at a glance.
    """
    count: int = row["size_milli"] // 1_000
    if count > 16:
        return ""
    room = sum(each["free_milli"] > 0 for each in row.get("shared", ()))  # which portals of before do not say
    in_use: int = -(-(row["held_milli"] + sum(each["free_milli"] for each in row.get("shared", ()))) // 1_000)
    used, part, free = ("■", "◧", "□") if screen.has_blocks else ("#", "+", ".")
    return used * (in_use - room) + part * room + free * (count - in_use)
