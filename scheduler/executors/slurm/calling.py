"""Calling Slurm's commands: with a time limit, no standard input, and a clean word for what went wrong."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TIMEOUT_S = 10
"""What a command gets. Slurm's own wait for a daemon (MessageTimeout) may be longer; we ask again anyway."""
WRITE_TIMEOUT_S = 30
"""What a change of accounts gets: sacctmgr takes half a second, and waits for its database."""
OUTPUT_MAX = 256 * 2**20
AWAY = re.compile(
    r"unable to contact|unable to establish|connection refused|connect failure|timed out|not responding|"
    r"communication|persist|resource temporarily unavailable|transport endpoint|zero bytes were transmitted|"
    r"slurm backup controller|try again|unexpected message|controller .* shutting down|protocol authentication|"
    r"munge|connection reset|unable to read",
    re.IGNORECASE,
)
"""Said by commands that could not reach a daemon: nothing is known about what they would have done."""


class SlurmError(Exception):
    """A command of Slurm's did not do what it was called for. The message is one line."""


class Unreachable(SlurmError):
    """No answer in time, or no daemon there: what was asked may have happened or not."""


class Refused(SlurmError):
    """Slurm has answered, and said no: what was asked has not happened."""


@dataclass(frozen=True, slots=True)
class Caller:
    """How commands are called.

    Attributes:
        conf: path of slurm.conf; empty is Slurm's own default.
        timeout_s: time limit of each command.
    """

    conf: str = ""
    timeout_s: float = TIMEOUT_S
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Ours without what would change their output, and all instants in UTC."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "USER", "LOGNAME")}
        conf = {"SLURM_CONF": self.conf} if self.conf else {}
        if not self.conf and "SLURM_CONF" in os.environ:
            conf = {"SLURM_CONF": os.environ["SLURM_CONF"]}
        return {**kept, **conf, "TZ": "UTC", "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard", **self.extra}

    def __call__(self, argv: Sequence[str], *, timeout_s: float | None = None) -> str:
        """What the command prints.

        Raises:
            Unreachable: no daemon, or no answer in time.
            Refused: it ended with an error.
            SlurmError: the command is not here, or printed too much.
        """
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            done = subprocess.run(
                list(argv),
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_s,
                env=self.environment,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{argv[0]} gave no answer within {limit_s:g} s") from None
        except OSError as error:
            raise SlurmError(f"{argv[0]} cannot be called: {error.strerror}") from None
        said = done.stdout.decode(errors="replace")
        if len(said) > OUTPUT_MAX:
            raise SlurmError(f"{argv[0]} printed more than {OUTPUT_MAX // 2**20} MiB")
        complaint = done.stderr.decode(errors="replace")
        if done.returncode:
            text = _one_line(complaint or said) or f"ended with status {done.returncode}"
            kind = Unreachable if AWAY.search(complaint + said) else Refused
            raise kind(f"{argv[0]}: {text}")
        return said


def _one_line(text: str) -> str:
    """The first line that says something, without the command's own name."""
    lines = [re.sub(r"^[a-z]+: (error: )?", "", line.strip()) for line in text.split("\n") if line.strip()]
    return "; ".join(lines)[:300]
