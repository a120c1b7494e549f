"""CSV files: formulas are text, numbers are numbers, and what was written can be read again."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.csv_files import BOM, FORMULA_STARTS, NUMBER, cell, csv_response, csv_text, neutral, percent, plain


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, ""), (5, "5"), (-5, "-5"), (Decimal("33.30"), "33.30"), (Decimal("1E+3"), "1000"),
        (Fraction(1, 3), "0.333333"), (Fraction(-7, 2), "-3.5"), (Fraction(4), "4"), (date(2026, 7, 2), "2026-07-02"),
        (datetime(2026, 7, 2, 12, tzinfo=UTC), "2026-07-02T12:00:00+00:00"),
        ("A1", "A1"), ("-5", "-5"), ("+3.5", "+3.5"), ("=1+1", "'=1+1"), ("+SUM(A1)", "'+SUM(A1)"), ("-x", "'-x"),
        ("@cmd", "'@cmd"), ("\t=1", "'\t=1"), (" =1", "' =1"), ("'=1", "''=1"), ("＝1", "'＝1"), ("x=1", "x=1"),
        ("'quoted'", "'quoted'"), ('=HYPERLINK("http://x","y")', '\'=HYPERLINK("http://x","y")'),
    ],
)  # fmt: skip
def test_a_cell(value, written: str) -> None:
    assert cell(value) == written


@pytest.mark.parametrize("value", [1.5, True, [], b"x"])
def test_what_is_not_exact_is_refused(value) -> None:
    with pytest.raises(TypeError):
        cell(value)


@given(st.text(max_size=40) | st.sampled_from(["=", "'=", "''+", "' -", "'", "''", "-1", "'-1"]))
def test_what_is_neutralised_is_no_formula_and_comes_back(text: str) -> None:
    written = neutral(text)
    assert not written.startswith(FORMULA_STARTS) or NUMBER.fullmatch(written)
    assert plain(written) == text


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=2, max_size=2), max_size=5))
def test_a_file_says_what_it_was_given(rows: list[list[str]]) -> None:
    header = ("=HYPERLINK(1)", "name")
    written = csv_text(header, rows)
    assert written.startswith(BOM + "'=HYPERLINK(1),name\r\n")
    read = list(csv.reader(io.StringIO(written.removeprefix(BOM), newline="")))
    assert [[plain(each) for each in row] for row in read] == [list(header), *rows]


def test_a_download_names_itself_and_streams() -> None:
    answer = csv_response("shares of A/1\r\nx: y", ("a",), ((number,) for number in range(3)))
    assert answer.headers["Content-Disposition"] == 'attachment; filename="shares-of-a1-x-y.csv"'
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.streaming
    assert b"".join(answer.streaming_content).decode() == "\ufeffa\r\n0\r\n1\r\n2\r\n"


def test_a_share_is_an_exact_number() -> None:
    assert [cell(percent(points)) for points in (0, 1, 3_334, 10_000)] == ["0.00", "0.01", "33.34", "100.00"]
