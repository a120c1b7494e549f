"""Ranges of dates and ids, for constraints that keep rows from overlapping."""

from __future__ import annotations

from django.contrib.postgres.fields import DateRangeField
from django.db.models import F, Func, Value


class SingletonRange(Func):
    """`int8range(column, column, '[]')`: lets an integer take part in a GiST exclusion without btree_gist."""

    function = "int8range"
    template = "%(function)s(%(expressions)s)"

    def __init__(self, column: str) -> None:
        super().__init__(F(column), F(column), Value("[]"))


class DateRange(Func):
    """`daterange(from, until)`: half-open; a missing end is "for good"."""

    function = "daterange"
    output_field = DateRangeField()


def spell(start: str = "valid_from", end: str = "valid_until") -> DateRange:
    """The half-open range of dates in which a row is in force."""
    return DateRange(F(start), F(end))
