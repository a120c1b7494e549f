"""The laboratory with something hidden of every kind, each with words of its own that nobody else may ever read.

`hidden(lab)` says what fills the parameters of addresses with things that a stranger may not see. A new address is
walked without being named anywhere, unless it has a parameter that nothing fills yet: then `filled` names it, and it
belongs into `seen` (what everyone signed in may see) or `hidden` below.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from budgets.models import RoleGrant, Threshold, Webhook, WebhookDelivery
from budgets.queries import today
from budgets.services import comments, delegations, imports, messages, reallocations, requests, reviews, tokens
from scheduler import snapshots
from scheduler.models import JoinToken, LogChunk, Node, Pass, Run
from scheduler.queries import review_figures
from scheduler.services import forecasts, nodes, simulations
from tests.addresses import Values
from tests.portal.conftest import Laboratory

WORDS = (
    *("request", "otherwise", "draft", "comment", "whisper", "file", "content", "review", "proposal", "import"),
    *("argument", "variable", "secret", "printed", "name", "token", "message", "delegation"),
    *("address", "body"),
    *("source", "found"),
)


def canary(what: str) -> str:
    """A word that stands nowhere else."""
    return f"qz{what}zq"


CANARIES = tuple(canary(word) for word in WORDS)


@dataclass(frozen=True, slots=True)
class House:
    """The laboratory, and what fills the parameters of its addresses.

    Attributes:
        seen: what everyone signed in may see.
        hidden: what is for the people of program A alone.
        token: the text of Ada's access token.
    """

    lab: Laboratory
    seen: Values
    hidden: Values
    token: str


def furnished(lab: Laboratory) -> House:
    """Something hidden of every kind: Ada's in A1, Mia's in A."""
    asks = {"node": lab.node["A1"], "cluster": lab.cluster, "more_basis_points": 500, "starts_on": today()}
    words = {"why": canary("request"), "otherwise": canary("otherwise")}
    asked = requests.submit(request=requests.draft(**asks, **words, by=lab.ada), by=lab.ada)
    file = comments.attach(request=asked, by=lab.ada, name=f"{canary('file')}.txt", content=canary("content").encode())
    comments.say(on=asked, by=lab.ada, text=canary("comment"))
    comments.say(on=asked, by=lab.mia, text=canary("whisper"), audience="reviewers")
    drafted = requests.draft(**asks, why=canary("draft"), otherwise="o", by=lab.ada)
    proposed = reallocations.draft(
        parent=lab.node["A"], cluster=lab.cluster, shares={lab.node["A1"]: 6_000}, starts_on=today(), by=lab.mia,
        reason=canary("proposal"),
    )  # fmt: skip
    delegation = delegations.give(
        giver=lab.mia, delegate=lab.max, node=lab.node["A"], limit_basis_points=100, valid_from=today(),
        valid_until=today() + timedelta(days=2),
    )  # fmt: skip
    review = reviews.plan(
        node=lab.node["A"], title=canary("review"), period_from=today() - timedelta(days=1), period_until=today(),
        meets_at=timezone.now(), applies_from=today(), by=lab.mia,
    )  # fmt: skip
    reviews.open_review(review=review, by=lab.mia, figures_of=review_figures.of_lines)
    rows = [imports.Row(2, "A", "A1", "north", 5_000, today(), None)]
    _, stored = imports.preview(name=f"{canary('import')}.csv", rows=rows, by=lab.mia)
    assert stored is not None
    what_if = simulations.propose(
        by=lab.mia, parent=lab.node["A"], cluster=lab.cluster, weeks=1, proposals={"more": {"A1": 7_400}}
    )
    mark = Threshold.objects.create(node=lab.node["A"], cluster=lab.cluster, percent=77)
    token, shown = tokens.create(person=lab.ada, name=canary("token"), scopes=["read"], days=3)
    with transaction.atomic():
        messages.tell(
            to=[lab.ada], kind="request", subject=canary("message"), text="t", path=f"/requests/{asked.pk}/",
            key="canary",
        )  # fmt: skip
    hook = Webhook.objects.create(person=lab.ada, url=f"https://{canary('address')}.example.org/", secret="s" * 40)
    delivery = WebhookDelivery.objects.create(
        webhook=hook,
        key="k",
        event="request",
        body=json.dumps({"text": canary("body")}),
        made_at=timezone.now(),
        next_try_at=timezone.now(),
    )
    now = timezone.now()
    join = JoinToken.objects.create(
        cluster=lab.cluster, node_name="n01", digest="0" * 64, made_at=now, expires_at=now + timedelta(days=1)
    )
    private = lab.submit(
        "A1", 1, owner=lab.ada, name=canary("name"), command=["python", canary("argument")],
        environment={"SEED": canary("variable")}, secrets={"HF_TOKEN": canary("secret")},
        program={f"{canary('source')}.py": f"input('{canary('found')}')\n"},
    )  # fmt: skip
    LogChunk.objects.filter(rank__run__workload=lab.taker).update(text=f"{canary('printed')}\n")
    seen = _seen(lab, private.code)
    # Two caches are filled by whoever looks first: what is foretold, and the tree as a pass sees it.
    forecasts.look(lab.cluster, now=timezone.now() + timedelta(hours=2))
    snapshots.load(lab.cluster)
    return House(
        lab=lab,
        seen=seen,
        hidden={
            "requests/<int:number>": [asked.pk, drafted.pk],
            "requests/<int:number>/files/<int:attachment>": [file.pk],
            "reallocations/<int:number>": [proposed.pk],
            "delegations/<int:number>": [delegation.pk],
            "reviews/<int:number>": [review.pk],
            "reviews/<int:number>/items/<int:position>": [1],
            "imports/<int:number>": [stored.pk],
            "simulator/<int:number>": [what_if.pk],
            "simulations/<int:number>": [what_if.pk],
            "budget/<str:code>/marks/<int:number>": [mark.pk],
            "tokens/<int:number>": [token.pk],
            "webhooks/<int:number>": [hook.pk],
            "webhooks/<int:number>/deliveries/<int:delivery>": [delivery.pk],
            "requests/<int:number>/attachments/<int:attachment>": [file.pk],
            "clusters/<slug:cluster>/join-tokens/<int:number>": [join.pk],
        },
        token=shown,
    )


def _seen(lab: Laboratory, private: str) -> Values:
    taken = Run.objects.filter(workload=lab.taken, preempted_by__isnull=False).first()
    decided = reallocations.apply_directly(
        parent=lab.node["LAB"], cluster=lab.cluster, shares={lab.node["B"]: 3_400}, starts_on=today(), by=lab.max,
        reason="r",
    )  # fmt: skip
    soon = timezone.now() + timedelta(days=9)
    window = nodes.add_window(node=Node.objects.get(name="n01"), starts_at=soon, ends_at=soon + timedelta(hours=1))
    return {
        "cluster": ["north"],
        "code": ["A1"],
        "workloads/<str:code>": [lab.taker.code, private],
        "workloads/<str:code>/runs/<int:number>": [taken.number if taken else 1],
        "nodes/<slug:cluster>/<str:name>": ["n01"],
        "clusters/<slug:cluster>/nodes/<str:name>": ["n01"],
        "clusters/<slug:cluster>/nodes/<str:name>/windows/<int:number>": [window.pk],
        "clusters/<slug:cluster>/passes/<int:number>": [Pass.objects.latest("pk").pk],
        "budget/<str:code>/roles/<int:grant>": [RoleGrant.objects.get(person=lab.ada).pk],
        "decisions/<int:number>": [decided.pk],
        "people/<int:number>": [lab.ada.pk],
        "help/<slug:key>": ["manager"],
        "help/api/<slug:key>": ["none"],
        "help/pictures/<str:name>": ["queue.png"],
        "verb": ["approve"],
    }
