"""`allot api`: any request to the API, for what has no command of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from allot.app import App
from allot.client import new_key
from allot.failures import USAGE, Failure
from allot.screen import put_json

METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")


@click.command(
    short_help="Any request to the API, for what has no command of its own.",
    epilog="\b\nExamples:\n"
    "  allot api clusters/north/passes limit=5\n"
    "  allot api clusters/north/join-tokens -d '{\"valid_for_s\": 3600}'\n"
    "  allot api -X PATCH clusters/north/policy -d @knobs.json --if-match '\"7\"'",
)
@click.option("-X", "--method", type=click.Choice(METHODS), help="[default: GET, or POST with -d]")
@click.option("-d", "--data", metavar="JSON", help="What to send; @FILE reads it, @- from stdin.")
@click.option("--if-match", metavar="ETAG", help="Only if it is as it was when this was its ETag.")
@click.option("--etag", is_flag=True, help="Print the ETag alone.")
@click.option("--all", "is_all", is_flag=True, help="All pages of a list, as one array.")
@click.argument("path")
@click.argument("parameters", metavar="[NAME=VALUE]...", nargs=-1)
@click.pass_obj
def api(
    app: App,
    *,
    method: str | None,
    data: str | None,
    if_match: str | None,
    etag: bool,
    is_all: bool,
    path: str,
    parameters: Sequence[str],
) -> None:
    """Ask for PATH below /api/v1/ and print the JSON that comes. /api/v1/schema/ describes all there is."""
    parts = [part for part in path.strip("/").split("/") if part]
    if parts[:2] == ["api", "v1"]:
        parts = parts[2:]
    if not parts or any(mark in path for mark in "?#"):
        raise Failure(f"PATH: {path!r} is no path below /api/v1/; parameters follow as NAME=VALUE", USAGE)
    params: dict[str, Any] = dict(_parameter(each) for each in parameters)
    if is_all:
        put_json(list(app.portal.pages(*parts, **params)))
        return
    verb = method or ("POST" if data is not None else "GET")
    answer = app.portal.send(
        verb,
        *parts,
        params=params,
        body=_body(data, verb),
        key=new_key() if verb == "POST" else "",
        headers={"If-Match": if_match} if if_match else None,
    )
    if etag:
        click.echo(answer.headers.get("ETag", ""))
    elif answer.body is not None:
        put_json(answer.body)


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Failure(f"{text!r}: say NAME=VALUE", USAGE)
    return name, value


def _body(data: str | None, method: str) -> Any:
    """The JSON that is sent.

    Raises:
        Failure: it is none, or can't be read.
    """
    if data is None:
        return {} if method in ("POST", "PATCH", "PUT") else None
    try:
        if data.startswith("@"):
            data = sys.stdin.read() if data == "@-" else Path(data[1:]).read_text(encoding="utf-8")
        return json.loads(data)
    except OSError as error:
        raise Failure(f"--data: {error.filename}: {error.strerror}", USAGE) from None
    except ValueError as error:
        raise Failure(f"--data: {error}", USAGE) from None
