"""Access tokens: what opens with them, what never does, how they end, and that agents' secrets are of another kind."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern
from django.utils import timezone
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from budgets.errors import InputError, NotAllowed
from budgets.models import AccessToken, Cluster, Role, RoleGrant, Scope
from budgets.queries import today
from budgets.services import roles, tokens
from portal.api import scopes, urls
from portal.api.authentication import TokenAuthentication
from scheduler.models import Workload
from scheduler.services import clusters, join_tokens, nodes

ALL = tuple(Scope.values)
TOKENS, ME, WORKLOADS = "/api/v1/tokens/", "/api/v1/me/", "/api/v1/workloads/"
UNSAFE = ("post", "put", "patch", "delete")


def made(person, *chosen, days=30, **more) -> tuple[AccessToken, str]:
    """A token of the person's, and its text."""
    return tokens.create(person=person, name="sweep", scopes=chosen, days=days, **more)


def with_token(shown, **more) -> Client:
    """A client that shows it, and has neither session nor CSRF token."""
    return Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {shown}"}, **more)


def client_of(person, *chosen) -> Client:
    """A client that acts for the person by a token with these scopes."""
    return with_token(made(person, *chosen)[1])


def words_of(answer) -> str:
    """What a page says, whatever its status."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())))


def submission() -> dict[str, object]:
    """Of a workload on A1."""
    return {"cluster": "north", "leaf": "A1", "size_milli": 1_000, "min_runtime_s": 600, "command": ["true"]}


def send(client, path, body, method="post"):
    """As JSON."""
    return getattr(client, method)(path, body, content_type="application/json")


def granted(person, node, role) -> None:
    """A role since yesterday."""
    RoleGrant.objects.create(person=person, node=node, role=role, valid_from=today() - timedelta(days=1))


# --- what a token opens -----------------------------------------------------------------------------------------------


def test_a_token_acts_for_its_person_within_its_scopes(calm):
    reads, submits = client_of(calm.ada, "read"), client_of(calm.ada, "submit")
    assert reads.get(WORKLOADS).status_code == 200
    refused = send(reads, WORKLOADS, submission())
    assert (refused.status_code, refused.json()["detail"]) == (403, "This token has not the scope 'submit'.")
    assert Workload.objects.count() == 0
    assert send(submits, WORKLOADS, submission()).status_code == 201
    assert Workload.objects.get().owner == calm.ada
    assert submits.get(WORKLOADS).status_code == 403


@pytest.mark.parametrize("chosen", [("read",), ("submit",), ("operate",), ("decide",)])
def test_no_scope_includes_another(calm, chosen):
    granted(calm.mia, calm.node["LAB"], Role.OPERATOR)
    client = client_of(calm.mia, *chosen)
    shares = {"shares": {"A1": 6_000}, "valid_from": str(today()), "reason": "r", "version": calm.node["A"].version}
    found = {
        "read": client.get("/api/v1/clusters/north/shares/A/").status_code != 403,
        "submit": send(client, WORKLOADS, {}).status_code != 403,
        "operate": send(client, "/api/v1/clusters/north/slurm/", {"node": None}).status_code != 403,
        "decide": send(client, "/api/v1/clusters/north/shares/A/", shares).status_code != 403,
    }
    assert found == {each: each in chosen for each in ALL}


def test_a_token_may_no_more_than_its_person_does_at_that_moment(calm):
    client = client_of(calm.ada, *ALL)
    assert send(client, WORKLOADS, submission()).status_code == 201
    assert send(client, "/api/v1/clusters/north/shares/A/", {"shares": {"A1": 1}}).status_code == 403
    grant = RoleGrant.objects.get(person=calm.ada)
    roles.end(grant=grant, on=today(), by=None)
    assert send(client, WORKLOADS, submission()).status_code == 403
    assert client.get(WORKLOADS).status_code == 200


def test_who_am_i(calm):
    token, shown = made(calm.ada, "submit")
    body = with_token(shown).get(ME).json()
    del body["now"]
    assert body["token"].pop("last_used_at") is None
    assert body == {
        "id": calm.ada.pk,
        "username": "ada",
        "display_name": "Ada",
        "roles": [
            {
                "role": "member",
                "node": "A1",
                "node_name": "Team A1",
                "valid_from": str(today() - timedelta(days=30)),
                "valid_until": None,
            }
        ],
        "leaves": [{"code": "A1", "name": "Team A1"}],
        "token": {
            "id": token.pk,
            "name": "sweep",
            "prefix": shown[:12],
            "scopes": ["submit"],
            "created_at": token.created_at.isoformat().replace("+00:00", "Z"),
            "ends_at": token.expires_at.isoformat().replace("+00:00", "Z"),
            "ended_at": None,
            "is_alive": True,
        },
    }


def test_in_a_session_there_is_no_token_and_csrf_is_asked_for(calm, as_person):
    assert as_person(calm.ada).get(ME).json()["token"] is None
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(calm.ada, backend="django.contrib.auth.backends.ModelBackend")
    assert send(strict, WORKLOADS, submission()).status_code == 403
    assert Workload.objects.count() == 0


# --- what opens nothing -----------------------------------------------------------------------------------------------


def ended(person) -> str:
    """The text of a token that was revoked."""
    token, shown = made(person, *ALL)
    tokens.revoke(token=token, by=person)
    return shown


def over(person) -> str:
    """The text of a token whose time is over."""
    return made(person, *ALL, days=1, now=timezone.now() - timedelta(days=1, seconds=1))[1]


def other_case(person) -> str:
    """Nearly the text of a token."""
    return made(person, *ALL)[1].swapcase().replace("ALLOT_", "allot_")


def too_long(person) -> str:
    """The text of a token, and a letter."""
    return made(person, *ALL)[1] + "a"


def kept_of_it(person) -> str:
    """What the database keeps of a token."""
    return made(person, *ALL)[0].digest


@pytest.mark.parametrize(
    "shown_of", [ended, over, other_case, too_long, kept_of_it, lambda _: "", lambda _: "allot_\xff"]
)
def test_what_is_no_living_token_opens_nothing_and_is_told_so(calm, shown_of):
    answer = with_token(shown_of(calm.ada)).get(ME)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="allotment"')
    assert answer.json()["detail"] == "This token is not known here, or it has ended."


def test_a_bad_token_is_not_made_good_by_a_session(calm, as_person):
    assert as_person(calm.ada).get(ME, headers={"Authorization": "Bearer allot_no"}).status_code == 401


def test_nobody_is_asked_for_a_token(calm):
    answer = Client().get(ME)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="allotment"')


def test_a_token_opens_no_pages(calm):
    assert client_of(calm.ada, *ALL).get("/workloads/").status_code == 302


def test_the_database_keeps_a_keyed_hash_alone(calm, settings):
    token, shown = made(calm.ada, "read")
    assert re.fullmatch(r"allot_[A-Za-z0-9]{43}", shown)
    kept = AccessToken.objects.filter(pk=token.pk).values().get()
    secret = shown[len(kept["prefix"]) :]
    assert kept["prefix"] == shown[:12]
    assert not any(secret in str(value) for value in kept.values())
    settings.SECRET_KEY = "another, with which nothing was made"
    assert tokens.find(shown) is None


def test_the_last_use_is_noted_to_the_minute(calm):
    token, shown = made(calm.ada, "read")
    now = timezone.now()
    at = [now, now + timedelta(seconds=59), now + timedelta(seconds=61)]
    seen = []
    for each in at:
        assert tokens.find(shown, each) is not None
        token.refresh_from_db()
        seen.append(token.last_used_at)
    assert seen == [at[0], at[0], at[2]]


def test_a_token_costs_one_query_to_know_and_a_write_a_minute_at_most(calm):
    client, found = client_of(calm.ada, "read"), []
    for _ in range(3):
        with CaptureQueriesContext(connection) as seen:
            assert client.get("/api/v1/glossary/").status_code == 200
        found.append([each["sql"].split()[0] for each in seen])
    assert found == [["SELECT", "UPDATE"], ["SELECT"], ["SELECT"]]


# --- a token can't outdo itself ---------------------------------------------------------------------------------------


def test_a_token_makes_no_tokens(calm):
    token, shown = made(calm.ada, *ALL)
    for asked in (["read"], list(ALL)):
        answer = send(with_token(shown), TOKENS, {"name": "n", "scopes": asked, "days": 1})
        assert answer.status_code == 403
    with pytest.raises(NotAllowed):
        made(calm.ada, "read", days=1, through=token)
    assert AccessToken.objects.count() == 1


def test_nothing_changes_a_token(calm):
    token, shown = made(calm.ada, *ALL)
    for method in ("put", "patch", "post"):
        answer = send(with_token(shown), f"{TOKENS}{token.pk}/", {"scopes": list(ALL), "days": 365}, method)
        assert answer.status_code in (403, 405)
    before = (token.scopes, token.expires_at)
    token.refresh_from_db()
    assert (token.scopes, token.expires_at) == before


def test_a_token_ends_itself_and_no_other(calm):
    other, _ = made(calm.ada, "read")
    token, shown = made(calm.ada, "read")
    client = with_token(shown)
    assert client.delete(f"{TOKENS}{other.pk}/").status_code == 403
    assert client.delete(f"{TOKENS}{token.pk}/").status_code == 204
    assert client.get(ME).status_code == 401
    other.refresh_from_db()
    assert other.ended_at is None


def test_no_longer_than_the_portal_gives_and_that_holds_for_older_ones(calm, settings):
    token, shown = made(calm.ada, "read", days=365, now=timezone.now() - timedelta(days=40))
    with pytest.raises(InputError, match="days: must be a whole number from 1 to 365"):
        made(calm.ada, "read", days=366)
    settings.TOKEN_MAX_DAYS = 41
    assert tokens.find(shown) == token
    settings.TOKEN_MAX_DAYS = 39
    assert tokens.find(shown) is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "n" * 61}, "name"),
        ({"name": "a\x00"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read", "root"]}, "scopes"),
        ({"scopes": "read"}, "scopes"),
        ({"days": 0}, "days"),
        ({"days": 366}, "days"),
        ({"days": "x"}, "days"),
        ({"person": "max"}, "person"),
    ],
)
def test_what_cannot_be_a_token_names_the_field(calm, as_person, changed, field):
    answer = send(as_person(calm.ada), TOKENS, {"name": "n", "scopes": ["read"], "days": 1, **changed})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].split(".")[0] == field
    assert AccessToken.objects.count() == 0


def test_nobody_has_more_than_fifty(calm, monkeypatch):
    monkeypatch.setattr(tokens, "ALIVE_MAX", 2)
    first, _ = made(calm.ada, "read")
    made(calm.ada, "read")
    made(calm.ben, "read")
    with pytest.raises(InputError, match="You have 2 tokens"):
        made(calm.ada, "read")
    tokens.revoke(token=first, by=calm.ada)
    made(calm.ada, "read")


# --- agents' secrets are of another kind ------------------------------------------------------------------------------


@pytest.fixture
def site(calm) -> Cluster:
    """A cluster with agents."""
    return clusters.create(name="site", executor=Cluster.Executor.AGENT)


def heartbeat(site, shown):
    """What an agent would say, by some token."""
    body = {"cluster": site.name, "node": "n1", "epoch": 1, "facts": []}
    return send(with_token(shown), "/api/v1/agent/sync", body)


def joining(site, shown, own):
    """A node asks to join."""
    body = {"cluster": site.name, "node": "n2", "token": own, "devices": 1}
    return send(with_token(shown), "/api/v1/agent/register", body)


def test_no_agents_secret_opens_the_api(calm, site):
    own = "agent-secret-0123456789"
    nodes.register(cluster=site, name="n1", devices=1, token=own)
    join = join_tokens.make(cluster=site, valid_for_s=600)
    assert heartbeat(site, own).status_code == 200
    assert settings.AGENT_TOKEN
    for shown in (own, join, settings.AGENT_TOKEN):
        assert with_token(shown).get(ME).status_code == 401


def test_no_access_token_is_an_agents(calm, site):
    granted(calm.ops, calm.node["LAB"], Role.MANAGER)
    _, shown = made(calm.ops, *ALL)
    nodes.register(cluster=site, name="n1", devices=1, token="agent-secret-0123456789")
    assert heartbeat(site, shown).status_code == 401
    assert joining(site, shown, "agent-secret-9876543210").status_code == 401
    join = join_tokens.make(cluster=site, valid_for_s=600)
    answer = joining(site, join, shown)
    assert (answer.status_code, answer.json()["field"]) == (400, "token")
    assert not site.nodes.filter(name="n2").exists()


# --- every address says its scope -------------------------------------------------------------------------------------


def views(patterns=urls.urlpatterns, at="") -> Iterator[tuple[str, type]]:
    """Every view of the API with its address, but the agents' own."""
    for each in patterns:
        address = at + str(each.pattern)
        if isinstance(each, URLPattern):
            yield address, each.callback.cls
        elif address != "agent/":
            yield from views(each.url_patterns, address)


def test_every_method_that_changes_something_says_its_scope():
    silent = [
        f"{method.upper()} {address}"
        for address, view in views()
        for method in UNSAFE
        if hasattr(view, method) and scopes.scope_of(view, method.upper()) not in scopes.KNOWN
    ]
    assert silent == []
    declared = {scope for _, view in views() for scope in getattr(view, "scopes", {}).values()}
    assert declared <= scopes.KNOWN


def test_every_address_knows_tokens():
    assert [address for address, view in views() if TokenAuthentication not in view.authentication_classes] == []


def test_a_view_that_forgot_its_scopes_refuses_tokens(calm):
    class Forgot(APIView):
        def get(self, request):
            return Response({})

        post = delete = get

    _, shown = made(calm.ada, *ALL)
    build, view = APIRequestFactory(), Forgot.as_view()
    found = {
        method: view(getattr(build, method)("/x/", headers={"Authorization": f"Bearer {shown}"})).status_code
        for method in ("get", "post", "delete")
    }
    assert found == {"get": 200, "post": 403, "delete": 403}
