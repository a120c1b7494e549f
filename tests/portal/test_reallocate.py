"""The reallocation editor: it computes at once, decides once, and overwrites nothing."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from budgets import split
from budgets.models import FollowUp, LedgerEntry, Reallocation, Share
from budgets.queries import today
from budgets.services import delegations, requests
from portal.pages import new_action
from scheduler.models import Simulation, Workload
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden, text_of
from tests.portal.test_simulator import run

EDITOR = "/budget/A/reallocate/?cluster=north"


def filled(client: Client, lab: Laboratory, address: str = EDITOR, **changed: str) -> dict[str, str]:
    """The editor's form as a browser would send it back, with changes; `a1` and `a2` are the two cells."""
    page = client.get(address)
    cells = {f"share_{lab.node[code].pk}": changed.pop(code.lower(), None) for code in ("A1", "A2")}
    bases = [f"base_{lab.node[code].pk}" for code in ("A1", "A2")]
    form = {name: hidden_or(page, name) for name in ("action", "version", "starts_on", *cells, *bases)}
    form |= {"do": "apply", "reason": "spring"}
    form |= {name: value for name, value in cells.items() if value is not None}
    return {**form, **changed}


def hidden_or(answer: Any, name: str) -> str:
    """The value of a field, empty where it has none."""
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', answer.content.decode())
    return found[1] if found else ""


def shares_now(lab: Laboratory) -> dict[str, int]:
    """The open shares of A's children."""
    rows = Share.objects.filter(parent=lab.node["A"], valid_until=None)
    return dict(rows.values_list("node__code", "basis_points"))


def test_a_manager_applies_once(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.mia)
    form = filled(client, calm, a1="60.00", a2="30.00")
    first = client.post(EDITOR, form)
    decision = Reallocation.objects.get()
    assert (first.status_code, first.headers["Location"]) == (302, f"/reallocations/{decision.pk}/")
    assert shares_now(calm) == {"A1": 6_000, "A2": 3_000}
    entries = LedgerEntry.objects.count()
    assert "had been sent already" in text_of(client.post(EDITOR, form, follow=True))
    assert (LedgerEntry.objects.count(), Reallocation.objects.count()) == (entries, 1)
    said = text_of(client.get(f"/reallocations/{decision.pk}/"))
    assert "In force" in said
    assert "\u221210.00" in said
    assert FollowUp.objects.get().due_on == today() + timedelta(weeks=4)


def test_a_cell_is_computed_without_changing_anything(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.mia)
    form = filled(client, calm, a1="75.50", do="recount", reason="")
    with CaptureQueriesContext(connection) as queries:
        part = client.post(EDITOR, form, headers={"HX-Request": "true"})
    said = part.content.decode()
    assert '<span id="proposed-rest" class="" hx-swap-oob="true">\u22120.50</span>' in said
    assert "0.50 too much" in said
    assert "Gives A1 5.50" in said
    assert "<html" not in said
    assert len(queries) < 30
    assert shares_now(calm) == {"A1": 7_000, "A2": 2_500}
    whole = client.post(EDITOR, form)  # without scripts
    assert "0.50 too much" in text_of(whole)


@pytest.mark.parametrize(
    ("how", "keep", "status", "a2"),
    [("evenly", "", 200, "20.00"), ("proportion", "", 200, "20.00"), ("evenly", "A2", 400, "25.00")],
)
def test_what_is_missing_is_taken(
    calm: Laboratory, as_person: Callable[..., Client], how: str, keep: str, status: int, a2: str
) -> None:
    client = as_person(calm.mia)
    kept = {f"keep_{calm.node[keep].pk}": "on"} if keep else {}
    answer = client.post(EDITOR, filled(client, calm, a1="80.00", do=how, **kept))
    assert answer.status_code == status
    assert hidden_or(answer, f"share_{calm.node['A2'].pk}") == a2
    assert shares_now(calm) == {"A1": 7_000, "A2": 2_500}


