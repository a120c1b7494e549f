"""The catalogue: each module adds its rules by being imported, a rule being one function under `@rule(...)`."""

from scheduler.advisor.findings import RULES, Rule
from scheduler.advisor.rules import (  # noqa: F401  (each adds its rules)
    batches,
    checkpoints,
    devices,
    holding,
    installing,
    loading,
    preparing,
    remote,
    syncing,
    unread,
)


def catalogue() -> list[Rule]:
    """All rules, group by group."""
    return list(RULES.values())
