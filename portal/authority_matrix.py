"""The authority matrix: who may do what to which thing, as the code answers it. docs/authority.md is made of it.

A small laboratory is built in memory, nothing of it is stored, and `budgets.authority.may` is asked about every action
that is registered, for a person of each kind and a thing in each relation; decisions about shares are asked of
`budgets.desks`. An action that `THINGS` does not know is an error: whoever adds one says what it is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib.auth.models import AnonymousUser

from budgets import authority, desks
from budgets.models import (
    BudgetNode,
    Cluster,
    Delegation,
    Person,
    Reallocation,
    Request,
    Review,
    Role,
    RoleGrant,
    State,
)
from budgets.queries import today
from scheduler.models import Node, Simulation, Workload

PARENTS = {"LAB": None, "A": "LAB", "A1": "A", "A2": "A", "A9": "A", "B": "LAB", "B1": "B"}
"""The laboratory's tree. A9 is closed."""
PLACES = {
    "LAB": "the organisation",
    "A": "program A",
    "A1": "project A1, in A",
    "A9": "closed project A9, in A",
    "B1": "project B1, in B",
}
"""Where things are that are asked about."""
PEOPLE: dict[str, tuple[str, str] | None] = {
    "nobody": None,
    "stranger": None,
    "member": ("A1", Role.MEMBER),
    "member elsewhere": ("B1", Role.MEMBER),
    "lead": ("A1", Role.MANAGER),
    "PI": ("A", Role.MANAGER),
    "PI elsewhere": ("B", Role.MANAGER),
    "organisation": ("LAB", Role.MANAGER),
    "reviewer": ("A", Role.REVIEWER),
    "operator": ("LAB", Role.OPERATOR),
    "administrator": ("LAB", Role.ADMINISTRATOR),
    "delegate": None,
    "superuser": None,
    "disabled": ("LAB", Role.MANAGER),
}
"""Kinds of people, each with the one role that it has, and where."""
MEANING = {
    "nobody": "not signed in; also a node's agent, whose token opens `/api/v1/agent/` and nothing else",
    "stranger": "signed in, without a role",
    "member": "member of project A1",
    "member elsewhere": "member of project B1",
    "lead": "lead researcher: manager of project A1",
    "PI": "manager of program A",
    "PI elsewhere": "manager of program B",
    "organisation": "lead program manager or CEO: manager of the organisation",
    "reviewer": "reviewer (facilitator) of program A",
    "operator": "operator",
    "administrator": "administrator of people and roles",
    "delegate": "without a role, decides for the PI of A while that one is away",
    "superuser": "Django's superuser flag, without a role",
    "disabled": "manager of the organisation, whose account was disabled",
}
YES, NO = "yes", "·"


@dataclass(frozen=True, slots=True)
class Line:
    """One action on one thing, and who of PEOPLE may."""

    action: str
    thing: str
    answers: tuple[bool, ...]


Thing = tuple[str, Callable[[Any], Any]]
"""What it is in words, and what makes it for whoever asks (so that it can be their own)."""


def always(thing: Any) -> Callable[[Any], Any]:
    """The same thing, whoever asks."""
    return lambda _who: thing


