"""Why one run was preempted: the stored decision, its numbers, what it cost; and that it would be decided so again."""

from __future__ import annotations

from scheduler.engine import Action
from scheduler.models import Decision, Run
from scheduler.queries.preempted import preempted
from scheduler.queries.replay import replay
from tests.portal.test_pages import queries_of, text_of


def test_the_stored_decision_is_decided_again_from_the_stored_snapshot(lab):
    stored = Decision.objects.get(workload=lab.taken, action="preempt")
    found = replay(stored.made_in)
    assert found.differences == ()
    again = [each for each in found.plan.decisions if each.action is Action.PREEMPT]
    assert [(each.workload, each.run, each.by) for each in again] == [
        (lab.taken.code, f"{lab.taken.code}/1", lab.taker.code)
    ]
    assert (again[0].reason.code, again[0].reason.text, dict(again[0].reason.numbers)) == (
        stored.code,
        stored.text,
        stored.numbers,
    )


def test_what_it_had_and_lost_adds_up(lab):
    run = Run.objects.get(workload=lab.taken, number=1)
    found = preempted(lab.taken, 1, lab.now)
    assert found.safe_s == 600
    assert found.safe_s + found.open_s == (run.stop_asked_at - run.running_at).total_seconds()
    assert found.saved_s == lab.taken.progress_s
    held_s = (run.ended_at - run.started_at).total_seconds()
    assert found.run.held_milli_s == found.run.charged_milli_s == held_s * 8_000
    assert found.lost_milli_s == found.run.held_milli_s - found.saved_s * 8_000 > 0
    assert found.decision.took.served < found.decision.gave.served


def test_the_page_says_who_took_it_by_which_rule_and_numbers(lab, as_person):
    client, path = as_person(lab.ben), f"/workloads/{lab.taken.code}/runs/1/preempted/"
    assert f'href="{path}"' in client.get(f"/workloads/{lab.taken.code}/").content.decode()
    assert queries_of(client, path) <= 30
    said = text_of(client.get(path)).replace("\xa0", " ")
    for words in (
        f"{lab.taker.code} took its 8 GPUs.",
        "The rule: Its contract was over, and the other side had had less of its share than this side.",
        "preempted_fair_share",
        "A Team A took",
        "B Team B gave",
        "inside its contract of 10 min, when nobody could take it",
        "When it will be back is being forecast",
        "manage.py replay_pass",
    ):
        assert words in said


def test_what_is_not_there_is_404(lab, as_person):
    client = as_person(lab.ben)
    for path in (
        f"/workloads/{lab.taken.code}/runs/2/preempted/",
        f"/workloads/{lab.taker.code}/runs/1/preempted/",
        "/workloads/B1-9999/runs/1/preempted/",
    ):
        answer = client.get(path)
        assert answer.status_code == 404
        assert client.get(f"/api/v1{path}").status_code == 404
    assert (
        "has no run 2 that was preempted"
        in client.get(f"/workloads/{lab.taken.code}/runs/2/preempted/").content.decode()
    )


def test_the_api_gives_the_same(lab, as_person):
    given = as_person(lab.ben).get(f"/api/v1/workloads/{lab.taken.code}/runs/1/preempted/").json()
    assert given["decision"]["by"] == lab.taker.code
    assert given["decision"]["code"] == "preempted_fair_share"
    assert (given["safe_s"], given["saved_s"]) == (600, lab.taken.progress_s)
    assert given["next_run"] is None
