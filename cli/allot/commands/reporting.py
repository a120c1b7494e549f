"""`allot report`: say how many tokens a training run has processed; its page then shows MFU."""

from __future__ import annotations

import math

import click

from allot import complete
from allot.app import App, asks
from allot.screen import put


class Count(click.ParamType):
    """A whole number, also written as 7e9."""

    name = "number"

    def convert(self, value: object, param: object, ctx: object) -> int:
        """The number; whether it may be so large is for the portal to say."""
        text = str(value)
        try:
            number = float(text)
            return int(text) if text.lstrip("+-").isdigit() else int(number) if number.is_integer() else self._no(text)
        except (ValueError, OverflowError):
            return self._no(text)

    def _no(self, text: str) -> int:
        raise click.BadParameter(f"{text[:40]!r} is not a whole number such as 2000000 or 7e9")


@click.command(short_help="Report a training run's throughput; shows MFU.")
@click.argument("code", metavar="ID", shell_complete=complete.my_open_workloads)
@click.option("--tokens", type=Count(), required=True, help="Processed in these seconds, on all its GPUs together.")
@click.option("--seconds", type=float, required=True, help="Until now.")
@click.option("--parameters", type=Count(), required=True, help="Of the model, such as 7e9.")
@asks
def report(app: App, *, code: str, tokens: int, seconds: float, parameters: int) -> None:
    """Report how many tokens a workload that runs has processed in the last seconds, and see its MFU.

    MFU = 6 x parameters x tokens a second / (GPUs x peak of one). Inside a workload, allotment-report does the same
    without a token of yours.
    """
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is not a number of seconds", param_hint="--seconds")
    app.options = {"tokens": "--tokens", "seconds": "--seconds", "parameters": "--parameters"}
    body = {"tokens": tokens, "seconds": seconds, "parameters": parameters}
    found = app.portal.post("workloads", code, "throughput", body=body)
    if app.as_json:
        app.give(found)
        return
    all_of_it = found["over_all"]
    if all_of_it["mfu"] is None:
        put(f"{found['workload']}: {all_of_it['tokens_per_s']:,.0f} tokens/s; the peak of its devices is not known")
    else:
        put(f"{found['workload']}: {all_of_it['tokens_per_s']:,.0f} tokens/s, MFU {all_of_it['mfu'] * 100:.2f} %")