def test_from_what_went_unused_needs_something_unused(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(lab.mia)
    answer = client.post(EDITOR, filled(client, lab, a1="80.00", do="unused"))
    unused = hidden_or(answer, f"share_{lab.node['A2'].pk}")
    assert (answer.status_code, unused) in {(200, "20.00"), (400, "25.00")}
    if answer.status_code == 400:
        assert "went unused by" in answer.content.decode()


def test_an_old_tab_is_laid_beside_what_is_so_now(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.mia)
    old = filled(client, calm, a1="10.00")
    client.post(EDITOR, filled(client, calm, a1="60.00", a2="30.00"))
    answer = client.post(EDITOR, old)
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))
    assert answer.status_code == 409
    assert shares_now(calm) == {"A1": 6_000, "A2": 3_000}
    for words in ("You started", "Theirs, now,", "Yours,", "70.00 60.00", "nothing was overwritten"):
        assert words in said
    assert hidden_or(answer, f"share_{calm.node['A1'].pk}") == "10.00"
    again = {**old, "action": hidden(answer, "action"), "version": hidden_or(answer, "version")}
    assert client.post(EDITOR, again).status_code == 302
    assert shares_now(calm) == {"A1": 1_000, "A2": 2_500}


@pytest.mark.parametrize(
    "changed",
    [
        {"a1": "80.00"},
        {"a1": "many"},
        {"reason": ""},
        {"starts_on": "yesterday"},
        {"starts_on": (today() - timedelta(days=3)).isoformat()},
        {"ends_on": today().isoformat()},
        {"look_again_on": today().isoformat()},
        {"version": "x"},
        {"status": "approved"},
        {"approved_by": "1"},
        {"submitter": "1"},
        {"do": "everything"},
    ],
)
def test_bad_input_changes_nothing(calm: Laboratory, as_person: Callable[..., Client], changed: dict[str, str]) -> None:
    client = as_person(calm.mia)
    before = shares_now(calm)
    form = filled(client, calm, **{"a1": "60.00", **changed})
    assert client.post(EDITOR, form).status_code == 400
    assert shares_now(calm) == before
    assert not Reallocation.objects.exists()


def test_a_draft_is_kept_for_its_author_alone(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.mia)
    kept = client.post(EDITOR, filled(client, calm, a1="60.00", do="draft"))
    draft = Reallocation.objects.get()
    address = kept.headers["Location"]
    assert address.endswith(f"&draft={draft.pk}")
    assert hidden_or(client.get(address), f"share_{calm.node['A1'].pk}") == "60.00"
    assert as_person(calm.max).get(f"/reallocations/{draft.pk}/").status_code == 404
    assert as_person(calm.max).get(address).status_code == 404
    form = filled(client, calm, address, draft=str(draft.pk), draft_version=str(draft.version))
    assert client.post(EDITOR, form).status_code == 302
    assert shares_now(calm)["A1"] == 6_000
    assert not Reallocation.objects.filter(state="draft").exists()


