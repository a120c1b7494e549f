"""The API's description as people read it: by subject, each operation with what it takes and gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from portal.api.schema import CONVENTIONS, described_once

MEDIA = "application/json"


@dataclass(frozen=True, slots=True)
class Part:
    """A parameter or a field: its name, where it stands, what it may be, and what is said of it."""

    name: str
    where: str
    kind: str
    required: bool
    about: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one address."""

    key: str
    method: str
    path: str
    summary: str
    about: Sequence[str]
    scope: str
    parameters: Sequence[Part]
    takes: Sequence[Part]
    gives: Sequence[Part]
    status: str
    is_list: bool
    problems: Sequence[tuple[str, str]]
    tag: str


@cache
def operations() -> dict[str, Operation]:
    """All of them by their ids, in the order of addresses."""
    schema = described_once()
    found = [
        _operation(schema, path, method, each)
        for path, methods in schema["paths"].items()
        for method, each in methods.items()
    ]
    return {each.key: each for each in sorted(found, key=lambda each: (each.tag, each.path, each.method))}


def by_tag() -> dict[str, list[Operation]]:
    """The same by subject."""
    found: dict[str, list[Operation]] = {}
    for each in operations().values():
        found.setdefault(each.tag, []).append(each)
    return found


def _operation(schema: Mapping[str, Any], path: str, method: str, each: Mapping[str, Any]) -> Operation:
    status, answer = next((code, body) for code, body in each["responses"].items() if code.startswith("2"))
    gives = answer.get("content", {}).get(MEDIA, {}).get("schema", {})
    page = _resolved(schema, gives).get("properties", {})
    is_page = set(page) == {"next", "previous", "results"}
    row = page["results"] if is_page else gives
    body = each.get("requestBody", {}).get("content", {}).get(MEDIA, {}).get("schema", {})
    problems = [
        (code, _resolved(schema, said).get("description", ""))
        for code, said in each["responses"].items()
        if not code.startswith("2")
    ]
    return Operation(
        key=each["operationId"],
        method=method.upper(),
        path=path,
        summary=each.get("summary", ""),
        about=each.get("description", "").split("\n\n"),
        scope=each.get("x-scope", ""),
        parameters=[_parameter(schema, part) for part in each.get("parameters", ())],
        takes=list(_fields(schema, body)),
        gives=list(_fields(schema, row.get("items", row))),
        status=status,
        is_list=is_page or row.get("type") == "array",
        problems=problems,
        tag=each["tags"][0],
    )


def _parameter(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Part:
    kind = _kind(schema, part["schema"])
    return Part(part["name"], part["in"], kind, part.get("required", False), part.get("description", ""))


def _fields(schema: Mapping[str, Any], of: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[Part]:
    """The fields of an object, those inside of others behind them."""
    whole = _resolved(schema, of)
    for name, field in whole.get("properties", {}).items():
        inner = _resolved(schema, field)
        is_required = name in whole.get("required", ())
        about = field.get("description") or inner.get("description", "") if "$ref" not in field else ""
        yield Part(f"{before}{name}", "", _kind(schema, field), is_required, " ".join(about.split()))
        rows = _resolved(schema, inner.get("items", {}))
        if depth < 3:
            yield from _fields(schema, inner, f"{before}{name}.", depth + 1)
            yield from _fields(schema, rows, f"{before}{name}[].", depth + 1)


def _resolved(schema: Mapping[str, Any], of: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference, or the one part of an `allOf`, stands for."""
    while "$ref" in of or len(of.get("allOf", ())) == 1:
        if "$ref" in of:
            at: Any = schema
            for name in of["$ref"].removeprefix("#/").split("/"):
                at = at[name]
            of = at
        else:
            of = {**of["allOf"][0], **{name: value for name, value in of.items() if name != "allOf"}}
            if "$ref" in of:
                of = {"$ref": of["$ref"]}
    return of


def _kind(schema: Mapping[str, Any], of: Mapping[str, Any]) -> str:
    """What a value may be, in a few words."""
    whole = _resolved(schema, of)
    if whole.get("enum"):
        said = " | ".join(str(each) for each in whole["enum"] if each not in (None, ""))
    elif whole.get("type") == "array":
        said = f"list of {_kind(schema, whole.get('items', {}))}"
    else:
        said = str(whole.get("format") or whole.get("type") or "any")
    if "minimum" in whole and "maximum" in whole:
        said += f" {whole['minimum']} to {whole['maximum']}"
    elif "maxLength" in whole and whole.get("format") is None:
        said += f", at most {whole['maxLength']}"
    return f"{said} or null" if whole.get("nullable") or of.get("nullable") else said


__all__ = ["CONVENTIONS", "Operation", "Part", "by_tag", "operations"]
