"""People hear of their workloads that were preempted or have failed, once."""

from __future__ import annotations

from datetime import timedelta

from budgets.models import Message
from scheduler.models import Run
from scheduler.services import bad_ends


def told() -> list[tuple[str, str]]:
    """Who was told what."""
    return list(Message.objects.order_by("person__username", "subject").values_list("person__username", "subject"))


def test_the_owner_of_what_was_preempted_is_told_once_by_whom(lab):
    wanted = [("ben", f"{lab.taken.code} was preempted by {lab.taker.code}; it waits in the queue again")]
    assert bad_ends.tell(lab.now) == 1
    assert bad_ends.tell(lab.now) == 0
    assert told() == wanted
    message = Message.objects.get()
    assert (message.kind, message.path) == ("workload", f"/workloads/{lab.taken.code}/runs/1/preempted/")


def test_long_past_ends_and_own_ends_are_not_told(lab):
    assert bad_ends.tell(lab.now + timedelta(hours=4)) == 0
    Run.objects.filter(workload=lab.taken).update(end_reason="finished")
    assert bad_ends.tell(lab.now) == 0


def test_a_failure_names_its_exit_status_and_nobody_gone_is_told(lab):
    Run.objects.filter(workload=lab.taken, state="ended").update(end_reason="failed", exit_code=3)
    lab.ben.is_active = False
    lab.ben.save()
    assert bad_ends.tell(lab.now) == 0
    lab.ben.is_active = True
    lab.ben.save()
    assert bad_ends.tell(lab.now) == 1
    assert told() == [("ben", f"{lab.taken.code} has failed with exit status 3")]
