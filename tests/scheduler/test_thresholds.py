"""Marks on a budget's use: told once when passed, armed again when the budget grows or the quarter ends."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from budgets.errors import InputError, NotAllowed
from budgets.models import Message, Threshold
from scheduler.models import UsageHour
from scheduler.services import nodes, thresholds
from tests.budgets.laboratory import Lab, build

QUARTER = datetime(2027, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DEVICES = 8
ENTITLED_HOURS = 90 * 24 * DEVICES * 35 // 100
"""GPU-hours that A1 is entitled to in that quarter of 90 days: 50 % of 70 % of 8 devices."""


@pytest.fixture
def lab(db: None) -> Lab:
    """A1 has 35 % of 8 GPUs; Lead manages it, Pi what is above."""
    lab = build()
    nodes.register(cluster=lab.north, name="n1", devices=DEVICES, rack="r", now=QUARTER - timedelta(days=300))
    return lab


def use(lab: Lab, hours: int, on: datetime) -> None:
    """Let A1 have used so many GPU-hours in all, booked at one hour; nothing of the quarter before it is cached."""
    UsageHour.objects.update_or_create(
        node=lab.a1, cluster=lab.north, hour=on,
        defaults={"charged_milli_s": hours * 3_600_000, "entitled_milli_s": DEVICES * 350 * 3_600},
    )  # fmt: skip


def told() -> list[str]:
    """What was told, in order."""
    return list(Message.objects.order_by("pk").values_list("subject", flat=True))


def test_told_once_when_passed(lab: Lab) -> None:
    thresholds.put(node=lab.a1, cluster=lab.north, percent=50, by=lab.pi)
    use(lab, ENTITLED_HOURS // 2 - 1, QUARTER)
    assert thresholds.check(QUARTER + HOUR) == 0
    use(lab, ENTITLED_HOURS // 2, QUARTER)
    assert [thresholds.check(QUARTER + HOUR) for _ in range(3)] == [1, 0, 0]
    assert told() == ["A1 has used 50 % of its quarter on north"]
    message = Message.objects.get()
    assert message.person == lab.lead
    used, all_of_it = f"{ENTITLED_HOURS // 2:,}", f"{ENTITLED_HOURS:,}"
    said = f"A1 name of A1: {used} of {all_of_it} GPU-hours that it is entitled to this quarter."
    assert message.text == said


def test_a_larger_budget_arms_it_again(lab: Lab) -> None:
    mark = thresholds.put(node=lab.a1, cluster=lab.north, percent=50, by=lab.pi)
    use(lab, ENTITLED_HOURS // 2, QUARTER)
    now = QUARTER + HOUR
    assert thresholds.check(now) == 1
    lab.give(lab.a, {lab.a1: 10_000}, date(2027, 1, 1))
    assert thresholds.check(now) == 0
    mark.refresh_from_db()
    assert (mark.fired_at, mark.fired_entitled_milli_s, mark.times_fired) == (None, None, 1)
    use(lab, ENTITLED_HOURS + 100, QUARTER)
    assert [thresholds.check(now) for _ in range(2)] == [1, 0]
    assert len(told()) == 2


def test_a_smaller_budget_or_a_passing_repair_arms_nothing(lab: Lab) -> None:
    thresholds.put(node=lab.a1, cluster=lab.north, percent=50, by=lab.pi)
    use(lab, ENTITLED_HOURS // 2, QUARTER)
    now = QUARTER + HOUR
    assert thresholds.check(now) == 1
    lab.give(lab.a, {lab.a1: 4_000}, date(2027, 1, 1))
    assert thresholds.check(now) == 0
    use(lab, ENTITLED_HOURS // 3, QUARTER)
    lab.give(lab.a, {lab.a1: 5_000}, date(2027, 1, 1))
    assert thresholds.check(now) == 0
    use(lab, ENTITLED_HOURS // 2, QUARTER)
    assert thresholds.check(now) == 0
    assert len(told()) == 1


def test_a_new_quarter_is_another_budget(lab: Lab) -> None:
    thresholds.put(node=lab.a1, cluster=lab.north, percent=50, by=lab.pi)
    use(lab, ENTITLED_HOURS, QUARTER)
    assert thresholds.check(QUARTER + HOUR) == 1
    april = datetime(2027, 4, 1, tzinfo=UTC)
    assert thresholds.check(april) == 0
    use(lab, ENTITLED_HOURS, april)
    assert thresholds.check(april + HOUR) == 1
    assert len(told()) == 2


def test_each_mark_speaks_for_itself_and_of_nothing_none_does(lab: Lab) -> None:
    for percent in (50, 80, 100):
        thresholds.put(node=lab.a1, cluster=lab.north, percent=percent, by=lab.pi)
    thresholds.put(node=lab.a2, cluster=lab.north, percent=1, by=lab.pi)
    use(lab, ENTITLED_HOURS * 9 // 10, QUARTER)
    assert thresholds.check(QUARTER + HOUR) == 2
    assert told() == [f"A1 has used {percent} % of its quarter on north" for percent in (50, 80)]


def test_a_budget_that_ends_in_the_quarter_counts_up_to_its_end(lab: Lab) -> None:
    lab.give(lab.a, {lab.a1: 0}, date(2027, 1, 31))
    found = thresholds.use_of(lab.a1, lab.north, QUARTER)
    assert found.entitled_milli_s == 30 * 24 * 3_600 * DEVICES * 350


@pytest.mark.parametrize(
    ("day", "first", "after"),
    [
        (date(2027, 1, 1), date(2027, 1, 1), date(2027, 4, 1)),
        (date(2027, 3, 31), date(2027, 1, 1), date(2027, 4, 1)),
        (date(2027, 9, 30), date(2027, 7, 1), date(2027, 10, 1)),
        (date(2027, 12, 31), date(2027, 10, 1), date(2028, 1, 1)),
    ],
)
def test_quarters(day: date, first: date, after: date) -> None:
    assert thresholds.quarter_of(day) == (first, after)


def test_the_last_day_across_a_clock_change_has_its_own_length(lab: Lab, settings) -> None:
    """In Berlin the first quarter of 2027 has an hour less: clocks change on 28 March."""
    settings.TIME_ZONE = "Europe/Berlin"
    start = datetime(2026, 12, 31, 23, tzinfo=UTC)
    assert thresholds.use_of(lab.a1, lab.north, start).entitled_milli_s == (90 * 24 - 1) * 3_600 * DEVICES * 350


@pytest.mark.parametrize("percent", [0, 201, -5, True, "50"])
def test_marks_that_are_none(lab: Lab, percent) -> None:
    with pytest.raises(InputError, match="whole number from 1 to 200"):
        thresholds.put(node=lab.a1, cluster=lab.north, percent=percent, by=lab.pi)


def test_marks_are_for_managers(lab: Lab) -> None:
    for person in (lab.member, lab.stranger):
        with pytest.raises(NotAllowed):
            thresholds.put(node=lab.a1, cluster=lab.north, percent=50, by=person)
    mark = thresholds.put(node=lab.a1, cluster=lab.north, percent=50, by=lab.lead)
    with pytest.raises(InputError, match="marked already"):
        thresholds.put(node=lab.a1, cluster=lab.north, percent=50, by=lab.pi)
    with pytest.raises(NotAllowed):
        thresholds.remove(threshold=mark, by=lab.member)
    thresholds.remove(threshold=mark, by=lab.pi)
    assert not Threshold.objects.exists()
