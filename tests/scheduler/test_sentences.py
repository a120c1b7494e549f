"""What is stored in English is said in the reader's language by its pattern; nothing that passes write is left out."""

from __future__ import annotations

from functools import cache

import pytest
from django.utils import translation

from budgets import sentences
from budgets.services import tree
from scheduler import sentences as scheduler_sentences
from scheduler.simulator import parse, simulate
from tests.scenario_expectations import SHARED


@cache
def told() -> dict[str, str]:
    """Every sentence that the shared scenarios bring about, with its code."""
    paths = sorted(SHARED.glob("scenarios/*.json"))
    if not paths:
        pytest.skip(f"SHARED DATA ABSENT: no scenarios in {SHARED / 'scenarios'}")
    found = {}
    for path in paths:
        outcome = simulate(parse(path.read_text(encoding="utf-8")))
        found |= {each.reason.text: each.reason.code.value for each in outcome.decisions}
        found |= {job.reason.text: job.reason.code.value for job in outcome.jobs if job.reason is not None}
    return found


def test_every_sentence_of_the_engine_fits_a_pattern() -> None:
    assert [text for text in told() if sentences.taken_apart(text) is None] == []


def test_the_english_of_a_pattern_is_the_engines_own_text() -> None:
    for text in told():
        found = sentences.taken_apart(text)
        assert found is not None
        assert found[0].format(**found[1]) == text


@pytest.mark.parametrize(
    "text",
    [
        "Waiting: its budget's maximum of 16 GPUs. Vision has 12 GPUs, and this would be 8 GPUs more.",
        "Waiting: Vision holds less of its fair share.",
        "Waiting: Vision and Robotics hold less of their fair share.",
        "Waiting: Vision has a smaller dominant share.",
        "Waiting: Vision, Robotics and 3 others have smaller dominant shares.",
        "A-1 took its 8 GPUs. Its contract was over, and Vision held less of its fair share than Robotics.",
        "A-1 took its 8 GPUs. Its contract was over, and Vision had a smaller dominant share than Robotics.",
        "Waiting: 16 GPUs would fit only on nodes that are private to Vision (2 of them).",
        (
            "Waiting: 1 GPU would fit only on nodes that are private to others, Vision and Robotics (12 of them). "
            "Some cells that were granted are not fit and clear yet."
        ),
        "A-1 took its 8 GPUs. Its contract was over, and it was in a private cell of Vision.",
        "Refused: the maximum of Vision is 12, and it would hold 16.",
        "Refused: no node has the cores and the memory that it asks for.",
        "Waiting: enough GPUs are free, but not where 2 GPUs with 16 cores and 17.5 GiB would be together.",
        "Waiting: too few nodes are fit for 1 GPU with 64 GiB.",
        "Waiting: too few nodes are fit for 8 GPUs of class T4/V100 with 4 cores. Fit of such a class: 2 GPUs.",
        "Waiting: enough GPUs are free, but not where 2 GPUs of class A would be together. Free of such a class: none.",
        (
            "Waiting: enough GPUs are free, but not where 2 GPUs would be together."
            " Free of high-end classes: 3 GPUs; 2 GPUs of these stay free for work that needs them."
        ),
        "Refused: no node is of class H200; known: P100, T4.",
        "Refused: no node is of class H200; no node says its class.",
        "Refused: no node of class T4/V100 has all that it asks for.",
        "Waiting: no GPU is free, and unallocated work starts only on what nobody funded needs.",
        "Waiting: no GPU is free, and nobody else has had more of a share that it could take over from.",
        "Waiting: no 1 GPU of class A is free, and nobody else has had more of a share that it could take over from.",
        "Waiting: no 1 GPU with 4 cores is free, and unallocated work starts only on what nobody funded needs.",
        "Waiting: 1 GPU on n01 is held for it until the runs there have saved and left.",
        "Waiting: 0.5 GPU on n01 is reserved for it from when contracts there have ended.",
        "Waiting: 1 GPU is within reach, but its contract would delay a start that was promised.",
    ],
)
def test_sentences_of_what_is_held_now_fit_a_pattern_and_have_spanish(text: str) -> None:
    found = sentences.taken_apart(text)
    assert found is not None
    assert found[0].format(**found[1]) == text
    with translation.override("es"):
        assert sentences.said(text) != text


def test_cores_and_memory_are_said_in_the_readers_language() -> None:
    with translation.override("es"):
        assert (
            sentences.said("Waiting: too few nodes are fit for 8 GPUs with 16 cores and 1,024.5 GiB.")
            == "En espera: hay muy pocos nodos aptos para 8 GPU con 16 núcleos y 1\u202f024,5 GiB."
        )


def test_every_code_that_scenarios_bring_about_has_spanish() -> None:
    with translation.override("es"):
        spanish = {text: sentences.said(text) for text in told()}
    assert {told()[text] for text, said in spanish.items() if said == text} == set()


ALIKE = {"token"}
"""What both languages call the same."""


@pytest.mark.parametrize("pattern", sorted(sentences.PATTERNS))
def test_every_pattern_has_a_translation(pattern: str) -> None:
    with translation.override("es"):
        assert translation.gettext(pattern) not in ("", None if pattern in ALIKE else pattern)


def test_numbers_units_and_names_are_said_as_the_language_does() -> None:
    with translation.override("es"):
        assert (
            sentences.said("Started with 1,024 GPUs on n001 and 127 other nodes, charged to its project.")
            == "Empezó con 1\u202f024 GPU en n001 y otros 127 nodos, con cargo a su proyecto."
        )
        assert (
            sentences.said("Waiting: Vision, Robotics and 4 others have had less of their share.")
            == "En espera: Vision, Robotics y 4 más han recibido menos de su cuota."
        )


@pytest.mark.parametrize(
    "text",
    [
        "We run one of the three, and freeze the recipe without knowing.",
        "",
    ],
)
def test_what_people_wrote_stays(text: str) -> None:
    with translation.override("es"):
        assert sentences.said(text) == text


@pytest.mark.django_db
def test_a_list_that_could_be_read_in_two_ways_is_told_by_the_names_that_there_are() -> None:
    text = "Waiting: Research and Development and Robotics have had less of their share."
    with translation.override("es"):
        assert sentences.said(text) == text
        sentences.forget()
        tree.create_root(code="LAB", name="Research and Development")
        assert sentences.said(text) == (
            "En espera: Research and Development y Robotics han recibido menos de su cuota."
        )


def test_english_readers_get_what_is_stored() -> None:
    text = "Waiting: too few nodes are fit for 8 GPUs."
    with translation.override("en"):
        assert sentences.said(text) == text


def test_a_place_named_twice_holds_the_same_twice() -> None:
    code = "A1-1 took its 8 GPUs. Its contract was over, and {} has the higher priority in the same project."
    assert sentences.taken_apart(code.format("A1-1")) is not None
    assert sentences.taken_apart(code.format("A1-2")) is None


def test_the_schedulers_patterns_are_known() -> None:
    assert set(scheduler_sentences.PATTERNS) <= set(sentences.PATTERNS)
