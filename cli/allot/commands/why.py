"""`allot why` and `allot try`: the reason first, then the very numbers that decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

import click

from allot.app import App, asks, workload_argument
from allot.failures import USAGE, Failure
from allot.screen import STATES, Column, Screen, Table, clean, put
from allot.sentences import OPEN, ago, bare_reason, forecast, off_page, reason, record, safety, soon, when
from allot.words import (
    DASH,
    HOUR_MILLI_S,
    Amount,
    Duration,
    amount,
    clock,
    contract,
    decimals_of,
    duration,
    hours,
    hours_word,
    instant,
    now,
    ordinal,
    parsed,
    percent,
    plural,
    ratio,
    share,
    unit,
    with_unit,
)

SIBLINGS, RUNS = 8, 10
"""Of one level, so many are shown beside one's own, unless all are wanted; and so many of the last runs."""
DAY_S = 86_400
THEN = {
    "start": "would start now",
    "claim": "would start as soon as others have left",
    "wait": "would wait",
    "hold": "would be held back",
    "refuse": "would be refused",
}
"""What would become of it, by what the scheduler would do."""


@click.command(short_help="Why a workload waits, or why it was preempted, with the numbers.")
@workload_argument
@click.option("--run", "run_number", type=click.IntRange(1), metavar="N", help="Why this run of it was preempted.")
@click.option("-a", "--all", "is_all", is_flag=True, help="All siblings of each level, however many.")
@asks
def why(app: App, *, code: str, run_number: int | None, is_all: bool) -> None:
    """Why workload ID waits, or why it was preempted: one sentence, then the numbers that decided, from the top of the
    budget tree down to its project.
    """
    if run_number is not None:
        told = app.portal.get("workloads", code, "runs", str(run_number), "preempted")
        if not app.give(told):
            title(app.screen, told["workload"], now())
            preempted(app.screen, told, app.unit(told["workload"]["cluster"]), now())
        return
    told = app.portal.get("workloads", code, "explain")
    if app.give(told):
        return
    kind, at, row = app.unit(told["workload"]["cluster"]), now(), told["workload"]
    title(app.screen, row, at)
    put()
    verdict(app.screen, told, at)
    asks_for(app.screen, told, kind, at)
    if row["state"] == "queued":
        levels(app.screen, told, kind, at, is_all)
        ahead(app.screen, told, kind)
        changes(app.screen, told)
    runs(app.screen, told, kind, at)
    if told["preemptions"]:
        last = told["preemptions"][-1]["run"]
        detail = app.portal.get("workloads", code, "runs", str(last), "preempted")
        preempted(app.screen, detail, kind, at)
        if len(told["preemptions"]) > 1:
            earlier = ", ".join(str(each["run"]) for each in told["preemptions"][:-1])
            app.screen.say(f"Also preempted: run {earlier}; `allot why {code} --run N` says why.", "dim")


def title(screen: Screen, row: Mapping[str, Any], at: datetime) -> None:
    """Its id, its name, its state and place."""
    name = f"  {clean(row['inside']['name'])}" if row["inside"] and row["inside"]["name"] else ""
    state = screen.paint(row["state"], STATES.get(row["state"], ""))
    place = f", {ordinal(row['place'])} in the queue" if row["place"] and row["state"] == "queued" else ""
    put(f"{screen.paint(row['code'], 'bold')}{name}  {state} on {row['cluster']} for {row['leaf']}{place}")


def verdict(screen: Screen, told: Mapping[str, Any], at: datetime) -> None:
    """The answer, in a sentence or two."""
    row = told["workload"]
    screen.say(clean(reason(row, at)), "bold")
    if row["state"] == "queued":
        screen.say(when(told, at))
        if told["forecast"] and not told["certain_at"]:
            screen.say(record(told["forecast"]), "dim")
    elif row["state"] in OPEN and told["runs"]:
        screen.say(safety(row, told["runs"][-1], at))
    put()


