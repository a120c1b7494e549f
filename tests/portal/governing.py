"""What the tests of the API's governance half share: asking, and something of everybody's that others must not see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.test import Client
from jsonschema import Draft202012Validator

from budgets.queries import today
from portal.api.schema import described_once
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
    text = json.dumps(body or {})
    answer = getattr(client, method)(API + path, text, content_type="application/json", headers=named)
    conforms(answer, method, path)
    return answer


def get(client: Client, path: str) -> Any:
    """What there is, as plain values."""
    answer = client.get(API + path)
    assert answer.status_code == 200, answer.content
    if "fields=" not in path:
        conforms(answer, "get", path)
    return answer.json()


def conforms(answer: HttpResponse, method: str, path: str) -> None:
    """Hold an answer against what the API's description says of it."""
    address = API + path.partition("?")[0]
    template = next(each for each in described_once()["paths"] if expression(each).fullmatch(address))
    operation = described_once()["paths"][template][method]
    said = operation["responses"].get(str(answer.status_code))
    assert said is not None, f"{method} {template} is not said to answer {answer.status_code}"
    if "$ref" in said:
        said = described_once()["components"]["responses"][said["$ref"].rpartition("/")[2]]
    kind = answer.headers["Content-Type"].split(";")[0]
    assert kind in said["content"], f"{method} {template} is not said to give {kind} with {answer.status_code}"
    schema = {**said["content"][kind]["schema"], "components": described_plainly()}
    faults = [
        f"{method} {template} {answer.status_code}: {fault.json_path}: {fault.message}"
        for fault in Draft202012Validator(schema).iter_errors(json.loads(answer.content))
    ]
    assert faults == []


@cache
def expression(template: str) -> re.Pattern[str]:
    """What an address of the description fits."""
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)))


@cache
def described_plainly() -> Any:
    """The components of the description in JSON Schema's own words; objects have the fields that are named alone."""
    return plainly(described_once()["components"])


def plainly(said: Any) -> Any:
    """OpenAPI 3.0 as JSON Schema."""
    if isinstance(said, list):
        return [plainly(each) for each in said]
    if not isinstance(said, dict):
        return said
    found = {name: plainly(each) for name, each in said.items() if name != "nullable"}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return {"anyOf": [found, {"type": "null"}]} if said.get("nullable") is True else found


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
