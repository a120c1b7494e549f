"""`manage.py forecast_check`: how many of the ranges of forecasts hold the real start, on weeks held out."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import CommandParser

from scheduler.management import forecasting
from scheduler.management.files import CommandOnFiles, fail, read_duration_option, read_text
from scheduler.management.forecasting import Checked, History
from scheduler.simulator import ScenarioError, parse
from scheduler.simulator.forecast import HORIZON_S
from scheduler.simulator.known import Knowledge
from scheduler.simulator.ranges import Score, learn

LEAST, MOST = 0.75, 0.85
"""The part of the real starts that the ranges must hold."""
CLASSES = ("", "debug", "standard", "large", "unallocated")


class Command(CommandOnFiles):
    """Check forecasts against what came true."""

    help = "Forecast at past instants with what was known then, and count how many ranges held the real start."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("scenarios", nargs="*", metavar="FILE", help="scenario files to simulate and forecast in")
        parser.add_argument("--lab", type=int, action="append", default=[], metavar="SEED", help="a laboratory; repeat")
        parser.add_argument("--cluster", metavar="NAME", help="the history of a cluster of the database")
        parser.add_argument("--days", type=int, default=28, metavar="D", help="of laboratory and history (default 28)")
        parser.add_argument("--gpus", type=int, default=64, metavar="G", help="of a laboratory (default 64)")
        parser.add_argument("--every", default="8h", metavar="DURATION", help="between two instants (default 8h)")
        parser.add_argument("--draws", type=int, default=16, metavar="N", help="futures of each (default 16)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        """Forecast, compare, print."""
        every_s = read_duration_option("--every", options["every"])
        if not every_s:
            fail("--every", "must be more than 0")
        for name in ("draws", "days"):
            if not 1 <= options[name] <= 366:
                fail(f"--{name}", f"must be from 1 to 366, but is {options[name]}")
        histories = self._histories(options, every_s)
        if not histories:
            fail("FILE", "is missing: a scenario, --lab SEED or --cluster NAME")
        say = (lambda _line: None) if options["json"] else self.stdout.write
        found: list[Checked] = []
        everything = []
        for history in histories:
            past = list(forecasting.forecasts(history, draws=options["draws"], horizon_s=HORIZON_S, say=say))
            everything += past
            found.append(forecasting.checked(history, past, horizon_s=HORIZON_S))
        self._print(found, options["json"], learn(everything, HORIZON_S))

    def _histories(self, options: dict[str, Any], every_s: int) -> list[History]:
        found = []
        for name in options["scenarios"]:
            try:
                scenario = parse(read_text(name))
            except ScenarioError as error:
                fail(name, str(error))
            found.append(forecasting.simulated(scenario, name, every_s=every_s, horizon_s=HORIZON_S))
        for seed in options["lab"]:
            found.append(
                forecasting.laboratory(
                    seed, days=options["days"], gpus=options["gpus"], every_s=every_s, horizon_s=HORIZON_S
                )
            )
        if options["cluster"] is not None:
            found.append(_of_cluster(options["cluster"], options["days"], every_s))
        return found

    def _print(self, found: list[Checked], as_json: bool, learned: Any) -> None:
        calibrated = forecasting.together([each.calibrated for each in found])
        raw = forecasting.together([each.raw for each in found])
        part = calibrated.get("", Score()).part
        if as_json:
            self.print_json(
                {
                    "histories": {each.name: _plain(each.calibrated) for each in found},
                    "raw": _plain(raw),
                    "calibrated": _plain(calibrated),
                    "learned": {kind: [each.low, each.high] for kind, each in learned.items()},
                }
            )
        else:
            for each in found:
                self.stdout.write(f"{each.name}, held-out instants:")
                self._lines(each.raw, each.calibrated)
            self.stdout.write("all:")
            self._lines(raw, calibrated)
            for kind, stretch in learned.items():
                self.stdout.write(f"  factors of {kind or 'all':12} {stretch.low:.3f} {stretch.high:.3f}")
        if part is None or not LEAST <= part <= MOST:
            self.stderr.write("nobody waited" if part is None else f"{100 * part:.1f} % held: not from 75 to 85 %")
            sys.exit(1)

    def _lines(self, raw: Any, calibrated: Any) -> None:
        for kind in CLASSES:
            if kind in calibrated:
                count, as_drawn, learned = calibrated[kind].count, raw[kind].part, calibrated[kind].part
                self.stdout.write(
                    f"  {kind or 'all':12} {count:>7,} forecasts, {100 * as_drawn:5.1f} % held as drawn, "
                    f"{100 * learned:5.1f} % with what was learned before"
                )


def _plain(scores: Any) -> dict[str, list[int]]:
    return {kind or "all": [each.count, each.held] for kind, each in scores.items()}


def _of_cluster(name: str, days: int, every_s: int) -> History:
    """The stored history of a cluster."""
    import django

    django.setup()  # a command on files runs without
    from budgets.errors import InputError
    from budgets.models import Cluster
    from scheduler.models import Workload
    from scheduler.queries import stretch

    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        fail("--cluster", f"there is no cluster {name!r}")
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    try:
        found = stretch.read(cluster, end - timedelta(days=days), end)
    except InputError as error:
        fail(error.field or "--cluster", error.message)
    owners = dict(Workload.objects.filter(cluster=cluster, owner__isnull=False).values_list("code", "owner_id"))
    knowledge = Knowledge(
        found.real, {code: str(owner) for code, owner in owners.items()}, unix_s=int(found.start.timestamp())
    )
    moments = forecasting.instants(days * 86_400, every_s=every_s, horizon_s=HORIZON_S)
    return History(name, knowledge, moments, {})
