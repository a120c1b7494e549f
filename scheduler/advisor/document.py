"""The catalogue as a table, for docs/advisor.md."""

from __future__ import annotations

from scheduler.advisor.findings import PAPER
from scheduler.advisor.rules import catalogue

BEGIN, END = "<!-- rules -->\n", "<!-- end of rules -->\n"


def table() -> str:
    """A row for each rule, in Markdown."""
    rows = ["| rule | severity | looks for | what to do | published |", "|---|---|---|---|---|"]
    for rule in catalogue():
        published = rule.effect + (" [1]" if rule.source == PAPER else "")
        cells = (f"`{rule.code}`", rule.severity, rule.pattern, rule.fix, published.strip() or "–")
        rows.append("| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |")
    return "\n".join(rows) + "\n"


def written_into(text: str) -> str:
    """The document with the table anew.

    Raises:
        ValueError: it has no place for it.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the document has no place for the rules")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"
