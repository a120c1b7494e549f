"""The demo's open requests: one that lies with the PI of program A, one that was returned with a question."""

from __future__ import annotations

from datetime import datetime, timedelta

from budgets import queries
from budgets.models import Role
from budgets.services import comments, requests
from portal.demo.organisation import Laboratory

MIXTURES_MORE = 600
"""What A1a asks of A1, in basis points."""


def ask(lab: Laboratory, now: datetime) -> None:
    """A researcher of A1a asks for more of A1, whose lead works there as well, so that it lies with program A; one of
    A2 was asked what for.
    """
    day = queries.day_of(now)
    cluster = lab.clusters["north"]
    author = lab.members["A1a"][-1]
    mixtures = requests.draft(
        node=lab.nodes["A1a"],
        cluster=cluster,
        more_basis_points=MIXTURES_MORE,
        starts_on=day + timedelta(days=3),
        ends_on=day + timedelta(days=31),
        useless_on=day + timedelta(days=17),
        why="Three ablations of the data mixture before the recipe is frozen, 16 GPUs each, four days each.",
        otherwise="We run one of the three, and freeze the recipe without knowing.",
        by=author,
    )
    requests.submit(request=mixtures, by=author, now=now)
    pi = lab.nodes["A"].grants.filter(role=Role.MANAGER).earliest("pk").person
    comments.say(on=mixtures, by=pi, text="Could the second one wait until the evaluation is through?")
    other = lab.members["A2"][-1]
    question = requests.draft(
        node=lab.nodes["A2"],
        cluster=cluster,
        more_basis_points=250,
        starts_on=day + timedelta(days=7),
        why="More red-team runs.",
        otherwise="Fewer of them.",
        by=other,
    )
    requests.submit(request=question, by=other, now=now)
    requests.give_back(request=question, by=pi, reason="How many runs, and by when? The review of the autumn asks too.")
