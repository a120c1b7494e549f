"""What a repair hook does outside: a command on a worker's machine, or a signed message to an address."""

from __future__ import annotations

import os
import secrets
import subprocess
from datetime import datetime

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from budgets.errors import InputError
from budgets.models import Webhook
from budgets.services import webhooks
from scheduler.models import Repair, RepairHook

log = structlog.get_logger(__name__)

COMMAND_S = 45
"""A command on the portal's side only sets a repair going: it gets no longer than a task of a worker."""
RUNNING = "running"


def checked(url: str) -> str:
    """A new secret for messages to that address.

    Raises:
        InputError: it is none that this portal posts to.
    """
    try:
        webhooks.look_up(webhooks.check_url(url))
    except webhooks.NotDelivered as error:
        raise InputError("url", str(error)) from None
    return secrets.token_urlsafe(webhooks.SECRET_BYTES)


def send_soon(repair_id: int, attempt: int) -> None:
    """Once the transaction is committed, have a worker do it. Where no broker takes it, the attempt times out."""

    def send() -> None:
        try:
            current_app.send_task("scheduler.tasks.repair", args=[repair_id, attempt], ignore_result=True, retry=False)
        except Exception as error:  # whatever kombu or the socket raises
            log.warning("repair_not_sent", repair=repair_id, error=str(error))

    if settings.CELERY_BROKER_URL:
        transaction.on_commit(send, robust=True)


def run(repair_id: int, attempt: int, now: datetime | None = None) -> bool:
    """Make an attempt, unless another worker does or did; whether it was made now."""
    row = Repair.objects.filter(pk=repair_id, state=Repair.State.REPAIRING, attempts=attempt, hook_ended_at=None)
    if not row.filter(message="").update(message=RUNNING):
        return False
    repair = Repair.objects.select_related("node__cluster__repair_hook").get(pk=repair_id)
    hook = repair.node.cluster.repair_hook
    try:
        said = (
            _post(repair, hook, now or timezone.now())
            if hook.kind == RepairHook.Kind.WEBHOOK
            else _command(repair, hook)
        )
    except (webhooks.NotDelivered, OSError, subprocess.SubprocessError) as error:
        said = f"status 1: {error}"
    row.update(hook_ended_at=timezone.now().replace(microsecond=0), message=said[:300])
    return True


def _post(repair: Repair, hook: RepairHook, now: datetime) -> str:
    said = {
        "kind": "repair",
        "cluster": repair.node.cluster.name,
        "node": repair.node.name,
        "cause": repair.cause,
        "attempt": repair.attempts,
        "url": f"{settings.URL}/nodes/{repair.node.cluster.name}/",
    }
    target = Webhook(url=hook.url, secret=hook.secret)
    webhooks.post(target, f"repair:{repair.pk}:{repair.attempts}", said, now)
    return "the message was taken"


def _command(repair: Repair, hook: RepairHook) -> str:
    names = {"{node}": repair.node.name, "{cluster}": repair.node.cluster.name, "{cause}": repair.cause}
    words = []
    for word in hook.command:
        for name, value in names.items():
            word = word.replace(name, value)
        words.append(word)
    done = subprocess.run(
        words,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"},
        timeout=COMMAND_S,
        start_new_session=True,
    )
    lines = [
        line.strip() for line in done.stdout.decode(errors="replace").replace("\0", " ").split("\n") if line.strip()
    ]
    last = lines[-1] if lines else ""
    return f"status {done.returncode}: {last}" if done.returncode else last or "done"
