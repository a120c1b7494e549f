"""What the shell offers after a tab. Nobody waits long for it, and a failure offers nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import click
from click.shell_completion import CompletionItem

from allot import settings
from allot.client import Portal

PATIENCE_S = 2.0
MOST = 50
OPEN = ("queued", "starting", "running", "leaving", "unreachable", "held")

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def offering(found: Callable[[Portal, click.Context, str], Iterable[tuple[str, str]]]) -> Completer:
    """Offer what `found` gives: values, each with what it is."""

    def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            portal = Portal(replace(settings.load().signed_in(), timeout_s=PATIENCE_S), tries=1)
            pairs = [(value, about) for value, about in found(portal, ctx, incomplete) if _begins(value, incomplete)]
        except Exception:  # whatever it is, a tab is no place to say it
            return []
        return [CompletionItem(value, help=about) for value, about in pairs]

    return offer


def _begins(value: str, incomplete: str) -> bool:
    return value.lower().startswith(incomplete.lower())


def _cluster(portal: Portal, ctx: click.Context) -> list[str]:
    """The cluster that is meant, else all."""
    said = ctx.params.get("cluster") or portal.settings.cluster
    return [said] if said else [each["name"] for each in portal.get("clusters")]


@offering
def clusters(portal: Portal, ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Names of clusters."""
    return [(each["name"], each["title"]) for each in portal.get("clusters")]


@offering
def nodes(portal: Portal, ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Names of nodes."""
    return [
        (each["name"], each["health"])
        for cluster in _cluster(portal, ctx)
        for each in portal.pages("clusters", cluster, "nodes", most=500)
    ]


@offering
def workloads(portal: Portal, ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Codes of one's own workloads; of anybody's once something was typed."""
    asked: dict[str, Any] = {"find": incomplete} if incomplete else {"owner": "me"}
    return [(each["code"], each["state"]) for each in portal.pages("workloads", most=MOST, **asked)]


@offering
def my_open_workloads(portal: Portal, ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Codes of one's own workloads that are not over."""
    rows = portal.pages("workloads", most=200, owner="me", find=incomplete or None)
    said = ctx.params.get("codes") or ()
    return [(each["code"], each["state"]) for each in rows if each["state"] in OPEN and each["code"] not in said]


@offering
def budgets(portal: Portal, ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Codes of budget nodes."""
    return [(each["code"], each["name"]) for each in portal.get("clusters", _cluster(portal, ctx)[0], "tree")]


@offering
def leaves(portal: Portal, ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Codes of the projects that one may submit to."""
    return [(each["code"], each["name"]) for each in portal.get("me")["leaves"]]
