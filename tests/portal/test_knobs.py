"""The page of a cluster's policy: everybody reads it, operators change it, nobody by mistake or over somebody else."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from budgets.models import Cluster, LedgerEntry
from portal import formats, knob_words, trials
from portal.forms.knobs import KnobsForm, seconds, typed
from portal.forms.typed import seconds_of
from scheduler.engine import WORDS
from scheduler.knobs import KNOBS, Knob
from scheduler.models import PolicyVersion
from scheduler.queries import policy_history
from scheduler.services import policies
from scheduler.simulator.named_policies import read
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden, text_of

PAGE = "/clusters/north/policy/"
CHANGE = f"{PAGE}change/"
NORTH = Cluster(name="north")
DEFAULTS = {name: policies.plain(knob.default) for name, knob in KNOBS.items()}
OTHER = {
    "lookback_s": 14 * 86_400,
    "swap_margin": "1/2",
    "reservations": 4,
    "tree_order": "half_life",
    "attained_limits": [1_000, 20_000],
    "locality_waits_s": [1_800, 3_600, 7_200],
    "class_order": ["A100", "V100"],
    "high_efficiency_percent": 60,
    "leaf_uplink_gbps": 100,
    "fraction_min_milli": 10,
}
"""Another value of each kind."""


def words_of(answer: Any) -> str:
    """What a page says, whatever its status."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))


def sent(client: Client, said: dict[str, str], *, sure: bool = True) -> Any:
    """The form with these fields filled in and, where nothing is wrong, what it asks confirmed."""
    page = client.get(PAGE)
    body = {"action": hidden(page, "action"), "version": hidden(page, "version"), "reason": "we try it", **said}
    answer = client.post(CHANGE, body)
    return client.post(CHANGE, {**body, "sure": "on"}) if sure and answer.status_code == 200 else answer


def in_force(lab: Laboratory) -> dict[str, Any]:
    """What differs from the defaults."""
    found = policies.effective(policies.latest(lab.cluster))
    return {name: value for name, value in found.items() if value != DEFAULTS[name]}


# --- values, as they are read and typed -------------------------------------------------------------------------------


@given(st.integers(0, policies.DURATION_MAX_S))
def test_a_duration_is_read_as_it_is_written(value: int) -> None:
    assert seconds_of(formats.exact_duration(value)) == value


@pytest.mark.parametrize(("text", "found"), [("7 d", 604_800), ("1h30min", 5_400), ("0", 0), ("45 s", 45)])
def test_a_duration_has_its_unit(text: str, found: int) -> None:
    assert seconds(text) == found
    with pytest.raises(ValidationError, match="Say the unit too: 90 s, 90 min, 90 h or 90 d"):
        seconds("90")


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("values", [DEFAULTS, DEFAULTS | OTHER], ids=["defaults", "others"])
def test_what_stands_in_the_fields_is_read_as_the_same_values(values: dict[str, Any], language: str) -> None:
    with translation.override(language):
        form = KnobsForm({**typed(values), "version": "1", "reason": "r"}, values=values, version=1)
        assert form.is_valid(), form.errors
    assert {name: form.cleaned_data[name] for name in KNOBS} == values
    assert form.changes() == {}


