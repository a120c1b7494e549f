"""Every address of the portal with something filled in for its parameters, for tests that walk all of them.

A new address is walked without being named anywhere, unless it has a parameter that nothing fills in yet: then
`filled` says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from django.urls import URLPattern, URLResolver, get_resolver

DJANGO_ADMIN = "admin/"
"""Django's own screens, for staff."""
API = "api/v1/"
PARAMETER = re.compile(r"<\w+:(\w+)>")

Values = Mapping[str, Sequence[object]]
"""What fills a parameter: by the address up to and with it ("requests/<int:number>"), or by its name alone ("cluster").
An address of the API is looked up without its beginning.
"""


def patterns(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[str]:
    """Every address of the portal as its pattern."""
    for each in (resolver or get_resolver()).url_patterns:
        at = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            if at != DJANGO_ADMIN:
                yield from patterns(each, at)
        elif isinstance(each, URLPattern):
            yield at


def filled(pattern: str, values: Values) -> list[str]:
    """The paths that a pattern stands for, one for each way to fill its parameters.

    Raises:
        LookupError: names the parameter that nothing fills.
    """
    short = pattern.removeprefix(API)
    choices: list[Sequence[object]] = []
    for found in PARAMETER.finditer(short):
        key = short[: found.end()]
        given = values.get(key) or values.get(found[1])
        if given is None:
            raise LookupError(f"nothing fills {found[0]} in {pattern}: add {key!r} or {found[1]!r} to the values")
        choices.append(given)
    return [f"/{_with(pattern, each)}" for each in product(*choices)]


def _with(pattern: str, each: Sequence[object]) -> str:
    parts = iter(each)
    return PARAMETER.sub(lambda _: str(next(parts)), pattern)
