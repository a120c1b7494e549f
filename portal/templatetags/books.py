"""The tick of the books: when they were last checked, and whether they balance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import template

from budgets.models import BooksCheck

register = template.Library()


@register.inclusion_tag("books/_table.html")
def books_table(checks: Sequence[BooksCheck], now: datetime) -> dict[str, Any]:
    """Each check with what it found."""
    return {"checks": checks, "now": now}


@register.inclusion_tag("books/_tick.html")
def books_tick(now: datetime, cluster_name: str = "") -> dict[str, Any]:
    """One line about all checks that concern a cluster; nothing before the first. One query."""
    checks = list(BooksCheck.objects.filter(cluster_name__in=["", cluster_name]))
    return {
        "checked_at": min((check.checked_at for check in checks), default=None),
        "differing": sum(check.differing for check in checks),
        "now": now,
    }
