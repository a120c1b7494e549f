"""The command that measures: it finds what is there, refuses what is not, and keeps its tables apart."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import Row, at_least, at_most, plain
from benchmarks.__main__ import DOCUMENT, found
from benchmarks.table import BEGIN, END, as_section, as_text, with_section
from tests.conftest import REPOSITORY

DOCUMENT_BEFORE = f"# Title\n\n{BEGIN}\n\n### a\n\nold a\n\n### c\n\nold c\n\n{END}\n\nafter\n"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m benchmarks` with these arguments."""
    argv = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(argv, check=False, cwd=REPOSITORY, capture_output=True, text=True)


def test_a_section_replaces_its_old_one_and_leaves_the_others() -> None:
    again = with_section(with_section(DOCUMENT_BEFORE, "b", "### b\n\nnew b\n\n"), "a", "### a\n\nnew a\n\n")
    middle = "### a\n\nnew a\n\n### b\n\nnew b\n\n### c\n\nold c\n\n"
    assert again == f"# Title\n\n{BEGIN}\n\n{middle}{END}\n\nafter\n"


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="measured: begin"):
        with_section("# Title\n", "a", "### a\n")


def test_ratios_say_how_many_times_better_than_the_target() -> None:
    assert at_most("a", 200, "ms", 250) == Row("a", 200, "ms", "<= 250", 1.25)
    assert at_least("a", 6_000, "jobs/s", 8_000) == Row("a", 6_000, "jobs/s", ">= 8,000", 0.75)


def test_what_misses_its_target_is_marked() -> None:
    rows = [at_most("slow", 500, "ms", 250), at_most("fast", 2.5, "ms", 250), plain("size", 12.345, "MiB")]
    assert as_text(rows).splitlines() == [
        "slow        500 ms   <= 250 ms, 0.50 x  MISSED",
        "fast       2.50 ms   <= 250 ms, 100.00 x",
        "size       12.3 MiB",
    ]
    assert "| size | 12.3 MiB |  |  |" in as_section("some", rows, "a machine")


def test_all_benchmarks_are_listed_and_documented() -> None:
    said = command("--list")
    assert (said.returncode, said.stdout.split()) == (0, found())
    assert {"fifo_week", "live_pass", "mass_start"} <= set(found())
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in found() if f"`{name}`" not in text] == []


def test_an_unknown_benchmark_is_one_line() -> None:
    said = command("--only", "nothing")
    assert said.returncode == 2
    assert said.stderr == f"benchmarks: there is no 'nothing'; there are {', '.join(found())}\n"
