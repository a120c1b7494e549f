"""The knobs as a document, docs/policy.md."""

from __future__ import annotations

import json

from scheduler.knobs import GROUPS, UNITS, Knob
from scheduler.services.policies import DEFAULTS

HEAD = """\
# Knobs of a cluster's policy

Made by `manage.py documents` from `scheduler/knobs.py`, as are the page *Policy* of each cluster and the API's
description; the tests fail where this file and the source differ. How they are changed:
[operator.md](operator.md#policy).
"""


def as_markdown() -> str:
    """A table for each group."""
    text = HEAD
    for group in GROUPS:
        text += f"\n## {group.title}\n\n| knob | what it is | unit | default |\n|---|---|---|---|\n"
        text += "".join(_row(each) for each in group.knobs)
    return text


def _row(knob: Knob) -> str:
    meaning = f"**{knob.title}.** {knob.meaning}"
    if knob.choices:
        meaning += "".join(f"<br>`{word}`: {words}" for word, words in knob.choices.items())
    if knob.needs is not None:
        meaning += f" Has an effect only with {_needed(knob)}."
    return f"| `{knob.name}` | {meaning} | {UNITS[knob.unit]} | {json.dumps(DEFAULTS[knob.name])} |\n"


def _needed(knob: Knob) -> str:
    assert knob.needs is not None
    values = [f"`{value}`" for value in sorted(knob.needs.values)]
    return f"`{knob.needs.knob}` {' or '.join(values)}" if values else f"`{knob.needs.knob}`"
