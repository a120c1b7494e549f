"""Lists of the API come page by page: a cursor says after which row the next page begins, so rows may come and go."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import date
from functools import reduce
from operator import or_
from typing import Any

from django.core.exceptions import FieldError
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import DataError
from django.db.models import Q, QuerySet
from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

ROWS, ROWS_MAX = 50, 200
CURSOR_MAX_CHARS = 500

PAGING = [
    OpenApiParameter("cursor", str, description="the page, as `next` and `previous` name it"),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS},
        description=f"rows, 1 to {ROWS_MAX}; {ROWS} unless said",
    ),
]
"""What the address of a list may say of its page."""


class Pages(BasePagination):
    """Pages of rows in the order of `ordering`, none left out and none twice while rows are added at either end.

    At most ROWS_MAX rows. `ordering` are columns that are never null; the primary key is added to them, so that no two
    rows stand in the same place.
    """

    ordering: Sequence[str] = ("-submitted_at",)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """The rows of the page that the address asks for.

        Raises:
            ValidationError: no such cursor, or not a whole number of rows within the bounds.
        """
        self.request, size = request, _size(request)
        backward, values = _read(request.query_params.get("cursor", ""), len(self.columns))
        order = _reversed(self.columns) if backward else self.columns
        try:
            found = list(self.beyond(queryset, order, values)[: size + 1])
        except (DjangoValidationError, FieldError, DataError, ValueError, TypeError):
            raise _strange_cursor() from None
        more, self.page = len(found) > size, found[:size]
        if backward:
            self.page.reverse()
        self.has_next, self.has_previous = (bool(values), more) if backward else (more, bool(values))
        return self.page

    def beyond(self, rows: Any, order: Sequence[str], values: Sequence[Any]) -> QuerySet[Any]:
        """The rows in this order, from after the one with these values on; without any, from the first on."""
        ordered: QuerySet[Any] = rows.order_by(*order)
        return ordered.filter(is_beyond(order, values)) if values else ordered

    @property
    def columns(self) -> tuple[str, ...]:
        """The order, to the last row."""
        given = tuple(self.ordering)
        return given if {"pk", "-pk", "id", "-id"} & set(given) else (*given, "-pk" if given[0][0] == "-" else "pk")

    def get_paginated_response(self, data: Any) -> Response:
        """The page with the addresses of those beside it."""
        return Response({"next": self._link(ahead=True), "previous": self._link(ahead=False), "results": data})

    def _link(self, *, ahead: bool) -> str | None:
        if not self.page or not (self.has_next if ahead else self.has_previous):
            return None
        row = self.page[-1] if ahead else self.page[0]
        cursor = _written(not ahead, [_value(row, column) for column in self.columns])
        return replace_query_param(self.request.build_absolute_uri(), "cursor", cursor)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """`cursor` and `limit`."""
        return [
            {
                "name": each.name,
                "in": "query",
                "required": False,
                "description": each.description,
                "schema": each.type if isinstance(each.type, dict) else {"type": "string"},
            }
            for each in PAGING
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What `get_paginated_response` gives."""
        address = {"type": "string", "nullable": True, "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": {**address, "description": "the page that follows; null on the last one"},
                "previous": {**address, "description": "the page before; null on the first one"},
                "results": schema,
            },
        }


def _size(request: Request) -> int:
    """As many rows as the address asks for."""
    text = request.query_params.get("limit", "")
    if not text:
        return ROWS
    if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= ROWS_MAX):
        raise ValidationError({"limit": [gettext("must be a whole number from 1 to {most}").format(most=ROWS_MAX)]})
    return int(text)


def _strange_cursor() -> ValidationError:
    return ValidationError({"cursor": [gettext("There is no such page; begin again without a cursor.")]})


def _written(backward: bool, values: Sequence[Any]) -> str:
    """A cursor: which way, and beyond which row."""
    plain = [each.isoformat() if isinstance(each, date) else each for each in values]  # an instant is a date, too
    return base64.urlsafe_b64encode(json.dumps([int(backward), *plain]).encode()).decode().rstrip("=")


def _read(text: str, columns: int) -> tuple[bool, list[Any]]:
    """Which way a cursor goes, and the values of the row that it begins beyond."""
    if not text:
        return False, []
    try:
        said = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _strange_cursor() from None
    is_ours = isinstance(said, list) and len(said) == columns + 1 and said[0] in (0, 1)
    if len(text) > CURSOR_MAX_CHARS or not is_ours or not all(isinstance(each, str | int) for each in said):
        raise _strange_cursor()
    return bool(said[0]), said[1:]


def is_beyond(order: Sequence[str], values: Sequence[Any]) -> Q:
    """Rows that come after the one with these values."""
    either, same = [], Q()
    for column, value in zip(order, values, strict=True):
        name = column.lstrip("-")
        either.append(same & Q(**{f"{name}__{'lt' if column[0] == '-' else 'gt'}": value}))
        same &= Q(**{name: value})
    first = order[0].lstrip("-")
    bound = Q(**{f"{first}__{'lte' if order[0][0] == '-' else 'gte'}": values[0]})  # said once more, for an index
    return bound & reduce(or_, either)


def _reversed(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(each[1:] if each[0] == "-" else f"-{each}" for each in columns)


def _value(row: Any, column: str) -> Any:
    """The value of a row's column, also one of a row that it belongs to."""
    for name in column.lstrip("-").split("__"):
        row = getattr(row, name)
    return row
