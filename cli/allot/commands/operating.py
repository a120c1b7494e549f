"""What operators do: drain and resume, maintenance windows, the emergency stop."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from allot import complete
from allot.app import App, asks, node_argument, on_cluster, since_done
from allot.failures import USAGE, Failure
from allot.screen import Column, Table
from allot.words import Instant, clock, now, plural, zone

OPTIONS = {"reason": "--reason", "starts_at": "--from", "ends_at": "--until", "node": "NODE"}


def because(call: Any) -> Any:
    """A command that is on the record."""
    return click.option("--reason", required=True, help="Why, in a sentence; it is on the record.")(call)


def operated(app: App, verb: str, node: str, cluster: str | None, body: dict[str, Any], done: str, before: str) -> None:
    """Do something to a node, and say what came of it."""
    app.options = {**OPTIONS, "health": "STATE"}
    name = app.cluster(cluster)
    told = app.portal.post("clusters", name, "nodes", node, verb, body=body)
    since_done(app, told, f"{node} on {name} {done if told['changed'] else before}.")


@click.command(short_help="Let a node run empty: nothing starts there, what runs leaves by contract.")
@node_argument
@on_cluster
@because
@asks
def drain(app: App, *, node: str, cluster: str | None, reason: str) -> None:
    """Ask a node to drain. No contract is broken: each run there stays until its contract ends."""
    done = "drains: nothing starts there, and what runs leaves when its contract ends"
    operated(app, "drain", node, cluster, {"reason": reason}, done, "was asked to drain before")


@click.command(short_help="Let a node that was drained take work again.")
@node_argument
@on_cluster
@because
@asks
def resume(app: App, *, node: str, cluster: str | None, reason: str) -> None:
    """End a drain that was asked for."""
    operated(app, "resume", node, cluster, {"reason": reason}, "takes work again", "was not asked to drain")


@click.command(short_help="Say what a node is fit for: healthy, unhealthy, or down.")
@node_argument
@click.argument("state", type=click.Choice(["healthy", "unhealthy", "down"]))
@on_cluster
@because
@asks
def health(app: App, *, node: str, state: str, cluster: str | None, reason: str) -> None:
    """An unhealthy node drains; the runs of one that is down are lost, and go back to the queue if they can."""
    body = {"health": state, "reason": reason}
    operated(app, "health", node, cluster, body, f"is {state}", f"was {state} before")


@click.group(invoke_without_command=True, short_help="Maintenance windows of a node: list, add, cancel.")
@click.pass_context
def windows(ctx: click.Context) -> None:
    """Maintenance: nothing starts whose contract would reach into a window, and at its start the node drains."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@windows.command("list", short_help="The windows of a node.")
@node_argument
@on_cluster
@click.option("-a", "--all", "is_all", is_flag=True, help="Also those that are over or were called off.")
@asks
def window_list(app: App, *, node: str, cluster: str | None, is_all: bool) -> None:
    """Those that are planned or go on."""
    name = app.cluster(cluster)
    found = list(app.portal.pages("clusters", name, "nodes", node, "windows", all=is_all or None))
    if app.give(found):
        return
    if not found:
        app.screen.say(f"{node} on {name} has no maintenance window.")
        return
    at = now()
    table = Table(
        [Column("#", is_number=True), Column(f"FROM, {zone()}"), Column("UNTIL"), Column("REASON", is_text=True)]
    )
    for row in found:
        table.add(str(row["id"]), clock(row["starts_at"], at), clock(row["ends_at"], at), row["reason"])
    table.show(app.screen)


@windows.command("add", short_help="Plan maintenance of a node.")
@node_argument
@on_cluster
@click.option("--from", "starts_at", type=Instant(), required=True, help="When it begins: 2026-11-30T08:00.")
@click.option("--until", "ends_at", type=Instant(), required=True, help="When it is over.")
@because
@asks
def window_add(
    app: App, *, node: str, cluster: str | None, starts_at: datetime, ends_at: datetime, reason: str
) -> None:
    """Plan maintenance; whatever runs then has its contract over by then."""
    app.options = OPTIONS
    name = app.cluster(cluster)
    body = {"starts_at": starts_at.isoformat(), "ends_at": ends_at.isoformat(), "reason": reason}
    row = app.portal.post("clusters", name, "nodes", node, "windows", body=body)
    since_done(app, row, f"Window {row['id']} of {node} on {name} is planned.")


@windows.command("cancel", short_help="Call maintenance off.")
@node_argument
@click.argument("number", type=click.IntRange(1))
@on_cluster
@because
@asks
def window_cancel(app: App, *, node: str, number: int, cluster: str | None, reason: str) -> None:
    """The node takes work again as if nothing had been planned."""
    app.options = OPTIONS
    name = app.cluster(cluster)
    path = ("clusters", name, "nodes", node, "windows", str(number))
    answer = app.portal.send("DELETE", *path, params={"reason": reason})
    since_done(app, answer.body, f"Window {number} of {node} on {name} is called off.")


@click.command(short_help="Emergency: stop a run, a node, or a whole cluster.")
@on_cluster
@click.option(
    "--node", metavar="NODE", shell_complete=complete.nodes, help="Drain this node, and stop all that runs on it."
)
@click.option("--run", "code", metavar="ID", shell_complete=complete.workloads, help="Stop the run of this workload.")
@click.option("--whole-cluster", is_flag=True, help="Stop all runs, and start nothing until `allot start`.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@because
@asks
def stop(
    app: App, *, cluster: str | None, node: str | None, code: str | None, whole_cluster: bool, yes: bool, reason: str
) -> None:
    """Fire, theft: stop runs now, also inside their contracts. Charges are given back, and owners are told why."""
    app.options = OPTIONS
    if sum(map(bool, (node, code, whole_cluster))) != 1:
        raise Failure("say exactly one of --node, --run and --whole-cluster", USAGE)
    path: tuple[str, ...]
    if code:
        what, path = f"the run of {code}", ("workloads", code, "stop")
    elif node:
        name = app.cluster(cluster)
        what, path = f"every run on {node} of {name}", ("clusters", name, "nodes", node, "stop")
    else:
        name = app.cluster(cluster)
        what, path = f"every run on {name}", ("clusters", name, "stop")
    if not yes:
        click.confirm(f"Stop {what}, also inside its contract?", abort=True, err=True)
    told = app.portal.post(*path, body={"reason": reason})
    runs = plural(told.get("stopped_runs", 1), "run")
    after = " Nothing starts until `allot start`." if whole_cluster else ""
    done = f"{runs} told to stop: {what}.{after}" if told["changed"] else f"Nothing was left to stop: {what}."
    since_done(app, told, done)


@click.command(short_help="End an emergency stop: the queue of the cluster goes on.")
@on_cluster
@because
@asks
def start(app: App, *, cluster: str | None, reason: str) -> None:
    """Let a stopped cluster go on with the next pass."""
    app.options = OPTIONS
    name = app.cluster(cluster)
    told = app.portal.post("clusters", name, "start", body={"reason": reason})
    since_done(app, told, f"{name} goes on with its queue." if told["changed"] else f"{name} was not stopped.")
