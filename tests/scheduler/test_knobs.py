"""The knobs in people's words: none is left out, and words, units and documents agree with the engine."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import pytest
from django.utils import translation

from budgets import sentences
from scheduler import knobs_document
from scheduler.engine import LEAF_ORDERS, PLACEMENT_SCORES, TREE_ORDERS, WORDS, Policy
from scheduler.knobs import GROUPS, KNOBS, STANDING, Knob, Needs, Unit
from tests.conftest import REPOSITORY

ALL = [pytest.param(knob, id=name) for name, knob in KNOBS.items()]


def test_each_knob_of_the_engine_is_told_once() -> None:
    told = [knob.name for group in GROUPS for knob in group.knobs]
    assert sorted(told) == sorted(each.name for each in fields(Policy))
    assert len({group.key for group in GROUPS}) == len(GROUPS)


@pytest.mark.parametrize(
    ("name", "words"),
    [("tree_order", TREE_ORDERS), ("leaf_order", LEAF_ORDERS), ("placement_score", PLACEMENT_SCORES)],
)
def test_each_word_that_a_knob_may_be_is_told(name: str, words: tuple[str, ...]) -> None:
    assert tuple(KNOBS[name].choices or ()) == words


@pytest.mark.parametrize("knob", ALL)
def test_it_has_a_title_a_sentence_and_a_unit_that_fits(knob: Knob) -> None:
    assert str(knob.title)[0].isupper()
    assert str(knob.meaning).endswith(".")
    assert knob.name.endswith("_s") == (knob.unit is Unit.SECONDS)
    assert (knob.type is str) == bool(knob.choices)
    if knob.type in (str, WORDS):
        assert knob.unit is Unit.NONE
    if knob.type is Fraction:
        assert knob.unit is Unit.TIMES


@pytest.mark.parametrize("knob", ALL)
def test_what_it_needs_is_another_knob_and_a_value_that_one_may_have(knob: Knob) -> None:
    if knob.needs is not None:
        other = KNOBS[knob.needs.knob]
        assert other is not knob
        assert knob.needs.values <= set(other.choices or ())


def test_a_need_is_met_by_one_of_its_values_or_by_anything_but_nothing() -> None:
    half_life = KNOBS["half_life_s"].needs
    assert half_life is not None
    assert not half_life.is_met({"tree_order": STANDING.tree_order})
    assert half_life.is_met({"tree_order": "half_life"})
    assert not Needs("class_order").is_met({"class_order": []})
    assert Needs("class_order").is_met({"class_order": ["A100"]})


def test_the_document_is_as_the_source() -> None:
    with translation.override("en"):
        made = knobs_document.as_markdown()
    assert made == (REPOSITORY / "docs/policy.md").read_text(encoding="utf-8"), "run manage.py documents"


@pytest.mark.parametrize(
    "knobs",
    [
        {"tree_order": "lifo"},
        {"lookback_s": 0},
        {"min_runtime_min_s": 30_000},
        {"self_fence_s": 3_900},
        {"attained_limits": (5, 5)},
        {"service_samples": (1,) * 1_001},
        {"locality_waits_s": (3, 2, 1)},
        {"class_order": ("A", "A")},
        {"class_order": ("A",), "high_end_classes": ("B",)},
        {"high_end_reserve": 1},
        {"high_efficiency_percent": 101},
        {"fraction_min_milli": 1_000},
    ],
    ids=lambda knobs: next(reversed(knobs)),
)
def test_what_the_engine_says_of_a_bad_value_is_said_in_spanish(knobs: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"^{next(reversed(knobs))}: ") as caught:
        Policy(**knobs)  # type: ignore[arg-type]
    message = str(caught.value).partition(": ")[2]
    with translation.override("es"):
        assert sentences.said(message) != message
