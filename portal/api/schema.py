"""The API's description of itself (OpenAPI 3): what every operation shares is said here once.

What a view says of itself (`portal.api.base.Api`) becomes parameters, headers, the scope that a token needs, and the
problem documents that each method may answer with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.utils import translation
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from portal.api import idempotency, scopes
from portal.api.base import FIELDS, IF_MATCH, Api
from portal.api.problems import Strict

SAFE = ("GET", "HEAD", "OPTIONS")
PROBLEM_TYPE = "application/problem+json"
EVERY = {
    400: "A parameter, or a field of what was sent, can't be; `errors` name it.",
    401: "Nobody, or a token that is not known or has ended.",
    403: "Not yours to do, or the token has not the scope.",
    404: "Not there, or not yours to see.",
    406: "Only JSON is given.",
    429: "Too many requests; `Retry-After` says how many seconds to wait.",
    503: "The portal is up and its database is not; what runs goes on. `Retry-After` says how many seconds to wait.",
}
WRITING = {
    409: "It was changed meanwhile (an old `version`), or is not in a state in which that can be done.",
    413: "More was sent than is taken.",
    415: "Only JSON is taken.",
}
ANSWERED_ONCE = {422: "The Idempotency-Key was used for another request."}
MATCHED = {
    412: "It was changed since you read it: the ETag in If-Match is not the present one.",
    428: "Neither If-Match nor `version` says what the change was made from.",
}
KEY_PARAMETER = OpenApiParameter(
    idempotency.HEADER,
    {"type": "string", "maxLength": 100, "pattern": r"^[\x21-\x7E]{1,100}$"},
    OpenApiParameter.HEADER,
    description="Drawn by the sender for this one request. Sent again within 48 h it is done once and answered alike, "
    "with `Idempotency-Replayed: true`; what an answer shows once (a new token) is null then.",
)
MATCH_PARAMETER = OpenApiParameter(
    IF_MATCH,
    {"type": "string", "maxLength": 40},
    OpenApiParameter.HEADER,
    description='The ETag that GET gave, such as `"7"`: 412 if it was changed since.',
)
NONE_MATCH_PARAMETER = OpenApiParameter(
    "If-None-Match",
    {"type": "string"},
    OpenApiParameter.HEADER,
    description="An ETag that you were given: 304, and no body, where it is still the present one.",
)
TAGS = {
    "budget": "budgets",
    "tree": "budgets",
    "shares": "budgets",
    "nodes": "nodes",
    "join-tokens": "nodes",
    "repairs": "nodes",
    "queue": "workloads",
    "runs": "workloads",
    **dict.fromkeys(("pyramid", "fairness", "waits", "squatting", "usage", "priorities", "pace"), "figures"),
    "me": "tokens",
}
WORDS = re.compile(r"(?<=[.!?])\s")


CONVENTIONS = """\
Everything that the pages show and do, for programs: the same services, and the same authority. What one may not see is
404.

**Who asks.** `Authorization: Bearer allot_...` with an access token (page *Access tokens*), or a session's cookie with
its CSRF token. A token has scopes, `read`, `submit`, `operate` and `decide`; `x-scope` is the one that an operation
needs, besides what its person may.

**Values.** Amounts are thousandths of the cluster's unit (`_milli`; one GPU is 1,000), device time is thousandths times
seconds (`_milli_s`), durations are whole seconds (`_s`), shares are basis points, instants are ISO 8601 in UTC
(`_at`), days are those of the organisation, ratios are `[numerator, denominator]`.

**Lists** that can grow come page by page: `next` and `previous` are the addresses of the pages beside, `limit` is 50
unless said and 200 at most. No row is left out or given twice because others were added meanwhile.

**Fields.** `?fields=a,b` leaves out all others, of one thing or of each row.

**Versions.** What somebody changes from what they read has a `version`, which is its ETag too. Send it back: in
`If-Match` (412 where it was changed meanwhile), or as `version` in the body (409). Where one has to and does not: 428.

**Sent again.** A POST with an `Idempotency-Key` is done once, however often it comes within 48 hours, and answered
alike each time (`Idempotency-Replayed: true`). A second one that comes while the first is at work waits for it. The key
with another request is 422. What was refused changed nothing, and leaves its key free.