def test_an_empty_field_is_the_default() -> None:
    values = DEFAULTS | OTHER
    form = KnobsForm({**dict.fromkeys(KNOBS, ""), "version": "1", "reason": "r"}, values=values, version=1)
    assert form.is_valid(), form.errors
    assert form.changes() == {name: DEFAULTS[name] for name in OTHER}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("lookback_s", "soon", "'soon' is not a duration such as 2 h"),
        ("lookback_s", "90", "Say the unit too: 90 s, 90 min, 90 h or 90 d."),
        ("lookback_s", "4000 d", "'345600000' is not 0 to 315,360,000"),
        ("locality_waits_s", "1 h, 2", "Say the unit too: 2 s"),
        ("reservations", "many", "Enter a whole number."),
        ("reservations", "1001", "'1001' is not 0 to 1,000"),
        ("reservations", "-1", "'-1' is not 0 to 1,000"),
        ("swap_margin", "half", "'half' is not a number such as 0, 0.5 or 1/2"),
        ("swap_margin", "1/0", "'1/0' is not a number such as 0, 0.5 or 1/2"),
        ("tree_order", "lifo", "lifo is not one of the available choices"),
        ("attained_limits", "3,250 and 7,200", "'250 and 7' is not a whole number; write them as 3250, 7200"),
        ("class_order", "A" * 41, "is not a word"),
        ("fraction_min_milli", "1/100", "'1/100' is not a number such as 8"),
        ("reason", "", "This field is required."),
    ],
)
def test_what_is_wrong_with_a_value_is_said_beside_its_field(name: str, text: str, words: str) -> None:
    data = {**typed(DEFAULTS), "version": "1", "reason": "r", name: text}
    form = KnobsForm(data, values=DEFAULTS, version=1)
    assert not form.is_valid()
    assert list(form.errors) == [name]
    assert words in html.unescape(str(form.errors[name]))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("lookback_s", 604_800, "7 d"),
        ("locality_waits_s", [], "none"),
        ("locality_waits_s", [1_800, 90], "30 min, 1 min 30 s"),
        ("attained_limits", [3_250, 7_200], "3,250 and 7,200 device-seconds"),
        ("service_samples", list(range(100, 1_100, 5)), "200 values, 100 to 1,095 device-seconds"),
        ("swap_margin", "1/2", "1/2×"),
        ("high_efficiency_percent", 60, "60 %"),
        ("leaf_uplink_gbps", 100, "100 Gbit/s"),
        ("fraction_min_milli", 10, "0.01 GPU"),
        ("class_order", ["A100", "V100"], "A100, V100"),
        ("tree_order", "drf", "drf"),
    ],
)
def test_values_are_said_with_their_unit(name: str, value: Any, words: str) -> None:
    said = knob_words.shown(KNOBS[name], value)
    assert said.replace(formats.NBSP, " ").replace(formats.NARROW_NBSP, " ") == words


# --- trying first -----------------------------------------------------------------------------------------------------


def policies_of(address: str) -> list[str]:
    """The policies that an address of the simulator fills in."""
    return parse_qs(urlsplit(address).query).get("policy", [])


@pytest.mark.parametrize("knob", [pytest.param(knob, id=name) for name, knob in KNOBS.items()])
def test_a_changed_order_can_be_tried_as_the_simulator_reads_it(knob: Knob) -> None:
    value = OTHER.get(knob.name, "tiresias" if knob.name == "leaf_order" else _bigger(knob))
    address = trials.of_changes(NORTH, {knob.name: value})
    assert bool(address) == knob.moves_order
    for name in policies_of(address):
        found = read(name).knobs[knob.name]
        wanted = float(Fraction(value)) if knob.type is Fraction else value
        assert found == wanted


def _bigger(knob: Knob) -> Any:
    """Another value than the default."""
    if knob.type is Fraction:
        return "8"
    return [100] if knob.is_list and knob.type != WORDS else 7 if knob.type is int else None


def test_what_can_not_be_written_is_not_offered() -> None:
    assert trials.of_changes(NORTH, {"service_samples": []}) == ""
    assert trials.of_changes(NORTH, {"swap_margin": "1/3"}) == ""
    assert trials.of_changes(NORTH, {"service_samples": [10**8] * 500}) == ""
    assert trials.of_knob(NORTH, KNOBS["grace_s"], 60) == ""


def test_the_addresses_fill_in_the_simulators_forms(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ada)
    policies.change(cluster=calm.cluster, knobs={"tree_order": "fair"})
    form = client.get(trials.of_knob(calm.cluster, KNOBS["tree_order"], "fair")).context["form"]
    assert form["policies"].value() == ["contracts", "tree_order=half_life", "tree_order=drf"]
    assert (form["work"].value(), form["cluster"].value()) == ("history", "north")
    assert form["more_policies"].value() == "tree_order=lookback"
    form = client.get(trials.of_knob(calm.cluster, KNOBS["lookback_s"], 1)).context["form"]
    assert (form["knob"].value(), form["cluster"].value()) == ("lookback_s", "north")
    assert client.get("/simulator/policies/?policy=tree_order=up,down").status_code == 400
    assert client.get("/simulator/new/?knob=colour").status_code == 400


# --- the page ---------------------------------------------------------------------------------------------------------