def asks_for(screen: Screen, told: Mapping[str, Any], kind: str, at: datetime) -> None:
    """What it asks for, and what limits it."""
    row = told["workload"]
    terms = [with_unit(row["size_milli"], kind)]
    terms.append(f"contract {contract(row['min_runtime_s'])}" if row["min_runtime_s"] else "no contract (unallocated)")
    terms.append(f"priority {row['priority']}")
    binding = told.get("binding")
    screen.facts(
        [
            ("asks for", ", ".join(terms)),
            ("submitted", ago(row["submitted_at"], at)),
            ("ended", ago(row["ended_at"], at) if row["ended_at"] else ""),
            ("charged", f"{hours(told['charged_milli_s'])} {hours_word(kind)}" if told["charged_milli_s"] else ""),
            ("limit", clean(off_page(binding["limit"])) if binding else ""),
            ("code", row["reason_code"]),
        ]
    )


def level_columns(kind: str, is_funded: bool) -> list[Column]:
    """The columns of a level of the tree."""
    if not is_funded:
        return [Column(""), Column("SHARE", is_number=True, spare=2), Column("FREE CYCLES", is_number=True),
                Column("OF ENTITLED", is_number=True), Column("", spare=1)]  # fmt: skip
    return [
        Column(""),
        Column("TURN", is_number=True),
        Column("SHARE", is_number=True, spare=3),
        Column(f"ENTITLED {unit(kind, 1)}-h", is_number=True, spare=2),
        Column("USED", is_number=True),
        Column("COMMITTED", is_number=True),
        Column("SERVED", is_number=True),
        Column("", spare=1),
        Column("WAITING", spare=4),
    ]


def ordering(level: Mapping[str, Any], is_funded: bool) -> Fraction | None:
    """The ratio that orders a node among its siblings: what it was served, or the free cycles it had, of its share."""
    if is_funded:
        return ratio(level["served"])
    entitled = ratio(level["entitled_milli_s"])
    return level["uncharged_milli_s"] / entitled if entitled else None


def level_cells(screen: Screen, level: Mapping[str, Any], lead: str, is_funded: bool, decimals: int = 1) -> list[str]:
    """One node of the tree."""
    title = f"{lead}{level['node']}" + (f" {level['name']}" if level["name"] != level["node"] else "")
    part = ordering(level, is_funded)
    shown = [percent(part, decimals), screen.bar(part)]
    if not is_funded:
        return [title, share(level["basis_points"]), hours(level["uncharged_milli_s"]), *shown]
    return [
        title,
        DASH if level["turn"] is None else ordinal(level["turn"]),
        share(level["basis_points"]),
        hours(ratio(level["entitled_milli_s"])),
        hours(level["used_milli_s"]),
        hours(level["committed_milli_s"]),
        *shown,
        f"{level['waiting']:,} for {amount(level['waiting_milli'])}" if level["waiting"] else "",
    ]


def levels(screen: Screen, told: Mapping[str, Any], kind: str, at: datetime, is_all: bool) -> None:
    """Each level on the way to its project: the siblings in the order in which they are served."""
    if not told["levels"]:
        return
    is_funded = told["workload"]["min_runtime_s"] > 0
    days = told["window_s"] // DAY_S
    formula = (
        f"served = (used in {days} days + committed) / entitled"
        if is_funded
        else f"free cycles in {days} days / entitled: who had fewer goes first"
    )
    screen.head("The order, from the top down", f"{formula}, as of {instant(told['as_of'], at)}")
    table = Table(level_columns(kind, is_funded))
    mark = "▸ " if screen.has_blocks else "> "
    for step in told["levels"]:
        table.add(f"{step['node']} {step.get('name') or ''}".rstrip(), *[""] * (len(table.columns) - 1), row="dim")
        siblings = in_order(step["siblings"], is_funded)
        shown = siblings if is_all else shortened(siblings, step["child"])
        decimals = decimals_of(ordering(level, is_funded) for level in shown)
        for level in shown:
            is_own = level["node"] == step["child"]
            style = "bold" if is_own else "" if level["waiting"] or not is_funded else "dim"
            table.add(*level_cells(screen, level, f"  {mark if is_own else '  '}", is_funded, decimals), row=style)
        if len(shown) < len(siblings):
            table.add(f"    … {len(siblings) - len(shown)} more", *[""] * (len(table.columns) - 1), row="dim")
    table.show(screen)


