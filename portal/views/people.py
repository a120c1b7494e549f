"""People and their roles, who decides while somebody is away, and how the organisation decides."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext

from budgets.authority import may, nodes_with
from budgets.models import BudgetNode, Delegation, Person, Role, RoleGrant
from budgets.queries import in_force, today
from budgets.services import delegations, people, requests, roles
from portal.forms.people import DelegationForm, EndForm, GrantForm, HouseForm, ReasonForm
from portal.pages import Once, Page, new_action, render_page, whole_number
from portal.views.node import node_named

PER_PAGE = 100


class People(Page):
    """Everybody, with their roles; anyone signed in may look, so that one finds who decides what."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """A page of them."""
        self.allow("tree.see")
        wanted = request.GET.get("q", "").strip()[:100]
        rows = Person.objects.filter(is_active=True)
        if wanted:
            rows = rows.filter(Q(display_name__icontains=wanted) | Q(username__icontains=wanted))
        pages = Paginator(rows.order_by("display_name", "username"), PER_PAGE)
        number = whole_number(request, "page", 1)
        if number > max(1, pages.num_pages):
            raise Http404(gettext("There is no such page of people."))
        found = list(pages.page(number).object_list)
        grants: dict[int, list[RoleGrant]] = {person.pk: [] for person in found}
        held = RoleGrant.objects.filter(in_force(today()), person__in=found).select_related("node")
        for grant in held.order_by("node__path", "role"):
            grants[grant.person_id].append(grant)
        context = {
            "here": "people",
            "rows": [(person, grants[person.pk]) for person in found],
            "number": number,
            "pages": pages.num_pages,
            "count": pages.count,
            "wanted": wanted,
        }
        return render_page(request, "people", context)


class PersonPage(Once):
    """One person's roles over time; administrators disable, enable, and erase the name."""

    verbs = ("disable", "enable", "erase")

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page."""
        return self.show(request, person_numbered(number), ReasonForm(initial={"action": new_action()}))

    def post(self, request: HttpRequest, number: int, verb: str) -> HttpResponse:
        """Disable, enable or erase."""
        person = person_numbered(number)
        by: Person = request.user  # type: ignore[assignment]
        if not may(request.user, "person.change", person):
            raise PermissionDenied(gettext("People are for administrators to change."))
        verbs = {"disable": people.disable, "enable": people.enable, "erase": people.erase_name}
        if verb not in verbs:
            raise Http404(gettext("A person can't be told to {verb!r}.").format(verb=verb))
        form = ReasonForm(request.POST)
        answer, status = self.once(
            request,
            form,
            reverse("person", args=[person.pk]),
            gettext("It is done, and on the record."),
            lambda said: verbs[verb](person=person, by=by, reason=said["reason"]),
        )
        return answer or self.show(request, person, form, status)

    def show(self, request: HttpRequest, person: Person, form: ReasonForm, status: int = 200) -> HttpResponse:
        """The page."""
        grants = RoleGrant.objects.filter(person=person).select_related("node", "granted_by")
        context = {
            "here": "people",
            "person": person,
            "grants": grants.order_by("-valid_from", "node__path"),
            "today": today(),
            "form": form,
            "may_change": may(request.user, "person.change", person) and person.pk != request.user.pk,
            "sees_tokens": may(request.user, "token.revoke", person),
        }
        return render_page(request, "person", context, status=status)


class NodePeople(Once):
    """Who has which role at a node, from when until when; whoever may give and end them."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The page."""
        self.allow("tree.see")
        return self.show(request, node_named(code))

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Give a role, or end one."""
        node = node_named(code)
        by: Person = request.user  # type: ignore[assignment]
        address = reverse("node_people", args=[node.code])
        if "grant" in request.POST:
            ending = EndForm(request.POST, auto_id=False)
            found = RoleGrant.objects.filter(node=node, pk=_number(request.POST.get("grant", ""))).first()
            if found is None:
                raise Http404(gettext("{code} has no such role.").format(code=code))
            answer, status = self.once(
                request, ending, address, gettext("The role ends."),
                lambda said: roles.end(grant=found, on=said["on"], by=by, reason=said["reason"]),
            )  # fmt: skip
            return answer or self.show(request, node, ending=ending, status=status)
        granting = GrantForm(request.POST)
        answer, status = self.once(
            request, granting, address, gettext("The role is given."),
            lambda said: roles.grant(
                person=said["person"], node=node, role=said["role"], valid_from=said["valid_from"],
                valid_until=said["valid_until"], by=by, reason=said["reason"],
            ),
        )  # fmt: skip
        return answer or self.show(request, node, granting=granting, status=status)

    def show(
        self,
        request: HttpRequest,
        node: BudgetNode,
        granting: GrantForm | None = None,
        ending: EndForm | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page, with a form where the person may give some role here."""
        by: Person = request.user  # type: ignore[assignment]
        other = Person(pk=0)
        may_grant = any(may(by, "role.grant", RoleGrant(person=other, node=node, role=role)) for role in Role.values)
        grants = RoleGrant.objects.filter(node=node).select_related("person", "granted_by")
        grants = grants.exclude(valid_until__lte=today()).order_by("role", "person__display_name")
        context = {
            "here": "tree",
            "node": node,
            "grants": [(grant, may(by, "role.end", grant)) for grant in grants],
            "granting": granting or GrantForm(initial={"action": new_action(), "valid_from": today()}),
            "ending": ending or EndForm(auto_id=False, initial={"action": new_action(), "on": today()}),
            "may_grant": may_grant,
            "today": today(),
        }
        return render_page(request, "node_people", context, status=status)


