"""Requests and decisions by the API alone: the same services and the same authority as the pages have."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from budgets.models import Comment, LedgerEntry, Reallocation, Request, Role, Share
from budgets.queries import today
from budgets.services import request_deadlines
from portal.views.requests import on_desk
from tests.portal.conftest import Laboratory
from tests.portal.governing import API, TODAY, asking, at, done, fields, get, patch, post, rows_of, submitted
from tests.portal.test_requests import copied
from tests.portal.test_tokens import client_of


def shares_now(lab: Laboratory, parent: str) -> dict[str, int]:
    """Basis points in force today, by child."""
    rows = Share.objects.filter(parent=lab.node[parent], valid_from__lte=today())
    return dict(rows.exclude(valid_until__lte=today()).values_list("node__code", "basis_points"))


def verbs(**subject: int) -> list[str]:
    """What the ledger says of one thing, the oldest first."""
    return list(LedgerEntry.objects.filter(**subject).order_by("id").values_list("verb", flat=True))


# --- the life of a request --------------------------------------------------------------------------------------------


def test_from_a_draft_to_the_ledger(calm, as_person):
    ada, mia, top = as_person(calm.ada), as_person(calm.mia), as_person(calm.max)
    made = post(ada, "/requests/", asking(calm))
    number, at_ = done(made, 201)["number"], made.headers["Location"].removeprefix(API)
    assert at_ == f"/requests/{number}/"
    assert done(made, 201) == get(ada, at_)
    assert [client.get(API + at_).status_code for client in (mia, top)] == [404, 404]

    tag = ada.get(API + at_).headers["ETag"]
    assert done(patch(ada, at_, {"why": "runs 7 to 9"}, If_Match=tag))["why"] == "runs 7 to 9"
    assert fields(patch(ada, at_, {"why": "other"}, If_Match=tag), 412) == []
    assert fields(patch(ada, at_, {"why": "other", "version": 1}), 409) == ["version"]
    assert fields(patch(ada, at_, {"why": "other"}), 428) == []

    row = done(post(ada, f"{at_}submit/"))
    assert (row["state"], row["desk"], row["figures"]["basis_points"]) == ("submitted", "A", 7_000)
    assert [row["number"] for row in rows_of(mia, "/requests/?desk=mine")] == [number]
    assert list(rows_of(ada, "/requests/?desk=mine")) == []
    assert get(mia, at_)["decidable_as"] == ["mia"]
    assert get(ada, at_)["decidable_as"] == []

    assert done(post(mia, f"{at_}give-back/", {"reason": "which runs?"}))["state"] == "returned"
    row = get(ada, at_)
    done(patch(ada, at_, {"more_basis_points": 400, "version": row["version"]}))
    done(post(ada, f"{at_}submit/"))

    up = done(post(mia, f"{at_}pass-up/", {"reason": "A has none to spare"}), 201)
    assert (up["node"], up["more_basis_points"], up["desk"], up["lower"]) == ("A", 240, "LAB", number)
    assert get(mia, at_)["upper"] == up["number"]
    assert get(ada, at_)["upper"] is None  # a member of A1 sees nothing of what A asks for
    given = done(post(top, f"/requests/{up['number']}/approve/", {"reason": "yes"}))
    assert (given["state"], given["decided_by"]) == ("applied", "max")
    assert shares_now(calm, "LAB") == {"A": 6_240, "B": 3_500}

    answer = {"reason": "A2 can do with less", "shares": {"A1": 7_400, "A2": 2_300}, "look_again_on": at(9)}
    row = done(post(mia, f"{at_}approve/", answer))
    assert (row["state"], row["decision_reason"]) == ("applied", "A2 can do with less")
    assert shares_now(calm, "A") == {"A1": 7_400, "A2": 2_300}
    assert verbs(request_id=number)[:5] == [
        "request.submitted", "request.returned", "request.submitted", "request.passed_up", "share.changed",
    ]  # fmt: skip
    assert verbs(request_id=number).count("request.approved") == 1
    log = get(ada, f"/decisions/{row['decision']}/")
    assert (log["requests"], log["by"], log["outcome"]) == ([number], "mia", "applied")
    assert log["lines"] == [
        {"node": "A1", "before": 7_000, "after": 7_400}, {"node": "A2", "before": 2_500, "after": 2_300},
    ]  # fmt: skip
    assert log["follow_up"]["due_on"] == at(9)


def test_what_nobody_answers_goes_up_and_is_decided_there(calm, as_person):
    ada, mia, top = as_person(calm.ada), as_person(calm.mia), as_person(calm.max)
    number = submitted(ada, calm, ends_on=at(30))
    Request.objects.filter(pk=number).update(answer_by=timezone.now() - timedelta(minutes=1))
    assert request_deadlines.escalate() == 1
    assert get(ada, f"/requests/{number}/")["desk"] == "LAB"
    assert [row["number"] for row in rows_of(top, "/requests/?desk=mine")] == [number]
    assert fields(post(mia, f"/requests/{number}/approve/", {"reason": "too late"}), 403) == [""]
    row = done(post(top, f"/requests/{number}/approve/", {"reason": "for a month", "version": 3}))
    assert (row["state"], row["decided_by"]) == ("applied", "max")
    later = Share.objects.filter(node=calm.node["A1"], valid_from=today() + timedelta(days=30))
    assert shares_now(calm, "A")["A1"] == 7_500
    assert later.get().basis_points == 7_000  # it asked for a month


def test_denied_once(calm, as_person):
    ada, mia, top = as_person(calm.ada), as_person(calm.mia), as_person(calm.max)
    number = submitted(ada, calm)
    row = done(post(mia, f"/requests/{number}/deny/", {"reason": "not now"}))
    assert (row["state"], row["decision"], row["decided_by"]) == ("denied", None, "mia")
    late = post(top, f"/requests/{number}/approve/", {"reason": "yes"})
    assert fields(late, 409) == ["version"]
    assert "was denied on" in done(late, 409)["detail"]
    assert fields(post(ada, f"/requests/{number}/withdraw/"), 409) == ["version"]
    [entry] = rows_of(ada, "/decisions/?node=A1&by=mia")
    assert (entry["kind"], entry["number"], entry["outcome"]) == ("request", number, "denied")


def test_withdrawn_by_its_author_alone(calm, as_person):
    ada, mia = as_person(calm.ada), as_person(calm.mia)
    number = submitted(ada, calm)
    assert fields(post(mia, f"/requests/{number}/withdraw/"), 403) == [""]
    assert done(post(ada, f"/requests/{number}/withdraw/", {"reason": "done otherwise"}))["state"] == "withdrawn"
    assert LedgerEntry.objects.get(verb="request.withdrawn").reason == "done otherwise"


def test_too_little_is_unassigned_to_give_it(calm, as_person):
    number = submitted(as_person(calm.ada), calm, more_basis_points=600)
    mia = as_person(calm.mia)
    assert fields(post(mia, f"/requests/{number}/approve/", {"reason": "yes"})) == ["shares"]
    assert get(mia, f"/requests/{number}/")["state"] == "submitted"
    assert not Reallocation.objects.exists()


# --- who may ----------------------------------------------------------------------------------------------------------

ANSWERS = ("approve", "deny", "give-back", "pass-up")


def test_nobody_but_its_managers_decides(calm, as_person):
    number = submitted(as_person(calm.ada), calm)
    for who in (calm.ada, calm.ops, calm.person("rea", "A", Role.REVIEWER)):
        client = as_person(who)
        assert client.get(f"{API}/requests/{number}/").status_code == 200
        for verb in ANSWERS:
            assert fields(post(client, f"/requests/{number}/{verb}/", {"reason": "mine"}), 403) == [""]
    assert Request.objects.get(pk=number).state == "submitted"
    assert shares_now(calm, "A") == {"A1": 7_000, "A2": 2_500}


def test_nobody_decides_their_own(calm, as_person):
    number = submitted(as_person(calm.mia), calm, node="A2")
    for verb in ANSWERS:
        assert fields(post(as_person(calm.mia), f"/requests/{number}/{verb}/", {"reason": "mine"}), 403) == [""]
    assert list(rows_of(as_person(calm.mia), "/requests/?desk=mine")) == []


def test_a_delegate_decides_for_who_is_away_up_to_a_limit(calm, as_person):
    mia, nil = as_person(calm.mia), as_person(calm.nil)
    away = {"delegate": "nil", "node": "A", "limit_basis_points": 500, "valid_until": at(3)}
    given = done(post(mia, "/delegations/", away), 201)
    small, large = submitted(as_person(calm.ada), calm), submitted(as_person(calm.ada), calm, more_basis_points=501)
    row = Request.objects.get(pk=small)
    assert [each["number"] for each in rows_of(nil, "/requests/?desk=mine")] == [large, small]
    assert [each.pk for each in on_desk(calm.nil)[0]] == [small, large]  # as on the page, there the most urgent first
    assert get(nil, f"/requests/{small}/")["decidable_as"] == ["mia"]
    done(post(mia, f"/requests/{small}/comments/", {"text": "give it", "audience": "reviewers"}), 201)
    assert [each["text"] for each in rows_of(nil, f"/requests/{small}/comments/")] == ["give it"]
    assert fields(post(nil, f"/requests/{small}/deny/", {"reason": "no"}), 403) == [""]  # not in their own right
    over = post(nil, f"/requests/{large}/deny/", {"reason": "no", "acting_for": "mia"})
    assert "this is 1 more" in done(over, 403)["detail"]
    done(post(nil, f"/requests/{small}/approve/", {"reason": "yes", "acting_for": "mia"}))
    row.refresh_from_db()
    assert (row.decided_by, row.decided_for) == (calm.nil, calm.mia)
    assert done(post(mia, f"/delegations/{given['number']}/end/", {"reason": "back"}))["ended_at"]
    assert fields(post(mia, f"/delegations/{given['number']}/end/"), 409) == ["version"]
    assert list(rows_of(nil, "/requests/")) == []
    assert nil.get(f"{API}/requests/{large}/").status_code == 404


@pytest.mark.parametrize(("scopes", "asks", "decides"), [(["submit"], 200, 403), (["decide"], 403, 200)])
def test_tokens_ask_or_decide(calm, as_person, scopes, asks, decides):
    number = submitted(as_person(calm.ada), calm)
    comment = post(client_of(calm.mia, *scopes), f"/requests/{number}/comments/", {"text": "hm"})
    assert comment.status_code == (201 if asks == 200 else 403)
    assert post(client_of(calm.mia, *scopes), f"/requests/{number}/deny/", {"reason": "no"}).status_code == decides


# --- two at once ------------------------------------------------------------------------------------------------------


def test_two_deciders_at_once(lab, as_person):
    number = submitted(as_person(lab.ada), lab)
    together, found = threading.Barrier(2), {}

    def decide(name: str, verb: str) -> None:
        client = as_person(getattr(lab, name))
        together.wait()
        found[name] = post(client, f"/requests/{number}/{verb}/", {"reason": name}).status_code
        connections.close_all()

    threads = [threading.Thread(target=decide, args=pair) for pair in (("mia", "approve"), ("max", "deny"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found.values()) == [200, 409]
    won = next(name for name, status in found.items() if status == 200)
    row = get(as_person(lab.ada), f"/requests/{number}/")
    assert (row["state"], row["decided_by"]) == ({"mia": "applied", "max": "denied"}[won], won)
    assert shares_now(lab, "A")["A1"] == {"mia": 7_500, "max": 7_000}[won]


def test_a_key_decides_once(calm, as_person):
    number, mia = submitted(as_person(calm.ada), calm), as_person(calm.mia)
    answers = [post(mia, f"/requests/{number}/approve/", {"reason": "yes"}, Idempotency_Key="k-1") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert Reallocation.objects.count() == 1


def test_the_parent_was_changed_since(calm, as_person):
    number, mia = submitted(as_person(calm.ada), calm), as_person(calm.mia)
    read = get(mia, "/budget/A/")["version"]
    body = {"shares": {"A2": 2_400}, "valid_from": TODAY, "reason": "r", "version": read}
    done(post(mia, "/clusters/north/shares/A/", body))
    late = post(mia, f"/requests/{number}/approve/", {"reason": "yes", "parent_version": read})
    assert fields(late, 409) == ["version"]
    assert shares_now(calm, "A") == {"A1": 7_000, "A2": 2_400}


# --- what is said, what is attached -----------------------------------------------------------------------------------


def test_comments_for_reviewers_stay_among_them(calm, as_person):
    ada, mia = as_person(calm.ada), as_person(calm.mia)
    number = submitted(ada, calm)
    address = f"/requests/{number}/comments/"
    for text, audience in (("fine by me", "all"), ("they had twice that", "reviewers")):
        assert done(post(mia, address, {"text": text, "audience": audience}), 201)["author"] == "mia"
    assert [row["text"] for row in rows_of(mia, f"{address}?limit=1")] == ["fine by me", "they had twice that"]
    assert [row["text"] for row in rows_of(ada, address)] == ["fine by me"]
    assert fields(post(ada, address, {"text": "psst", "audience": "reviewers"}), 403) == [""]
    assert fields(post(ada, address, {"text": ""})) == ["text"]
    assert Comment.objects.count() == 2


def test_a_file_is_put_beside_it_and_fetched(calm, as_person):
    ada = as_person(calm.ada)
    number = submitted(ada, calm)
    address = f"{API}/requests/{number}/attachments/"
    made = ada.post(address, {"file": SimpleUploadedFile("../plan.txt", b"<script>1</script>")})
    assert done(made, 201)["name"] == "plan.txt"
    assert ada.get(address).json() == [done(made, 201)]
    answer = ada.get(made.headers["Location"], headers={"Accept": "text/plain"})
    assert (answer.content, answer.headers["Content-Type"]) == (b"<script>1</script>", "text/plain")
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert as_person(calm.ben).get(made.headers["Location"]).status_code == 404
    assert fields(ada.post(address, {"file": SimpleUploadedFile("plan.exe", b"MZ")})) == ["file"]
    assert fields(ada.post(address, {})) == ["file"]
    assert ada.post(address, "{}", content_type="application/json").status_code == 415
    sent = [
        ada.post(address, {"file": SimpleUploadedFile("more.txt", content)}, headers={"Idempotency-Key": "k"})
        for content in (b"one", b"one", b"two")
    ]
    assert [answer.status_code for answer in sent] == [201, 201, 422]
    assert [row["name"] for row in ada.get(address).json()] == ["plan.txt", "more.txt"]


# --- what others must not see -----------------------------------------------------------------------------------------


def test_what_is_another_programs_is_not_there(calm, as_person):
    ada, mia, ben = as_person(calm.ada), as_person(calm.mia), as_person(calm.ben)
    number = submitted(ada, calm)
    plan = {"parent": "A", "cluster": "north", "shares": {"A1": 7_100}, "reason": "r"}
    drafted = done(post(mia, "/reallocations/", plan), 201)["number"]
    for path in (f"/requests/{number}/", f"/requests/{number}/comments/", f"/requests/{number}/attachments/"):
        assert ben.get(API + path).status_code == 404
    for verb in ("submit", "withdraw", "give-back", "deny", "approve", "pass-up", "comments"):
        assert post(ben, f"/requests/{number}/{verb}/", {"reason": "r"}).status_code == 404
    assert patch(ben, f"/requests/{number}/", {"why": "x"}).status_code == 404
    for client in (ben, as_person(calm.ops), as_person(calm.max)):
        assert client.get(f"{API}/reallocations/{drafted}/").status_code == 404
        for verb in ("propose", "apply", "approve", "deny", "withdraw", "comments"):
            assert post(client, f"/reallocations/{drafted}/{verb}/", {"reason": "r"}).status_code == 404
    assert list(rows_of(ben, "/requests/")) == []
    assert list(rows_of(ben, "/reallocations/")) == []


# --- as many queries for many rows as for few -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/requests/?limit=200", "/requests/?desk=mine&limit=200", "/reallocations/?limit=200", "/decisions/?limit=200"],
)
def test_queries_do_not_grow_with_rows(calm, as_person, path):
    mia = as_person(calm.mia)

    def queries() -> int:
        mia.get(API + path)
        with CaptureQueriesContext(connection) as told:
            assert mia.get(API + path).status_code == 200
        return len(told)

    some = Request.objects.get(pk=submitted(as_person(calm.ada), calm))
    number = submitted(as_person(calm.ada), calm)
    done(post(mia, f"/requests/{number}/approve/", {"reason": "yes"}))
    few = queries()
    for points in range(7_400, 7_406):
        body = {"shares": {"A1": points}, "valid_from": TODAY, "reason": f"r{points}"}
        done(post(mia, "/clusters/north/shares/A/", {**body, "version": get(mia, "/budget/A/")["version"]}))
    Request.objects.bulk_create([copied(some) for _ in range(60)])
    assert queries() <= few
