"""The command line behind `./run` and `./test`, and `exec` for developers and operators.

Reads its arguments and sees to `.venv` with the standard library alone, then goes on inside `.venv`.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from portal.supervisor import installation
from portal.supervisor.refusal import Refusal
from portal.supervisor.services import DEFAULT_PORT


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line and end with status 2."""
        print(f"{self.prog}: {message} ('{self.prog} --help' lists what there is)", file=sys.stderr)
        sys.exit(2)


def port_number(text: str) -> int:
    """A TCP port from 1 to 65535."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; use a whole number from 1 to 65535")
    return int(text)


def add_data(parser: argparse.ArgumentParser) -> None:
    """The option that names the data folder."""
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        default=installation.ROOT / "data",
        help="where everything is kept (default: data beside this program)",
    )


def run_parser() -> Parser:
    """The options of `./run`."""
    parser = Parser(prog="run", description="Sets up what is missing, then runs Allotment until Ctrl-C.")
    parser.add_argument(
        "--port", type=port_number, metavar="N", default=DEFAULT_PORT, help="of 127.0.0.1 (default 8000)"
    )
    add_data(parser)
    parser.add_argument("--empty", action="store_true", help="without the demo's organisation")
    parser.add_argument("--setup-only", action="store_true", help="set up what is missing, then end")
    return parser


def test_parser() -> Parser:
    """The options of `./test`; all others are pytest's."""
    parser = Parser(
        prog="test",
        usage="test [--long] [PATH ...] [pytest's options]",
        description="Sets up what is missing, then runs the tests, or those in PATH.",
    )
    parser.add_argument("--long", action="store_true", help="also what takes longer: faults, load, many random worlds")
    return parser


def exec_parser() -> Parser:
    """The options of `exec`."""
    parser = Parser(
        prog="exec",
        usage="python -m portal.supervisor exec [--data DIR] -- COMMAND ...",
        description="Runs COMMAND with the private databases: those that run already, else for as long as it takes.",
    )
    add_data(parser)
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    return parser


def continue_in_venv(arguments: list[str]) -> None:
    """Make `.venv` if need be, and go on as its Python unless we are it."""
    installation.ensure()
    if Path(sys.prefix).resolve() != installation.VENV.resolve():
        environment = {**os.environ, "PYTHONPATH": str(installation.ROOT)}
        sys.stdout.flush()
        os.execve(
            installation.PYTHON, [str(installation.PYTHON), "-P", "-m", "portal.supervisor", *arguments], environment
        )


def main(arguments: list[str]) -> int:
    """Run one verb; a Refusal is one line and status 2."""
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    try:
        if verb == "run":
            return _run(rest)
        if verb == "test":
            return _test(rest)
        if verb == "exec":
            return _exec(rest)
        raise Refusal("use one of: run, test, exec")
    except Refusal as refusal:
        print(f"{verb or 'supervisor'}: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(arguments: list[str]) -> int:
    options = run_parser().parse_args(arguments)
    data = options.data.absolute()
    continue_in_venv(["run", *arguments])
    from portal.supervisor.running import run

    return run(data=data, port=options.port, with_demo=not options.empty, only_setup=options.setup_only)


def _test(arguments: list[str]) -> int:
    options, others = test_parser().parse_known_args(arguments)
    continue_in_venv(["test", *arguments])
    from portal.supervisor.testing import test

    return test(with_long=options.long, arguments=others)


def _exec(arguments: list[str]) -> int:
    options = exec_parser().parse_args(arguments)
    continue_in_venv(["exec", *arguments])
    from portal.supervisor.borrowing import run_with_servers

    return run_with_servers(data=options.data, argv=options.command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
