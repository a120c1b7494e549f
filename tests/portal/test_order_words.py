"""Pages say which orders a cluster's policy names."""

from __future__ import annotations

from typing import Any

import pytest

from portal import order_words
from scheduler.engine import Policy
from scheduler.loop import run_pass
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
    assert "half after 1\N{NO-BREAK SPACE}d" in client.get("/queue/north/").content.decode()
