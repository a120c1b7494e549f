"""Who can sign in to the demo, for the hint on the log-in page: names and roles, never a password."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

LOG_INS = "demo-logins.txt"
"""In the data folder; the command `demo` writes it."""


@dataclass(frozen=True, slots=True)
class DemoPerson:
    """A name to sign in with, and who that is."""

    username: str
    role: str


def sign_in_hint() -> list[DemoPerson]:
    """The demo's people, as its list of log-ins names them; empty where there is no demo or no right to read it."""
    try:
        lines = (settings.DATA_DIR / LOG_INS).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = [line.split(maxsplit=2) for line in lines]
    return [DemoPerson(parts[0], parts[2]) for parts in found if len(parts) == 3]
