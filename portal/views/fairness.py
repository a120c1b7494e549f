"""Fairness: owed against delivered level by level, who ran on whose entitlement, and who waited longest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from budgets.models import BudgetNode, Cluster
from portal import figure_charts, formats
from portal.csv_files import Cell, csv_response
from portal.formats import MILLI_S_PER_HOUR
from portal.pages import Page, cluster_named, clusters, render_page
from portal.period import Period, period_named
from portal.views.node import node_named
from scheduler.queries import fairness, lent
from scheduler.queries.fairness import Fairness, Line
from scheduler.queries.lent import Matrix
from scheduler.queries.waits import ClassWaits

SPECIAL: Mapping[int, str | Promise] = {
    lent.OTHERS: gettext_lazy("all others"),
    lent.UNASSIGNED: gettext_lazy("unassigned"),
    lent.OUTSIDE: gettext_lazy("from outside"),
    lent.UNALLOCATED: gettext_lazy("unallocated work"),
}
"""What of a matrix is no child of the node."""
KEYS = {
    lent.OTHERS: "(all others)",
    lent.UNASSIGNED: "(unassigned)",
    lent.OUTSIDE: "(from outside)",
    lent.UNALLOCATED: "(unallocated work)",
}
CLASS_WORDS: Mapping[str, str | Promise] = {
    "debug": gettext_lazy("Debug"),
    "standard": gettext_lazy("Medium"),
    "large": gettext_lazy("Large"),
    "unallocated": gettext_lazy("Unallocated"),
}
NODES_HEADER = (
    "node", "node name", "parent", "cluster", "from", "until", "unit", "entitled", "delivered", "delivered within",
    "borrowed", "lent", "owed", "owed and not delivered", "not asked for", "in repair", "unallocated", "delivery %",
)  # fmt: skip
LENT_HEADER = ("borrower", "lender", "parent", "cluster", "from", "until", "unit", "amount")


@dataclass(frozen=True, slots=True)
class Row:
    """A child with its books and what it lent; or, in a matrix, a borrower with an amount for each lender."""

    line: Line
    lent_milli_s: int

    @property
    def delivery(self) -> Fraction | None:
        """Of what was owed, given."""
        books = self.line.books
        return (
            Fraction(min(books.charged_milli_s, books.owed_milli_s), books.owed_milli_s) if books.owed_milli_s else None
        )

    @property
    def net_milli_s(self) -> int:
        """Borrowed less lent."""
        return self.line.books.borrowed_milli_s - self.lent_milli_s


@dataclass(frozen=True, slots=True)
class Party:
    """Who borrows or lends: a child of the node, or the name of something else."""

    pk: int
    node: BudgetNode | None
    name: str | Promise

    @property
    def key(self) -> str:
        """How files and programs name it, in every language."""
        return self.node.code if self.node else KEYS[self.pk]


@dataclass(frozen=True, slots=True)
class Borrower:
    """A row of the matrix; None where it cannot lend to itself."""

    party: Party
    amounts: Sequence[int]
    total: int


@dataclass(frozen=True, slots=True)
class Level:
    """All that is known of a level of the tree in a time."""

    fair: Fairness
    rows: Sequence[Row]
    matrix: Matrix
    lenders: Sequence[Party]
    borrowers: Sequence[Borrower]
    lent: Sequence[int]


def level_of(parent: BudgetNode, cluster: Cluster, period: Period) -> Level:
    """The children of a node, with the matrix between them."""
    fair = fairness.fairness(parent, cluster, period.start, period.end)
    found = lent.matrix(parent, cluster, period.start, period.end)
    nodes = {line.node.pk: line.node for line in fair.lines}

    def party(pk: int) -> Party:
        return Party(pk, nodes.get(pk), SPECIAL.get(pk, ""))

    lenders = [party(pk) for pk in found.lenders]
    borrowers = [
        Borrower(party(pk), [found.cells.get((pk, lender.pk), 0) for lender in lenders], found.borrowed(pk))
        for pk in found.borrowers
    ]
    rows = [Row(line, found.lent(line.node.pk)) for line in fair.lines]
    return Level(fair, rows, found, lenders, borrowers, [found.lent(lender.pk) for lender in lenders])


def parent_named(request: HttpRequest) -> BudgetNode:
    """The node whose children are compared: `?node=`, else the root.

    Raises:
        Http404: there is none, or it has no children.
    """
    code = request.GET.get("node", "")
    node = node_named(code) if code else BudgetNode.objects.filter(parent=None).first()
    if node is None:
        raise Http404(gettext("There is no budget tree yet."))
    if code and not BudgetNode.objects.filter(parent=node).exists():
        raise Http404(gettext("{code} has no children to compare.").format(code=code))
    return node


class FairnessPage(Page):
    """`?node=` chooses the level, `?window=`, `?from=&until=` and `?as_of=` the time."""

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page."""
        self.allow("tree.see")
        among = clusters()
        where = cluster_named(cluster, among)
        period = period_named(request)
        parent = parent_named(request)
        level = level_of(parent, where, period)
        is_known = any(line.books.entitled_milli_s or line.books.charged_milli_s for line in level.fair.lines)
        context = {
            **period.context(),
            "here": "fairness",
            "clusters": among,
            "cluster": where,
            "parent": parent,
            "above": list(BudgetNode.objects.filter(pk__in=parent.path[:-1]).order_by("path")),
            "level": level,
            "sentence": sentence(level, where),
            "chart": figure_charts.owed_and_given(level.fair, where) if is_known else None,
            "longest": fairness.waited_longest(parent, where, period.start, period.live_end, period.now),
            "class_words": CLASS_WORDS,
            "has_outside": lent.OUTSIDE in level.matrix.lenders,
            "has_unallocated": lent.UNALLOCATED in level.matrix.borrowers,
        }
        return render_page(request, "fairness", context)


