"""What the tests of the API's governance half share: asking, and something of everybody's that others must not see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.test import Client

from budgets.queries import today
from tests.portal.conftest import Laboratory

API = "/api/v1"
TODAY = today().isoformat()


def at(days: int) -> str:
    """The day that many days from today."""
    return (today() + timedelta(days=days)).isoformat()


def post(client: Client, path: str, body: dict[str, Any] | None = None, **headers: str) -> HttpResponse:
    """POST as JSON; headers are named like If_Match."""
    return send(client, "post", path, body, **headers)


def patch(client: Client, path: str, body: dict[str, Any], **headers: str) -> HttpResponse:
    """PATCH as JSON."""
    return send(client, "patch", path, body, **headers)


def send(client: Client, method: str, path: str, body: dict[str, Any] | None, **headers: str) -> HttpResponse:
    """As JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return getattr(client, method)(API + path, json.dumps(body or {}), content_type="application/json", headers=named)


def get(client: Client, path: str) -> Any:
    """What there is, as plain values."""
    answer = client.get(API + path)
    assert answer.status_code == 200, answer.content
    return answer.json()


def done(answer: HttpResponse, status: int = 200) -> Any:
    """What was answered, as plain values."""
    assert answer.status_code == status, answer.content
    return json.loads(answer.content)


def fields(answer: HttpResponse, status: int = 400) -> list[str]:
    """The fields that a problem names."""
    assert answer.status_code == status, answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = json.loads(answer.content)
    assert body["status"] == status
    return [each["field"] for each in body.get("errors", [])]


def rows_of(client: Client, path: str) -> Iterator[dict[str, Any]]:
    """All rows of a list, page by page."""
    address: str | None = API + path
    while address:
        page = client.get(address).json()
        yield from page["results"]
        address = page["next"]


def asking(lab: Laboratory, **changed: Any) -> dict[str, Any]:
    """What Ada asks for."""
    return {
        "node": "A1", "cluster": "north", "more_basis_points": 500, "starts_on": TODAY, "why": "the spring runs",
        "otherwise": "they wait", **changed,
    }  # fmt: skip


def submitted(client: Client, lab: Laboratory, **changed: Any) -> int:
    """The number of a request that was written and submitted."""
    number = done(post(client, "/requests/", asking(lab, **changed)), 201)["number"]
    done(post(client, f"/requests/{number}/submit/"))
    return number
