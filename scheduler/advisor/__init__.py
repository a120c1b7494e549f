"""Reads a program before it waits for GPUs: what in its source is known to leave them idle.

Pure: files come as texts and findings go out; nothing is opened, fetched, imported or run, least of all the program.
The rules are those of the literature (`docs/advisor.md`); what depends on a value that only the run knows is unknown.
"""

from scheduler.advisor.advising import advise
from scheduler.advisor.findings import RULES, Finding, Rule, Severity
from scheduler.advisor.package import (
    COMMAND,
    ENVIRONMENT,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_PACKAGE_BYTES,
    MAX_WORDS,
)
from scheduler.advisor.rules import catalogue

__all__ = [
    "COMMAND",
    "ENVIRONMENT",
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_PACKAGE_BYTES",
    "MAX_WORDS",
    "RULES",
    "Finding",
    "Rule",
    "Severity",
    "advise",
    "catalogue",
]
