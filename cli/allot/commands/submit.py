"""`allot submit`: a workload, or an array of them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from allot import complete
from allot.app import App, asks, on_cluster
from allot.client import Portal
from allot.commands import check
from allot.commands.following import follow_until_over
from allot.failures import DONE, FAILED, USAGE, Failure
from allot.program import of_command, sources
from allot.screen import clean, note, put
from allot.words import Amount, Duration, contract, with_unit

OPTIONS = {
    "cluster": "--cluster",
    "leaf": "--leaf",
    "size_milli": "--gpus",
    "size": "--gpus",
    "min_runtime_s": "--min-runtime",
    "command": "the command",
    "name": "--name",
    "priority": "--priority",
    "time_limit_s": "--time-limit",
    "node": "--node",
    "after": "--after",
    "cpu_milli_per_rank": "--cpus-per-rank",
    "memory_mib_per_rank": "--memory-per-rank",
    "gpu_classes": "--gpu-class",
    "needs_fast": "--fast",
    "resumable": "--resumable",
    "checkpoint": "--checkpoint",
    "checkpoint_every_s": "--checkpoint-every",
    "save_command": "--save-command",
    "restore_command": "--restore-command",
    "environment": "--env",
    "secrets": "--secret",
    "communication": "--communication",
    "retries": "--retries",
    "canary": "--canary",
    "locality": "--locality",
    "count": "--array",
    "program": "--program",
}
MIB = {"": 1, "m": 1, "mib": 1, "g": 1_024, "gib": 1_024, "t": 1_048_576, "tib": 1_048_576}


class Memory(click.ParamType):
    """64G, 512M: in steps of 1,024. Becomes whole MiB."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Whole MiB."""
        if isinstance(value, int):
            return value
        digits = value.rstrip("GgMmTtIiBb")
        factor = MIB.get(value[len(digits) :].lower())
        if not (digits.isascii() and digits.isdigit()) or not factor:
            self.fail(f"{value!r} is not a size, such as 64G or 512M", param, ctx)
        return int(digits) * factor


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Submit a workload, or an array of them.",
    epilog="\b\nExamples:\n"
    "  allot submit -g 8 --min-runtime 2h -- python train.py\n"
    "  allot submit -g 1 -m 15m -n debug --follow -- python -m pdb train.py\n"
    "  allot submit -g 16 -m 4h --resumable --checkpoint ckpt -- torchrun train.py\n"
    "  allot submit -g 1 -m 0 --array 100 -- sh -c 'python eval.py $ALLOTMENT_ARRAY_INDEX'",
)
@click.option("-g", "--gpus", type=Amount(), required=True, help="How many, all at once; or a part of one: 0.25.")
@click.option(
    "-m", "--min-runtime", type=Duration(), required=True, metavar="DURATION",
    help="The contract: for so long nobody takes them (90m, 2h, 1-12:00:00). 0 is free, and can always be interrupted.",
)  # fmt: skip
@click.option("-n", "--name", default="", help="A name, for people.")
@click.option(
    "-l",
    "--leaf",
    metavar="CODE",
    shell_complete=complete.leaves,
    help="The project. [default: yours, or the only one]",
)
@on_cluster
@click.option("-p", "--priority", type=int, default=0, help="Inside the project, higher first. [default: 0]")
@click.option("-t", "--time-limit", type=Duration(), help="Stop it after running this long.")
@click.option("-r", "--resumable", is_flag=True, help="Return to the queue when it was preempted.")
@click.option(
    "--retries", type=click.IntRange(0, 3), default=0, metavar="N",
    help="Try it again up to so many times where it failed by no fault of its own.",
)  # fmt: skip
@click.option(
    "--locality", type=click.IntRange(0, 3), default=1, metavar="LEVEL",
    help="How far it may be spread when it has waited long: 0 the fewest nodes in one rack, 1 in any rack (default), "
    "2 up to twice the nodes, 3 any number.",
)  # fmt: skip
@click.option("--canary", is_flag=True, help="Have it run on one device first, and the gang only if that passed.")
@click.option(
    "-a",
    "--array",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="So many, told apart by ALLOTMENT_ARRAY_INDEX.",
)
@click.option("-e", "--env", multiple=True, metavar="K=V", help="A variable; K alone takes your own. Can be repeated.")
@click.option(
    "--secret", multiple=True, metavar="K[=@FILE]",
    help="A variable that nobody is shown, from your own environment or a file. Can be repeated.",
)  # fmt: skip
@click.option("--checkpoint", default="", metavar="PATH", help="Where it saves, in its working directory.")
@click.option("--checkpoint-every", type=Duration(), default=0, help="How often it saves.")
@click.option("--save-command", default="", metavar="COMMAND", help="A session: what saves it when it has to stop.")
@click.option(
    "--restore-command", default="", metavar="COMMAND", help="A session: what runs where it was saved before."
)
@click.option(
    "--communication", default="", metavar="PROFILE",
    help="Of an iteration: its milliseconds, and when in it it sends at how many Gbit/s, such as 100: 50-100@45.",
)  # fmt: skip
@click.option("--cpus-per-rank", type=Amount(), default=0, help="Cores that each rank may use.")
@click.option("--memory-per-rank", type=Memory(), default=0, help="Memory that each rank may use, such as 64G.")
@click.option(
    "--gpu-class", multiple=True, metavar="CLASS",
    help="A class of GPUs that it can run on, such as V100; else all. Can be repeated.",
)  # fmt: skip
@click.option(
    "--fast/--no-fast", default=None,
    help="Whether it needs the fast ones. [default: as work like it has used its GPUs, where the cluster asks]",
)  # fmt: skip
@click.option("--node", metavar="NODE", shell_complete=complete.nodes, help="The only node that it may run on.")
@click.option(
    "--after", metavar="ID", shell_complete=complete.workloads, help="It enters the queue when this has ended."
)
@click.option(
    "--program", multiple=True, metavar="FILE|DIR",
    help="What the advisor reads, where COMMAND does not name it. Can be repeated.",
)  # fmt: skip
@click.option("--no-check", is_flag=True, help="Give the advisor nothing to read but COMMAND itself.")
@click.option("-f", "--follow", is_flag=True, help="Print what it prints, until it is over; Ctrl-C lets it run on.")
@click.option("-q", "--quiet", is_flag=True, help="Print the ids alone.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@asks
def submit(
    app: App, *, follow: bool, quiet: bool, leaf: str | None, cluster: str | None, no_check: bool, **said: Any
) -> int:
    """Submit COMMAND, a list of arguments that no shell looks at; `--` before it keeps its options apart.

    The scripts that it names, and what they import from here, are read by the advisor; they are not run, nor kept.
    Sent twice because an answer was lost, it is still submitted once.
    """
    app.options = OPTIONS
    if follow and app.as_json:
        raise Failure("--follow prints text as it comes: leave out --json", USAGE)
    if follow and said["array"] > 1:
        raise Failure("--follow: an array has many outputs; `allot logs -f ID` follows one", USAGE)
    if no_check and said["program"]:
        raise Failure("--no-check and --program: say one of them", USAGE)
    body = asked(said)
    program = {} if no_check else program_of(said)
    if program:
        body["program"] = program
    body |= {"cluster": app.cluster(cluster), "leaf": leaf or leaf_of(app.portal, app.settings.leaf)}
    made = app.portal.post("workloads", body=body)
    if quiet and not app.as_json:
        put("\n".join(each["code"] for each in made))
    elif not app.give(made):
        tell(app, made)
        if program:
            tell_advice(app, made[0]["code"])
    first = made[0]
    if first["state"] == "refused":
        if quiet or app.as_json:
            note(f"allot: {first['code']} was refused: {clean(first['reason'])}")
        return FAILED
    return follow_until_over(app, first["code"]) if follow else DONE


def asked(said: dict[str, Any]) -> dict[str, Any]:
    """What the API takes, of what the options said."""
    return {
        "size_milli": said["gpus"],
        "min_runtime_s": said["min_runtime"],
        "command": list(said["command"]),
        "name": said["name"],
        "priority": said["priority"],
        "time_limit_s": said["time_limit"],
        "node": said["node"],
        "after": said["after"],
        "cpu_milli_per_rank": said["cpus_per_rank"],
        "memory_mib_per_rank": said["memory_per_rank"],
        "gpu_classes": list(said["gpu_class"]),
        "needs_fast": said["fast"],
        "resumable": said["resumable"],
        "checkpoint": said["checkpoint"],
        "checkpoint_every_s": said["checkpoint_every"],
        "save_command": words_of(said["save_command"], "--save-command"),
        "restore_command": words_of(said["restore_command"], "--restore-command"),
        "environment": dict(variable(each) for each in said["env"]),
        "secrets": dict(secret(each) for each in said["secret"]),
        "communication": communication(said["communication"]),
        "retries": said["retries"],
        "locality": said["locality"],
        "canary": said["canary"],
        "count": said["array"],
    }


def communication(typed: str) -> dict[str, Any] | None:
    """What it sends in each iteration, of "100: 50-100@45, 120-130@20"; None of nothing.

    Raises:
        Failure: it is something else.
    """
    if not typed:
        return None
    period, _, rest = typed.partition(":")
    phases = []
    try:
        for each in rest.split(","):
            span, _, gbps = each.partition("@")
            begins, _, ends = span.partition("-")
            phases.append({"from_ms": int(begins), "until_ms": int(ends), "gbps": float(gbps)})
        return {"period_ms": int(period), "phases": phases}
    except ValueError:
        raise Failure(f"--communication: {clean(typed)!r} is not such as 100: 50-100@45", USAGE) from None


def program_of(said: dict[str, Any]) -> dict[str, str]:
    """What the advisor reads: what was named for it, else what the command names and lies here.

    Raises:
        Failure: what was named can't be read.
    """
    if said["program"]:
        return sources(said["program"])
    found, problems = of_command(said["command"])
    for each in problems:
        note(f"allot: {clean(each)}: the advisor does not read it")
    return found


def tell_advice(app: App, code: str) -> None:
    """What was found in its program, where there is anything."""
    answer = app.portal.get("workloads", code, "advice")
    if answer["findings"]:
        put()
        check.tell(app.screen, answer)


def words_of(text: str, option: str) -> list[str]:
    """A command that was given as one argument, split as a shell would and by none.

    Raises:
        Failure: a quotation mark is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Failure(f"{option}: {error}", USAGE) from None


def variable(text: str) -> tuple[str, str]:
    """K=V, or K with the value that it has here.

    Raises:
        Failure: there is none here.
    """
    name, equals, value = text.partition("=")
    if not equals:
        if name not in os.environ:
            raise Failure(f"--env {name}: you have no such variable; say {name}=VALUE", USAGE)
        value = os.environ[name]
    return name, value


def secret(text: str) -> tuple[str, str]:
    """K from here, or K=@FILE: never a value, which `ps` and the shell's history would show.

    Raises:
        Failure: there is none here, or a value was given.
    """
    name, equals, value = text.partition("=")
    if not equals:
        if name not in os.environ:
            raise Failure(f"--secret {name}: you have no such variable; say {name}=@FILE", USAGE)
        return name, os.environ[name]
    if not value.startswith("@"):
        raise Failure(
            f"--secret {name}: a value given here is seen by everybody on this machine; say {name}=@FILE", USAGE
        )
    try:
        return name, Path(value[1:]).expanduser().read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(
            f"--secret {name}: {value[1:]}: {getattr(error, 'strerror', None) or 'is no text'}", USAGE
        ) from None


def leaf_of(portal: Portal, chosen: str) -> str:
    """The project that is meant: one's own choice, or the only one that one may submit to.

    Raises:
        Failure: there are several, or none.
    """
    if chosen:
        return chosen
    leaves = [str(each["code"]) for each in portal.get("me")["leaves"]]
    if len(leaves) == 1:
        return leaves[0]
    if not leaves:
        raise Failure(
            "--leaf: there is no project that you may submit to; ask a manager to make you a member of one", USAGE
        )
    shown = ", ".join(leaves[:8]) + (f" and {len(leaves) - 8} more" if len(leaves) > 8 else "")
    raise Failure(f"--leaf: say which of {shown}; `allot use --leaf {leaves[0]}` makes one your own", USAGE)


def tell(app: App, made: list[dict[str, Any]]) -> None:
    """What was submitted, and how to go on."""
    first, screen = made[0], app.screen
    code = first["code"] if len(made) == 1 else f"{first['code']} to {made[-1]['code']}"
    asks_for = with_unit(first["size_milli"], app.unit(first["cluster"]))
    each = f"{len(made)} workloads of " if len(made) > 1 else ""
    if first["state"] == "refused":
        screen.say(f"{screen.paint(code, 'bold')} was {screen.paint('refused', 'bad')}: {clean(first['reason'])}")
        return
    charged = f"contract {contract(first['min_runtime_s'])}" if first["min_runtime_s"] else "no contract (unallocated)"
    where = f"{first['state']} on {first['cluster']} for {first['leaf']}"
    put(f"{screen.paint(code, 'bold')}  {where}: {each}{asks_for}, {charged}")
    for sentence in (first.get("spreading") or {}).get("sentences", []):
        screen.say(clean(sentence))
    put(
        screen.paint(
            f"  allot why {first['code']}   allot logs -f {first['code']}   allot cancel {first['code']}", "dim"
        )
    )
