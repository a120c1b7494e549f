"""What the scheduler does when the budget tree changes: registered with `budgets.hooks` when the app is ready."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from budgets import hooks
from budgets.models import BudgetNode, Cluster, Person
from budgets.queries import WEIGHING_DAYS
from scheduler.models import Run, UsageHour, Workload
from scheduler.services import events


def listen() -> None:
    """Be told of changes to the tree; once."""
    if wake_clusters not in hooks.tree_changed:
        hooks.tree_changed.append(wake_clusters)
        hooks.has_past.append(has_past)
        hooks.past_moves.append(move_past)
        hooks.submits_at.append(submits_at)


def wake_clusters(cluster_ids: Collection[int]) -> None:
    """The order may be another one now: have the loops look."""
    for cluster_id in cluster_ids:
        events.wake(cluster_id)


def has_past(leaf: BudgetNode) -> bool:
    """Whether anything was ever submitted to, or ran in, this leaf."""
    return Workload.objects.filter(leaf=leaf).exists() or Run.objects.filter(leaf=leaf).exists()


def submits_at(people: Collection[int]) -> list[tuple[int, list[int]]]:
    """Each of these people (ids) with the path of a leaf at which they submitted something that may weigh still. One
    query.
    """
    since = timezone.now() - timedelta(days=WEIGHING_DAYS)
    theirs = Workload.objects.filter(owner__in=people, submitted_at__gte=since).order_by()
    return list(theirs.values_list("owner_id", "leaf__path").distinct())


def move_past(leaf: BudgetNode, child: BudgetNode, by: Person | None) -> None:
    """Move all that was submitted to a leaf, and its charges, to its new closed child.

    Runs that hold devices go on under their contract and are charged to the child; what waits is held there by the
    next pass (semantics.md section 8). The leaf's own figures stay: it is above the child now.
    """
    for cluster in Cluster.objects.order_by("pk"):
        with events.changing(cluster.pk):
            here = {"cluster": cluster, "leaf": leaf}
            is_open = Workload.objects.filter(**here, state__in=Workload.OPEN_STATES)
            entries = [events.Entry(events.Kind.MOVED, workload_id=pk) for pk in is_open.values_list("pk", flat=True)]
            Workload.objects.filter(**here).update(leaf=child)
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE scheduler_run SET leaf_id = %(child)s, path = path || %(child)s::bigint "
                    "WHERE cluster_id = %(cluster)s AND leaf_id = %(leaf)s",
                    {"child": child.pk, "cluster": cluster.pk, "leaf": leaf.pk},
                )
            _copy_hours(cluster, leaf, child)
            events.record_all(cluster_id=cluster.pk, entries=entries, by=by)


def _copy_hours(cluster: Cluster, leaf: BudgetNode, child: BudgetNode) -> None:
    """The child used and asked for what the leaf did, and was entitled to nothing."""
    used = ("charged_milli_s", "uncharged_milli_s", "demand_milli_s")
    rows = UsageHour.objects.filter(cluster=cluster, node=leaf).values("hour", *used)
    UsageHour.objects.bulk_create(
        (UsageHour(cluster=cluster, node=child, **row) for row in rows if any(row[name] for name in used)),
        batch_size=5_000,
    )
