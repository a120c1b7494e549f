"""`allot request`: asking for more share, and answering who asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import click

from allot import complete
from allot.app import App, asks, on_cluster
from allot.screen import Column, Table, clean, put
from allot.sentences import ago, soon
from allot.words import Day, Percent, clock, instant, now, share

OPTIONS = {
    "node": "NODE", "cluster": "--cluster", "more_basis_points": "--more", "starts_on": "--from", "ends_on": "--until",
    "useless_on": "--useless-after", "why": "--why", "otherwise": "--otherwise", "reason": "--reason", "text": "TEXT",
    "acting_for": "--for",
}  # fmt: skip
STATES = ("open", "decided", "draft", "returned", "submitted", "approved", "applied", "denied", "withdrawn")
STYLES = {"submitted": "warn", "returned": "warn", "approved": "good", "applied": "good", "denied": "bad"}


@click.group(invoke_without_command=True, short_help="Ask for more share; list, show and answer requests.")
@click.pass_context
def request(ctx: click.Context) -> None:
    """Requests for more share: `allot request new` makes one; alone, it lists those that are open."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(listed)


@request.command("list", short_help="Requests that you may see.")
@click.option(
    "-s", "--state", type=click.Choice(STATES), default="open", show_default=True, help="Those in this state."
)
@click.option("--mine", is_flag=True, help="Only those that wait for your decision.")
@click.option("--node", metavar="CODE", shell_complete=complete.budgets, help="Only those for this node, or below it.")
@click.option("-n", "--rows", type=click.IntRange(1), default=30, show_default=True, help="So many at most.")
@asks
def listed(app: App, *, state: str = "open", mine: bool = False, node: str | None = None, rows: int = 30) -> None:
    """The newest first."""
    asked = {"state": state, "node": node, "desk": "mine" if mine else None}
    found = list(app.portal.pages("requests", most=rows, **asked))
    if app.give(found):
        return
    if not found:
        app.screen.say(
            "No request waits for you."
            if mine
            else f"No request is {state}."
            if state != "decided"
            else "No request is decided."
        )
        return
    at = now()
    table = Table(
        [
            Column("#", is_number=True),
            Column("NODE"),
            Column("CLUSTER", spare=2),
            Column("MORE", is_number=True),
            Column("FROM", spare=1),
            Column("STATE"),
            Column("BY", spare=3),
            Column("ANSWER BY", spare=4),
            Column("WHY", is_text=True),
        ]
    )
    for row in found:
        table.add(
            str(row["number"]),
            row["node"],
            row["cluster"],
            share(row["more_basis_points"]),
            row["starts_on"],
            row["state"],
            row["author"],
            clock(row["answer_by"], at) if row["answer_by"] else "",
            row["why"],
            c5=STYLES.get(row["state"], ""),
        )
    table.show(app.screen)


@request.command("show", short_help="One request, and what was said to it.")
@click.argument("number", type=click.IntRange(1))
@asks
def shown(app: App, *, number: int) -> None:
    """What is asked for, why, and what became of it."""
    row = app.portal.get("requests", str(number))
    if app.give(row):
        return
    at, screen = now(), app.screen
    state = screen.paint(row["state"], STYLES.get(row["state"], ""))
    title = screen.paint(f"Request {number}", "bold")
    wants = f"{row['node']} asks for {share(row['more_basis_points'])} more of {row['parent']} on {row['cluster']}"
    put(f"{title}  {wants}: {state}")
    put()
    by = row["decided_by"] + (f" for {row['decided_for']}" if row["decided_for"] else "") if row["decided_by"] else ""
    screen.facts(
        [
            ("from", row["starts_on"] + (f" until {row['ends_on']}" if row["ends_on"] else ", for good")),
            ("of no use", f"from {row['useless_on']} on" if row["useless_on"] else ""),
            ("by", row["author"] + (f", {ago(row['submitted_at'], at)}" if row["submitted_at"] else "")),
            (
                "desk",
                row["desk"]
                + (
                    f", answer by {soon(row['answer_by'], at)}"
                    if row["answer_by"] and row["state"] == "submitted"
                    else ""
                ),
            ),
            ("why", clean(row["why"])),
            ("otherwise", clean(row["otherwise"])),
            ("decided", f"{row['state']} by {by}, {ago(row['decided_at'], at)}" if row["decided_at"] else ""),
            ("reason", clean(row["decision_reason"])),
            ("decision", f"reallocation {row['decision']}" if row["decision"] else ""),
            ("you may", f"decide it as {' or '.join(row['decidable_as'])}" if row["decidable_as"] else ""),
        ]
    )
    said = list(app.portal.pages("requests", str(number), "comments", most=100))
    if said:
        screen.head("What was said")
    for each in said:
        reviewers = " (for reviewers)" if each["audience"] != "all" else ""
        screen.say(f"{each['author']}{reviewers}, {instant(each['at'], at)}", "dim", indent=2)
        screen.say(clean(each["text"]), indent=4)


