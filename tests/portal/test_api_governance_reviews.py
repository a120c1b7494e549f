"""Reallocations, the decision log, budget reviews and simulations by the API alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from budgets.models import Comment, FollowUp, LedgerEntry, Reallocation, Request, Review, Role, RoleGrant, Share
from budgets.queries import today
from budgets.services import shares as share_service
from scheduler.models import Simulation, SimulationPart
from tests.browser.everything import finished
from tests.portal.governing import API, TODAY, at, done, fields, get, patch, post, rows_of, submitted
from tests.portal.test_routes import simulation


def plan(**changed):
    """Shares of A's children."""
    return {"parent": "A", "cluster": "north", "shares": {"A1": 6_500, "A2": 3_000}, "reason": "summer", **changed}


# --- reallocations ----------------------------------------------------------------------------------------------------


def test_a_draft_is_changed_and_applied(calm, as_person):
    mia = as_person(calm.mia)
    made = post(mia, "/reallocations/", plan())
    row = done(made, 201)
    address = made.headers["Location"].removeprefix(API)
    assert (row["state"], row["unassigned_change"], row["lines"]) == (
        "draft", 0,
        [{"node": "A1", "before": 7_000, "after": 6_500}, {"node": "A2", "before": 2_500, "after": 3_000}],
    )  # fmt: skip
    changed = patch(mia, address, {"shares": {"A1": 6_600}}, If_Match=made.headers["ETag"])
    row = done(changed)
    assert (row["lines"], row["reason"]) == ([{"node": "A1", "before": 7_000, "after": 6_600}], "summer")
    assert fields(patch(mia, address, {"reason": "x"}, If_Match=made.headers["ETag"]), 412) == []
    assert fields(post(mia, f"{address}apply/", {"version": 1}), 409) == ["version"]
    assert fields(post(mia, f"{address}apply/", {"simulation": 9})) == ["simulation"]
    applied = post(mia, f"{address}apply/", {"look_again_on": at(10)}, If_Match=changed.headers["ETag"])
    decision = done(applied, 201)
    assert (decision["state"], decision["decided_by"], decision["decision_reason"]) == ("applied", "mia", "summer")
    assert mia.get(API + address).status_code == 404  # it became the decision
    assert get(mia, applied.headers["Location"].removeprefix(API)) == decision
    assert Share.objects.get(node=calm.node["A1"], valid_until=None).basis_points == 6_600
    assert fields(post(mia, f"/reallocations/{decision['number']}/apply/"), 409) == ["version"]
    assert get(as_person(calm.ben), f"/reallocations/{decision['number']}/")["state"] == "applied"  # for all to see


def test_what_changed_since_a_draft_is_a_conflict(calm, as_person):
    mia = as_person(calm.mia)
    number = done(post(mia, "/reallocations/", plan()), 201)["number"]
    given = {calm.node["A2"]: 2_400}
    share_service.set_shares(parent=calm.node["A"], cluster=calm.cluster, shares=given, valid_from=today(), by=None)
    assert fields(post(mia, f"/reallocations/{number}/apply/"), 409) == ["version"]
    version = get(mia, "/budget/A/")["version"]
    row = done(post(mia, f"/reallocations/{number}/apply/", {"parent_version": version}), 201)
    assert {"node": "A2", "before": 2_400, "after": 3_000} in row["lines"]


def test_what_raises_ones_own_is_proposed_and_decided_above(calm, as_person):
    RoleGrant.objects.create(person=calm.mia, node=calm.node["A2"], role=Role.MEMBER, valid_from=today())
    mia, top = as_person(calm.mia), as_person(calm.max)
    number = done(post(mia, "/reallocations/", plan()), 201)["number"]
    assert fields(post(mia, f"/reallocations/{number}/apply/"), 403) == [""]
    row = done(post(mia, f"/reallocations/{number}/propose/"))
    assert (row["state"], row["desk"], row["decidable_as"]) == ("submitted", "LAB", [])
    assert fields(post(mia, f"/reallocations/{number}/approve/", {"reason": "mine"}), 403) == [""]
    assert [each["number"] for each in rows_of(top, "/reallocations/?desk=mine")] == [number]
    assert list(rows_of(mia, "/reallocations/?desk=mine")) == []
    done(post(top, f"/reallocations/{number}/comments/", {"text": "why now?"}), 201)
    assert [each["text"] for each in rows_of(mia, f"/reallocations/{number}/comments/")] == ["why now?"]
    row = done(post(top, f"/reallocations/{number}/approve/", {"reason": "fine", "version": row["version"]}))
    assert (row["state"], row["decided_by"]) == ("applied", "max")
    assert fields(post(top, f"/reallocations/{number}/deny/", {"reason": "no"}), 409) == ["version"]
    verbs = LedgerEntry.objects.filter(reallocation_id=number, verb__startswith="reallocation.").order_by("id")
    assert list(verbs.values_list("verb", flat=True)) == [
        "reallocation.proposed", "reallocation.approved", "reallocation.applied",
    ]  # fmt: skip