def test_everybody_reads_it_and_only_operators_get_the_form(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    policies.change(cluster=calm.cluster, knobs={"lookback_s": 86_400}, by=calm.ops, reason="a short memory")
    for person in (calm.nil, calm.ada, calm.max, calm.ops):
        page = as_person(person).get(PAGE).content.decode()
        assert page.count("data-knob=") == len(KNOBS)
        assert page.count("data-differs") == 1
        assert ('name="lookback_s"' in page) == (person == calm.ops)
        assert "a short memory" in page
        # The entry is the organisation's: who may read that one's ledger gets a link to it.
        assert ("/audit/?entry=" in page) == (person in (calm.max, calm.ops))
    page = text_of(as_person(calm.nil).get("/policy/"))
    assert "Version 2, in force since" in page
    assert "One of" in page
    assert "knobs is not at its default." in page


@pytest.mark.parametrize("who", ["nil", "ada", "mia", "max"])
def test_nobody_else_changes_it(calm: Laboratory, as_person: Callable[..., Client], who: str) -> None:
    body = {"version": "1", "reason": "mine first", "reservations": "9", "sure": "on"}
    assert as_person(getattr(calm, who)).post(CHANGE, body).status_code == 403
    assert in_force(calm) == {}


def test_what_changes_is_shown_before_it_is_in_force(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ops)
    answer = sent(client, {"lookback_s": "14 d", "half_life_s": "2 d"}, sure=False)
    page = text_of(answer)
    assert "Lookback 7 d → 14 d" in page
    assert "Half-life Only with Order of siblings: half_life 7 d → 2 d" in page
    assert "try it in the simulator first" in page
    assert "/simulator/policies/?cluster=north&amp;policy=contracts%2Clookback_s%3D1209600" in answer.content.decode()
    assert in_force(calm) == {}
    assert not LedgerEntry.objects.filter(verb="cluster.policy").exists()


def test_a_change_is_a_version_in_history_and_ledger(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ops)
    answer = sent(client, typed(OTHER))
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    assert in_force(calm) == OTHER
    made = policies.latest(calm.cluster)
    assert (made.number, made.made_by, made.reason) == (2, calm.ops, "we try it")
    entry = LedgerEntry.objects.get(pk=made.entry_id)
    assert (entry.verb, entry.before, entry.after) == ("cluster.policy", {k: DEFAULTS[k] for k in OTHER}, OTHER)
    page = text_of(client.get(PAGE))
    assert "Version 2 is in force from the next pass on." in page
    assert "by Ops, ledger" in page
    ledger = text_of(client.get(f"/audit/?entry={entry.pk}"))
    assert "Lookback 7 d → 14 d" in ledger
    assert "Smallest part 0 GPUs → 0.01 GPU" in ledger
    assert client.get(f"/api/v1/audit/?entry={entry.pk}").json()["results"][0]["number"] == entry.pk
    history = client.get("/api/v1/clusters/north/policy/").json()["history"]
    assert [each["ledger_entry"] for each in history] == [entry.pk, None]


def test_what_is_back_at_its_default_is_not_stored_as_another_value(calm: Laboratory) -> None:
    policies.change(cluster=calm.cluster, knobs={"grace_s": 30})
    made = policies.change(cluster=calm.cluster, knobs={"grace_s": 60})
    assert (made.number, made.knobs) == (3, {})
    assert policies.change(cluster=calm.cluster, knobs={"grace_s": 60}).number == 3


@pytest.mark.parametrize(
    ("said", "field", "words"),
    [
        ({"self_fence_s": "2 h"}, "self_fence_s", "7200 must be less than lost_after_s, 3900"),
        ({"lookback_s": "0 s"}, "lookback_s", "must be at least 1 s"),
        ({"locality_waits_s": "2 h, 1 h, 3 h"}, "locality_waits_s", "must be 3 waits in s that do not fall"),
        ({"high_end_classes": "A100"}, "high_end_classes", "'A100' is not in class_order"),
        ({"reservations": "x", "swap_margin": "y"}, "reservations", "Enter a whole number."),
    ],
)
def test_a_bad_value_changes_nothing(
    calm: Laboratory, as_person: Callable[..., Client], said: dict[str, str], field: str, words: str
) -> None:
    for sure in ({}, {"sure": "on"}):
        answer = sent(as_person(calm.ops), {**said, "grace_s": "30 s", **sure})
        page = html.unescape(answer.content.decode())
        assert answer.status_code == 400
        assert f'id="id_{field}_error">{words}' in page
        assert 'value="30 s"' in page
        assert in_force(calm) == {}
    assert PolicyVersion.objects.count() == 1


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "Nothing is changed"),
        ({"grace_s": "1 min"}, "Nothing is changed"),
        ({"speed": "9"}, "There is no field 'speed' in this form."),
        ({"version": ""}, "Say from which version it is changed."),
    ],
)
def test_what_changes_nothing_is_said(
    calm: Laboratory, as_person: Callable[..., Client], said: dict[str, str], words: str
) -> None:
    answer = sent(as_person(calm.ops), said)
    assert answer.status_code == 400
    assert words in html.unescape(answer.content.decode())


