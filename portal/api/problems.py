"""Errors as RFC 9457 problem documents that name the field, and requests that say only what is known."""

from __future__ import annotations

import math
import re
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.http import Http404
from django.utils.translation import gettext, gettext_lazy
from rest_framework import exceptions, serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from budgets.errors import ConflictError, InputError, NotAllowed, one_line

NAMED_PLACE = re.compile(r"\[(?!\d+\])([^\]]+)\]")
TITLES = {
    400: gettext_lazy("That can't be read"),
    401: gettext_lazy("Sign in first"),
    403: gettext_lazy("That is not yours to do"),
    404: gettext_lazy("Not there"),
    405: gettext_lazy("No such method here"),
    406: gettext_lazy("Not to be had in that form"),
    409: gettext_lazy("It was changed meanwhile"),
    412: gettext_lazy("It was changed meanwhile"),
    413: gettext_lazy("Too large"),
    415: gettext_lazy("Not in that form"),
    422: gettext_lazy("That can't be done"),
    428: gettext_lazy("Say what you read"),
    429: gettext_lazy("Too many requests"),
}


class Strict(serializers.Serializer):
    """A request body in which an unknown field is an error, never ignored."""

    def to_internal_value(self, data: Any) -> Any:
        """Refuse what is not a field of ours."""
        if isinstance(data, dict):
            unknown = sorted(set(map(str, data)) - set(self.fields))
            if unknown:
                raise ValidationError({name: [gettext("There is no such field.")] for name in unknown})
        return super().to_internal_value(data)


def status_of(error: InputError) -> int:
    """400, 403 or 409."""
    if isinstance(error, NotAllowed):
        return status.HTTP_403_FORBIDDEN
    return status.HTTP_409_CONFLICT if isinstance(error, ConflictError) else status.HTTP_400_BAD_REQUEST


def problem(code: int, detail: str, errors: list[dict[str, str]] | None = None) -> Response:
    """One problem document."""
    body: dict[str, Any] = {"type": "about:blank", "title": TITLES.get(code, "Error"), "status": code, "detail": detail}
    if errors:
        body["errors"] = errors
    return Response(body, status=code, content_type="application/problem+json")


def flat(detail: Any, path: str = "") -> list[dict[str, str]]:
    """Every complaint of a validation with the field it is about."""
    if isinstance(detail, dict):
        return [each for name, inner in detail.items() for each in flat(inner, f"{path}.{name}" if path else str(name))]
    if isinstance(detail, list):
        nested = any(isinstance(each, dict | list) for each in detail)
        return [
            each for index, inner in enumerate(detail) for each in flat(inner, f"{path}[{index}]" if nested else path)
        ]
    return [{"field": "" if path == "non_field_errors" else path, "message": str(detail)}]


def as_path(field: str) -> str:
    """A service's `shares[A1]` as a body has it: `shares.A1`. Places in a list stay, as in `command[2]`."""
    return NAMED_PLACE.sub(r".\1", field)


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """What the API says to an error; None lets it become a 500, which is logged."""
    if isinstance(error, InputError):
        return problem(status_of(error), str(error), [{"field": as_path(error.field), "message": error.message}])
    if isinstance(error, ValidationError):
        errors = flat(error.detail)
        first = errors[0]
        return problem(400, f"{first['field']}: {first['message']}" if first["field"] else first["message"], errors)
    if isinstance(error, BadRequest):
        said = one_line(str(error))
        return problem(400, said, [{"field": said.partition(":")[0], "message": said}])
    if isinstance(error, RequestDataTooBig):
        most = f"{(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0) / 2**20:g}"
        return problem(413, gettext("Nothing here takes more than {most} MiB.").format(most=most))
    if isinstance(error, Http404):
        return problem(
            404, str(error.args[0]) if error.args else gettext("There is no such thing, or you may not see it.")
        )
    if isinstance(error, PermissionDenied):
        return problem(403, str(error) or gettext("You may see this, but not do it."))
    if isinstance(error, exceptions.APIException):
        response = problem(error.status_code, str(error.detail))
        if header := getattr(error, "auth_header", None):
            response.headers["WWW-Authenticate"] = header
        if wait_s := getattr(error, "wait", None):
            response.headers["Retry-After"] = str(math.ceil(wait_s))
        if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
            response.data["title"] = TITLES[401]
        return response
    return None
