"""What every command is given: the portal, the screen, and the names that are filled in where none were said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import Any, TypeVar

import click

from allot import complete, settings
from allot.client import Portal
from allot.failures import USAGE, Failure
from allot.screen import Screen, clean, put_json
from allot.settings import Settings

Call = TypeVar("Call", bound=Callable[..., Any])


class App:
    """One command at work.

    Attributes:
        as_json: print what the API gave, and nothing else.
        options: what the portal calls a field, and the option that stands for it here; for its complaints.
    """

    def __init__(self) -> None:
        self.as_json = False
        self.options: Mapping[str, str] = {}

    @cached_property
    def settings(self) -> Settings:
        """Where the portal is, and who asks."""
        return settings.load()

    @cached_property
    def portal(self) -> Portal:
        """The API, as whoever is signed in."""
        return Portal(self.settings.signed_in())

    @cached_property
    def screen(self) -> Screen:
        """Where to print to."""
        return Screen.of_stdout()

    @cached_property
    def clusters(self) -> list[dict[str, Any]]:
        """All clusters; asked for once."""
        found: list[dict[str, Any]] = self.portal.get("clusters")
        return found

    def cluster(self, said: str | None) -> str:
        """The cluster that is meant: the one said, one's own choice, or the only one.

        Raises:
            Failure: there are several.
        """
        named = said or self.settings.cluster
        if named:
            return named
        names = [each["name"] for each in self.clusters]
        if len(names) == 1:
            return str(names[0])
        if not names:
            raise Failure("the portal has no cluster yet")
        raise Failure(
            f"--cluster: say which of {', '.join(names)}; `allot use --cluster {names[0]}` makes one your own", USAGE
        )

    def unit(self, cluster: str) -> str:
        """What a cluster counts: "gpu" or "core"."""
        return next((str(each["unit"]) for each in self.clusters if each["name"] == cluster), "gpu")

    def give(self, value: Any) -> bool:
        """Print it if JSON is wanted; says whether it was."""
        if self.as_json:
            put_json(value)
        return self.as_json


def asks(call: Call) -> Call:
    """A command that talks to the portal: it takes `--json`, and an App before its own arguments."""

    @click.option("--json", "as_json", is_flag=True, help="Print the API's JSON instead of a table.")
    @click.pass_obj
    @wraps(call)
    def run(app: App, /, *args: Any, as_json: bool, **kwargs: Any) -> Any:
        app.as_json = as_json
        return call(app, *args, **kwargs)

    return run  # type: ignore[return-value]


def on_cluster(call: Call) -> Call:
    """A command about one cluster."""
    return click.option(
        "-c",
        "--cluster",
        metavar="NAME",
        shell_complete=complete.clusters,
        help="The cluster. [default: yours, or the only one]",
    )(call)


def workload_argument(call: Call) -> Call:
    """A command about one workload."""
    return click.argument("code", metavar="ID", shell_complete=complete.workloads)(call)


def node_argument(call: Call) -> Call:
    """A command about one node of a cluster."""
    return click.argument("node", metavar="NODE", shell_complete=complete.nodes)(call)


def budget_argument(required: bool = True) -> Callable[[Call], Call]:
    """A command about one node of the budget tree."""
    return click.argument(
        "code", metavar="NODE" if required else "[NODE]", required=required, shell_complete=complete.budgets
    )


def since_done(app: App, body: Any, line: str) -> None:
    """Say what was done: as a line, or as what the API answered."""
    if not app.give(body):
        app.screen.say(clean(line))
