"""What we depend on: no version with a known vulnerability, as far as the vulnerability service can be asked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

ASK_WITHIN_S = 100
ACCEPTED: dict[str, str] = {}
"""Known vulnerabilities that do not touch us, by id, each with the reason why not."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What came of asking.

    Attributes:
        asked: packages that the service knows.
        unasked: those that it says nothing about.
        found: "name version: id" of each vulnerability that is not accepted.
        problem: why there is no answer at all; empty where there is one.
    """

    asked: int
    unasked: int
    found: list[str]
    problem: str = ""


def pinned() -> list[str]:
    """Every package with its version, as requirements.txt and constraints.txt pin it."""
    lines = [
        line.split("#")[0].strip()
        for name in ("requirements.txt", "constraints.txt")
        for line in (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    ]
    return sorted({re.sub(r"\[.*?\]", "", line) for line in lines if line and not line.startswith("-c ")})


def read(said: str, complaint: str) -> Audit:
    """What the tool printed."""
    try:
        rows = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = complaint.strip().split("\n")[-1]
        return Audit(0, 0, [], last or "it printed nothing")
    known = [row for row in rows if "skip_reason" not in row]
    found = [
        f"{row['name']} {row['version']}: {each['id']}, fixed in {', '.join(each.get('fix_versions') or ['none'])}"
        for row in known
        for each in row["vulns"]
        if not {each["id"], *each.get("aliases", [])} & set(ACCEPTED)
    ]
    problem = "" if known else "the service knows none of our packages"
    return Audit(len(known), len(rows) - len(known), found, problem)


def ask(folder: Path) -> Audit:
    """Ask the service that pip-audit is set up with about all that is pinned."""
    wanted = folder / "pinned.txt"
    wanted.write_text("\n".join(pinned()) + "\n", encoding="utf-8")
    argv = [str(Path(sys.executable).with_name("pip-audit")), "-r", str(wanted), "--no-deps", "--disable-pip"]
    argv += ["--format", "json", "--progress-spinner", "off", "--timeout", "10", "--cache-dir", str(folder / "cache")]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=ASK_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Audit(0, 0, [], f"{type(error).__name__}: {error}"[:200])
    return read(done.stdout, done.stderr)


@pytest.mark.long
def test_no_package_has_a_known_vulnerability(tmp_path: Path) -> None:
    audit = ask(tmp_path)
    if audit.problem:
        pytest.skip(
            f"*** DEPENDENCIES WERE NOT AUDITED: the vulnerability service gave no answer ({audit.problem}) ***"
        )
    assert audit.found == []
    if audit.unasked:
        of = audit.asked + audit.unasked
        pytest.skip(f"*** {audit.unasked} of {of} DEPENDENCIES WERE NOT AUDITED; the others are clean ***")


def test_every_package_is_pinned_once_and_exactly() -> None:
    lines = pinned()
    names = [re.sub(r"[._-]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert sorted({name for name in names if names.count(name) > 1}) == []
    assert len(lines) > 100


CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["3"]}]}


@pytest.mark.parametrize(
    ("said", "complaint", "audit"),
    [
        ({"dependencies": [CLEAN]}, "", Audit(1, 0, [])),
        ({"dependencies": [CLEAN, BAD]}, "", Audit(2, 0, ["b 2: PYSEC-1, fixed in 3"])),
        (
            {"dependencies": [{"name": "a", "skip_reason": "not found"}]},
            "",
            Audit(0, 1, [], "the service knows none of our packages"),
        ),
        (None, "x\nConnectionError: no route\n", Audit(0, 0, [], "ConnectionError: no route")),
        (None, "", Audit(0, 0, [], "it printed nothing")),
    ],
)
def test_what_the_tool_prints_is_read(said: object, complaint: str, audit: Audit) -> None:
    """In words: an audit that asked about nothing is none, however clean it looks."""
    assert read("" if said is None else json.dumps(said), complaint) == audit


def test_what_is_accepted_is_not_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACCEPTED, "CVE-1", "only in a part that we do not use")
    assert read(json.dumps({"dependencies": [BAD]}), "") == Audit(1, 0, [])
