"""Every CSV file that the portal gives out.

They are UTF-8 with a BOM (spreadsheets then read names right), comma-separated, with CRLF line ends (RFC 4180). Text
that a spreadsheet would take for a formula is neutralised, in headers too, by an apostrophe before it; numbers stay
numbers. `plain` takes the apostrophe away again, so that what was exported can be imported.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from django.http import StreamingHttpResponse
from django.utils.text import slugify

Cell = str | int | Decimal | Fraction | date | datetime | None
"""What a cell may hold. Floats are refused: what is counted here is exact."""

BOM = "\ufeff"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")
"""What makes a spreadsheet read a cell as a formula, or as a command (with their full-width forms)."""
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
FRACTION_DECIMALS = 6


def csv_response(name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> StreamingHttpResponse:
    """A download called NAME.csv, written row by row as `rows` yields them."""
    response = StreamingHttpResponse(csv_lines(header, rows), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{slugify(name) or "export"}.csv"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """The whole file as text."""
    return "".join(csv_lines(header, rows))


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """The file line by line, the BOM before the header."""
    yield BOM + _line(header)
    for row in rows:
        yield _line(row)


def cell(value: Cell) -> str:
    """A value as it stands in the file.

    Numbers are written with a point and without a thousands separator, dates as 2026-07-02, instants as ISO 8601 with
    their offset, nothing as nothing. Text is neutralised unless it is a plain number.

    Raises:
        TypeError: a float, or something else that has no one way of being written.
    """
    match value:
        case str():
            return neutral(value)
        case None:
            return ""
        case bool() | float():
            raise TypeError(f"no exact cell: {value!r}")
        case int() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(value)
        case Fraction():
            return _decimal(value)
        case datetime() | date():
            return value.isoformat()
    raise TypeError(f"no cell: {value!r}")


def neutral(text: str) -> str:
    """Text that no spreadsheet calculates. An apostrophe is put before a formula's beginning, and before text that
    has one already in such a place, so that `plain` gives back exactly what was written.
    """
    bare = text.lstrip("' \u00a0")
    if bare.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def plain(text: str) -> str:
    """What `neutral` was given."""
    return text[1:] if text.startswith("'") and text[1:].lstrip("' \u00a0").startswith(FORMULA_STARTS) else text


def percent(basis_points: int) -> Decimal:
    """A share as an exact number of per cent: 3,334 is 33.34."""
    return Decimal(basis_points).scaleb(-2)


def decimal_text(numerator: int, denominator: int) -> str:
    """A ratio of whole numbers as a Fraction of them is written, without making one: long files have many of them."""
    scaled = abs(numerator) * 10**FRACTION_DECIMALS
    units = (2 * scaled + denominator) // (2 * denominator)
    whole, part = divmod(units, 10**FRACTION_DECIMALS)
    sign = "-" if numerator < 0 and units else ""
    return f"{sign}{whole}.{part:0{FRACTION_DECIMALS}d}".rstrip("0") if part else f"{sign}{whole}"


def _decimal(value: Fraction) -> str:
    return decimal_text(value.numerator, value.denominator)


def _line(values: Sequence[Cell]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow([cell(value) for value in values])
    return buffer.getvalue()
