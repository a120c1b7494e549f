"""The Celery application: what beats, and how the worker behaves.

Tasks carry no state. A tick that is late is worthless, since the next one does the same work: each has an expiry.
A worker is started with REMAP_SIGTERM=SIGQUIT in its environment (portal/supervisor/services.py): then SIGTERM gives
what runs two seconds and puts it back.
"""

import logging.config
import os
import signal
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_init, worker_process_init
from django.conf import settings

from portal import health_signs, logs_tasks, metrics_http, migrated  # noqa: F401 (they listen to tasks)
from portal.supervisor.processes import end_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

TICK_S = 1
"""How often each cluster is asked whether its next pass is due; the policy's `pass_every_s` decides (10 s)."""
ROLL_UP_S = 60
"""How often the hourly cache of use is brought up to now."""
FEED_S = 15
"""How often the demo's people submit something; nothing happens where the organisation is not the demo's."""
DEADLINES_S = 30
"""How often deadlines and first days of budgets are looked at: what a disabled person held ends within a minute."""
SEND_S = 60
"""How often e-mail and webhooks that are due are sent; what is told wakes the sender by itself too."""
FOLLOW_S = 5
"""How often what happened on clusters is handed to the organisation's webhooks, if there are any."""
JUDGE_S = 5
"""How often runs that failed are judged; retries wait for it."""
LOOK_AFTER_S = 60
"""How often simulations are looked for that nobody works on."""
THRESHOLDS_S = 600
"""How often the use of budgets is laid beside the marks on it."""
CHECK_S = 3_600
"""How often it is checked against the stored runs."""

app = Celery("allotment", amqp="portal.steady:PatientAMQP")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(["portal.demo"])


def every(seconds: int, task: str, **options: Any) -> dict[str, Any]:
    """An entry of beat's schedule. A message that nobody takes until the next one comes is dropped."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds, **options}}


app.conf.beat_schedule = {
    "tick": every(TICK_S, "scheduler.tasks.tick", expires=2 * TICK_S, queue=settings.TICKS),
    "roll-up-usage": every(ROLL_UP_S, "scheduler.tasks.roll_up_usage"),
    "invent-utilization": every(ROLL_UP_S, "scheduler.tasks.invent_utilization"),
    "feed-demo": every(FEED_S, "portal.demo.tasks.feed"),
    "forget-quiet-passes": every(CHECK_S, "scheduler.tasks.forget_quiet_passes"),
    "keep-deadlines": every(DEADLINES_S, "budgets.tasks.keep_deadlines"),
    "send-messages": every(SEND_S, "budgets.tasks.send_messages"),
    "follow-events": every(FOLLOW_S, "scheduler.tasks.follow_events"),
    "judge-failures": every(JUDGE_S, "scheduler.tasks.judge_failures"),
    "forget-deliveries": every(CHECK_S, "budgets.tasks.forget_deliveries"),
    "check-books": every(CHECK_S, "budgets.tasks.check_books"),
    "tell-of-endings": every(CHECK_S, "budgets.tasks.tell_of_endings"),
    "check-thresholds": every(THRESHOLDS_S, "scheduler.tasks.check_thresholds"),
    "tell-of-bad-ends": every(SEND_S, "scheduler.tasks.tell_of_bad_ends"),
    "forget-directories": every(CHECK_S, "scheduler.tasks.forget_directories"),
    "check-usage": every(CHECK_S, "scheduler.tasks.check_usage"),
    "sum-up-days": every(CHECK_S, "scheduler.tasks.sum_up_days"),
    "look-after-simulations": every(LOOK_AFTER_S, "scheduler.tasks.look_after_simulations"),
    "forget-old-simulations": every(CHECK_S, "scheduler.tasks.forget_old_simulations"),
}


@setup_logging.connect
def keep_django_logging(**_kwargs: object) -> None:
    """Log as the web process does instead of Celery's own way."""
    logging.config.dictConfig(settings.LOGGING)


@worker_init.connect
def remember_the_worker(**_kwargs: object) -> None:
    """Note the id of the process that the pool's processes will be forked from; begin when the tables are there."""
    app.worker_pid = os.getpid()
    migrated.wait()


@worker_process_init.connect
def end_with_the_worker(**_kwargs: object) -> None:
    """Let no pool process outlive its killed parent and go on holding a cluster's lock."""
    end_with_parent(app.worker_pid, signal.SIGKILL)