@request.command("new", short_help="Ask for more share for a node.")
@click.argument("node", metavar="NODE", shell_complete=complete.budgets)
@on_cluster
@click.option("--more", type=Percent(), required=True, help="So much more of its parent: 5%.")
@click.option("--why", required=True, help="What it is for.")
@click.option("--otherwise", required=True, help="What happens if it isn't given.")
@click.option("--from", "starts_on", type=Day(), help="From this day on. [default: today]")
@click.option("--until", "ends_on", type=Day(), help="The first day without it. [default: for good]")
@click.option("--useless-after", "useless_on", type=Day(), help="From this day on it would be of no use.")
@click.option("--draft", is_flag=True, help="Write it down only; nobody else sees it before it is submitted.")
@asks
def made(app: App, *, node: str, cluster: str | None, more: int, why: str, otherwise: str, starts_on: date | None,
         ends_on: date | None, useless_on: date | None, draft: bool) -> None:  # fmt: skip
    """Lay a request on the desk of who can give it, with the node's own figures of now."""
    app.options = OPTIONS
    body = {
        "node": node,
        "cluster": app.cluster(cluster),
        "more_basis_points": more,
        "starts_on": str(starts_on or now().astimezone().date()),
        "ends_on": None if ends_on is None else str(ends_on),
        "useless_on": None if useless_on is None else str(useless_on),
        "why": why,
        "otherwise": otherwise,
    }
    row = app.portal.post("requests", body=body)
    if not draft:
        row = submitted(app, row)
    _done(app, row, "is written down" if draft else f"is on the desk of {row['desk']}")


def submitted(app: App, row: Mapping[str, Any]) -> Any:
    """The draft, laid on the desk."""
    return app.portal.post("requests", str(row["number"]), "submit", body={"version": row["version"]})


def _done(app: App, row: Mapping[str, Any], words: str) -> None:
    if not app.give(row):
        put(f"Request {row['number']} ({row['node']}, {share(row['more_basis_points'])} more) {words}.")


@request.command("submit", short_help="Lay your draft on the desk.")
@click.argument("number", type=click.IntRange(1))
@asks
def submit_draft(app: App, *, number: int) -> None:
    """Submit a draft, or one that was returned to you."""
    row = submitted(app, app.portal.get("requests", str(number)))
    _done(app, row, f"is on the desk of {row['desk']}")


@request.command("comment", short_help="Say something to a request.")
@click.argument("number", type=click.IntRange(1))
@click.argument("text")
@asks
def comment(app: App, *, number: int, text: str) -> None:
    """For all who see the request."""
    app.options = OPTIONS
    said = app.portal.post("requests", str(number), "comments", body={"text": text})
    if not app.give(said):
        put(f"Said to request {number}.")


def _answering(name: str, verb: str, words: str, short_help: str, *, is_desk: bool = True) -> None:
    """A command that answers a request with a reason, from the version that it has now."""

    def answer(app: App, *, number: int, reason: str, acting_for: str = "") -> None:
        app.options = OPTIONS
        row = app.portal.get("requests", str(number))
        body = {"reason": reason, "version": row["version"], **({"acting_for": acting_for} if acting_for else {})}
        _done(app, app.portal.post("requests", str(number), verb, body=body), words)

    answer.__doc__ = f"{short_help} The reason is kept for good."
    call: Callable[..., Any] = asks(answer)
    if is_desk:
        call = click.option(
            "--for", "acting_for", metavar="PERSON", default="", help="Decide for somebody who is away."
        )(call)
    call = click.option("--reason", required=is_desk, default=None if is_desk else "", help="Why.")(call)
    call = click.argument("number", type=click.IntRange(1))(call)
    request.command(name, short_help=short_help)(call)


_answering("approve", "approve", "is approved", "Give what is asked for, out of what is unassigned.")
_answering("deny", "deny", "is denied", "Say no.")
_answering("return", "give-back", "is returned to its author", "Return it with a question, or what is missing.")
_answering("withdraw", "withdraw", "is withdrawn", "Take back a request of your own.", is_desk=False)
