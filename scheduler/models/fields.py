"""What the columns of the scheduler have in common: whole seconds, spans of time, the whole of a device."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models
from django.db.models import Func

WHOLE_DEVICE_MILLI = 1_000
"""One whole device, in thousandths."""


class SecondField(models.DateTimeField):
    """An instant in whole seconds: `timestamptz(0)`. Fractions are cut off, never rounded up into the future."""

    def db_type(self, connection: Any) -> str:
        """The column type."""
        return "timestamptz(0)"

    def get_prep_value(self, value: Any) -> Any:
        """Cut the fraction off before the database could round it."""
        value = super().get_prep_value(value)
        return value.replace(microsecond=0) if isinstance(value, datetime) else value


class TimestampRange(Func):
    """`tstzrange(from, until)`: half-open; a missing end is "not ended"."""

    function = "tstzrange"
    output_field = DateTimeRangeField()