def in_order(siblings: Sequence[Mapping[str, Any]], is_funded: bool) -> list[Mapping[str, Any]]:
    """As they are served: funded work by turn, as the portal has them; unallocated by the free cycles they had."""
    if is_funded:
        return list(siblings)

    def had(level: Mapping[str, Any]) -> tuple[bool, Fraction, str]:
        part = ordering(level, False)
        return part is None, part or Fraction(0), level["node"]

    return sorted(siblings, key=had)


def shortened(siblings: Sequence[Mapping[str, Any]], own: str) -> list[Mapping[str, Any]]:
    """The first of them, and one's own."""
    if len(siblings) <= SIBLINGS + 1:
        return list(siblings)
    return [level for at, level in enumerate(siblings) if at < SIBLINGS or level["node"] == own]


def ahead(screen: Screen, told: Mapping[str, Any], kind: str) -> None:
    """Who is ahead of it, by the reason for it."""
    groups = told["ahead_by_reason"]
    if not groups:
        return
    size = sum(each["size_milli"] for each in groups)
    screen.head("Ahead of it", f"{plural(told['ahead_count'], 'workload')} for {with_unit(size, kind)}")
    table = Table([Column("", is_number=True), Column("", is_text=True), Column("", spare=1)])
    for each in groups:
        more = " …" if each["count"] > len(each["first"]) else ""
        table.add(
            f"  {each['count']:,} for {amount(each['size_milli'])}",
            clean(each["why"]),
            ", ".join(each["first"]) + more,
            c2="dim",
        )
    table.show(screen)


