"""What a workload reports of its throughput: it calls `allotment-report`, which leaves a note in its working directory.

Standard library only.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, NamedTuple

from scheduler.executors.checkpoints import age_s

REPORTED_MAX = 10**15
"""More tokens, milliseconds or parameters are a slip."""
NOTE = ".allotment-report"
NOTE_MAX_BYTES = 400


class Report(NamedTuple):
    """So many tokens in so many milliseconds, until `at_s` (CLOCK_BOOTTIME), by a model of so many parameters."""

    at_s: float
    tokens: int
    span_ms: int
    parameters: int


def read(directory: str, not_before_s: float) -> Report | None:
    """The last report of a run that began then; None where there is none, or none that makes sense."""
    note = os.path.join(directory, NOTE)
    age = age_s(note)
    if age is None:
        return None
    at_s = time.clock_gettime(time.CLOCK_BOOTTIME) - age
    try:
        descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            said: Any = json.loads(file.read(NOTE_MAX_BYTES))
        amounts = [said["tokens"], said["span_ms"], said["parameters"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if at_s < not_before_s or not all(type(each) is int and each <= REPORTED_MAX for each in amounts):
        return None
    tokens, span_ms, parameters = amounts
    return Report(at_s, tokens, span_ms, parameters) if tokens >= 0 and span_ms > 0 and parameters > 0 else None
