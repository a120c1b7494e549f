"""`Idempotency-Key`: a POST that is sent again, since its answer was lost, is done once and answered alike.

What is done and the answer are kept in one transaction. Only what was done (2xx) is kept: after a refusal the key is
as new, since nothing was changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext, gettext_lazy
from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import Person
from budgets.services import kept_answers
from budgets.services.kept_answers import Claimed, KeyReused, StillAnswered

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY = re.compile(r"[\x21-\x7e]{1,100}")
KEPT_HEADERS = ("Location", "ETag")


class OtherRequest(APIException):
    """The key belongs to another request."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_detail = gettext_lazy("This Idempotency-Key was used for another request; take a new one.")


class BeingAnswered(APIException):
    """The same request is still at work."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = gettext_lazy("The same request is still being answered; ask again in a few seconds.")
    wait = 5


class AnsweredBefore(Exception):
    """It was done before; the answer is the one that it got then."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class _Undone(Exception):
    """What was answered changed nothing: take everything back."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response


def answered_whole(answer: Callable[[], Any]) -> Any:
    """Do and keep in one transaction, or neither."""
    try:
        with transaction.atomic():
            response = answer()
            if not status.is_success(response.status_code):
                raise _Undone(response)
            return response
    except _Undone as undone:
        return undone.response


def claim(request: Request, person: Person) -> Claimed:
    """Take the request's key.

    Raises:
        ValidationError: it is no key. OtherRequest, BeingAnswered: it is taken. AnsweredBefore: with the answer.
    """
    key = request.headers[HEADER]
    if not KEY.fullmatch(key):
        raise ValidationError({HEADER: [gettext("must be 1 to 100 visible ASCII characters")]})
    route = f"{request.method} {request.get_full_path()}"
    said = json.dumps(request.data, sort_keys=True, default=_plainly)
    digest = salted_hmac("portal.api.idempotency", f"{route}\n{said}", algorithm="sha256").hexdigest()
    try:
        claimed = kept_answers.claim(person=person, key=key, route=route[:300], digest=digest)
    except KeyReused:
        raise OtherRequest from None
    except StillAnswered:
        raise BeingAnswered from None
    if claimed.answered is not None:
        row = claimed.answered
        raise AnsweredBefore(Response(row.body, status=row.status, headers={**row.headers, REPLAYED: "true"}))
    return claimed


def _plainly(value: Any) -> str:
    """What is not JSON in what was sent: of a file, what it holds."""
    if not isinstance(value, UploadedFile):
        return str(value)
    digest = hashlib.sha256()
    for chunk in value.chunks():
        digest.update(chunk)
    value.seek(0)
    return digest.hexdigest()


def keep(claimed: Claimed, response: Response, secrets: Collection[str]) -> None:
    """The answer, without what is shown once."""
    body = json.loads(JSONRenderer().render(response.data) or b"null")
    if isinstance(body, dict):
        body |= {name: None for name in secrets if name in body}
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    kept_answers.keep(claimed=claimed, status=response.status_code, headers=headers, body=body)
