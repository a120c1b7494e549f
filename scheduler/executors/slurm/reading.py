"""Reading what Slurm's commands print: tables with a delimiter, records of `Name=value`, and the values in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler.one_line import one_line

LARGEST = 10**12
"""No count, size or number of seconds in Slurm is larger."""
HOSTS_MAX = 100_000
"""No list of nodes names more."""
DIMENSIONS_MAX = 8
"""No name has more lists of numbers in it."""
BAR = "|"
NOTHING = ("", "N/A", "NONE", "None", "Unknown", "(null)", "n/a")
"""How Slurm says that there is none."""

_KEY = re.compile(r"(?:(?<=\s)|^)([A-Za-z][A-Za-z0-9_/:.]*)=")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_AMOUNT = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([KMGTP]?)[nc]?", re.ASCII)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_HOST = re.compile(r"[A-Za-z0-9_.-]*")


class Unreadable(ValueError):
    """What a command printed, or a file holds, is not as it should be.

    Attributes:
        source: the command, or the file's name.
        line: from 1; 0 where it is about the whole.
        column: the column's or field's name; empty where it is about the whole line.
    """

    def __init__(self, source: str, line: int, column: str, message: str) -> None:
        """Say where and what."""
        where = [source, *([f"line {line}"] if line else []), *([column] if column else [])]
        super().__init__(one_line(f"{', '.join(where)}: {message}"))
        self.source, self.line, self.column, self.message = source, line, column, message


@dataclass(frozen=True, slots=True)
class Row:
    """One line by column. Every reader of a cell raises `Unreadable` with its place."""

    source: str
    line: int
    cells: Mapping[str, str]

    def fault(self, column: str, message: str) -> Unreadable:
        """An error at this line."""
        return Unreadable(self.source, self.line, column, message)

    def text(self, column: str) -> str:
        """What stands there, stripped; empty where Slurm says that there is none."""
        if column not in self.cells:
            raise self.fault(column, "is missing")
        value = self.cells[column].strip()
        return "" if value in NOTHING else value

    def need(self, column: str) -> str:
        """The same, but never empty."""
        value = self.text(column)
        if not value:
            raise self.fault(column, "is empty")
        return value

    def whole(self, column: str, *, at_least: int = 0, missing: int | None = None) -> int:
        """A whole number; `missing` where there is none, if that is allowed."""
        value = self.text(column)
        if not value and missing is not None:
            return missing
        if not re.fullmatch(r"-?[0-9]{1,13}", value):
            raise self.fault(column, f"must be a whole number, not {value[:60]!r}")
        number = int(value)
        if not at_least <= number <= LARGEST:
            raise self.fault(column, f"must be {at_least} to {LARGEST}, but is {number}")
        return number

    def instant(self, column: str) -> datetime | None:
        """An instant in UTC (the commands are called with TZ=UTC); None where there is none."""
        value = self.text(column)
        if not value:
            return None
        if not _TIME.fullmatch(value):
            raise self.fault(column, f"must be an instant such as 2026-03-02T12:00:00, not {value[:60]!r}")
        try:
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        except ValueError as error:
            raise self.fault(column, f"{value}: {error}") from None

    def hosts(self, column: str) -> list[str]:
        """A list of nodes such as n[1-3,7]; empty where there is none."""
        value = self.text(column)
        if not value or value == "None assigned":
            return []
        try:
            return expand(value)
        except ValueError as error:
            raise self.fault(column, str(error)) from None

    def tres(self, column: str) -> dict[str, int]:
        """Trackable resources such as cpu=2,mem=125G,gres/gpu=8: whole numbers, sizes in bytes."""
        value = self.text(column)
        try:
            return tres(value)
        except ValueError as error:
            raise self.fault(column, str(error)) from None

    def exit_code(self, column: str) -> int:
        """Of `status:signal`: the status, or minus the signal."""
        value = self.text(column)
        match = re.fullmatch(r"([0-9]{1,3}):([0-9]{1,3})", value)
        if match is None or int(match[2]) > 64 or int(match[1]) > 255:
            raise self.fault(column, f"must be status:signal, not {value[:60]!r}")
        return -int(match[2]) if int(match[2]) else int(match[1])


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, with their numbers from 1."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def table(source: str, text: str, needed: Sequence[str], *, delimiter: str = BAR) -> list[Row]:
    """A table whose first line names its columns, as `sacct -P` and `sacctmgr -P` print it. Other columns may be there.

    Raises:
        Unreadable: a column is missing, or a line has too few or too many cells.
    """
    lines = lines_of(text)
    first = next(lines, None)
    if first is None:
        raise Unreadable(source, 0, "", "is empty: not even the names of columns")
    header = [name.strip() for name in first[1].split(delimiter)]
    for column in needed:
        if column not in header:
            raise Unreadable(source, first[0], column, "this column is missing")
    return [_row(source, number, line, header, delimiter) for number, line in lines]


def _row(source: str, number: int, line: str, header: Sequence[str], delimiter: str) -> Row:
    cells = line.split(delimiter)
    if len(cells) == len(header) + 1 and not cells[-1].strip():
        cells.pop()  # `-p` ends every line with the delimiter
    if len(cells) != len(header):
        raise Unreadable(source, number, "", f"has {len(cells)} cells, the first line has {len(header)}")
    return Row(source, number, dict(zip(header, cells, strict=True)))


def columns(source: str, text: str, names: Sequence[str], *, delimiter: str = BAR) -> list[Row]:
    """Lines of these columns, each ended by the delimiter; the last may hold the delimiter itself.

    So what others may choose freely (a job's name) stands last, and cannot shift what stands before it.

    Raises:
        Unreadable: a line has too few cells.
    """
    rows = []
    for number, line in lines_of(text):
        cells = line.removesuffix(delimiter).split(delimiter, len(names) - 1)
        if len(cells) != len(names):
            raise Unreadable(source, number, "", f"has {len(cells)} cells, not {len(names)}")
        rows.append(Row(source, number, dict(zip(names, cells, strict=True))))
    return rows


def records(source: str, text: str, first: str) -> list[Row]:
    """Records of `Name=value`, one a line, as `scontrol show ... --oneliner` prints them; each begins with `first`.

    A value may hold spaces. Where a name comes twice, the first counts: what people write (reasons) stands last.

    Raises:
        Unreadable: a line does not begin with that name.
    """
    return [_record(source, number, line.strip(), first) for number, line in lines_of(text)]


def _record(source: str, number: int, line: str, first: str) -> Row:
    found = list(_KEY.finditer(line))
    if not found or found[0].start() != 0 or found[0][1] != first:
        raise Unreadable(source, number, first, f"is not where the line begins: {line[:60]!r}")
    cells: dict[str, str] = {}
    ends = [match.start() for match in found[1:]] + [len(line)]
    for match, end in zip(found, ends, strict=True):
        cells.setdefault(match[1], line[match.end() : end].strip())
    return Row(source, number, cells)


def boot_time(text: str) -> datetime:
    """When the controller began, as `scontrol show config` says.

    Raises:
        Unreadable: it does not say so.
    """
    for number, line in lines_of(text):
        name, _sign, value = line.partition("=")
        if name.strip() == "BOOT_TIME":
            found = Row("scontrol show config", number, {"BOOT_TIME": value}).instant("BOOT_TIME")
            if found is not None:
                return found
    raise Unreadable("scontrol show config", 0, "BOOT_TIME", "is missing")


# --- values -----------------------------------------------------------------------------------------------------------


def tres(text: str) -> dict[str, int]:
    """Trackable resources by name: whole numbers, sizes in bytes.

    Raises:
        ValueError: says what cannot be read.
    """
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, sign, amount = part.partition("=")
        match = _AMOUNT.fullmatch(amount)
        if not sign or not name or match is None:
            raise ValueError(f"{part[:60]!r} is not name=amount")
        fraction = int(match[2]) * _UNITS[match[3]] // 10 ** len(match[2]) if match[2] else 0
        found[name] = int(match[1]) * _UNITS[match[3]] + fraction
    return found


def expand(text: str) -> list[str]:
    """The names in a list of nodes: "n[01-03,7],login" is n01, n02, n03, n7, login.

    Raises:
        ValueError: says what is wrong with it.
    """
    names: list[str] = []
    for part in _split_outside(text):
        names += _expand_one(part, HOSTS_MAX - len(names))
    return names


def _split_outside(text: str) -> list[str]:
    """Split at commas that stand in no brackets."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError(f"{text[:60]!r}: brackets do not match")
        if letter == "," and not depth:
            parts.append(current)
            current = ""
        else:
            current += letter
    if depth:
        raise ValueError(f"{text[:60]!r}: brackets do not match")
    return [*parts, current]


def _expand_one(part: str, room: int) -> list[str]:
    if part.count("[") > DIMENSIONS_MAX:
        raise ValueError(f"{part[:60]!r} has more than {DIMENSIONS_MAX} lists of numbers")
    head, bracket, rest = part.partition("[")
    if not _HOST.fullmatch(head) or (not bracket and not head):
        raise ValueError(f"{part[:60]!r} is not the name of a node")
    if not bracket:
        return [head] if room > 0 else _too_many()
    inside, _closing, tail = rest.partition("]")
    tails = _expand_one(tail, room) if tail else [""]
    numbers = _numbers(inside, room)
    if len(numbers) * len(tails) > room:
        _too_many()
    return [f"{head}{number}{each}" for number in numbers for each in tails]


def _numbers(inside: str, room: int) -> list[str]:
    """The numbers of "01-03,7", as wide as they are written."""
    found: list[str] = []
    for each in inside.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", each)
        if match is None:
            raise ValueError(one_line(f"[{inside[:60]}] is not a list of numbers"))
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(one_line(f"[{inside[:60]}] counts down"))
        if high - low + 1 + len(found) > room:
            _too_many()
        found += [str(number).zfill(len(match[1])) for number in range(low, high + 1)]
    return found


def _too_many() -> list[str]:
    raise ValueError(f"names more than {HOSTS_MAX:,} nodes")