def test_who_comes_too_late_sees_both_and_may_send_it_again(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ops)
    page = client.get(PAGE)
    body = {"action": hidden(page, "action"), "version": hidden(page, "version"), "reason": "mine", "grace_s": "2 min"}
    assert client.post(CHANGE, body).status_code == 200
    policies.change(cluster=calm.cluster, knobs={"grace_s": 30, "reservations": 4}, by=calm.ops, reason="theirs")
    for more in ({}, {"sure": "on"}, {"version": "99"}):
        answer = client.post(CHANGE, {**body, **more})
        said = words_of(answer)
        assert answer.status_code == 409
        assert "Version 2 is in force now, by Ops: “theirs”. Nothing was changed." in said
        assert "in force: 30 s" in said
        assert in_force(calm) == {"grace_s": 30, "reservations": 4}
    again = {**body, "version": hidden(answer, "version"), "action": hidden(answer, "action")}
    assert "Grace 30 s → 2 min" in text_of(client.post(CHANGE, again))
    assert client.post(CHANGE, {**again, "sure": "on"}).status_code == 302
    assert in_force(calm) == {"grace_s": 120, "reservations": 4}


def test_sent_twice_it_is_done_once_and_back_keeps_what_was_typed(
    calm: Laboratory, as_person: Callable[..., Client]
) -> None:
    client = as_person(calm.ops)
    page = client.get(PAGE)
    body = {"action": hidden(page, "action"), "version": "1", "reason": "twice", "reservations": "3"}
    back = client.post(CHANGE, {**body, "back": "on"}).content.decode()
    assert 'value="3"' in back
    assert 'value="twice"' in back
    assert in_force(calm) == {}
    for _time in range(2):
        assert client.post(CHANGE, {**body, "sure": "on"}).status_code == 302
    assert policies.latest(calm.cluster).number == 2


def test_gittins_brings_what_it_knows_with_it(calm: Laboratory, as_person: Callable[..., Client], monkeypatch) -> None:
    monkeypatch.setattr("scheduler.services.predictions.services", lambda *_: [10, 20, 30])
    client = as_person(calm.ops)
    page = text_of(sent(client, {"leaf_order": "gittins"}, sure=False))
    assert "Known services none → 10, 20 and 30 device-seconds" in page
    sent(client, {"leaf_order": "gittins"})
    assert in_force(calm) == {"leaf_order": "gittins", "service_samples": [10, 20, 30]}


# --- history ----------------------------------------------------------------------------------------------------------


def test_history_is_paged_and_costs_no_more_queries_the_longer_it_is(
    calm: Laboratory, as_person: Callable[..., Client], django_assert_max_num_queries: Callable
) -> None:
    client = as_person(calm.ops)
    with django_assert_max_num_queries(30) as short:
        client.get(PAGE)
    for reservations in range(2, 45):
        policies.change(
            cluster=calm.cluster, knobs={"reservations": reservations}, by=calm.ops, reason=f"to {reservations}"
        )
    with django_assert_max_num_queries(len(short.captured_queries) + 2):
        page = text_of(client.get(PAGE))
    assert "“to 44”" in page
    assert "“to 25”" in page
    assert "“to 24”" not in page
    assert "Page 1 of 3" in page
    last = text_of(client.get(f"{PAGE}?page=3"))
    assert "Reservations 1 → 2" in last
    assert "All defaults." in last


def test_since_when_a_knob_has_its_value(calm: Laboratory) -> None:
    changes = [{"grace_s": 30}, {"reservations": 2}, {"grace_s": 60, "reservations": 3}, {"lookback_s": 86_400}]
    for knobs in changes:
        policies.change(cluster=calm.cluster, knobs=knobs)
    # As versions were stored once: the default, named.
    PolicyVersion.objects.create(
        cluster=calm.cluster, number=6, knobs={"grace_s": 60, "reservations": 3, "round_s": 1_200}
    )
    found = {name: version.number for name, version in policy_history.since(calm.cluster).items()}
    assert found == {"grace_s": 4, "reservations": 4, "lookback_s": 6}
    steps = policy_history.steps(calm.cluster, 0, 3)
    assert [(step.version.number, step.changes) for step in steps] == [
        (6, {"lookback_s": (86_400, 604_800)}),
        (5, {"lookback_s": (604_800, 86_400)}),
        (4, {"grace_s": (30, 60), "reservations": (2, 3)}),
    ]


def test_in_spanish(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ops)
    headers = {"Accept-Language": "es"}
    page = text_of(client.get(PAGE, headers=headers))
    assert "Política de north" in page
    assert "Ventana" in page
    body = {"version": "1", "reason": "r", "swap_margin": "0,5", "self_fence_s": "2 h"}
    answer = client.post(CHANGE, body, headers=headers)
    assert "7200 debe ser menos que lost_after_s, 3900" in html.unescape(answer.content.decode())