def test_a_proposal_is_denied_or_withdrawn(calm, as_person):
    RoleGrant.objects.create(person=calm.mia, node=calm.node["A2"], role=Role.MEMBER, valid_from=today())
    mia, top = as_person(calm.mia), as_person(calm.max)
    first, second = (done(post(mia, "/reallocations/", plan()), 201)["number"] for _ in range(2))
    for number in (first, second):
        done(post(mia, f"/reallocations/{number}/propose/"))
    assert done(post(top, f"/reallocations/{first}/deny/", {"reason": "no"}))["state"] == "denied"
    assert fields(post(top, f"/reallocations/{second}/withdraw/"), 403) == [""]
    assert done(post(mia, f"/reallocations/{second}/withdraw/"))["state"] == "withdrawn"
    assert {each["state"] for each in rows_of(mia, "/reallocations/?state=decided")} == {"denied", "withdrawn"}


def test_a_draft_answers_the_request_that_it_names(calm, as_person):
    number, mia = submitted(as_person(calm.ada), calm), as_person(calm.mia)
    assert fields(post(mia, "/reallocations/", plan(request=number + 1))) == ["request"]
    drafted = done(post(mia, "/reallocations/", plan(shares={"A1": 7_300}, request=number)), 201)["number"]
    row = done(post(mia, f"/reallocations/{drafted}/apply/"), 201)
    assert row["request"] == number
    asked = get(mia, f"/requests/{number}/")
    assert (asked["state"], asked["decision"]) == ("applied", row["number"])


A_DRAFT_THAT_CANNOT_BE = [
    ({"parent": "ZZ"}, 400, "parent"),
    ({"parent": "B", "shares": {"B1": 9_000}}, 403, ""),
    ({"cluster": "moon"}, 400, "cluster"),
    ({"shares": {"A1": -1}}, 400, "shares.A1"),
    ({"shares": {"A1": "NaN"}}, 400, "shares.A1"),
    ({"shares": {"B1": 1}}, 400, "shares.B1"),
    ({"shares": {}}, 400, "shares"),
    ({"starts_on": at(-1)}, 400, "starts_on"),
    ({"starts_on": TODAY, "ends_on": TODAY}, 400, "ends_on"),
    ({"parent_version": 999}, 409, "version"),
    ({"acting_for": "nobody"}, 400, "acting_for"),
    ({"state": "approved"}, 400, "state"),
]


def test_a_draft_that_cannot_be(calm, as_person):
    mia, found = as_person(calm.mia), {}
    for changed, status, _ in A_DRAFT_THAT_CANNOT_BE:
        found[str(changed)] = fields(post(mia, "/reallocations/", plan(**changed)), status)
    assert found == {str(changed): [named] for changed, _, named in A_DRAFT_THAT_CANNOT_BE}
    assert not Reallocation.objects.exists()


# --- the log, and whether it worked -----------------------------------------------------------------------------------


