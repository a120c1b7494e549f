"""The CSV file of shares: what spreadsheets make of it is read, what could mean two things is a fault of its row."""

from __future__ import annotations

from datetime import date

import pytest

from budgets.errors import InputError
from budgets.services.imports import Fault, Row
from portal.shares_csv import MAX_BYTES, MAX_ROWS, read

HEADER = "parent,child,cluster,share %,from,until"
JULY, OCTOBER = date(2026, 7, 1), date(2026, 10, 1)
ROW = Row(2, "A", "A1", "north", 3_334, JULY, OCTOBER)


@pytest.mark.parametrize(
    "data",
    [
        f"{HEADER}\nA,A1,north,33.34,2026-07-01,2026-10-01".encode(),
        f"\ufeff{HEADER}\r\nA,A1,north,33.34,2026-07-01,2026-10-01\r\n".encode(),
        "parent;child;cluster;share %;from;until\r\nA;A1;north;33,34;01.07.2026;1.10.2026\r\n".encode("utf-8-sig"),
        "parent\tchild\tcluster\tshare\tfrom\tuntil\nA\tA1\tnorth\t33,34 %\t2026-07-01\t2026-10-01".encode("utf-16"),
        b"Until,From,Share (%),Cluster,Node,Parent\n2026-10-01,2026-07-01,33.340%,north,A1,A\n\n,,,,,\n",
        b'"parent","child","cluster","share %","from","until"\n"A"," A1 ","north","33,34","2026-07-01","2026-10-01"',
    ],
)
def test_what_spreadsheets_make_of_it(data: bytes) -> None:
    assert read(data) == ([ROW], [])


def test_no_end_is_for_good_and_a_name_is_taken_without_its_apostrophe() -> None:
    rows, faults = read(b"parent,child,name,cluster,share %,from\nA,A1,'=HYPERLINK(1),north,5,2026-07-01\n")
    assert faults == []
    assert rows == [Row(2, "A", "A1", "north", 500, JULY, None, "=HYPERLINK(1)")]


def test_cells_are_read_where_a_file_says_them() -> None:
    lines = f"{HEADER},own nodes,own racks", "A,A1,north,5,2026-07-01,,2,", "A,A2,north,5,2026-07-01,,x,-1"
    rows, faults = read("\n".join(lines).encode())
    assert [(row.child, row.cells) for row in rows] == [("A1", {"node": 2})]
    assert [(fault.column, fault.message) for fault in faults] == [
        ("own nodes", "'x' is not a whole number"), ("own racks", "'-1' is not a whole number"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [
        ("A,A1,north,5,2026-07-01", "", "has 5 cells, and the header 6"),
        ("A,A1,north,5,2026-07-01,,", "", "has 7 cells, and the header 6"),
        (",A1,north,5,2026-07-01,", "parent", "must not be empty"),
        ("A,A1,north,,2026-07-01,", "share %", "must not be empty"),
        ("A,A1,north,5.005,2026-07-01,", "share %", "is not a share"),
        ("A,A1,north,100.01,2026-07-01,", "share %", "is not a share"),
        ("A,A1,north,-1,2026-07-01,", "share %", "is not a share"),
        ("A,A1,north,1e1,2026-07-01,", "share %", "is not a share"),
        ("A,A1,north,NaN,2026-07-01,", "share %", "is not a share"),
        ("A,A1,north,5,07/01/2026,", "from", "is not a date"),
        ("A,A1,north,5,2026-02-30,", "from", "is not a date"),
        ("A,A1,north,5,2026-07-01,soon", "until", "is not a date"),
        (f"A,{'x' * 201},north,5,2026-07-01,", "child", "is longer than 200"),
    ],
)
def test_a_fault_names_its_row_and_column(row: str, column: str, words: str) -> None:
    rows, faults = read(f"{HEADER}\nA,A1,north,33.34,2026-07-01,2026-10-01\n{row}\n".encode())
    assert rows == [ROW]
    ((line, at, said),) = [(fault.line, fault.column, fault.message) for fault in faults]
    assert (line, at) == (3, column)
    assert words in said


def test_every_fault_is_named_by_its_line_even_after_a_cell_of_two_lines() -> None:
    data = f'{HEADER}\nA,"A\n1",north,5,2026-07-01,\nA,A1,north,x,y,z\n'.encode()
    rows, faults = read(data)
    assert [row.child for row in rows] == ["A\n1"]
    assert [(fault.line, fault.column) for fault in faults] == [(4, "share %"), (4, "from"), (4, "until")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has no row"),
        (b"\n\n", "has no row"),
        (HEADER.encode(), "no row below it"),
        (b"parent,child,cluster,share %\nA,A1,north,5", "has no column 'from'"),
        (b"parent,child,cluster,share %,from,status\nA,A1,north,5,2026-07-01,x", "has a column 'status'"),
        (b"parent,parent,child,cluster,share %,from\nA,A,A1,north,5,2026-07-01", "has the column 'parent' twice"),
        ("parent,child,cluster,share %,from\nÄ,A1,north,5,2026-07-01".encode("cp1252"), "is not UTF-8 from byte 34"),
        (b"PK\x03\x04\x00\x00\x00", "is not text"),
        (HEADER.encode() + b'\n"A,A1', "can't be read at line 2"),
        (b"x" * (MAX_BYTES + 1), "is larger than 4 MiB"),
        (f"{HEADER}\n".encode() + b"A,A1,north,5,2026-07-01,\n" * (MAX_ROWS + 1), "has more than 20,000 rows"),
    ],
)
def test_what_is_no_such_file(data: bytes, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read(data)
    assert refused.value.field == "file"
    assert words in refused.value.message


def test_a_fault_is_plain_data() -> None:
    _, faults = read(f"{HEADER}\nA,A1,north,x,2026-07-01,\n".encode())
    assert faults == [
        Fault(2, "share %", "'x' is not a share from 0.00 to 100.00 with at most two decimals"),
    ]
