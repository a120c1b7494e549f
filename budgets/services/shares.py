"""Changes to shares: who gets how much of its parent, on which cluster, from which day on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from budgets import queries
from budgets.errors import InputError
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Person, Share
from budgets.services import checks, ledger
from budgets.timeline import Spell, overlay, sums

Timelines = dict[int, list[Spell]]
"""Spells by the id of the child."""


def set_shares(
    *,
    parent: BudgetNode,
    cluster: Cluster,
    shares: Mapping[BudgetNode, int],
    valid_from: date,
    by: Person | None,
    reason: str = "",
    valid_until: date | None = None,
    version: int | None = None,
    recorded: ledger.Recorded | None = None,
    about: ledger.About = ledger.NOTHING_ELSE,
) -> list[Share]:
    """Give children of `parent` these shares (basis points) on the days [valid_from, valid_until).

    Without an end they replace whatever the children had from that day on; with one, what they had after it stays.
    Other children keep theirs. What is not given is unassigned. Entries may come in any order of dates. The
    parent's row is locked meanwhile, so that two changes at once can't both fit.

    A person (`by`) can't change days that are over, and can't raise a child in which they have a role or submit
    workloads: that is for the level above (governance.md). The same holds for whoever they act for (`about`), whose
    right it is then. The system (None) may do both, to import a history; `recorded` then says when and by whom it was
    decided.

    Returns:
        the children's shares on that cluster, all dates.

    Raises:
        InputError: what is no child, no whole number of 0 to 10,000, a closed child, dates in no order, or a sum
            over 10,000 on some day (which is named). ConflictError: the parent was changed since `version`.
        NotAllowed: it isn't theirs to decide.
    """
    return set_spells(
        parent=parent,
        cluster=cluster,
        spells={child: [Spell(valid_from, valid_until, basis_points)] for child, basis_points in shares.items()},
        by=by,
        reason=reason,
        version=version,
        recorded=recorded,
        about=about,
    )


def set_spells(
    *,
    parent: BudgetNode,
    cluster: Cluster,
    spells: Mapping[BudgetNode, Sequence[Spell]],
    by: Person | None,
    reason: str = "",
    version: int | None = None,
    recorded: ledger.Recorded | None = None,
    about: ledger.About = ledger.NOTHING_ELSE,
) -> list[Share]:
    """As `set_shares`, of which this is the general form: each child its own days, all of them changed at once, so that
    only what comes out in the end has to sum to the whole. A child's spells are laid over each other in their order.
    """
    with transaction.atomic():
        row = checks.locked(parent, version)
        checks.allowed(about.acting_for or by, "share.change", row)
        children = {child.pk: child for child in row.children.all()}
        _check_spells(row, children, spells, by)
        why = checks.reason(reason, by)
        before = _timelines(row, cluster)
        after = dict(before)
        for child, laid in spells.items():
            after[child.pk] = _laid_over(before.get(child.pk, []), laid)
        changed = [children[pk] for pk in sorted(after) if after[pk] != before.get(pk, [])]
        raised = [each for each in changed if _is_raised(before.get(each.pk, []), after[each.pk])]
        for person in (by, about.acting_for):
            if person is not None:
                checks.not_own(person, raised)
        _check_sums(row, after)
        days = {child.pk: [Spell(each.start, each.end, 0) for each in laid] for child, laid in spells.items()}
        _end_elsewhere(row, changed, cluster, days, by, why)
        _store(row, cluster, {child.pk: after[child.pk] for child in changed})
        for child in changed:
            _entry(row, child, cluster, by, before.get(child.pk, []), after[child.pk], why, recorded, about)
        if changed:
            BudgetNode.objects.filter(pk=row.pk).update(version=F("version") + 1)
            checks.announce([cluster.pk])
        return list(Share.objects.filter(parent=row, cluster=cluster).order_by("node", "valid_from"))


def end_shares(*, node: BudgetNode, by: Person | None, reason: str) -> None:
    """End all shares of a node with the organisation's day, and drop those that would have begun later.

    Part of closing and of moving a node; the caller holds the locks and the right.
    """
    tomorrow = queries.today() + timedelta(days=1)
    running = Share.objects.filter(node=node).exclude(valid_until__lte=tomorrow).select_related("cluster", "parent")
    for cluster, parent in {share.cluster: share.parent for share in running}.items():
        before = _timelines(parent, cluster)[node.pk]
        after = overlay(before, Spell(tomorrow, None, 0))
        _store(parent, cluster, {node.pk: after})
        _entry(parent, node, cluster, by, before, after, checks.reason(reason, by))


def _check_dates(spell: Spell, by: Person | None) -> None:
    if spell.end is not None and spell.end <= spell.start:
        raise InputError("valid_until", gettext("must be later than the first day"))
    if by is not None and spell.start < queries.today():
        raise InputError("valid_from", gettext("can't be a day that is over"))


def _check_spells(
    parent: BudgetNode,
    children: Mapping[int, BudgetNode],
    spells: Mapping[BudgetNode, Sequence[Spell]],
    by: Person | None,
) -> None:
    if not spells:
        raise InputError("shares", gettext("names no child"))
    for child, spell in ((child, spell) for child, laid in spells.items() for spell in laid):
        field = f"shares[{child.code}]"
        _check_dates(spell, by)
        if child.pk not in children:
            raise InputError(
                field, gettext("{child} is no child of {parent}").format(child=child.code, parent=parent.code)
            )
        if type(spell.basis_points) is not int or not 0 <= spell.basis_points <= WHOLE_BASIS_POINTS:
            raise InputError(
                field,
                gettext("must be a whole number of basis points from 0 to {whole_basis_points:,}").format(
                    whole_basis_points=WHOLE_BASIS_POINTS
                ),
            )
        if children[child.pk].is_closed and spell.basis_points:
            raise InputError(field, gettext("{child} is closed").format(child=child.code))


def _laid_over(spells: list[Spell], laid: Iterable[Spell]) -> list[Spell]:
    for each in laid:
        spells = overlay(spells, each)
    return spells


def _is_raised(old: Iterable[Spell], new: Iterable[Spell]) -> bool:
    days = {spell.start for spell in (*old, *new)} | {spell.end for spell in (*old, *new) if spell.end}
    return any(_on(new, day) > _on(old, day) for day in days)


def _on(spells: Iterable[Spell], day: date) -> int:
    return sum(spell.basis_points for spell in spells if spell.holds_on(day))


def _check_sums(parent: BudgetNode, timelines: Timelines) -> None:
    for day, total in sums(timelines.values()):
        if total > WHOLE_BASIS_POINTS:
            over = total - WHOLE_BASIS_POINTS
            message = gettext(
                "the children of {parent} would sum to {total:,} basis points on {day}, {over:,} too many"
            ).format(parent=parent.code, total=total, day=day, over=over)
            raise InputError("shares", message)


def _timelines(parent: BudgetNode, cluster: Cluster) -> Timelines:
    found: Timelines = {}
    for share in Share.objects.filter(parent=parent, cluster=cluster).order_by("valid_from"):
        found.setdefault(share.node_id, []).append(Spell(share.valid_from, share.valid_until, share.basis_points))
    return found


def _end_elsewhere(
    parent: BudgetNode,
    children: Iterable[BudgetNode],
    cluster: Cluster,
    days: Mapping[int, Sequence[Spell]],
    by: Person | None,
    reason: str,
) -> None:
    """A child that was moved here today has its old parent's share until the day ends; a new one replaces it."""
    by_id = {child.pk: child for child in children}
    others = Share.objects.filter(node__in=by_id, cluster=cluster).exclude(parent=parent).select_related("parent")
    for old, child_id in {(share.parent, share.node_id) for share in others}:
        before = _timelines(old, cluster)[child_id]
        after = _laid_over(before, days[child_id])
        if after != before:
            _store(old, cluster, {child_id: after})
            _entry(old, by_id[child_id], cluster, by, before, after, reason)


