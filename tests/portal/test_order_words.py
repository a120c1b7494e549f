"""Pages say which orders a cluster's policy names."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from portal import order_words
from portal.views.preempted import rule_of
from scheduler.engine import Policy
from scheduler.loop import run_pass
from scheduler.queries.preempted import Side
from scheduler.services import policies


@pytest.mark.parametrize(
    ("knobs", "inside", "ahead", "decays"),
    [
        ({}, "who submitted first.", "submitted earlier", ""),
        ({"leaf_order": "tiresias"}, "who has attained less service.", "less service attained, or earlier", ""),
        ({"leaf_order": "gittins"}, "who is likely to end soon.", "less service attained, or earlier", ""),
        ({"leaf_order": "shortest"}, "who is thought to take less time.", "thought to take less time, or earlier", ""),
        (
            {"leaf_order": "themis"},
            "that a fair share would have taken.",
            "further behind a fair share, or earlier",
            "",
        ),
        ({"tree_order": "half_life"}, "who submitted first.", "submitted earlier", "half after 7\N{NO-BREAK SPACE}d"),
    ],
)
def test_each_order_has_its_words(knobs: dict[str, Any], inside: str, ahead: str, decays: str) -> None:
    policy = Policy(**knobs)
    assert order_words.inside_a_project(policy).endswith(inside)
    assert order_words.ahead_inside(policy).endswith(ahead)
    assert decays in order_words.use_decays(policy)
    assert bool(order_words.use_decays(policy)) == bool(decays)


def test_the_pages_say_so(lab: Any, as_person: Any) -> None:
    client = as_person(lab.ada)
    assert "half after" not in client.get("/queue/north/").content.decode()
    policies.change(cluster=lab.cluster, knobs={"tree_order": "half_life", "half_life_s": 86_400})
    assert run_pass(lab.cluster.pk) is not None
    said = client.get("/queue/north/").content.decode()
    assert "half after 1\N{NO-BREAK SPACE}d" in said
    assert "goes first, where use counts the less the longer ago it was" in said
    assert "in the last 7 days" not in said


@pytest.mark.parametrize(
    ("knobs", "begins", "taker"),
    [
        (
            {},
            "Whoever has had less of its share goes first: program before",
            "somebody who has had less of their share",
        ),
        (
            {"tree_order": "half_life"},
            "Whoever has had less of its share goes first, where use counts the less",
            "somebody who has had less of their share",
        ),
        (
            {"tree_order": "fair"},
            "Whoever holds less than its minimum goes first, then who",
            "less of their fair share",
        ),
        ({"tree_order": "drf"}, "Whoever has the smaller dominant share now goes first:", "a smaller dominant share"),
    ],
)
def test_the_first_line_says_the_order_in_force(knobs: dict[str, Any], begins: str, taker: str) -> None:
    for leaf_order in ("priority", "shortest"):
        policy = Policy(leaf_order=leaf_order, **knobs)
        said = order_words.goes_first(policy)
        assert said.startswith(begins)
        assert said.endswith(order_words.inside_a_project(policy))
        assert order_words.who_may_take(policy).endswith(taker)


def test_free_cycles_have_words_of_their_own() -> None:
    for tree_order in ("fair", "drf"):
        said = order_words.among_siblings(Policy(tree_order=tree_order), is_funded=False)
        assert said.startswith("Free cycles are shared fairly too")
        assert said != order_words.among_siblings(Policy(tree_order=tree_order))


def test_a_preemption_names_what_was_compared() -> None:
    def side(standing: dict[str, Any]) -> Side:
        return Side("A", "Team A", 0, 0, Fraction(0), 5_000, Fraction(1), standing)

    def rule(standing: dict[str, Any]) -> str:
        decision = cast(Any, SimpleNamespace(code="preempted_fair_share", took=side(standing), gave=side(standing)))
        return str(rule_of(decision))

    assert rule({}).endswith("the other side had had less of its share than this side.")
    assert rule({"held_milli": 0}).endswith("the other side held less of its fair share than this side.")
    assert rule({"dominant_share": [1, 2]}).endswith("the other side had a smaller dominant share than this side.")
