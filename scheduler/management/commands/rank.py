"""`manage.py rank FILE`: the order of a tree's leaves by what they have used. Needs no database."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from scheduler.management.files import CommandOnFiles, fail, read_text
from scheduler.simulator import ScenarioError
from scheduler.simulator.ranking import parse_ranking, rank


class Command(CommandOnFiles):
    """Rank the leaves of one tree."""

    help = "Print the order of a tree's leaves by what they have used of their shares."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("file", metavar="FILE", help='a tree with shares and use; "-" reads standard input')
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        """Rank and print."""
        try:
            order = rank(parse_ranking(read_text(options["file"])))
        except ScenarioError as error:
            fail(options["file"], str(error))
        if options["json"]:
            self.print_json({"order": order})
            return
        place = 1
        for tied in order:
            for name in tied:
                self.stdout.write(f"{place:>5}  {name}")
            place += len(tied)