def test_what_one_has_a_part_in_is_proposed(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    calm.submit("A1", 1, owner=calm.ada)
    Workload.objects.update(owner=calm.mia)  # she submitted there once: a part, though the role is over
    client = as_person(calm.mia)
    form = filled(client, calm, a1="75.00")
    assert client.post(EDITOR, form).status_code == 403
    proposed = client.post(EDITOR, {**form, "do": "propose"})
    assert proposed.status_code == 302
    waits = Reallocation.objects.get(state="submitted")
    assert (waits.desk, shares_now(calm)["A1"]) == (calm.node["LAB"], 7_000)
    chief = as_person(calm.max)
    assert str(waits) in text_of(chief.get("/desk/"))
    page = chief.get(f"/reallocations/{waits.pk}/")
    said = {"action": hidden(page, "action"), "version": str(waits.version), "reason": "they need it"}
    assert client.post(f"/reallocations/{waits.pk}/approve/", said).status_code == 403
    assert chief.post(f"/reallocations/{waits.pk}/approve/", said).status_code == 302
    assert shares_now(calm)["A1"] == 7_500
    assert chief.post(f"/reallocations/{waits.pk}/deny/", {**said, "action": "0" * 32}).status_code == 409


def test_a_request_is_approved_in_the_editor(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    asked = requests.submit(
        request=requests.draft(
            node=calm.node["A1"], cluster=calm.cluster, more_basis_points=400, starts_on=today(), why="w",
            otherwise="o", by=calm.ada,
        ),
        by=calm.ada,
    )  # fmt: skip
    client = as_person(calm.mia)
    address = f"{EDITOR}&request={asked.pk}"
    page = client.get(address)
    assert hidden_or(page, f"share_{calm.node['A1'].pk}") == "74.00"
    assert f"Answers request {asked}" in text_of(page)
    assert client.post(EDITOR, filled(client, calm, address, request=str(asked.pk))).status_code == 302
    asked.refresh_from_db()
    assert (asked.state, shares_now(calm)["A1"]) == ("applied", 7_400)
    assert as_person(calm.ben).get(address).status_code == 404


def test_a_delegate_edits_for_who_is_away(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    delegations.give(
        giver=calm.mia, delegate=calm.nil, node=calm.node["A"], limit_basis_points=300, valid_from=today(),
        valid_until=today() + timedelta(days=2),
    )  # fmt: skip
    client = as_person(calm.nil)
    form = filled(client, calm, a1="73.00", acting_for=str(calm.mia.pk))
    assert client.post(EDITOR, {**form, f"share_{calm.node['A1'].pk}": "73.01"}).status_code == 403
    assert client.post(EDITOR, form).status_code == 302
    assert (Reallocation.objects.get().decided_by, Reallocation.objects.get().decided_for) == (calm.nil, calm.mia)


@pytest.mark.parametrize(
    ("amount", "weights", "most", "parts"),
    [
        (10, [1, 1, 1], [10, 10, 10], [4, 3, 3]),
        (10, [1, 1, 1], [1, 10, 10], [1, 5, 4]),
        (7, [3, 0, 1], [10, 10, 10], [5, 0, 2]),
        (0, [1], [0], [0]),
    ],
)
def test_taken_is_exact_and_within_bounds(amount: int, weights: list[int], most: list[int], parts: list[int]) -> None:
    assert split.taken(amount, weights, most) == parts


def test_a_what_if_replays_what_is_typed_and_what_is_pinned(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(lab.mia)
    pinned = client.post(EDITOR, filled(client, lab, a1="60.00", a2="30.00", do="pin"))
    assert "A1 60.00, A2 30.00" in text_of(pinned)
    form = filled(client, lab, a1="50.00", a2="50.00", do="whatif", weeks="1")
    form["pins"] = html.unescape(hidden_or(pinned, "pins"))
    asked = client.post(EDITOR, form)
    row = Simulation.objects.get()
    assert (row.kind, row.parent, hidden_or(asked, "simulation")) == ("what_if", lab.node["A"], str(row.pk))
    assert [part.name for part in row.parts.exclude(number=0)] == ["as they were", "variant 1", "as proposed"]
    assert client.post(EDITOR, form).status_code == 200  # sent again: asked once
    assert Simulation.objects.count() == 1
    assert f'hx-get="/simulator/{row.pk}/"' in asked.content.decode()
    run(row)
    after = text_of(client.post(EDITOR, {**form, "do": "recount", "simulation": str(row.pk)}))
    assert "Waits by class" in after
    assert "as proposed" in after
    assert shares_now(lab) == {"A1": 7_000, "A2": 2_500}
    decided = client.post(
        EDITOR, {**form, "do": "apply", "action": new_action(), "simulation": str(row.pk), "starts_on": str(today())}
    )
    assert decided.status_code == 302
    evidence = LedgerEntry.objects.filter(verb="reallocation.approved").get().evidence
    assert evidence is not None
    assert evidence["simulation"] == row.pk
    assert set(evidence["what_if"]) >= {"as they were", "as proposed"}


@pytest.mark.parametrize("pins", ["x", "[[1]]", '[{"A1": -1}]', '[{"A1": 1}, {"A1": 2}, {"A1": 3}]', '[{"A1": 1.5}]'])
def test_pins_that_were_tampered_with_are_refused(
    calm: Laboratory, as_person: Callable[..., Client], pins: str
) -> None:
    client = as_person(calm.mia)
    answer = client.post(EDITOR, {**filled(client, calm, do="whatif"), "pins": pins})
    assert answer.status_code == 400
    assert "are no pinned variants" in answer.content.decode()
    assert not Simulation.objects.exists()