def changes(screen: Screen, told: Mapping[str, Any]) -> None:
    """What would change it."""
    binding, row = told.get("binding"), told["workload"]
    if not binding:
        return
    screen.head("What would change it")
    for each in binding["changes"]:
        screen.item(clean(off_page(each)), "·")
    half = max(1_000, row["size_milli"] // 2_000 * 1_000)
    if row["size_milli"] > 1_000:
        screen.item(f"Ask what another size or contract would do: allot try {row['code']} -g {amount(half)}", "·")


def runs(screen: Screen, told: Mapping[str, Any], kind: str, at: datetime) -> None:
    """Its runs, each with its contract and its charge."""
    if not told["runs"]:
        return
    earlier = len(told["runs"]) - RUNS
    screen.head("Runs", f"the last {RUNS} of {len(told['runs']):,}" if earlier > 0 else "")
    table = Table(
        [
            Column("#", is_number=True),
            Column("STATE"),
            Column(unit(kind).upper(), is_number=True),
            Column("NODES", is_text=True),
            Column("FROM"),
            Column("CONTRACT UNTIL", spare=2),
            Column("TO"),
            Column(f"{unit(kind, 1)}-h", is_number=True, spare=1),
            Column("HOW IT ENDED", is_text=True),
        ]
    )
    for run in told["runs"][-RUNS:]:
        table.add(
            str(run["number"]),
            run["state"],
            amount(run["size_milli"]),
            ", ".join(run["nodes"]) + ("" if run.get("device") is None else f", {unit(kind, 1)} {run['device']}"),
            clock(run["started_at"], at),
            clock(run["contract_ends_at"], at) if run["is_funded"] else "no contract",
            clock(run["ended_at"], at) if run["ended_at"] else "",
            hours(run["charged_milli_s"]) if run["is_funded"] else "free",
            ended_how(run),
            c1=STATES.get(run["state"], ""),
        )
    table.show(screen, indent=2)


def ended_how(run: Mapping[str, Any]) -> str:
    """Who took its devices and by which rule, or how else a run ended."""
    code = run["end_reason"]
    rule = code[len("preempted_") :] if code.startswith("preempted_") else ""
    if rule and run["preempted_by"]:
        return f"taken by {run['preempted_by']} ({rule.replace('_', ' ')})"
    return str(code.replace("_", " "))


def preempted(screen: Screen, told: Mapping[str, Any], kind: str, at: datetime) -> None:
    """One preemption: who took the devices, under which rule, with both sides' numbers, and what it cost."""
    decision = told["decision"]
    screen.head(f"Run {decision['run']} was preempted", ago(decision["at"], at))
    screen.say(clean(decision["reason"]), "bold")
    table = Table(
        [
            Column(""),
            Column("USED", is_number=True),
            Column("COMMITTED", is_number=True),
            Column("SERVED", is_number=True),
            Column("", spare=1),
        ]
    )
    sides = [(word, decision[word]) for word in ("took", "gave") if decision[word] is not None]
    decimals = decimals_of(ratio(side["served"]) for _, side in sides)
    for word, side in sides:
        served = ratio(side["served"])
        table.add(
            f"{side['node']} {word}",
            hours(side["used_milli_s"]),
            hours(side["committed_milli_s"]),
            percent(served, decimals),
            screen.bar(served),
        )
    if table.rows:
        put()
        table.show(screen, indent=2)
    put()
    over_s, lost = decision["contract_over_for_s"], told["lost_milli_s"]
    priorities = decision["priorities"]
    screen.facts(
        [
            ("taken by", decision["by"] or ""),
            ("rule", decision["code"]),
            ("priorities", f"{priorities[0]} took from {priorities[1]}" if priorities else ""),
            ("contract", f"over for {duration(over_s)} then" if over_s is not None else "it had none"),
            ("it ran", f"{duration(told['safe_s'])} inside its contract, {duration(told['open_s'])} after it"),
            ("saved", "all it had done" if told["saved_s"] and not told["lost_milli_s"] else duration(told["saved_s"])),
            ("lost", f"{hours(lost)} {hours_word(kind)}" if 20 * lost >= HOUR_MILLI_S else ""),
            ("since", afterwards(told, at)),
        ]
    )


def afterwards(told: Mapping[str, Any], at: datetime) -> str:
    """What became of it."""
    following = told["next_run"]
    if following is not None:
        return f"run {following['number']} began at {ago(following['started_at'], at)}"
    row = told["workload"]
    if row["state"] in OPEN:
        return (
            f"back in its old place. {forecast(told['forecast'], at)}" if told["forecast"] else "back in its old place"
        )
    return f"it is {row['state']}"


@click.command("try", short_help="What would become of a waiting workload if it asked for something else.")
@workload_argument
@click.option("-g", "--gpus", type=Amount(), help="So many devices instead.")
@click.option("-m", "--min-runtime", type=Duration(), help="This contract instead.")
@asks
def try_other(app: App, *, code: str, gpus: int | None, min_runtime: int | None) -> None:
    """Ask the scheduler, on the state of this second, what it would do with other terms. Nothing is changed."""
    app.options = {"size_milli": "--gpus", "min_runtime_s": "--min-runtime"}
    if gpus is None and min_runtime is None:
        raise Failure("say what else to try: --gpus, --min-runtime, or both", USAGE)
    told = app.portal.get("workloads", code, "try", size_milli=gpus, min_runtime_s=min_runtime)
    if app.give(told):
        return
    cluster = app.portal.get("workloads", code)["cluster"]
    kind, at = app.unit(cluster), parsed(told["at"])
    screen = app.screen
    put(f"{screen.paint(code, 'bold')}  what a pass at {instant(told['at'], at)} would do with it")
    for word, side in (("As it is", told["as_it_is"]), ("Tried", told["tried"])):
        screen.head(f"{word}: {with_unit(side['size_milli'], kind)}, contract {contract(side['min_runtime_s'])}")
        style = {"start": "good", "claim": "good", "refuse": "bad", "hold": "bad"}.get(side["action"], "")
        screen.say(clean(f"It {THEN.get(side['action'], 'waits')}{_reason_of(side, at)}"), style, indent=2)
        screen.facts(
            [
                ("on", ", ".join(side["nodes"])),
                ("takes from", ", ".join(f"{each['workload']} ({each['rule']})" for each in side["takes_from"])),
                (
                    "place",
                    f"{side['place']} of {told['waiting']}" if side["place"] and side["action"] == "wait" else "",
                ),
                ("starts by", soon(side["certain_at"], at) if side["certain_at"] else ""),
            ]
        )


def _reason_of(side: Mapping[str, Any], at: datetime) -> str:
    """Why it would not start; that it would needs no reason."""
    if side["action"] in ("start", "claim"):
        return "."
    row = {"reason": side["reason"], "earliest_start_at": side["room_at"] or side["certain_at"]}
    return f": {bare_reason(row, at)}"
