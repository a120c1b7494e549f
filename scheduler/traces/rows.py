"""Reading a CSV strictly: every fault is reported with the row and the field where it stands."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from io import StringIO

from scheduler.one_line import one_line

LARGEST = 10**10
"""No number of a trace may be larger (GPUs, or seconds: 300 years)."""


class TraceError(Exception):
    """A fault in a trace: `row` is the line of the file, from 1; `field` the column, empty for the whole row."""

    def __init__(self, row: int, field: str, message: str) -> None:
        """Say where and what."""
        where = f"row {row}, {field}" if field else f"row {row}"
        super().__init__(one_line(f"{where}: {message}"))
        self.row = row
        self.field = field


class Row:
    """One row by column, with its line in the file."""

    __slots__ = ("_cells", "line")

    def __init__(self, line: int, cells: dict[str, str]) -> None:
        """Take the cells as text."""
        self.line = line
        self._cells = cells

    def has(self, field: str) -> bool:
        """Whether a cell says anything."""
        return bool(self._cells[field].strip())

    def text(self, field: str) -> str:
        """A text that is not empty; an id of digits stays text."""
        value = self._cells[field].strip()
        if not value:
            raise TraceError(self.line, field, "is empty")
        return value

    def whole(self, field: str, *, at_least: int) -> int:
        """A whole number, also when written as "66.0"."""
        value = self.text(field)
        try:
            number = Decimal(value)
        except InvalidOperation:
            raise TraceError(self.line, field, f"must be a whole number, not {value!r}") from None
        if not number.is_finite() or number.copy_abs() > LARGEST or number != int(number):
            raise TraceError(self.line, field, f"must be a whole number, not {value!r}")
        if number < at_least:
            raise TraceError(self.line, field, f"must be at least {at_least}, but is {value}")
        return int(number)


def header_of(content: str) -> list[str]:
    """The column names in the first line.

    Raises:
        TraceError: it is no line of a CSV.
    """
    try:
        return next(csv.reader(StringIO(content)), [])
    except csv.Error as error:
        raise TraceError(1, "", f"not CSV: {error}") from None


def read_rows(content: str, columns: Sequence[str]) -> Iterator[Row]:
    """Every row, in the order of the file.

    Raises:
        TraceError: a column is missing, a row has too few or too many cells, or the CSV itself is broken.
    """
    reader = csv.reader(StringIO(content), strict=True)
    try:
        header = next(reader, [])
        for column in columns:
            if column not in header:
                raise TraceError(1, column, "this column is missing")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise TraceError(reader.line_num, "", f"has {len(cells)} cells, the header has {len(header)}")
            yield Row(reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise TraceError(reader.line_num, "", f"not CSV: {error}") from None
