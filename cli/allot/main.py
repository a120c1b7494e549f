"""The command `allot`: its commands by what they are for, and the one line that a failure is."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from allot import __version__
from allot.app import App
from allot.commands import (
    api,
    budgets,
    check,
    deciding,
    following,
    nodes,
    operating,
    queue,
    reporting,
    signing,
    simulate,
    submit,
    why,
    workloads,
)
from allot.failures import DONE, FAILED, INTERRUPTED, MEANINGS, USAGE, Failure
from allot.screen import clean

BROKEN_PIPE = 141
"""As a shell sees a program that was ended by SIGPIPE: `allot queue | head`."""

SECTIONS: dict[str, Sequence[click.Command]] = {
    "Work": [
        check.check, submit.submit, workloads.listed, workloads.show, following.logs, following.wait, reporting.report,
        workloads.cancel, workloads.release,
    ],
    "Why and when": [queue.queue, why.why, why.try_other],
    "Budgets": [budgets.tree, budgets.usage, budgets.shares, budgets.cells, deciding.request],
    "Simulations": [simulate.simulate, simulate.simulations],
    "Clusters and nodes": [
        nodes.clusters, nodes.nodes, operating.drain, operating.resume, operating.health, operating.windows,
        operating.stop, operating.start,
    ],
    "You": [signing.login, signing.logout, signing.whoami, signing.use, signing.completion, api.api],
}  # fmt: skip
EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())


class Sections(click.Group):
    """A group whose help lists its commands by what they are for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Section by section."""
        most = max(len(each.name or "") for section in SECTIONS.values() for each in section)
        limit = formatter.width - 6 - most
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(each.name or "", each.get_short_help_str(limit)) for each in section])


@click.group(
    cls=Sections,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="allot %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Submit work to Allotment, and see who goes first and why.

    \b
      allot login
      allot submit -g 8 --min-runtime 2h -- python train.py
      allot why A1-0042

    Every command answers --help, and --json with what the API says.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _section in SECTIONS.values():
    for _command in _section:
        cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit code."""
    app = App()
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments), prog_name="allot", obj=app, standalone_mode=False
        )
        sys.stdout.flush()
        return result if isinstance(result, int) else DONE
    except Failure as failure:
        return _said(failure.in_words(app.options), failure.exit_code)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "allot"
        return _said(f"{error.format_message()} (see `{where} --help`)", USAGE)
    except click.ClickException as error:
        return _said(error.format_message(), USAGE)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if os.environ.get("ALLOT_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        about = f"is the portal of another version than this allot, {__version__}? ALLOT_DEBUG=1 shows where"
        return _said(f"the portal's answer is not as expected ({what}); {about}", FAILED)
    except SystemExit as ended:
        # Completion is over; or click has seen the same as below, and has wrapped the stream.
        return BROKEN_PIPE if type(sys.stdout).__name__.endswith("PacifyFlushWrapper") else int(ended.code or DONE)
    except BrokenPipeError:
        # Whoever read has gone; nor can what is still buffered be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _said(message: str, exit_code: int) -> int:
    """One line on stderr."""
    try:
        sys.stdout.flush()
        print(f"allot: {clean(' '.join(message.split()))}", file=sys.stderr)
    except BrokenPipeError:
        pass
    return exit_code


def run() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that can't show a letter gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    sys.exit(main())