class Laboratory:
    """People, nodes and what they made, none of it stored."""

    def __init__(self) -> None:
        """Ids are small numbers, apart by kind."""
        self.node: dict[str, BudgetNode] = {}
        for number, (code, above) in enumerate(PARENTS.items(), 1):
            parent = self.node[above] if above else None
            path = [*(parent.path if parent else []), number]
            self.node[code] = BudgetNode(pk=number, code=code, name=code, parent=parent, path=path)
        self.cluster = Cluster(pk=1, name="north")
        self.someone = Person(pk=99, username="someone")
        self.people: dict[str, Any] = {
            who: AnonymousUser() if who == "nobody" else self._person(100 + number, who, given)
            for number, (who, given) in enumerate(PEOPLE.items())
        }
        self.people["superuser"].is_superuser = self.people["superuser"].is_staff = True
        self.people["disabled"].is_active = False

    def _person(self, pk: int, who: str, given: tuple[str, str] | None) -> Person:
        person = Person(pk=pk, username=who)
        held = frozenset([(self.node[given[0]].pk, str(given[1]))] if given else [])
        at = frozenset([self.node["A"].pk]) if who == "delegate" else frozenset()
        person.__dict__["_roles_held"] = (today(), held)  # as authority.roles_of and stands_in_at keep them
        person.__dict__["_stands_in"] = (today(), at)
        return person

    def request(self, place: str, author: Any, state: str = State.SUBMITTED) -> Request:
        """A request for more at a place, which lies at the desk above it."""
        node = self.node[place]
        parent = node.parent or node
        return Request(
            pk=1, node=node, parent=parent, desk=parent, cluster=self.cluster, author_id=author.pk, state=state,
            more_basis_points=500,
        )  # fmt: skip

    def reallocation(self, place: str, author: Any, state: str) -> Reallocation:
        """A reallocation among the children of a place."""
        node = self.node[place]
        return Reallocation(pk=1, parent=node, desk=node, cluster=self.cluster, author_id=author.pk, state=state)

    def grant(self, place: str, role: str, person: Any) -> RoleGrant:
        """A role of a person at a place."""
        return RoleGrant(person_id=person.pk, node=self.node[place], role=role)

    def workload(self, place: str, owner: Any) -> Workload:
        """Somebody's workload at a place."""
        return Workload(pk=1, code=f"{place}-1", leaf=self.node[place], owner_id=owner.pk, cluster=self.cluster)

    def simulation(self, place: str | None, owner: Any) -> Simulation:
        """Somebody's simulation; of other shares below a place, where one is named."""
        return Simulation(pk=1, made_by_id=owner.pk, parent=self.node[place] if place else None, cluster=self.cluster)

    def nodes(self) -> list[Thing]:
        """A budget node in each place."""
        return [(words, always(self.node[code])) for code, words in PLACES.items()]

    def placed(self, what: str, make: Callable[[str, Any], Any], own: str = "A1") -> list[Thing]:
        """Something of theirs in A1, and somebody else's in each place."""
        others: list[Thing] = [(f"{what}, {words}", always(make(code, self.someone))) for code, words in PLACES.items()]
        return [(f"their own {what}, {PLACES[own]}", lambda who: make(own, who)), *others]

    def requests(self) -> list[Thing]:
        """Requests in the states that differ in who sees them."""
        draft = self.placed("draft of a request", lambda code, who: self.request(code, who, State.DRAFT))
        return [*self.placed("request", self.request), *draft[:1], draft[3]]

    def reallocations(self) -> list[Thing]:
        """Reallocations in the states that differ in who sees them."""
        found: list[Thing] = []
        for words, state in (("draft", State.DRAFT), ("proposal", State.SUBMITTED), ("applied change", State.APPLIED)):
            things = self.placed(words, partial(self.reallocation, state=state), "A")
            found += [things[0], things[2], things[5]]
        return found

    def grants(self) -> list[Thing]:
        """Roles of somebody else in each place, and their own."""
        others: list[Thing] = [
            (f"{role} of {words}", always(self.grant(code, role, self.someone)))
            for role in Role.values
            for code, words in PLACES.items()
            if code != "A9"
        ]
        return [
            (f"their own role as {Role.MEMBER.value} of A1", lambda who: self.grant("A1", Role.MEMBER, who)),
            *others,
        ]

    def simulations(self) -> list[Thing]:
        """Of the cluster's history, and of other shares."""
        return [
            ("a simulation of theirs", lambda who: self.simulation(None, who)),
            ("a simulation", lambda _who: self.simulation(None, self.someone)),
            *self.placed("what-if of other shares", self.simulation, "A"),
        ]

    def people_asked_about(self) -> list[Thing]:
        """Themselves and others."""
        return [("themselves", lambda who: who), ("somebody else", lambda _who: self.someone)]


THINGS: dict[str, Callable[[Laboratory], list[Thing]]] = {
    "tree.see": lambda lab: [("the tree and its figures", lambda _who: None)],
    "cluster.see": lambda lab: [("a cluster", lambda _who: lab.cluster)],
    "node.operate": lambda lab: [("a machine of a cluster", lambda _who: Node(pk=1, name="n01", cluster=lab.cluster))],
    "advice.override": lambda lab: [("a cluster's rules of advice", lambda _who: lab.cluster)],
    "policy.change": lambda lab: [("a cluster's rules", lambda _who: lab.cluster)],
    "house.change": lambda lab: lab.nodes()[:1],
    "share.change": Laboratory.nodes,
    "request.make": Laboratory.nodes,
    "review.plan": Laboratory.nodes,
    "workload.submit": Laboratory.nodes,
    "workload.run_any_command": lambda lab: [("a cluster", lambda _who: lab.cluster)],
    "simulation.run": lambda lab: [("any", lambda _who: None)],
    "comment.see_reviewers": lambda lab: [*lab.requests()[:6], *lab.reallocations()[3:6]],
    "node.": Laboratory.nodes,
    "role.": Laboratory.grants,
    "request.": Laboratory.requests,
    "reallocation.": Laboratory.reallocations,
    "review.": lambda lab: [
        (f"review, {words}", always(Review(pk=1, node=lab.node[code]))) for code, words in PLACES.items()
    ],
    "workload.": lambda lab: lab.placed("workload", lab.workload),
    "simulation.": Laboratory.simulations,
    "person.": Laboratory.people_asked_about,
    "token.": Laboratory.people_asked_about,
    "webhook.organisation": lambda lab: [("webhooks of the organisation", lambda _who: None)],
}
"""What an action is asked about: by its name, or by the noun that it begins with."""