class Delegations(Once):
    """Who decides for me while I am away, and for whom I do."""

    def get(self, request: HttpRequest, number: int | None = None) -> HttpResponse:
        """The page; one delegation has none of its own."""
        if number is None:
            return self.show(request)
        by: Person = request.user  # type: ignore[assignment]
        if not Delegation.objects.filter(Q(giver=by) | Q(delegate=by), pk=number).exists():
            raise Http404(gettext("There is no delegation {number} of yours.").format(number=number))
        return HttpResponseRedirect(reverse("delegations"))

    def post(self, request: HttpRequest, number: int | None = None) -> HttpResponse:
        """Give one, or take one back."""
        by: Person = request.user  # type: ignore[assignment]
        address = reverse("delegations")
        if number is not None:
            mine = Q(giver=by) | Q(delegate=by)
            found = Delegation.objects.filter(mine, pk=number).first()
            if found is None:
                raise Http404(gettext("There is no delegation {number} of yours.").format(number=number))
            ending = ReasonForm(request.POST, auto_id=False)
            answer, status = self.once(
                request, ending, address, gettext("It is taken back."),
                lambda said: delegations.end(delegation=found, by=by, reason=said["reason"]),
            )  # fmt: skip
            return answer or self.show(request, status=status, ending=ending)
        form = DelegationForm(request.POST, nodes=self.nodes(by))
        answer, status = self.once(
            request, form, address, gettext("They decide for you in that time."),
            lambda said: delegations.give(
                giver=by, delegate=said["delegate"], node=form.node(), limit_basis_points=said["limit"],
                valid_from=said["valid_from"], valid_until=said["valid_until"],
            ),
        )  # fmt: skip
        return answer or self.show(request, form, status)

    def nodes(self, person: Person) -> list[BudgetNode]:
        """The nodes that the person manages themselves."""
        return list(BudgetNode.objects.filter(pk__in=nodes_with(person, [Role.MANAGER]), closed_at=None))

    def show(
        self,
        request: HttpRequest,
        form: DelegationForm | None = None,
        status: int = 200,
        ending: ReasonForm | None = None,
    ) -> HttpResponse:
        """The page."""
        by: Person = request.user  # type: ignore[assignment]
        nodes = self.nodes(by)
        rows = Delegation.objects.filter(Q(giver=by) | Q(delegate=by)).select_related("giver", "delegate", "node")
        context = {
            "here": "desk",
            "rows": rows[:PER_PAGE],
            "form": form or DelegationForm(nodes=nodes, initial={"action": new_action(), "valid_from": today()}),
            "ending": ending
            or ReasonForm(auto_id=False, initial={"action": new_action(), "reason": gettext("I am back")}),
            "may_give": bool(nodes),
            "today": today(),
            "me": by,
        }
        return render_page(request, "delegations", context, status=status)


class House(Once):
    """How the organisation decides; its managers choose."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        self.allow("tree.see")
        return self.show(request, None)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Choose."""
        root = BudgetNode.objects.get(parent=None)
        if not may(request.user, "house.change", root):
            raise PermissionDenied(gettext("This is for the managers of the organisation to choose."))
        form = HouseForm(request.POST)
        answer, status = self.once(
            request, form, reverse("house"), gettext("It is decided so from now on."),
            lambda said: delegations.change_house(
                root=root, by=request.user,  # type: ignore[arg-type]
                **{name: said[name] for name in ("root_rule", "answer_days", "look_again_weeks", "reason", "version")},
            ),
        )  # fmt: skip
        return answer or self.show(request, form, status)

    def show(self, request: HttpRequest, form: HouseForm | None, status: int = 200) -> HttpResponse:
        """The page."""
        row = requests.house()
        first = {"action": new_action(), "version": row.version, "root_rule": row.root_rule,
                 "answer_days": row.answer_days, "look_again_weeks": row.look_again_weeks}  # fmt: skip
        root = BudgetNode.objects.filter(parent=None).first()
        context = {
            "here": "tree",
            "row": row,
            "form": form or HouseForm(initial=first),
            "may_change": root is not None and may(request.user, "house.change", root),
        }
        return render_page(request, "house", context, status=status)


def person_numbered(number: int) -> Person:
    """The person of that number.

    Raises:
        Http404: there is none.
    """
    person = Person.objects.filter(pk=number).first()
    if person is None:
        raise Http404(gettext("There is no person {number}.").format(number=number))
    return person


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
