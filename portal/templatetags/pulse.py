"""The banner that says since when no passes are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import template

from scheduler.queries.pulse import stopped

register = template.Library()


@register.inclusion_tag("shell/_pulse.html", takes_context=True)
def pulse(context: template.Context, is_part: bool = False) -> dict[str, Any]:
    """Clusters on which passes have stopped; one query. `is_part` for parts that refresh themselves: there it replaces
    what the page said, and is nothing of a whole page, which has it already.
    """
    request = context.get("request")
    is_shown = not is_part or bool(getattr(request, "htmx", False))
    now = datetime.now(UTC)
    return {"is_shown": is_shown, "is_part": is_part, "stopped": stopped(now) if is_shown else [], "now": now}
