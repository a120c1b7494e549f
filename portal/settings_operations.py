"""Settings of what operators look at: logs, figures, health. A part of portal/settings.py."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

import environ
import structlog
from django.core.exceptions import ImproperlyConfigured

from portal import logs

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
TOKEN_LENGTH_MIN = 20
BUDGETS_MAX = 5_000
LOOPBACK = ("127.0.0.0/8", "::1/128")
QUIET = ("celery.beat", "celery.worker.strategy", "celery.app.trace")
"""A line or two for every tick would be 200,000 a day that say nothing."""


def operations_settings(env: environ.Env, secret: Callable[[str], str], *, is_behind_proxy: bool) -> dict[str, Any]:
    """LOG_LEVEL, LOGGING, METRICS_TOKEN, METRICS_NETWORKS and METRICS_BUDGETS.

    Raises:
        ImproperlyConfigured: a variable that can't be read.
    """
    level = env.str("ALLOTMENT_LOG_LEVEL", default="INFO")
    if level not in LEVELS:
        raise ImproperlyConfigured(f"ALLOTMENT_LOG_LEVEL: {level!r} is not DEBUG, INFO, WARNING or ERROR")
    token = secret("ALLOTMENT_METRICS_TOKEN")
    if token and len(token) < TOKEN_LENGTH_MIN:
        raise ImproperlyConfigured(f"ALLOTMENT_METRICS_TOKEN: needs {TOKEN_LENGTH_MIN} characters or more")
    budgets = env.int("ALLOTMENT_METRICS_BUDGETS", default=100)
    if not 0 <= budgets <= BUDGETS_MAX:
        raise ImproperlyConfigured(f"ALLOTMENT_METRICS_BUDGETS: {budgets} is not a number from 0 to {BUDGETS_MAX}")
    # Behind a proxy on this machine everybody would come from this machine, if that proxy forgot to say who it was.
    near = env.list("ALLOTMENT_METRICS_NETWORKS", default=[] if is_behind_proxy else list(LOOPBACK))
    return {
        "LOG_LEVEL": level,
        "LOGGING": logging_settings(level, as_json=env.bool("ALLOTMENT_LOG_JSON", default=False)),
        "METRICS_TOKEN": token,
        "METRICS_NETWORKS": networks("ALLOTMENT_METRICS_NETWORKS", near),
        "METRICS_BUDGETS": budgets,
    }


def networks(name: str, said: list[str]) -> list[IPv4Network | IPv6Network]:
    """The networks that a variable names.

    Raises:
        ImproperlyConfigured: one of them is none.
    """
    try:
        return [ip_network(each) for each in said]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from None


def logging_settings(level: str, *, as_json: bool) -> dict[str, Any]:
    """Django's LOGGING, and structlog told to go the same way: lines to stderr, plain or one JSON object each."""
    stamps: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        logs.of_request,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            *stamps,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    last: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()] if as_json else [logs.traces_set_in, plain]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    logs.without_secrets,
                    logs.on_one_line,
                    *last,
                ],
                "foreign_pre_chain": [*stamps, structlog.processors.format_exc_info],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "loggers": {name: {"level": "WARNING"} for name in QUIET},
        "root": {"handlers": ["stderr"], "level": level},
    }