def test_the_log_is_walked_both_ways(calm, as_person):
    mia, top = as_person(calm.mia), as_person(calm.max)
    for points in (6_900, 6_800, 6_700):
        done(post(mia, "/clusters/north/shares/A/", {"shares": {"A1": points}, "valid_from": TODAY, "reason": "r"},
                  If_Match="*"))  # fmt: skip
        number = submitted(as_person(calm.ada), calm)
        done(post(top, f"/requests/{number}/deny/", {"reason": "no"}))
    given = {calm.node["B1"]: 9_000}
    share_service.set_shares(parent=calm.node["B"], cluster=calm.cluster, shares=given, valid_from=today(), by=None)
    whole = list(rows_of(mia, "/decisions/?limit=200"))
    kinds = [row["kind"] for row in whole]
    assert kinds[0] == "entry"
    assert kinds[1:7] == ["request", "reallocation"] * 3
    assert list(rows_of(mia, "/decisions/?limit=1")) == whole
    page = mia.get(f"{API}/decisions/?limit=2").json()
    second = mia.get(page["next"]).json()
    assert mia.get(second["previous"]).json()["results"] == page["results"] == whole[:2]
    assert [row["kind"] for row in rows_of(as_person(calm.ben), "/decisions/")][:4] == ["entry", *["reallocation"] * 3]
    assert {row["by"] for row in rows_of(mia, "/decisions/?by=max")} == {"max"}
    of_b1 = [row["number"] for row in whole if "B1" in {line["node"] for line in row["lines"]}]
    assert [row["number"] for row in rows_of(mia, "/decisions/?node=B1")] == of_b1
    assert list(rows_of(mia, f"/decisions/?from={at(1)}&until={at(2)}")) == []
    of_a1 = list(rows_of(mia, "/decisions/?cluster=north&node=A1&fields=kind"))
    assert of_a1[:6] == [{"kind": "request"}, {"kind": "reallocation"}] * 3


def test_it_is_asked_whether_it_worked_and_said_once(calm, as_person):
    mia, ada = as_person(calm.mia), as_person(calm.ada)
    body = {"shares": {"A1": 6_000}, "valid_from": TODAY, "reason": "r", "look_again_on": at(7)}
    done(post(mia, "/clusters/north/shares/A/", body, If_Match="*"))
    number = Reallocation.objects.get().pk
    address, answer = f"/decisions/{number}/follow-up/", {"verdict": "partly", "text": "waits are shorter"}
    assert get(ada, address)["figures"] is None
    assert fields(post(mia, address, answer)) == [""]  # not due yet
    FollowUp.objects.update(due_on=today())
    assert [row["decision"] for row in rows_of(mia, "/follow-ups/")] == [number]
    assert list(rows_of(ada, "/follow-ups/")) == []
    assert set(get(mia, address)["figures"]["nodes"]) == {"A1"}
    assert fields(post(ada, address, answer), 403) == [""]
    assert fields(post(mia, address, {**answer, "verdict": "perhaps"})) == ["verdict"]
    said = done(post(mia, address, answer), 201)
    assert (said["verdict"], said["answered_by"]) == ("partly", "mia")
    assert fields(post(mia, address, answer), 409) == ["version"]
    assert get(ada, f"/decisions/{number}/")["follow_up"]["verdict"] == "partly"


# --- budget reviews ---------------------------------------------------------------------------------------------------


def meeting(**changed):
    """A review of A."""
    return {
        "node": "A", "title": "Winter", "period_from": at(-7), "period_until": TODAY,
        "meets_at": timezone.now().isoformat(), "applies_from": TODAY, **changed,
    }  # fmt: skip


