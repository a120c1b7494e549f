"""The variables of a workload with those that are secret among them, as only its own processes get them."""

from __future__ import annotations

import structlog

from budgets.sealing import CannotOpen
from scheduler.models import Workload

log = structlog.get_logger(__name__)
NOT_OPENED = "its secrets cannot be opened: the portal's sealing key is another one by now"


def variables_of(workload: Workload, *, began: bool = False) -> dict[str, str]:
    """All variables by name, the secret ones opened. Of one that runs already, which needs them no more, those that
    cannot be opened are left out: it must not end for it.

    Raises:
        CannotOpen: it would begin without its secrets.
    """
    plain = {str(name): str(value) for name, value in workload.environment.items()}
    try:
        return plain | {str(name): str(value) for name, value in workload.secrets.items()}
    except CannotOpen as error:
        log.error("secrets_not_opened", workload=workload.code, error=str(error))
        if not began:
            raise
        return plain