**Problems** are RFC 9457 documents, `application/problem+json`; `errors` name each field or parameter. Nothing was
changed then. Parameters and fields that nobody reads are refused, never ignored.
"""


class ProblemField(serializers.Serializer):
    """One complaint, and the field or parameter that it is about."""

    field = serializers.CharField(help_text="such as `shares.A1` or `command[2]`; empty: the whole")
    message = serializers.CharField()


class Problem(serializers.Serializer):
    """A problem document (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = ProblemField(many=True, required=False)  # type: ignore[assignment]


class ApiSchema(AutoSchema):
    """What a view of the API says of itself, as OpenAPI has it."""

    def get_override_parameters(self) -> list[Any]:
        """Filters, fields and headers that the view takes."""
        view = self.view
        if not isinstance(view, Api):
            return []
        found: list[Any] = []
        if self.method == "GET":
            found += [each.parameter for each in view.filters]
            found += [_fields_parameter(view)] if view.out is not None else []
        if self.method == "POST":
            found.append(KEY_PARAMETER)
        if self.method in view.matches:
            found.append(NONE_MATCH_PARAMETER if self.method == "GET" else MATCH_PARAMETER)
        return found

    def _get_paginator(self) -> Any:
        """What is made is given whole; only reading comes page by page."""
        return super()._get_paginator() if self.method == "GET" else None

    def get_summary(self) -> str | None:
        """In a line: what is there (GET), or what is done."""
        said = self._said_of_view() if self.method == "GET" else self._said_of_method()
        return WORDS.split(said, maxsplit=1)[0].rstrip(".") or None

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's own signature
        """What the view is, and what the method does."""
        scope = scopes.scope_of(self.view, self.method)
        said = (self._said_of_view(), self._said_of_method(), SCOPE_WORDS.get(scope or "", ""))
        return "\n\n".join(each for each in said if each)

    def _said_of_view(self) -> str:
        return " ".join((self.view.__class__.__doc__ or "").split("\n\n")[0].split())

    def _said_of_method(self) -> str:
        said = getattr(self.view, self.method.lower(), None).__doc__ or ""
        return " ".join(re.split(r"\n\s*(?:Raises|Args|Returns):", said)[0].split())

    def get_extensions(self) -> dict[str, Any]:
        """The scope that a token needs."""
        return {"x-scope": scopes.scope_of(self.view, self.method)}

    def get_tags(self) -> list[str]:
        """By what it is about: the first word of the address, or one after it that says more."""
        words = self._tokenize_path()
        said = next((TAGS[each] for each in words[1:] if each in TAGS), None)
        return [said or TAGS.get(words[0], words[0].replace("-", " "))]

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        """What is given, and the problems that may be answered instead."""
        found = super()._get_response_bodies(direction)
        self.resolve_serializer(Problem(), "response")
        for status in self._problems():
            found.setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})
        if self.method == "GET" and isinstance(self.view, Api) and self.view.matches:
            found["304"] = {"description": "It is as the ETag in If-None-Match says."}
            found["200"].setdefault("headers", {})["ETag"] = {"schema": {"type": "string"}}
        return found

    def _problems(self) -> Iterator[int]:
        yield from EVERY
        if self.method not in SAFE:
            yield from WRITING
        if self.method == "POST":
            yield from ANSWERED_ONCE
        if isinstance(self.view, Api) and self.method in self.view.matches and self.method not in SAFE:
            yield from MATCHED

    def get_paginated_name(self, serializer_name: str) -> str:
        """The page of a list."""
        return f"{serializer_name}Page"

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> dict[str, Any]:
        """A body in which unknown fields are refused says so."""
        found = super()._map_basic_serializer(serializer, direction)
        return {**found, "additionalProperties": False} if isinstance(serializer, Strict) else found

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        """The name of its class; where two modules have one of that name, behind the module's."""
        of = serializer.__class__
        if _named_alike()[of.__name__] < 2:
            return of.__name__
        module = of.__module__.rpartition(".")[2].removesuffix("_out")
        return "".join(each.capitalize() for each in module.split("_")) + of.__name__


def _named_alike() -> Counter[str]:
    """How many serializers of the API have each name."""
    found: set[type] = set()
    waiting: list[type] = [serializers.Serializer]
    while waiting:
        of = waiting.pop()
        if of not in found:
            found.add(of)
            waiting += of.__subclasses__()
    return Counter(of.__name__ for of in found if of.__module__.startswith("portal.api."))


SCOPE_WORDS: Mapping[str, str] = {
    **{each: f"Tokens need the scope `{each}`." for each in (scopes.READ, scopes.SUBMIT, scopes.OPERATE)},
    scopes.DECIDE: "Tokens need the scope `decide`.",
    scopes.ANY: "Any token will do.",
    scopes.SESSION: "Not for tokens: sign in.",
}


def _fields_parameter(view: Api) -> OpenApiParameter:
    assert view.out is not None
    names = list(view.out().fields)
    each = "(?:" + "|".join(names) + ")"
    return OpenApiParameter(
        FIELDS,
        {"type": "string", "pattern": f"^{each}(?:,{each})*$"},
        description="only these fields, with commas between them: " + ", ".join(names),
    )


def with_conventions(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """The schema with what holds everywhere (a hook of drf-spectacular)."""
    result["info"]["description"] = CONVENTIONS
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    result["components"]["responses"] = {
        f"Problem{status}": {"description": words, "content": content}
        for status, words in sorted({**EVERY, **WRITING, **ANSWERED_ONCE, **MATCHED}.items())
    }
    return result


def described() -> dict[str, Any]:
    """The whole API, in English."""
    with translation.override("en"):
        return SchemaGenerator().get_schema(request=None, public=True)


@lru_cache(maxsize=1)
def described_once() -> dict[str, Any]:
    """The same; it does not change while the process lives."""
    return described()


def as_yaml() -> str:
    """docs/openapi.yaml."""
    text: bytes = OpenApiYamlRenderer().render(described(), renderer_context={})
    return text.decode()
