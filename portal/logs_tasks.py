"""Lines of tasks: which task it is, and the id of the request that caused it, however many tasks lie between."""

from __future__ import annotations

from typing import Any

from celery.signals import before_task_publish, task_postrun, task_prerun
from structlog.contextvars import bind_contextvars, clear_contextvars

from portal import logs

HEADER = "request_id"


@before_task_publish.connect
def send_along(headers: dict[str, Any] | None = None, **_more: object) -> None:
    """Put the id of the request that is answered here into the task's message."""
    known = logs.request_id()
    if headers is not None and known:
        headers[HEADER] = known


@task_prerun.connect
def begin(task_id: str = "", task: Any = None, **_more: object) -> None:
    """Have every line until the end of the task say what it belongs to."""
    clear_contextvars()
    known = getattr(task.request, HEADER, None) or (task.request.headers or {}).get(HEADER)
    is_known = isinstance(known, str) and logs.ID_FORMAT.fullmatch(known)
    bind_contextvars(task=task.name, task_id=task_id, **({"request_id": known} if is_known else {}))


@task_postrun.connect
def end(**_more: object) -> None:
    """What follows belongs to no task."""
    clear_contextvars()
