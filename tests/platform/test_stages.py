"""`./test` runs pytest in stages; each test is in one of them; paths and marks of one's own are left as they are."""

from __future__ import annotations

import pytest

from portal.supervisor import testing
from portal.supervisor.testing import shared_out, stages

TWO, THREE = (["-n", count, "--dist", "loadfile"] for count in ("2", "3"))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing.os, "cpu_count", lambda: 2)


def test_quick_ones_are_shared_out_to_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stages(with_long=False, is_whole=True, arguments=["-q"]) == [[*THREE, "-q"]]
    monkeypatch.setattr(testing.os, "cpu_count", lambda: 1)
    assert shared_out() == []


def test_long_ones_come_after_them_and_those_that_want_to_be_alone_last() -> None:
    shared, alone = [*TWO, "--no-loadscope-reorder", "-m", "long and not alone"], ["-m", "long and alone"]
    assert stages(with_long=True, is_whole=True, arguments=[]) == [THREE, shared, alone]
    assert stages(with_long=True, is_whole=True, arguments=["-m", "long", "-q"]) == [[*shared, "-q"], [*alone, "-q"]]


@pytest.mark.parametrize("own", [["-m", "browser"], ["-n", "0", "--last-failed", "-m", ""]])
def test_what_one_asks_for_oneself_is_one_run(own: list[str]) -> None:
    assert stages(with_long=True, is_whole=True, arguments=own) == [own]


def test_a_path_is_one_run_with_all_that_it_holds() -> None:
    assert stages(with_long=False, is_whole=False, arguments=["tests/load"]) == [["tests/load"]]
    assert stages(with_long=True, is_whole=False, arguments=["tests/load"]) == [["-m", "", "tests/load"]]


def test_whoever_is_alone_is_long(pytestconfig: pytest.Config) -> None:
    """Else no stage would run it."""
    wrong = []
    for path in (pytestconfig.rootpath / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if text.count("pytest.mark.alone") > text.count("pytest.mark.long"):
            wrong.append(path.name)
    assert wrong == []
