"""Marks on a budget's use in its period: told once when passed, armed again when the budget grows.

The period is the calendar quarter of the organisation's days. What is entitled in it is what its hours so far were
entitled to, and from now on the node's shares, as they are known today, of the devices that there are now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction

from django.db import transaction
from django.db.models import F, Q, Sum
from django.utils import timezone
from django.utils.translation import gettext

from budgets import queries
from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Kind, Person, Role, RoleGrant, Threshold
from budgets.services import checks, messages
from scheduler.models import WHOLE_DEVICE_MILLI, Device, UsageHour

HOUR = timedelta(hours=1)
PERCENT_MAX = 200
GROWN_PERCENT = 1
"""What counts as a larger budget: devices come and go, and move what is entitled in a quarter a little."""


@dataclass(frozen=True, slots=True)
class Use:
    """Of a node on a cluster in its period: delivered so far, and entitled in all of it, in thousandths x seconds."""

    used_milli_s: int
    entitled_milli_s: int

    def has_passed(self, percent: int) -> bool:
        """Whether so many per cent of what is entitled are used; never of nothing."""
        return self.entitled_milli_s > 0 and self.used_milli_s * 100 >= self.entitled_milli_s * percent

    def has_grown_since(self, mark: Threshold) -> bool:
        """Whether the budget is larger than when the mark was told of, by more than what repairs and rounding move."""
        return self.entitled_milli_s * 100 >= (mark.fired_entitled_milli_s or 0) * (100 + GROWN_PERCENT)


def put(*, node: BudgetNode, cluster: Cluster, percent: int, by: Person) -> Threshold:
    """Mark so many per cent of the budget; its managers are told when use passes it.

    Raises:
        InputError: not 1 to 200, or marked already. NotAllowed: `by` is no manager of it.
    """
    if type(percent) is not int or not 1 <= percent <= PERCENT_MAX:
        raise InputError(
            "percent", gettext("must be a whole number from 1 to {percent_max}").format(percent_max=PERCENT_MAX)
        )
    with transaction.atomic():
        row = checks.locked(node)
        checks.allowed(by, "share.change", row)
        mark, is_new = Threshold.objects.get_or_create(node=row, cluster=cluster, percent=percent)
        if not is_new:
            raise InputError(
                "percent",
                gettext("{percent} % of {row} on {cluster} is marked already").format(
                    percent=percent, row=row.code, cluster=cluster.name
                ),
            )
        return mark


def remove(*, threshold: Threshold, by: Person) -> None:
    """Take a mark away. Raises NotAllowed: `by` is no manager of the node."""
    with transaction.atomic():
        checks.allowed(by, "share.change", checks.locked(threshold.node))
        threshold.delete()


def check(now: datetime | None = None) -> int:
    """Beat's: tell of each mark that is passed and was not told of; arm those whose budget has grown, or whose period
    is another one. How many fired.
    """
    now = now or timezone.now()
    marks = list(Threshold.objects.select_related("node", "cluster").order_by("pk"))
    uses: dict[tuple[int, int], Use] = {}
    for mark in marks:
        key = (mark.node_id, mark.cluster_id)
        if key not in uses:
            uses[key] = use_of(mark.node, mark.cluster, now)
    return sum(_look(mark.pk, uses[mark.node_id, mark.cluster_id], now) for mark in marks)


def use_of(node: BudgetNode, cluster: Cluster, now: datetime) -> Use:
    """The node's use in the quarter of `now`. A few queries."""
    first, end = quarter_of(queries.day_of(now))
    begin, over = queries.midnight(first), queries.midnight(end)
    hours = UsageHour.objects.filter(node=node, cluster=cluster, hour__gte=begin, hour__lt=over)
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    used = hours.aggregate(total=Sum("charged_milli_s"))["total"] or 0
    so_far = hours.filter(hour__lt=this_hour).aggregate(total=Sum("entitled_milli_s"))["total"] or 0
    return Use(used, so_far + _still_entitled(node, cluster, this_hour, over))


def quarter_of(day: date) -> tuple[date, date]:
    """The first day of the calendar quarter in which `day` lies, and the first after it."""
    month = day.month - (day.month - 1) % 3
    return date(day.year, month, 1), date(day.year + month // 10, (month + 2) % 12 + 1, 1)


def _still_entitled(node: BudgetNode, cluster: Cluster, start: datetime, end: datetime) -> int:
    """What the shares of now give on the cluster's devices of now over the hours from `start` to `end`."""
    size_milli = Device.objects.filter(node__cluster=cluster, node__retired_at=None).count() * WHOLE_DEVICE_MILLI
    last = queries.day_of(end - HOUR) + timedelta(days=1)
    steps = queries.entitlement_steps(node, cluster, queries.day_of(start), last)
    total = Fraction(0)
    begins = [max(start, queries.midnight(day)) for day, _ in steps]
    for (_, entitlement), begin, until in zip(steps, begins, [*begins[1:], end], strict=True):
        total += entitlement * size_milli * max(0, int((until - begin).total_seconds()))
    return int(total)


def _look(pk: int, use: Use, now: datetime) -> int:
    """One mark, behind its row's lock: armed again, or told of, or left alone."""
    first, _ = quarter_of(queries.day_of(now))
    with transaction.atomic():
        mark = Threshold.objects.select_for_update(of=("self",)).select_related("node", "cluster").get(pk=pk)
        is_told = mark.fired_at is not None and mark.fired_at >= queries.midnight(first)
        if not use.has_passed(mark.percent):
            if mark.fired_at is not None and (not is_told or use.has_grown_since(mark)):
                Threshold.objects.filter(pk=pk).update(fired_at=None, fired_entitled_milli_s=None)
            return 0
        if is_told:
            return 0
        Threshold.objects.filter(pk=pk).update(
            fired_at=now, fired_entitled_milli_s=use.entitled_milli_s, times_fired=F("times_fired") + 1
        )
        _tell(mark, use)
        return 1


def _tell(mark: Threshold, use: Use) -> None:
    """Tell the managers of the node, or where it has none those of the nearest node above that has."""
    node, unit = mark.node, "GPU-hours" if mark.cluster.unit == Cluster.Unit.GPU else "core-hours"
    used, entitled = (round(Fraction(amount, 3_600_000)) for amount in (use.used_milli_s, use.entitled_milli_s))
    messages.tell(
        to=managers_at(node),
        kind=Kind.BUDGET,
        subject=f"{node.code} has used {mark.percent} % of its quarter on {mark.cluster.name}",
        text=f"{node.code} {node.name}: {used:,} of {entitled:,} {unit} that it is entitled to this quarter.",
        path=f"/budget/{node.code}/?cluster={mark.cluster.name}",
        key=f"threshold:{mark.pk}:{mark.times_fired + 1}",
    )


def managers_at(node: BudgetNode) -> list[Person]:
    """Who manages the node today, at the nearest level that has anybody who can sign in."""
    held = Q(role=Role.MANAGER, node__in=node.path, person__is_active=True) & queries.in_force(queries.today())
    by_node: dict[int, list[Person]] = {}
    for grant in RoleGrant.objects.filter(held).select_related("person").order_by("person"):
        by_node.setdefault(grant.node_id, []).append(grant.person)
    return next((by_node[pk] for pk in reversed(node.path) if pk in by_node), [])