def _store(parent: BudgetNode, cluster: Cluster, timelines: Timelines) -> None:
    """Make the rows of these children say these spells; rows that stay as they are are left alone."""
    wanted = {(child_id, spell) for child_id, spells in timelines.items() for spell in spells}
    gone = []
    for share in Share.objects.filter(parent=parent, node__in=list(timelines), cluster=cluster):
        key = (share.node_id, Spell(share.valid_from, share.valid_until, share.basis_points))
        if key in wanted:
            wanted.discard(key)
        else:
            gone.append(share.pk)
    Share.objects.filter(pk__in=gone).delete()
    Share.objects.bulk_create(
        Share(
            node_id=child_id,
            parent=parent,
            cluster=cluster,
            basis_points=spell.basis_points,
            valid_from=spell.start,
            valid_until=spell.end,
        )
        for child_id, spell in sorted(wanted, key=lambda each: (each[0], each[1].start))
    )


def _entry(
    parent: BudgetNode,
    child: BudgetNode,
    cluster: Cluster,
    by: Person | None,
    before: list[Spell],
    after: list[Spell],
    reason: str,
    recorded: ledger.Recorded | None = None,
    about: ledger.About = ledger.NOTHING_ELSE,
) -> None:
    ledger.record(
        verb="share.changed",
        node=child,
        cluster=cluster,
        by=by,
        before={"parent": parent.pk, "shares": _plain(before)},
        after={"parent": parent.pk, "shares": _plain(after)},
        reason=reason,
        recorded=recorded if by is None else None,
        about=about,
    )


def _plain(spells: list[Spell]) -> list[dict[str, str | int | None]]:
    return [
        {"basis_points": s.basis_points, "from": s.start.isoformat(), "until": s.end.isoformat() if s.end else None}
        for s in spells
    ]
