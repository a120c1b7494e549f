"""Priorities inside a team: whether they order anything, for its people; by person for those who manage it."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext

from budgets.authority import has_role
from budgets.models import BudgetNode, Person, Role
from portal import formats
from portal.pages import Page, cluster_named, clusters, render_page, whole_number
from portal.period import period_named
from portal.views.node import node_named
from scheduler.queries import priorities
from scheduler.queries.priorities import LeafPriorities

LEAVES_SHOWN = 20
NAMED_MAX = 5
"""Leaves that a sentence names."""


class PrioritiesPage(Page):
    """`?cluster=`; `?window=`, `?from=&until=` and `?as_of=` choose the time, `?page=` the leaves. For the
    node's people and those above.
    """

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The whole page."""
        node = node_named(code)
        self.allow("node.see_inside", node)
        person: Person = request.user  # type: ignore[assignment]
        among = clusters()
        where = cluster_named(request.GET.get("cluster"), among)
        period = period_named(request, "28d")
        leaves = priorities.by_leaf(node, where, period.start, period.live_end, period.now)
        manages = has_role(person, node.path, [Role.MANAGER])
        number = whole_number(request, "page", 1)
        pages = max(1, -(-len(leaves) // LEAVES_SHOWN))
        if number > pages:
            raise Http404(gettext("There is no page {number} of this list.").format(number=number))
        context = {
            **period.context(),
            "here": "tree",
            "clusters": among,
            "cluster": where,
            "node": node,
            "leaves": page_of(leaves, number),
            "number": number,
            "pages": pages,
            "count": len(leaves),
            "manages": manages,
            "sentence": sentence(node, leaves),
            "people": priorities.by_person(
                node, where, period.start, period.live_end, only=None if manages else person.pk
            ),
        }
        return render_page(request, "priorities", context)


def page_of(leaves: Sequence[LeafPriorities], number: int) -> list[LeafPriorities]:
    """A page of leaves: those where priorities order nothing first, then in the order of the tree."""
    ordered = sorted(leaves, key=lambda leaf: not leaf.all_raised)
    return ordered[(number - 1) * LEAVES_SHOWN : number * LEAVES_SHOWN]


def sentence(node: BudgetNode, leaves: Sequence[LeafPriorities]) -> str:
    """Whether priorities still order anything."""
    submitted = sum(leaf.submitted for leaf in leaves)
    raised = sum(leaf.raised for leaf in leaves)
    spoilt = [leaf for leaf in leaves if leaf.all_raised]
    if not submitted:
        return gettext("Nothing was submitted below {code} in this time.").format(code=node.code)
    if spoilt:
        names = names_of(spoilt)
        return ngettext(
            "In {names} nearly everything has a raised priority, so priorities order nothing there: what is "
            "submitted first goes first.",
            "In {names} nearly everything has a raised priority, so priorities order nothing in them: what is "
            "submitted first goes first.",
            len(spoilt),
        ).format(names=names)
    return gettext(
        "{raised} of {submitted} workloads had a raised priority: raising one still means something."
    ).format(raised=formats.count(raised), submitted=formats.count(submitted))


def names_of(leaves: Sequence[LeafPriorities]) -> str:
    """Their codes; of many only the first ones."""
    codes = [leaf.leaf.code for leaf in leaves[:NAMED_MAX]]
    if len(leaves) > NAMED_MAX:
        codes.append(gettext("{count} others").format(count=formats.count(len(leaves) - NAMED_MAX)))
    return formats.joined(codes)