def sentence(level: Level, cluster: Cluster) -> str:
    """What the level says, as one would say it."""
    fair = level.fair
    if fair.delivery is None:
        return gettext("Nothing was owed to any child of {code}.").format(code=fair.parent.code)
    given = formats.measured_percent(Fraction(fair.delivery))
    said = gettext("Of what was owed to the children of {code}, {given} was given.").format(
        code=fair.parent.code, given=given
    )
    short = [row for row in level.rows if row.delivery is not None and row.delivery < 1]
    if short:
        worst = min(short, key=lambda row: (row.delivery, row.line.node.code))
        said = gettext("{said} {code} fell shortest, with {part} of what it was owed.").format(
            said=said, code=worst.line.node.code, part=formats.measured_percent(worst.delivery)
        )
    late = sum(row.line.books.not_delivered_milli_s for row in level.rows)
    if not late:
        return said
    hours = formats.unit_hours_alone(late, cluster.unit)
    return gettext("{said} Hour by hour, {hours} that were owed came later or not at all.").format(
        said=said, hours=hours
    )


class FairnessCsv(Page):
    """The children of a node with their books, as a file."""

    def get(self, request: HttpRequest, cluster: str) -> HttpResponseBase:
        """One row a child."""
        self.allow("tree.see")
        where, period, parent = cluster_named(cluster, clusters()), period_named(request), parent_named(request)
        rows = self.rows(level_of(parent, where, period), where, period)
        return csv_response(f"fairness {where.name} {parent.code} {period.on}", NODES_HEADER, rows)

    def rows(self, level: Level, cluster: Cluster, period: Period) -> Iterator[tuple[Cell, ...]]:
        """Under NODES_HEADER; amounts in hours of the unit."""
        for row in level.rows:
            books = row.line.books
            amounts = (
                books.entitled_milli_s, books.charged_milli_s, books.within_milli_s, books.borrowed_milli_s,
                row.lent_milli_s, books.owed_milli_s, books.not_delivered_milli_s, books.not_asked_milli_s,
                books.in_repair_milli_s, books.uncharged_milli_s,
            )  # fmt: skip
            yield (
                row.line.node.code, row.line.node.name, level.fair.parent.code, cluster.name, period.start, period.end,
                formats.hours_word(cluster.unit), *(Fraction(amount, MILLI_S_PER_HOUR) for amount in amounts),
                None if row.delivery is None else row.delivery * 100,
            )  # fmt: skip


class LentCsv(Page):
    """Who ran on whose entitlement, as a file."""

    def get(self, request: HttpRequest, cluster: str) -> HttpResponseBase:
        """One row for each borrower and lender between whom there was something."""
        self.allow("tree.see")
        where, period, parent = cluster_named(cluster, clusters()), period_named(request), parent_named(request)
        rows = self.rows(level_of(parent, where, period), where, period)
        return csv_response(f"lent {where.name} {parent.code} {period.on}", LENT_HEADER, rows)

    def rows(self, level: Level, cluster: Cluster, period: Period) -> Iterator[tuple[Cell, ...]]:
        """Under LENT_HEADER; amounts in hours of the unit."""
        for borrower in level.borrowers:
            for lender, amount in zip(level.lenders, borrower.amounts, strict=True):
                if amount:
                    yield (
                        borrower.party.key, lender.key, level.fair.parent.code, cluster.name, period.start,
                        period.end, formats.hours_word(cluster.unit), Fraction(amount, MILLI_S_PER_HOUR),
                    )  # fmt: skip


def class_title(waits: ClassWaits) -> str:
    """The class as pages call it."""
    return str(CLASS_WORDS[waits.name])
