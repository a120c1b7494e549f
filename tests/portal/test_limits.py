"""Minima, maxima and weights on their page and over the API, and what pages say of orders by what is held now."""

from __future__ import annotations

from portal import formats
from portal.ledger_words import Diff, limit_diffs
from scheduler.loop import look_at
from scheduler.services import limits, policies
from scheduler.services.limits import Limits
from tests.portal.governing import done, fields, get, post
from tests.portal.pages_in_words import words_of

ADDRESS, PAGE = "/clusters/north/limits/LAB/", "/budget/LAB/limits/?cluster=north"


def said(answer) -> str:
    """All words of a page."""
    return " ".join(words_of(answer.content.decode()).said)


def test_limits_are_set_from_what_was_read_and_fair_shares_follow(calm, as_person):
    top = as_person(calm.max)
    found = {row["node"]: row["fair_share_milli"] for row in get(top, ADDRESS)}
    assert found == {"A": 10_105, "B": 5_895}  # 6,000 and 3,500 of 9,500 parts of 16 GPUs
    body = {"limits": {"A": {"maximum_milli": 8_000}, "B": {"factor_milli": 2_000}}, "reason": "as agreed"}
    assert fields(post(top, ADDRESS, body), 428) == []
    rows = {row["node"]: row for row in done(post(top, ADDRESS, body, If_Match="*"))}
    assert rows["A"] == {
        "node": "A", "minimum_milli": 0, "maximum_milli": 8_000, "factor_milli": 1_000, "fair_share_milli": 7_385,
    }  # fmt: skip
    assert fields(post(as_person(calm.mia), ADDRESS, body, If_Match="*"), 403) == []


def test_what_cannot_be_is_refused_by_the_field(calm, as_person):
    top = as_person(calm.max)
    for given, field in (
        ({"A": {"factor_milli": 0}}, "limits.A.factor_milli"),
        ({"A": {"minimum_milli": -1}}, "limits.A.minimum_milli"),
        ({"A": {"minimum_milli": 5_000, "maximum_milli": 4_000}}, "limits.A.minimum_milli"),
        ({"A": {"minimum_milli": 17_000}}, "limits"),
        ({"ZZ": {}}, "limits.ZZ"),
    ):
        found = fields(post(top, ADDRESS, {"limits": given, "reason": "x"}, If_Match="*"), 400)
        assert found == [field], given


def test_the_page_sets_them_once_and_says_what_is_wrong_beside_the_field(calm, as_person):
    top = as_person(calm.max)
    page = top.get(PAGE)
    assert "Minima and weights count where the order among siblings is fair share" in said(page)
    form = page.context["form"]
    typed = {
        "action": form["action"].value(), "version": form["version"].value(), "reason": "as agreed",
        "minimum-A": "2", "maximum-A": "12", "weight-A": "1.5", "minimum-B": "", "maximum-B": "", "weight-B": "",
    }  # fmt: skip
    for wrong, words in (
        ({"weight-B": "0"}, "greater than or equal to 0.001"),
        ({"weight-B": "NaN"}, "Enter a number"),
        ({"minimum-A": "13"}, "is more than the maximum"),
        ({"minimum-A": "10", "minimum-B": "7"}, "minima below LAB come to 17, and it may hold 16 at most on north"),
    ):
        answer = top.post(PAGE, typed | wrong)
        assert answer.status_code == 400
        assert words in said(answer), wrong
    assert top.post(PAGE, typed).status_code == 302
    assert limits.on(calm.cluster) == {calm.node["A"].pk: Limits(2_000, 12_000, 1_500)}
    assert top.post(PAGE, typed).status_code == 302, "the same form again does nothing"
    reader = as_person(calm.ben)
    assert 'name="minimum-A"' not in reader.get(PAGE).content.decode()
    assert reader.post(PAGE, typed).status_code == 404


def test_pages_show_the_numbers_of_the_order_in_force(lab, as_person):
    policies.change(cluster=lab.cluster, knobs={"tree_order": "fair"})
    limits.set_limits(parent=lab.node["LAB"], cluster=lab.cluster, limits={lab.node["B"]: Limits(0, 4_000)}, by=None)
    lab.submit("A1", 16, owner=lab.ada)
    late = lab.submit("A1", 16, owner=lab.ada)
    bound = lab.submit("B1", 4, owner=lab.ben)
    also = lab.submit("B1", 4, owner=lab.ben)
    look_at(lab.cluster.pk, is_due=True)
    for row in (late, bound, also):
        row.refresh_from_db()
    reader = as_person(lab.ada)
    queue = said(reader.get("/queue/north/"))
    assert "Held = what funded runs and plans hold now" in queue
    assert "holds" in queue
    assert "of its part now" in queue
    assert also.reason_code == "waiting_maximum" or bound.reason_code == "waiting_maximum"
    at_maximum = also if also.reason_code == "waiting_maximum" else bound
    assert "A maximum: B may hold 4" in said(reader.get(f"/workloads/{at_maximum.code}/"))
    policies.change(cluster=lab.cluster, knobs={"tree_order": "drf"})
    look_at(lab.cluster.pk, is_due=True)
    assert "Dominant share = the largest part" in said(reader.get("/queue/north/"))


def test_the_ledger_says_them_in_units():
    before = {"minimum_milli": 0, "maximum_milli": None, "factor_milli": 1_000}
    after = {"minimum_milli": 0, "maximum_milli": 12_000, "factor_milli": 1_500}
    assert limit_diffs(before, after) == [
        Diff("Maximum", formats.NOT_APPLICABLE, "12"), Diff("Weight", "1", formats.units(1_500)),
    ]  # fmt: skip
