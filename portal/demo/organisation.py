"""The invented laboratory: its tree, its people with their roles, its clusters and its shares."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from random import Random

from django.utils import timezone

from budgets import queries
from budgets.models import BudgetNode, Cluster, Person, Role
from budgets.services import roles, shares, tree
from budgets.services.ledger import Recorded
from budgets.split import evenly
from scheduler.services import clusters

TREE: Sequence[tuple[str, str, str, str, int]] = (
    # parent, kind, code, name, colour
    ("LAB", "program", "A", "Language", 1),
    ("LAB", "program", "B", "Perception and robots", 2),
    ("LAB", "program", "C", "Science", 3),
    ("A", "project", "A1", "Foundation models", 1),
    ("A", "project", "A2", "Alignment", 4),
    ("A", "project", "A3", "Evaluation", 5),
    ("B", "project", "B1", "Video understanding", 2),
    ("B", "project", "B2", "Robot learning", 6),
    ("C", "project", "C1", "Protein design", 3),
    ("C", "project", "C2", "Weather", 7),
    ("C", "project", "C3", "Materials", 8),
    ("A1", "subproject", "A1a", "Data mixtures", 1),
    ("A1", "subproject", "A1b", "Scaling", 1),
    ("A1", "subproject", "A1c", "Long context", 1),
)
RESEARCHERS: Mapping[str, int] = {
    "A1a": 2, "A1b": 2, "A1c": 2, "A2": 3, "A3": 2, "B1": 3, "B2": 2, "C1": 2, "C2": 1, "C3": 1,
}  # fmt: skip
"""How many of the twenty work where. The two of B2 have a member leaf each."""
PROJECTS = ("A1", "A2", "A3", "B1", "B2", "C1", "C2", "C3")
PROGRAMS = ("A", "B", "C")

NAMES = (
    "Ingrid Solheim", "Kwabena Asante", "Mei-Ling Zhao", "Tomasz Wieczorek", "Adaeze Okonkwo", "Rafael Monteiro",
    "Yuki Tanabe", "Fatima Haddad", "Anneliese Brandt", "Dmitri Volkov", "Priya Raghunathan", "Lucía Ferrer",
    "Oluwaseun Bello", "Saoirse Kelleher", "Nguyễn Minh Anh", "Emre Yıldırım", "Chiara Bellini", "Björn Ekdahl",
    "Hana Nováková", "Tariq Rahmani", "Élodie Marchand", "Joon-ho Baek", "Thandiwe Nkosi", "Mateus Cordeiro",
    "Aroha Ngata", "Zsófia Kertész", "Siddharth Iyer", "Leila Farahani",
)  # fmt: skip

SHARES: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "north": {
        "LAB": {"A": 4500, "B": 3300, "C": 1700},
        "A": {"A1": 5000, "A2": 3000, "A3": 2000},
        "B": {"B1": 6000, "B2": 4000},
        "C": {"C1": 4000, "C2": 3500, "C3": 2000},
    },
    "south": {
        "LAB": {"A": 2500, "B": 2000, "C": 5500},
        "A": {"A1": 4000, "A2": 3000, "A3": 3000},
        "B": {"B1": 5000, "B2": 5000},
        "C": {"C1": 3334, "C2": 3333, "C3": 3333},
    },
    "here": {
        "LAB": {"A": 4000, "B": 3500, "C": 2500},
        "A": {"A1": 5000, "A2": 3000, "A3": 2000},
        "B": {"B1": 5500, "B2": 4500},
        "C": {"C1": 4000, "C2": 3000, "C3": 3000},
    },
}
"""By cluster and parent, in basis points, from the beginning on; A1's and B2's children share evenly everywhere."""


@dataclass(frozen=True, slots=True)
class Change:
    """Shares that were changed in the past weeks: so many days ago, by the manager of the parent."""

    days_ago: int
    cluster: str
    parent: str
    shares: Mapping[str, int]
    reason: str


CHANGES: Sequence[Change] = (
    Change(
        16, "north", "LAB", {"A": 4000, "B": 3000, "C": 2500}, "Protein design won the spring call; review of 12 Nov"
    ),
    Change(9, "north", "A", {"A1": 4500, "A2": 3500, "A3": 2000}, "Alignment needs room for the red-team runs"),
    Change(5, "south", "C", {"C1": 2500, "C2": 4500, "C3": 3000}, "Ensemble forecasts until the end of the season"),
)


@dataclass(slots=True)
class Laboratory:
    """What was made, by code and name."""

    nodes: dict[str, BudgetNode] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    members: dict[str, list[Person]] = field(default_factory=dict)  # by leaf
    log_ins: list[tuple[Person, str]] = field(default_factory=list)  # who can sign in, and as what

    @property
    def leaves(self) -> list[str]:
        """Codes of the leaves, in the order of the tree."""
        return sorted(self.members)


def found(chance: Random, founded_at: datetime, reason: str) -> Laboratory:
    """Make the laboratory as it would be, had it been founded then, for that reason. The caller's transaction."""
    lab = Laboratory()
    first_day = queries.day_of(founded_at)
    _make_clusters(lab)
    lab.nodes["LAB"] = tree.create_root(code="LAB", name="Aurora Laboratory", at=founded_at, reason=reason)
    for parent, kind, code, name, colour in TREE:
        _add(lab, parent, kind, code, name, colour, founded_at)
    names = list(NAMES)
    chance.shuffle(names)
    _appoint(lab, names, first_day, founded_at)
    _share(lab, first_day, founded_at)
    return lab


