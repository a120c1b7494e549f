"""The CSV file of shares: one row for each spell of a child's share. What is exported here can be imported here.

Reading takes what spreadsheets make of such a file: a BOM or none, UTF-8 or UTF-16, CRLF or LF, commas, semicolons or
tabs, decimal points or commas, columns in any order, 2026-07-02 or 02.07.2026. What could mean two things is a fault.
Whole nodes and racks that are a child's own today stand beside the share of today; like its name they are compared.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from datetime import date

from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import Cluster, Share
from budgets.queries import today
from budgets.services.imports import CELL_COLUMNS, Fault, Row, granted_cells
from portal.csv_files import Cell, percent, plain

HEADER = ("parent", "child", "name", "cluster", "share %", "from", "until", *CELL_COLUMNS.values())
NEEDED = ("parent", "child", "cluster", "share %", "from")
"""Columns that a file must have; `until` may be left out (for good), and so may `name` and counts of cells, which are
only compared.
"""
SPELLINGS = {"share": "share %", "share (%)": "share %", "node": "child", "valid from": "from", "valid until": "until"}
MAX_BYTES = 4 * 2**20
MAX_ROWS = 20_000
MAX_CELL = 200
SEPARATORS = ";,\t"

SHARE = re.compile(r"(\d{1,3})(?:[.,](\d{1,2})0*)?[ \u00a0\u202f]?%?")
COUNT = re.compile(r"[0-9]{1,5}")
ISO_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
DOTTED_DAY = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")


def rows_to_export(shares: Sequence[Share]) -> Iterator[tuple[Cell, ...]]:
    """The rows of a file under HEADER. One query."""
    counts = granted_cells()
    day = today()
    for share in shares:
        is_today = share.valid_from <= day and (share.valid_until is None or day < share.valid_until)
        yield (
            share.parent.code,
            share.node.code,
            share.node.name,
            share.cluster.name,
            percent(share.basis_points),
            share.valid_from,
            share.valid_until,
            *(counts.get((share.node_id, share.cluster_id, level)) if is_today else None for level in CELL_COLUMNS),
        )


def shares_to_export(cluster: Cluster | None = None) -> list[Share]:
    """All shares, past and future ones too, in the order of the tree. One query."""
    rows = Share.objects.select_related("parent", "node", "cluster")
    if cluster is not None:
        rows = rows.filter(cluster=cluster)
    return list(rows.order_by("cluster__position", "cluster__name", "parent__path", "node__code", "valid_from"))


def read(data: bytes) -> tuple[list[Row], list[Fault]]:
    """The rows of a file, and what can't be read in it, by its line.

    Raises:
        InputError: it is no such file at all: too large, not text, or without the columns that it needs.
    """
    text = _text(data)
    lines = _lines(text)
    header = next(lines, None)
    if header is None:
        raise InputError("file", gettext("has no row; it begins with one that names the columns"))
    columns = _columns(header[1])
    rows: list[Row] = []
    faults: list[Fault] = []
    for number, cells in lines:
        if len(rows) + len(faults) >= MAX_ROWS:
            raise InputError("file", gettext("has more than {max_rows:,} rows").format(max_rows=MAX_ROWS))
        if len(cells) != len(columns):
            faults.append(
                Fault(
                    number,
                    "",
                    gettext("has {cells} cells, and the header {columns}").format(
                        cells=len(cells), columns=len(columns)
                    ),
                )
            )
            continue
        found = _row(number, dict(zip(columns, cells, strict=True)), faults)
        if found is not None:
            rows.append(found)
    if not rows and not faults:
        raise InputError("file", gettext("has a header and no row below it"))
    return rows, faults


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise InputError("file", gettext("is larger than {max_bytes} MiB").format(max_bytes=MAX_BYTES // 2**20))
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            "file",
            gettext("is not UTF-8 from byte {start} on; save it as CSV UTF-8, not as a workbook").format(
                start=error.start
            ),
        ) from None
    if "\0" in text:
        raise InputError("file", gettext("is not text: it holds the character U+0000"))
    return text


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that isn't blank with the number of its line, the header's first."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    end = 0
    try:
        for cells in reader:
            number, end = end + 1, reader.line_num
            if any(cell.strip() for cell in cells):
                yield number, [plain(cell.strip()) for cell in cells]
    except csv.Error as error:
        raise InputError(
            "file", gettext("can't be read at line {end}: {error}").format(end=end + 1, error=error)
        ) from None


def _columns(header: Sequence[str]) -> list[str]:
    """The columns by the names of HEADER.

    Raises:
        InputError: one that is unknown, twice there, or missing.
    """
    columns = [" ".join(name.lower().split()) for name in header]
    columns = [SPELLINGS.get(name, name) for name in columns]
    for name in columns:
        if name not in HEADER:
            raise InputError(
                "file",
                gettext("has a column {name!r}; there are {choices}").format(
                    name=name[:MAX_CELL], choices=", ".join(HEADER)
                ),
            )
        if columns.count(name) > 1:
            raise InputError("file", gettext("has the column {name!r} twice").format(name=name))
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise InputError(
            "file",
            gettext("has no column {missing!r}; it needs {choices}").format(
                missing=missing[0], choices=", ".join(NEEDED)
            ),
        )
    return columns


def _row(line: int, cells: dict[str, str], faults: list[Fault]) -> Row | None:
    """The row; None if something in it can't be read, which `faults` then says."""
    before = len(faults)
    for column in NEEDED:
        if not cells[column]:
            faults.append(Fault(line, column, gettext("must not be empty")))
    for column, cell in cells.items():
        if len(cell) > MAX_CELL:
            faults.append(
                Fault(line, column, gettext("is longer than {max_cell} characters").format(max_cell=MAX_CELL))
            )
    if len(faults) > before:
        return None
    points = _basis_points(cells["share %"])
    if points is None:
        said = gettext("{cells!r} is not a share from 0.00 to 100.00 with at most two decimals").format(
            cells=cells["share %"]
        )
        faults.append(Fault(line, "share %", said))
    counts = _counts(line, cells, faults)
    days: dict[str, date | None] = {"from": None, "until": None}
    for column in days:
        if cell := cells.get(column, ""):
            days[column] = _day(cell)
            if days[column] is None:
                faults.append(
                    Fault(line, column, gettext("{cell!r} is not a date such as 2026-07-02").format(cell=cell))
                )
    if len(faults) > before or points is None or days["from"] is None:
        return None
    return Row(
        line=line,
        parent=cells["parent"],
        child=cells["child"],
        cluster=cells["cluster"],
        basis_points=points,
        start=days["from"],
        end=days["until"],
        name=cells.get("name", ""),
        cells=counts,
    )


def _counts(line: int, cells: dict[str, str], faults: list[Fault]) -> dict[str, int]:
    """How many cells of each level the row says are the child's own."""
    counts: dict[str, int] = {}
    for level, column in CELL_COLUMNS.items():
        cell = cells.get(column, "")
        if COUNT.fullmatch(cell):
            counts[level] = int(cell)
        elif cell:
            faults.append(Fault(line, column, gettext("{cell!r} is not a whole number").format(cell=cell)))
    return counts


def _basis_points(text: str) -> int | None:
    match = SHARE.fullmatch(text)
    if match is None:
        return None
    points = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
    return points if points <= 10_000 else None


def _day(text: str) -> date | None:
    """A date; one with slashes could be read two ways, so it is none."""
    if match := ISO_DAY.fullmatch(text):
        year, month, day = match.groups()
    elif match := DOTTED_DAY.fullmatch(text):
        day, month, year = match.groups()
    else:
        return None
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
