"""What rules say of a place fits a pattern, by which it is said in other languages, and so do fixes and effects."""

from __future__ import annotations

from functools import cache

import pytest
from django.utils import translation

from budgets import sentences
from scheduler.advice_sentences import ADVICE
from scheduler.advisor import advise, catalogue
from scheduler.advisor.measured import EFFECTS, FIXES
from tests.advisor import samples_holding, samples_loading, samples_writing  # noqa: F401  (they fill the corpus)
from tests.advisor.corpus import CLEAN, PLANTED

UNREAD = {
    "syntax.py": "def f(:\n",
    "old.py": "print 'x'\n",
    "binary.py": b"\x89PNG\xff",
    "large.py": "x" * 600_000,
    "line.py": "x = " + "1" * 30_000,
    "page.html": "<p>",
    "run.sh": "torchrun --nproc_per_node=$K elsewhere.py\n",
    "deep.py": "(" * 500 + ")" * 500,
}


CODE_ALONE = {"TF"}
"""Rules whose fix is a line of code, alike in every language."""


@cache
def told() -> frozenset[str]:
    """Every sentence that the corpus brings about, and what is said of what can't be read."""
    found = set()
    for sample in (*PLANTED, *CLEAN):
        pool = {"nodes": sample.nodes, "is_interactive_pool": sample.is_interactive_pool}
        found |= {each.what for each in advise(sample.files, gpus=sample.gpus, **pool)}
    found |= {each.what for each in advise(UNREAD, gpus=8)}
    found |= {each.what for each in advise({f"m{number}.py": "" for number in range(501)}, gpus=0)}
    found |= {each.what for each in advise({"a.py": "a\n" * 110_000}, gpus=0)}
    large = {f"m{number}.py": "#\n" * 200_000 for number in range(3)}
    return frozenset(found | {each.what for each in advise(large, gpus=0)})


def test_every_sentence_fits_a_pattern_of_the_advisor_and_is_it() -> None:
    for text in sorted(told()):
        found = sentences.taken_apart(text)
        assert found is not None, text
        assert found[0] in ADVICE, text
        assert found[0].format(**found[1]) == text


def test_every_sentence_is_said_in_spanish() -> None:
    with translation.override("es"):
        assert [text for text in sorted(told()) if sentences.said(text) == text] == []


@pytest.mark.parametrize("rule", catalogue(), ids=lambda rule: rule.code)
def test_what_a_rule_says_everywhere_has_spanish(rule) -> None:  # type: ignore[no-untyped-def]
    with translation.override("es"):
        for text in filter(None, (rule.pattern, "" if rule.code in CODE_ALONE else rule.fix, rule.effect)):
            assert translation.gettext(text) not in ("", text)


def test_so_has_what_is_said_after_the_fact() -> None:
    with translation.override("es"):
        for text in (*FIXES.values(), *EFFECTS.values()):
            assert translation.gettext(text) not in ("", text)