def _make_clusters(lab: Laboratory) -> None:
    for position, (name, title, unit, model, executor) in enumerate(
        (
            ("north", "North hall", "gpu", "H100", "simulated"),
            ("south", "South hall", "core", "CPU core", "simulated"),
            ("here", "This machine", "gpu", "pretend GPU", "agent"),
        )
    ):
        lab.clusters[name] = clusters.create(
            name=name, title=title, unit=unit, model=model, executor=executor, position=position
        )


def _add(lab: Laboratory, parent: str, kind: str, code: str, name: str, colour: int, at: datetime) -> None:
    lab.nodes[code] = tree.add_child(
        parent=lab.nodes[parent], kind=kind, code=code, name=name, colour=colour, by=None, at=at
    )


def _appoint(lab: Laboratory, names: list[str], day: date, at: datetime) -> None:
    """Give everybody a name and a role. One of each kind can sign in."""

    def appoint(title: str, *places: tuple[str, str], signs_in: bool = False) -> Person:
        person = _person(names.pop())
        for code, role in places:
            roles.grant(person=person, node=lab.nodes[code], role=role, valid_from=day, by=None)
        if signs_in:
            lab.log_ins.append((person, title))
        return person

    appoint("lead program manager: divides the cluster", ("LAB", Role.MANAGER), signs_in=True)
    appoint("chief executive", ("LAB", Role.MANAGER))
    for code in PROGRAMS:
        appoint(f"PI of program {code}", (code, Role.MANAGER), signs_in=code == "A")
    for code, count in RESEARCHERS.items():
        project = code[:2]
        for number in range(count):
            leaf = code
            if project == "B2":
                leaf = f"B2{'ab'[number]}"
            is_lead = not lab.nodes[project].grants.filter(role=Role.MANAGER).exists()
            titled = f"researcher in {leaf}" if not is_lead else f"lead of {project}"
            places = [(project, Role.MANAGER)] if is_lead else []
            person = appoint(titled, *places, signs_in=(code == "A1a"))
            if project == "B2":
                _add(lab, "B2", "member", leaf, str(person), 6, at)
            roles.grant(person=person, node=lab.nodes[leaf], role=Role.MEMBER, valid_from=day, by=None)
            lab.members.setdefault(leaf, []).append(person)
    appoint("reviewer: sees all, decides nothing", ("LAB", Role.REVIEWER), signs_in=True)
    appoint("operator: nodes, drains, policy", ("LAB", Role.OPERATOR), signs_in=True)
    appoint("administrator: people and roles", ("LAB", Role.ADMINISTRATOR), signs_in=True)


def _person(name: str) -> Person:
    """Somebody who can't sign in yet; the log-in name is the first name in plain letters."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.replace("ı", "i").replace("đ", "d")) if c.isascii())
    person = Person(username=plain.split()[0].split("-")[0].lower(), display_name=name)
    person.set_unusable_password()
    person.save()
    return person


def _share(lab: Laboratory, first_day: date, at: datetime) -> None:
    today = queries.today()
    for cluster, parents in SHARES.items():
        even = {
            parent: dict(zip(children, evenly(10_000, len(children)), strict=True))
            for parent, children in (("A1", ("A1a", "A1b", "A1c")), ("B2", ("B2a", "B2b")))
        }
        for parent, given in {**parents, **even}.items():
            _set(lab, cluster, parent, given, first_day, Recorded(at), "as founded")
    for change in CHANGES:
        day = today - timedelta(days=change.days_ago)
        if day > first_day:
            manager = lab.nodes[change.parent].grants.filter(role=Role.MANAGER).earliest("pk").person
            decided_at = max(at, timezone.now() - timedelta(days=change.days_ago + 3))
            _set(lab, change.cluster, change.parent, change.shares, day, Recorded(decided_at, manager), change.reason)


def _set(
    lab: Laboratory,
    cluster: str,
    parent: str,
    given: Mapping[str, int],
    day: date,
    recorded: Recorded,
    reason: str,
) -> None:
    shares.set_shares(
        parent=lab.nodes[parent],
        cluster=lab.clusters[cluster],
        shares={lab.nodes[code]: basis_points for code, basis_points in given.items()},
        valid_from=day,
        by=None,
        reason=reason,
        recorded=recorded,
    )
