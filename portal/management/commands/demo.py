"""`manage.py demo`: an invented laboratory with a past, made from a seed in an empty database."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.demo import build, machine

WEEKS_MAX = 26


class Command(BaseCommand):
    """Make the demo; do nothing where there is an organisation already."""

    help = "Makes the demo: an invented laboratory with weeks of history, from a seed. Does nothing in a used database."

    def add_arguments(self, parser: CommandParser) -> None:
        """The seed and the length of its past."""
        parser.add_argument("--seed", type=int, default=1, help="another number, another laboratory (default 1)")
        parser.add_argument("--weeks", type=int, default=4, help=f"of history, 1 to {WEEKS_MAX} (default 4)")

    def handle(self, *args: Any, **options: Any) -> None:
        """One transaction."""
        if not 1 <= options["weeks"] <= WEEKS_MAX:
            raise CommandError(f"--weeks: must be 1 to {WEEKS_MAX}, not {options['weeks']}", returncode=2)
        if build.is_there():
            self.stdout.write("There is an organisation already: nothing to do.")
            return
        machine.write_agents(settings.DATA_DIR / "agents")
        began = time.monotonic()
        build.build(
            seed=options["seed"],
            weeks=options["weeks"],
            log_ins=settings.DATA_DIR / "demo-logins.txt",
            say=self.stdout.write,
        )
        self.stdout.write(f"The demo is ready after {time.monotonic() - began:.0f} s.")
