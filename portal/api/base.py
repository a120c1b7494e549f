"""What every view of the API shares.

A view says what it knows: `filters` (parameters of GET), `out` (what GET gives, of which `?fields=` chooses),
`pagination_class` (a list that can grow), `scopes` (what a token needs for each method that changes something).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext, gettext_lazy
from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.permissions import SAFE_METHODS, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer
from rest_framework.views import APIView

from budgets.errors import ConflictError
from budgets.models import Person
from portal.api import idempotency, problems
from portal.api.filters import Filter
from portal.api.paging import PAGING, Pages
from portal.api.parsing import PlainJSONParser

__all__ = ["PAGING", "Api", "Pages", "PreconditionFailed", "PreconditionRequired", "tag_of"]

FIELDS = "fields"
IF_MATCH = "If-Match"
VERSION_DIGITS = 10
PAGE_PARAMETERS = frozenset(each.name for each in PAGING)


class PreconditionFailed(APIException):
    """What was to be changed is not as it was when it was read."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_detail = gettext_lazy("It was changed since you read it: read it again, then decide.")


class PreconditionRequired(APIException):
    """The change does not say what it was made from."""

    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_detail = gettext_lazy("Say what you read: If-Match with its ETag, or its version in the body.")


class Api(APIView):
    """A view of the API.

    Attributes:
        known: parameters that an address may have with any method.
        filters: those of GET, as `filters.py` describes them.
        out: what GET gives, or each row of its list; `?fields=` chooses among its fields.
        scopes: what a token needs, by method; GET needs `read`.
        secrets: fields of an answer to POST that are shown once, and so are not kept for an Idempotency-Key.
        matches: methods that take If-Match (or `version` in the body), as `version_said` reads it.
    """

    permission_classes = [IsAuthenticated]
    parser_classes = [PlainJSONParser]
    pagination_class: type[Pages] | None = None
    known: frozenset[str] = frozenset()
    filters: tuple[Filter, ...] = ()
    out: type[Serializer] | None = None
    scopes: Mapping[str, str] = {}
    secrets: Collection[str] = ()
    matches: Collection[str] = ()

    _claimed: idempotency.Claimed | None = None
    _chosen: Collection[str] | None = None

    # --- the life of a request ---

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer; what has an Idempotency-Key, in one transaction with its answer."""
        answer = partial(super().dispatch, request, *args, **kwargs)
        if request.method == "POST" and idempotency.HEADER in request.headers:
            return idempotency.answered_whole(answer)
        return answer()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse parameters that nobody reads, and what was done before."""
        super().initial(request, *args, **kwargs)
        self._check_parameters(request)
        if request.method == "POST" and idempotency.HEADER in request.headers:
            self._claimed = idempotency.claim(request, self.person())

    def _check_parameters(self, request: Request) -> None:
        known = set(self.known)
        if request.method in SAFE_METHODS:
            known |= {each.name for each in self.filters}
            known |= {FIELDS} if self.out is not None else set()
            known |= PAGE_PARAMETERS if self.pagination_class is not None else set()
            self.asked()
        unknown = sorted(set(request.query_params) - known)
        if unknown:
            raise ValidationError({unknown[0]: [gettext("There is no such parameter.")]})
        if FIELDS in request.query_params and self.out is not None:
            self._chosen = _chosen(request.query_params[FIELDS], self.out)

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response | None]:
        """Problem documents."""
        return problems.answer

    def handle_exception(self, exc: Exception) -> Response:
        """A problem; or the answer that the same request got before."""
        if isinstance(exc, idempotency.AnsweredBefore):
            return exc.response
        if isinstance(exc, ConflictError) and self.request.headers.get(IF_MATCH):
            exc = PreconditionFailed()
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Response:
        """Leave out the fields that were not asked for; keep what may be asked for again."""
        if isinstance(response, Response) and status.is_success(response.status_code):
            if self._chosen is not None:
                response.data = _with_only(response.data, self._chosen, is_page=self.pagination_class is not None)
            if self._claimed is not None:
                idempotency.keep(self._claimed, response, self.secrets)
        return super().finalize_response(request, response, *args, **kwargs)

    # --- what views ask ---

    def person(self) -> Person:
        """Who asks."""
        person: Person = self.request.user  # type: ignore[assignment]
        return person

    def read(self, serializer: BaseSerializer) -> dict[str, Any]:
        """What was sent, checked."""
        serializer.is_valid(raise_exception=True)
        return serializer.validated_data

    def asked(self) -> dict[str, Any]:
        """What the address says of each filter; None where it says nothing.

        Raises:
            ValidationError: names the parameter that can't be read.
        """
        said = self.request.query_params
        return {each.name: each.value_of(said.get(each.name, "")) for each in self.filters}

    def page(self, rows: QuerySet[Any], show: Callable[[list[Any]], Iterable[dict[str, Any]]]) -> Response:
        """One page of rows; `show` makes what is given of all of them at once."""
        assert self.pagination_class is not None
        pages = self.pagination_class()
        shown = pages.paginate_queryset(rows, self.request, self)
        return pages.get_paginated_response(list(show(shown)))

    def tagged(self, data: Any, tag: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        """What is there, with its ETag; 304 where the asker has it already."""
        given = {**(headers or {}), "ETag": tag}
        if self.request.method in SAFE_METHODS and _is_among(tag, self.request.headers.get("If-None-Match", "")):
            return Response(status=304, headers=given)
        return Response(data, status=status, headers=given)

    def version_said(self, said: Mapping[str, Any], *, needed: bool = True) -> int | None:
        """The version that a change was made from: If-Match with the ETag of GET, or `version` in the body.

        A service refuses one that is not the present one: 412 where If-Match said it, 409 where the body did.

        Raises:
            PreconditionFailed: no ETag of a version. PreconditionRequired: neither says it, and one has to.
        """
        tag = self.request.headers.get(IF_MATCH, "").strip()
        if tag and tag != "*":
            digits = tag.removeprefix("W/").strip('"')
            if not (digits.isascii() and digits.isdigit() and len(digits) < VERSION_DIGITS):
                raise PreconditionFailed
            return int(digits)
        version: int | None = said.get("version")
        if version is None and tag != "*" and needed:
            raise PreconditionRequired
        return version


def tag_of(*parts: object) -> str:
    """An ETag of what the state of a thing is told by: its version, for one."""
    return '"' + ".".join(str(each) for each in parts) + '"'


def _is_among(tag: str, said: str) -> bool:
    """Whether a header names this ETag; a proxy that compresses may have made it a weak one."""
    return said.strip() == "*" or tag in {each.strip().removeprefix("W/") for each in said.split(",")}


def _chosen(said: str, out: type[Serializer]) -> set[str]:
    """The fields that `?fields=` names."""
    there = list(out().fields)
    names = [each.strip() for each in said.split(",") if each.strip()]
    unknown = [each for each in names if each not in there]
    if unknown or not names:
        message = gettext("There is no field {name!r}; there are {there}.")
        name = unknown[0] if unknown else ""
        raise ValidationError({FIELDS: [message.format(name=name[:80], there=", ".join(there))]})
    return set(names)


def _with_only(data: Any, names: Collection[str], *, is_page: bool) -> Any:
    """The same with these fields alone: of one thing, of each of a list, of each on a page."""
    if isinstance(data, list):
        return [_with_only(each, names, is_page=False) for each in data]
    if not isinstance(data, dict):
        return data
    if is_page:
        return {**data, "results": _with_only(data["results"], names, is_page=False)}
    return {name: value for name, value in data.items() if name in names}
