"""The threat model names tests that are there."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+test_\w+\.py)`", TEXT))
    assert len(named) > 15
    missing = [name for name in named if not (REPOSITORY / "tests" / name.removeprefix("tests/")).exists()]
    assert missing == []


def test_every_test_of_security_is_named() -> None:
    ours = {path.name for path in (REPOSITORY / "tests" / "security").glob("test_*.py")}
    assert {name for name in ours if f"security/{name}" not in TEXT} <= {"test_document.py"}


def test_every_threat_has_a_mitigation_and_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("|") and "test" in line and "---" not in line]
    assert len(rows) > 25
    assert [row for row in rows if len(row.strip("|").split(" | ")) != 3] == []


def test_it_can_be_found() -> None:
    for name in ("README.md", "docs/operator.md"):
        assert "security.md" in (REPOSITORY / name).read_text(encoding="utf-8")