def test_a_meeting_from_its_plan_to_its_decisions(lab, as_person):
    mia, ada, ben = as_person(lab.mia), as_person(lab.ada), as_person(lab.ben)
    number = submitted(ada, lab)
    made = post(mia, "/reviews/", meeting())
    address = made.headers["Location"].removeprefix(API)
    assert (done(made, 201)["state"], done(made, 201)["items"]) == ("planned", [])
    assert mia.get(f"{API}{address}snapshot/").status_code == 404
    assert fields(post(as_person(lab.ops), f"{address}open/"), 403) == [""]
    row = done(post(mia, f"{address}open/", {"version": done(made, 201)["version"]}))
    asked = next(item for item in row["items"] if item["request"] == number)
    assert (row["state"], asked["node"], asked["now"], asked["proposed"]) == ("open", "A1", 7_000, 7_500)
    frozen = mia.get(f"{API}{address}snapshot/")
    assert frozen.headers["ETag"] == f'"{row["snapshot_id"]}"'
    assert mia.get(f"{API}{address}snapshot/", headers={"If-None-Match": frozen.headers["ETag"]}).status_code == 304

    place = f"{address}items/{asked['position']}/"
    tag = mia.get(f"{API}{place}").headers["ETag"]
    marked = done(post(mia, f"{place}mark/", {"pencil": 7_400, "reason": "most of it"}, If_Match=tag))
    assert (marked["pencil"], marked["marked_by"]) == (7_400, "mia")
    assert fields(post(mia, f"{place}mark/", {"pencil": 7_300}, If_Match=tag), 412) == []
    assert fields(post(mia, f"{place}mark/", {"pencil": 10_001, "version": 2})) == ["pencil"]
    assert fields(post(mia, f"{place}mark/", {"pencil": "NaN", "version": 2})) == ["pencil"]
    assert fields(post(as_person(lab.ops), f"{place}mark/", {"pencil": 1, "version": 2}), 403) == [""]
    voice = done(post(mia, f"{place}speak/", {"kind": "dissents", "text": "too much"}))
    assert voice["voices"] == [{"person": "mia", "kind": "dissents", "text": "too much"}]
    assert fields(post(mia, f"{place}speak/", {"kind": "dissents"})) == ["text"]
    other = done(post(mia, f"{address}take-up/", {"node": "A2", "cluster": "north"}), 201)
    done(post(mia, f"{address}items/{other['position']}/mark/", {"pencil": 2_700, "reason": "r"}, If_Match="*"))
    assert done(post(mia, f"{address}show/", {"line": 1}))["line"] == 1
    assert fields(post(mia, f"{address}show/", {"line": 99})) == ["line"]

    close = {"applies_from": TODAY, "reason": "as agreed"}
    row = get(mia, address)
    assert row["standing"] == [
        {"cluster": "north", "total": 10_100, "total_now": 9_500, "over": 100, "unassigned": 0}
    ]  # fmt: skip
    assert fields(post(mia, f"{address}close/", {**close, "version": row["version"]})) == [""]
    done(post(mia, f"{address}items/{other['position']}/mark/", {"pencil": 2_600, "reason": "r"}, If_Match="*"))
    assert fields(post(mia, f"{address}close/", {**close, "version": row["version"]}), 409) == ["version"]
    row = get(mia, address)
    closed = done(post(mia, f"{address}close/", {**close, "version": row["version"]}))
    assert (closed["approved"], closed["denied"], len(closed["reallocations"])) == ([number], [], 1)
    assert fields(post(mia, f"{address}close/", close, If_Match="*"), 412) == []
    [decision] = (get(mia, f"/decisions/{each}/") for each in closed["reallocations"])
    assert (decision["review"], decision["requests"]) == (row["number"], [number])
    assert decision["voices"] == [{"node": "A1", "person": "mia", "kind": "dissents", "text": "too much"}]
    theirs = get(ben, f"/decisions/{decision['number']}/")
    assert (theirs["review"], theirs["requests"], theirs["voices"]) == (None, [], [])
    for path in ("", "snapshot/", f"items/{asked['position']}/"):
        assert ben.get(f"{API}{address}{path}").status_code == 404
    for verb in ("open", "cancel", "close", "take-up", "show", "items/1/mark", "items/1/speak"):
        assert post(ben, f"{address}{verb}/", {"reason": "r"}).status_code == 404
    assert list(rows_of(ben, "/reviews/")) == []


def test_a_meeting_is_called_off(calm, as_person):
    mia = as_person(calm.mia)
    number = done(post(mia, "/reviews/", meeting()), 201)["number"]
    assert fields(post(mia, f"/reviews/{number}/cancel/", {})) == ["reason"]
    assert done(post(mia, f"/reviews/{number}/cancel/", {"reason": "ill"}))["state"] == "cancelled"
    assert fields(post(mia, f"/reviews/{number}/open/"), 409) == ["version"]
    assert [row["number"] for row in rows_of(mia, "/reviews/?state=cancelled&node=LAB")] == [number]


A_MEETING_THAT_CANNOT_BE = [
    ({"node": "ZZ"}, 400, "node"),
    ({"node": "A1"}, 400, "node"),
    ({"node": "B"}, 403, ""),
    ({"title": ""}, 400, "title"),
    ({"period_until": at(-7)}, 400, "period_until"),
    ({"applies_from": at(-1)}, 400, "applies_from"),
    ({"meets_at": "0001-01-01T00:00:00Z"}, 400, "meets_at"),
    ({"meets_at": "soon"}, 400, "meets_at"),
    ({"hands_back_percent": 101}, 400, "hands_back_percent"),
    ({"snapshot": {}}, 400, "snapshot"),
]


