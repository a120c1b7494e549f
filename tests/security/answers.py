"""Clients, and what answers say."""

from __future__ import annotations

import gzip
import io
import re
from typing import Any

import pypdf
from django.http import HttpResponse
from django.test import Client


def client_of(person: Any = None, **more: Any) -> Client:
    """Signed in as somebody; what breaks is an answer with status 500."""
    client = Client(raise_request_exception=False, **more)
    if person is not None:
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def said(answer: HttpResponse) -> str:
    """What an answer says, unpacked."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
    if answer.headers.get("Content-Encoding") == "gzip":
        content = gzip.decompress(content)
    if content.startswith(b"%PDF"):
        return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages)
    return content.decode(errors="replace") + str(dict(answer.headers))


def bare(answer: HttpResponse) -> tuple[int, str]:
    """Status and text without what differs from answer to answer: numbers, tokens, instants."""
    text = said(answer).partition("{'Content-Type'")[0]
    text = re.sub(r'(csrfmiddlewaretoken"? value=|action" value=|csrftoken=|x-csrftoken": ")"?[\w-]+', "", text)
    text = re.sub(r"no-such-thing|[0-9a-f]{8}-[0-9a-f-]{27}|'Set-Cookie'.*", "", text)
    return answer.status_code, re.sub(r"\d+", "0", text)