def things_of(action: str, lab: Laboratory) -> list[Thing]:
    """What to ask about an action.

    Raises:
        LookupError: nobody has said.
    """
    make = THINGS.get(action) or THINGS.get(action.partition(".")[0] + ".")
    if make is None:
        raise LookupError(f"what is {action} asked about? Say so in THINGS of portal/authority_matrix.py")
    return make(lab)


def lines(actions: Sequence[str] | None = None) -> Iterator[Line]:
    """The matrix, by action.

    Raises:
        LookupError: an action that THINGS does not know.
    """
    lab = Laboratory()
    for action in authority.actions() if actions is None else actions:
        for thing, make in things_of(action, lab):
            answers = (authority.may(who, action, make(who)) for who in lab.people.values())
            yield Line(action, thing, tuple(answers))


class _Told(desks.Known):
    """What `desks` reads about people, from the laboratory in place of the database."""

    def __init__(self, lab: Laboratory) -> None:
        super().__init__()
        self._lab = lab

    def parts(self, person: Person) -> frozenset[int]:
        """The nodes at or below which they have a role."""
        paths = {node.pk: node.path for node in self._lab.node.values()}
        return frozenset(pk for node, _role in authority.roles_of(person) for pk in paths[node])

    def delegations(self, person: Person) -> list[Delegation]:
        """The delegate's."""
        lab = self._lab
        if person is not lab.people["delegate"]:
            return []
        return [Delegation(giver=lab.people["PI"], delegate=person, node=lab.node["A"], limit_basis_points=1_000)]


def decisions() -> Iterator[Line]:
    """Who may decide a request, by where it lies and whose it is."""
    lab = Laboratory()
    told = _Told(lab)
    asked: list[Thing] = [
        ("a member's request for A1, at the desk of A", lambda _who: lab.request("A1", lab.someone)),
        ("their own request for A1, at the desk of A", lambda who: lab.request("A1", who)),
        ("the PI's request for A, at the desk of the organisation", lambda _who: lab.request("A", lab.people["PI"])),
        ("a request for B1, at the desk of B", lambda _who: lab.request("B1", lab.someone)),
    ]
    for thing, make in asked:
        answers = []
        for name, who in lab.people.items():
            matter = desks.matter_of(make(who))
            answers.append(name != "nobody" and bool(desks.ways_to_decide(who, matter, told)))
        yield Line("request.decide", thing, tuple(answers))


HEAD = """\
# Authority: who may do what

Made by `manage.py documents` from the code's own answers (`portal/authority_matrix.py`). The tests fail where this file
and the code differ, and where an action is not in it (`tests/security/test_authority_matrix.py`). The rules themselves:
`budgets/authority.py`, `scheduler/authority.py`, `budgets/desks.py`. What a person may not see is a 404, everywhere.

The organisation has the programs A and B; A has the projects A1, A2 and A9 (closed), B has B1. A role counts at its
node and below. A right over a closed node is a right to see it: services refuse changes there.

| kind of person | who that is |
|---|---|
"""


def as_markdown() -> str:
    """The whole document."""
    text = HEAD + "".join(f"| {who} | {MEANING[who]} |\n" for who in PEOPLE)
    text += "\n## Actions\n\n" + _table(list(lines()))
    text += (
        "\n## Decisions about shares\n\nNobody decides their own, or what raises a node in which they have a part.\n\n"
    )
    return text + _table(list(decisions()))


def _table(rows: Sequence[Line]) -> str:
    head = f"| action | of what | {' | '.join(PEOPLE)} |\n|---|---|{'---|' * len(PEOPLE)}\n"
    said = ""
    last = ""
    for row in rows:
        action = f"`{row.action}`" if row.action != last else ""
        last = row.action
        said += f"| {action} | {row.thing} | {' | '.join(YES if answer else NO for answer in row.answers)} |\n"
    return head + said