def test_a_meeting_that_cannot_be(calm, as_person):
    mia, found = as_person(calm.mia), {}
    for changed, status, _ in A_MEETING_THAT_CANNOT_BE:
        found[str(changed)] = fields(post(mia, "/reviews/", meeting(**changed)), status)
    assert found == {str(changed): [named] for changed, _, named in A_MEETING_THAT_CANNOT_BE}
    assert not Review.objects.exists()


# --- simulations ------------------------------------------------------------------------------------------------------


def test_a_simulation_is_cancelled_tried_again_and_compared(lab, as_person):
    ada, ben = as_person(lab.ada), as_person(lab.ben)
    row = simulation(lab)
    address = f"/simulations/{row.pk}/"
    assert fields(post(ben, f"{address}cancel/"), 403) == [""]
    assert fields(post(ada, f"{address}cancel/", {"reason": "r"})) == ["reason"]
    assert done(post(ada, f"{address}cancel/"))["state"] == "cancelled"
    assert done(post(ada, f"{address}cancel/"))["state"] == "cancelled"
    assert fields(post(ben, f"{address}again/"), 403) == [""]
    assert done(post(ada, f"{address}again/"))["state"] == "waiting"
    assert get(ben, f"{address}results/")["base"] is None
    finished(Simulation.objects.get(pk=row.pk))
    told = get(ben, f"{address}results/")
    assert told["state"] == "finished"
    assert [part["number"] for part in told["parts"]] == [0, 1]
    assert told["waits"][0]["workload_class"] == "all"
    assert {line["node"] for line in told["nodes"]} >= {"A", "A1", "B"}
    assert get(ben, f"{address}scenario/")["tree"]
    assert [each["number"] for each in rows_of(ben, "/simulations/?made_by=ada&state=finished")] == [row.pk]
    assert ben.get(f"{API}/simulations/999999/results/").status_code == 404


def test_what_if_is_for_its_nodes_people(calm, as_person):
    made = Simulation.objects.create(
        kind=Simulation.Kind.WHAT_IF, made_by=calm.mia, parent=calm.node["A"], cluster=calm.cluster, title="t",
        from_at=timezone.now() - timedelta(days=7), until_at=timezone.now(), asked={},
    )  # fmt: skip
    ben = as_person(calm.ben)
    for path in ("", "results/", "scenario/"):
        assert ben.get(f"{API}/simulations/{made.pk}/{path}").status_code == 404
    for verb in ("cancel", "again"):
        assert post(ben, f"/simulations/{made.pk}/{verb}/").status_code == 404
    assert Request.objects.count() == 0


@pytest.mark.parametrize("path", ["/reviews/", "/simulations/", "/follow-ups/", "/requests/{number}/comments/"])
def test_queries_do_not_grow_with_rows(calm, as_person, path):
    mia, number = as_person(calm.mia), submitted(as_person(calm.ada), calm)
    address = f"{API}{path.format(number=number)}?limit=200"

    def more(count: int) -> int:
        """So many more of each, and the queries that they cost."""
        period = {"period_from": today() - timedelta(days=7), "period_until": today(), "meets_at": timezone.now()}
        common = {"node": calm.node["A"], "title": "t", "opened_by": calm.mia, **period}
        Review.objects.bulk_create(Review(**common, state="planned") for _ in range(count))
        Comment.objects.bulk_create(Comment(request_id=number, author=calm.mia, text="t") for _ in range(count))
        asked = {"kind": "compare", "made_by": calm.ada, "cluster": calm.cluster, "title": "t", "asked": {}}
        for row in Simulation.objects.bulk_create(Simulation(**asked) for _ in range(count)):
            SimulationPart.objects.bulk_create(SimulationPart(simulation=row, number=n, name="v") for n in range(3))
        where = {"parent": calm.node["A"], "desk": calm.node["A"], "cluster": calm.cluster, "author": calm.mia}
        when = {"starts_on": today(), "decided_at": timezone.now(), "applied_at": timezone.now()}
        drafts = [Reallocation(**where, **when, state="applied", base_version=1) for _ in range(count)]
        rows = Reallocation.objects.bulk_create(drafts)
        FollowUp.objects.bulk_create(FollowUp(reallocation=row, due_on=today()) for row in rows)
        mia.get(address)
        with CaptureQueriesContext(connection) as told:
            whole = mia.get(address).json()["results"]
        assert len(whole) >= count
        assert list(rows_of(mia, f"{address.removeprefix(API)[:-3]}7")) == whole  # the same by sevens
        return len(told)

    few = more(2)
    assert more(40) <= few
