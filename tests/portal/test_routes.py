"""One table over all addresses: who gets what. An address that is not in it fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from budgets.models import RoleGrant, Webhook
from budgets.queries import today
from budgets.services import comments, delegations, imports, reallocations, requests, reviews, tokens, webhook_settings
from scheduler.models import Pass, Simulation
from scheduler.queries import review_figures
from scheduler.services import simulations
from scheduler.services.simulations import History, Variant
from tests.portal.conftest import Laboratory
from tests.portal.governance_routes import GOVERNANCE
from tests.portal.operations_routes import OPERATIONS

SIGN_IN, OK = "sign in", 200
WHO = ("nobody", "ben", "ada", "mia", "ops")
"""Nobody signed in; a member of another project; the owner; the manager above; an operator."""


@dataclass(frozen=True)
class Route:
    """What each of WHO gets by GET (or by an empty POST, which changes nothing), in that order."""

    pattern: str
    path: str
    gets: tuple[object, ...]
    method: str = "get"
    htmx: bool = False


def same(pattern: str, path: str, **more: object) -> Route:
    """A page that everyone signed in may read."""
    return Route(pattern, path, (SIGN_IN, OK, OK, OK, OK), **more)  # type: ignore[arg-type]


def api(pattern: str, path: str) -> Route:
    """A part of the API that everyone signed in may read."""
    return Route(pattern, path, (401, OK, OK, OK, OK))


ROUTES = [
    same("", "/"),
    Route("login/", "/login/", (200, 302, 302, 302, 302)),
    # No OpenID provider is set up here: tests/portal/test_openid.py has one.
    Route("login/openid/", "/login/openid/", (404, 404, 404, 404, 404)),
    Route("login/openid/callback/", "/login/openid/callback/", (404, 404, 404, 404, 404)),
    Route("login/openid/link/", "/login/openid/link/", (SIGN_IN, 404, 404, 404, 404), "post"),
    same("password/", "/password/"),
    Route("password/", "/password/", (SIGN_IN, 400, 400, 400, 400), "post"),
    Route("admin/login/", "/admin/login/", (SIGN_IN, 403, 403, 403, 403)),
    Route("logout/", "/logout/", (405, 405, 405, 405, 405)),
    Route("theme/", "/theme/", (405, 405, 405, 405, 405)),
    Route("theme/", "/theme/", (400, 400, 400, 400, 400), "post"),
    Route("language/", "/language/", (405, 405, 405, 405, 405)),
    Route("language/", "/language/", (400, 400, 400, 400, 400), "post"),
    same("help/", "/help/"),
    same("help/glossary/", "/help/glossary/"),
    same("help/pictures/<str:name>", "/help/pictures/tree.png"),
    same("help/<slug:key>/", "/help/manager/"),
    same("tree/", "/tree/"),
    same("tree/<slug:cluster>/", "/tree/north/"),
    same("tree/<slug:cluster>/", "/tree/north/", htmx=True),
    same("budget/<str:code>/", "/budget/A/?cluster=north"),
    Route("budget/<str:code>/reallocate/", "/budget/A/reallocate/?cluster=north", (SIGN_IN, 403, 403, OK, 403)),
    Route(
        "budget/<str:code>/reallocate/", "/budget/A/reallocate/?cluster=north", (SIGN_IN, 403, 403, 400, 403), "post"
    ),
    same("budget/<str:code>/people/", "/budget/A/people/"),
    Route("budget/<str:code>/people/", "/budget/A/people/", (SIGN_IN, 400, 400, 400, 400), "post"),
    # The request is Ada's for A1, the proposal Mia's for A, drafted by her: who is neither inside nor above sees none.
    same("desk/", "/desk/"),
    same("requests/", "/requests/"),
    Route("requests/new/", "/requests/new/", (SIGN_IN, OK, OK, OK, 403)),
    Route("requests/new/", "/requests/new/", (SIGN_IN, 400, 400, 400, 403), "post"),
    Route("requests/<int:number>/", "/requests/{asked}/", (SIGN_IN, 404, OK, OK, OK)),
    Route("requests/<int:number>/edit/", "/requests/{drafted}/edit/", (SIGN_IN, 404, OK, 404, 404)),
    Route(
        "requests/<int:number>/files/<int:attachment>/", "/requests/{asked}/files/{file}/", (SIGN_IN, 404, OK, OK, OK)
    ),
    Route("requests/<int:number>/<slug:verb>/", "/requests/{asked}/deny/", (SIGN_IN, 404, 400, 400, 400), "post"),
    Route("requests/<int:number>/<slug:verb>/", "/requests/{drafted}/submit/", (SIGN_IN, 404, 400, 404, 404), "post"),
    Route("reallocations/<int:number>/", "/reallocations/{proposed}/", (SIGN_IN, 404, 404, OK, 404)),
    Route(
        "reallocations/<int:number>/<slug:verb>/",
        "/reallocations/{proposed}/deny/",
        (SIGN_IN, 404, 404, 400, 404),
        "post",
    ),
    # Review 1 is Mia's of A, and open: for A's own people, those above, and operators.
    same("budget/<str:code>/cells/", "/budget/A1/cells/"),
    Route("budget/<str:code>/cells/", "/budget/A1/cells/", (SIGN_IN, 403, 403, 400, 403), "post"),
    same("budget/<str:code>/limits/", "/budget/A/limits/"),
    Route("budget/<str:code>/limits/", "/budget/A/limits/", (SIGN_IN, 404, 404, 400, 404), "post"),
    Route("budget/<str:code>/marks/", "/budget/A1/marks/", (SIGN_IN, 404, OK, OK, OK)),
    Route("budget/<str:code>/marks/", "/budget/A1/marks/", (SIGN_IN, 404, 400, 400, 400), "post"),
    Route(
        "budget/<str:code>/marks/<int:number>/remove/",
        "/budget/A1/marks/1/remove/",
        (SIGN_IN, 404, 404, 404, 404),
        "post",
    ),
    same("audit/", "/audit/"),
    Route("audit/", "/audit/?node=A1", (SIGN_IN, 404, OK, OK, OK)),
    Route("audit/", "/audit/?request={asked}", (SIGN_IN, 404, OK, OK, OK)),
    same("audit/csv/", "/audit/csv/"),
    Route("audit/csv/", "/audit/csv/?node=A1", (SIGN_IN, 404, OK, OK, OK)),
    Route("audit/csv/", "/audit/csv/?request={asked}", (SIGN_IN, 404, OK, OK, OK)),
    same("files/", "/files/"),
    same("files/shares/", "/files/shares/"),
    same("files/usage/", "/files/usage/?node=A&cluster=north"),
    same("files/requests/", "/files/requests/"),
    same("imports/", "/imports/"),
    Route("imports/", "/imports/", (SIGN_IN, 400, 400, 400, 400), "post"),
    Route("imports/<int:number>/", "/imports/{import}/", (SIGN_IN, 404, 404, OK, 404)),
    Route("imports/<int:number>/", "/imports/{import}/", (SIGN_IN, 404, 404, 400, 404), "post"),
    same("messages/", "/messages/"),
    Route("messages/", "/messages/", (SIGN_IN, 400, 400, 400, 400), "post"),
    same("messages/choices/", "/messages/choices/"),
    Route("messages/choices/", "/messages/choices/", (SIGN_IN, 400, 400, 400, 400), "post"),
    # The webhook and its delivery are Ada's.
    same("webhooks/", "/webhooks/"),
    same("webhooks/new/", "/webhooks/new/"),
    Route("webhooks/new/", "/webhooks/new/", (SIGN_IN, 400, 400, 400, 400), "post"),
    Route("webhooks/new/organisation/", "/webhooks/new/organisation/", (SIGN_IN, 404, 404, 404, OK)),
    Route("webhooks/new/organisation/", "/webhooks/new/organisation/", (SIGN_IN, 404, 404, 404, 400), "post"),
    Route("webhooks/<int:number>/", "/webhooks/{webhook}/", (SIGN_IN, 404, OK, 404, 404)),
    Route("webhooks/<int:number>/<slug:verb>/", "/webhooks/{webhook}/change/", (SIGN_IN, 404, 400, 404, 404), "post"),
    Route(
        "webhooks/<int:number>/deliveries/<int:delivery>/",
        "/webhooks/{webhook}/deliveries/{delivery}/",
        (SIGN_IN, 404, OK, 404, 404),
    ),
    Route(
        "webhooks/<int:number>/deliveries/<int:delivery>/<slug:verb>/",
        "/webhooks/{webhook}/deliveries/{delivery}/twice/",
        (SIGN_IN, 404, 404, 404, 404),
        "post",
    ),
    same("tokens/", "/tokens/"),
    Route("tokens/", "/tokens/", (SIGN_IN, 400, 400, 400, 400), "post"),
    # The token is Ada's: she and operators see to it.
    Route("tokens/<int:number>/revoke/", "/tokens/{token}/revoke/", (SIGN_IN, 405, 405, 405, 405)),
    Route("tokens/<int:number>/revoke/", "/tokens/{token}/revoke/", (SIGN_IN, 404, 302, 404, 400), "post"),
    Route("people/<int:number>/tokens/", "/people/{ada}/tokens/", (SIGN_IN, 404, 302, 404, OK)),
    same("search/", "/search/?find=A1"),
    same("reviews/", "/reviews/"),
    Route("reviews/new/", "/reviews/new/", (SIGN_IN, 403, 403, OK, 403)),
    Route("reviews/new/", "/reviews/new/", (SIGN_IN, 403, 403, 400, 403), "post"),
    Route("reviews/<int:number>/", "/reviews/{review}/", (SIGN_IN, 404, 404, OK, OK)),
    Route("reviews/<int:number>/<slug:verb>/", "/reviews/{review}/close/", (SIGN_IN, 404, 404, 400, 400), "post"),
    Route("reviews/<int:number>/<slug:verb>/", "/reviews/{review}/delete/", (SIGN_IN, 404, 404, 404, 404), "post"),
    Route("reviews/<int:number>/meeting/", "/reviews/{review}/meeting/", (SIGN_IN, 404, 404, OK, OK)),
    Route("reviews/<int:number>/meeting/", "/reviews/{review}/meeting/", (SIGN_IN, 404, 404, OK, OK), htmx=True),
    Route("reviews/<int:number>/step/", "/reviews/{review}/step/", (SIGN_IN, 404, 404, 302, 302), "post"),
    Route("reviews/<int:number>/items/<int:position>/", "/reviews/{review}/items/1/", (SIGN_IN, 404, 404, OK, OK)),
    Route(
        "reviews/<int:number>/items/<int:position>/<slug:verb>/",
        "/reviews/{review}/items/1/mark/",
        (SIGN_IN, 404, 404, 400, 400),
        "post",
    ),
    Route("reviews/<int:number>/pack/", "/reviews/{review}/pack/", (SIGN_IN, 404, 404, OK, OK)),
    Route("reviews/<int:number>/pack.pdf", "/reviews/{review}/pack.pdf", (SIGN_IN, 404, 404, OK, OK)),
    Route("reviews/<int:number>/pack.csv", "/reviews/{review}/pack.csv", (SIGN_IN, 404, 404, OK, OK)),
    Route("reviews/<int:number>/hours.csv", "/reviews/{review}/hours.csv", (SIGN_IN, 404, 404, OK, OK)),
    same("decisions/", "/decisions/"),
    same("decisions/<int:number>/", "/decisions/{decided}/"),
    Route("decisions/<int:number>/", "/decisions/{decided}/", (SIGN_IN, 400, 400, 400, 400), "post"),
    Route("decisions/<int:number>/", "/decisions/{proposed}/", (SIGN_IN, 404, 404, 404, 404)),
    same("people/", "/people/"),
    same("people/<int:number>/", "/people/{ada}/"),
    Route("people/<int:number>/<slug:verb>/", "/people/{ada}/disable/", (SIGN_IN, 403, 403, 403, 403), "post"),
    same("delegations/", "/delegations/"),
    Route("delegations/", "/delegations/", (SIGN_IN, 400, 400, 400, 400), "post"),
    Route("delegations/<int:number>/end/", "/delegations/{delegation}/end/", (SIGN_IN, 404, 404, 400, 404), "post"),
    same("house/", "/house/"),
    Route("house/", "/house/", (SIGN_IN, 403, 403, 403, 403), "post"),
    same("queue/", "/queue/"),
    same("queue/<slug:cluster>/", "/queue/north/"),
    same("queue/<slug:cluster>/", "/queue/north/", htmx=True),
    same("nodes/", "/nodes/"),
    same("nodes/<slug:cluster>/", "/nodes/north/"),
    same("nodes/<slug:cluster>/", "/nodes/north/", htmx=True),
    Route("nodes/<slug:cluster>/<str:name>/drain/", "/nodes/north/n01/drain/", (SIGN_IN, 403, 403, 403, OK)),
    Route("nodes/<slug:cluster>/<str:name>/drain/", "/nodes/north/n01/drain/", (SIGN_IN, 403, 403, 403, 400), "post"),
    Route("nodes/<slug:cluster>/<str:name>/resume/", "/nodes/north/n01/resume/", (SIGN_IN, 403, 403, 403, OK)),
    Route("nodes/<slug:cluster>/<str:name>/resume/", "/nodes/north/n01/resume/", (SIGN_IN, 403, 403, 403, 400), "post"),
    same("timeline/", "/timeline/"),
    same("clusters/<slug:cluster>/rules/", "/clusters/north/rules/"),
    Route("clusters/<slug:cluster>/rules/<slug:verb>/", "/clusters/north/rules/plan/", (SIGN_IN, 302, 302, 302, 302)),
    Route(
        "clusters/<slug:cluster>/rules/<slug:verb>/",
        "/clusters/north/rules/hook/",
        (SIGN_IN, 403, 403, 403, 400),
        "post",
    ),
    same("policy/", "/policy/"),
    same("clusters/<slug:cluster>/policy/", "/clusters/north/policy/"),
    Route(
        "clusters/<slug:cluster>/policy/<slug:verb>/", "/clusters/north/policy/change/", (SIGN_IN, 302, 302, 302, 302)
    ),
    Route(
        "clusters/<slug:cluster>/policy/<slug:verb>/",
        "/clusters/north/policy/change/",
        (SIGN_IN, 403, 403, 403, 400),
        "post",
    ),
    Route("clusters/<slug:cluster>/slurm/", "/clusters/north/slurm/", (SIGN_IN, 404, 404, 404, 404)),
    same("clusters/<slug:cluster>/timeline/", "/clusters/north/timeline/?window=7d"),
    same("clusters/<slug:cluster>/timeline/", "/clusters/north/timeline/?nodes=n01:n02", htmx=True),
    same("workloads/", "/workloads/"),
    same("workloads/new/", "/workloads/new/"),
    Route("workloads/new/", "/workloads/new/", (SIGN_IN, 400, 400, 400, 400), "post"),
    Route("workloads/new/advice/", "/workloads/new/advice/", (SIGN_IN, 302, 302, 302, 302)),
    Route("workloads/new/advice/", "/workloads/new/advice/", (SIGN_IN, 400, 400, 400, 400), "post"),
    same("workloads/new/spreading/", "/workloads/new/spreading/?cluster=north&size=16&locality=2"),
    Route("workloads/new/spreading/", "/workloads/new/spreading/", (SIGN_IN, 400, 400, 400, 400)),
    same("workloads/new/spreading/", "/workloads/new/spreading/", htmx=True),
    same("workloads/new/preview/", "/workloads/new/preview/?command=sleep+5"),
    same("workloads/<str:code>/", "/workloads/{running}/"),
    same("pyramid/", "/pyramid/"),
    same("clusters/<slug:cluster>/pyramid/", "/clusters/north/pyramid/?behind=utilization"),
    same("fairness/", "/fairness/"),
    same("clusters/<slug:cluster>/fairness/", "/clusters/north/fairness/?node=A"),
    same("clusters/<slug:cluster>/fairness.csv", "/clusters/north/fairness.csv"),
    same("clusters/<slug:cluster>/lent.csv", "/clusters/north/lent.csv"),
    same("waits/", "/waits/"),
    same("clusters/<slug:cluster>/failures/", "/clusters/north/failures/"),
    same("clusters/<slug:cluster>/waits/", "/clusters/north/waits/"),
    same("clusters/<slug:cluster>/waits.csv", "/clusters/north/waits.csv"),
    same("advice/", "/advice/"),
    same("clusters/<slug:cluster>/advice/", "/clusters/north/advice/"),
    Route(
        "clusters/<slug:cluster>/advice/<slug:verb>/", "/clusters/north/advice/block/", (SIGN_IN, 302, 302, 302, 302)
    ),
    Route(
        "clusters/<slug:cluster>/advice/<slug:verb>/",
        "/clusters/north/advice/block/",
        (SIGN_IN, 403, 403, 403, 400),
        "post",
    ),
    same("squatting/", "/squatting/"),
    same("clusters/<slug:cluster>/squatting/", "/clusters/north/squatting/"),
    Route("budget/<str:code>/priorities/", "/budget/A1/priorities/", (SIGN_IN, 404, OK, OK, OK)),
    same("workloads/<str:code>/text/", "/workloads/{running}/text/"),
    same("workloads/<str:code>/forecast/", "/workloads/{waiting}/forecast/"),
    Route(
        "workloads/<str:code>/forecast/again/", "/workloads/{running}/forecast/again/", (SIGN_IN, 405, 405, 405, 405)
    ),
    Route(
        "workloads/<str:code>/forecast/again/",
        "/workloads/{running}/forecast/again/",
        (SIGN_IN, 302, 302, 302, 302),
        "post",
    ),
    same("workloads/<str:code>/try/", "/workloads/{waiting}/try/"),
    same("workloads/<str:code>/runs/<int:number>/preempted/", "/workloads/{held}/runs/1/preempted/"),
    Route("workloads/<str:code>/log/", "/workloads/{running}/log/", (SIGN_IN, 404, OK, OK, OK)),
    Route("workloads/<str:code>/release/", "/workloads/{running}/release/", (SIGN_IN, 405, 405, 405, 405)),
    Route("workloads/<str:code>/release/", "/workloads/{running}/release/", (SIGN_IN, 404, 302, 302, 302), "post"),
    Route("workloads/<str:code>/cancel/", "/workloads/{running}/cancel/", (SIGN_IN, 404, OK, OK, OK)),
    # The simulation is Ada's of the lab's history: everyone sees it, she and operators end it.
    same("simulator/", "/simulator/"),
    same("simulator/new/", "/simulator/new/"),
    Route("simulator/new/", "/simulator/new/", (SIGN_IN, 400, 400, 400, 400), "post"),
    same("simulator/policies/", "/simulator/policies/"),
    Route("simulator/policies/", "/simulator/policies/", (SIGN_IN, 400, 400, 400, 400), "post"),
    same("simulator/<int:number>/", "/simulator/{simulation}/"),
    same("simulator/<int:number>/", "/simulator/{simulation}/", htmx=True),
    Route("simulator/<int:number>/cancel/", "/simulator/{simulation}/cancel/", (SIGN_IN, 405, 405, 405, 405)),
    Route("simulator/<int:number>/cancel/", "/simulator/{simulation}/cancel/", (SIGN_IN, 404, 302, 404, 302), "post"),
    Route("simulator/<int:number>/again/", "/simulator/{simulation}/again/", (SIGN_IN, 405, 405, 405, 405)),
    Route("simulator/<int:number>/again/", "/simulator/{simulation}/again/", (SIGN_IN, 404, 302, 404, 302), "post"),
    # It has not run yet, so there is nothing to draw.
    Route("simulator/<int:number>/timeline/", "/simulator/{simulation}/timeline/", (SIGN_IN, 404, 404, 404, 404)),
    same("simulator/<int:number>/figures/", "/simulator/{simulation}/figures/"),
    Route("simulator/<int:number>/scenario/", "/simulator/{simulation}/scenario/", (SIGN_IN, 404, 404, 404, 404)),
    Route("api/v1/schema/", "/api/v1/schema/", (401, OK, OK, OK, OK)),
    Route("api/v1/advice/", "/api/v1/advice/", (401, 405, 405, 405, 405)),
    Route("api/v1/advice/", "/api/v1/advice/", (401, 400, 400, 400, 400), "post"),
    api("api/v1/clusters/<slug:cluster>/advice/", "/api/v1/clusters/north/advice/"),
    Route(
        "api/v1/clusters/<slug:cluster>/advice/block/",
        "/api/v1/clusters/north/advice/block/",
        (401, 403, 403, 403, 400),
        "post",
    ),
    Route(
        "api/v1/clusters/<slug:cluster>/advice/unblock/",
        "/api/v1/clusters/north/advice/unblock/",
        (401, 403, 403, 403, 400),
        "post",
    ),
    Route("api/v1/workloads/<str:code>/advice/", "/api/v1/workloads/{running}/advice/", (401, 404, OK, OK, OK)),
    api("api/v1/glossary/", "/api/v1/glossary/"),
    api("api/v1/clusters/", "/api/v1/clusters/"),
    api("api/v1/clusters/<slug:cluster>/tree/", "/api/v1/clusters/north/tree/"),
    api("api/v1/clusters/<slug:cluster>/queue/", "/api/v1/clusters/north/queue/"),
    api("api/v1/clusters/<slug:cluster>/nodes/", "/api/v1/clusters/north/nodes/"),
    Route("api/v1/clusters/<slug:cluster>/slurm/", "/api/v1/clusters/north/slurm/", (401, 404, 404, 404, 404)),
    api("api/v1/clusters/<slug:cluster>/repairs/", "/api/v1/clusters/north/repairs/"),
    api("api/v1/clusters/<slug:cluster>/shares/<str:code>/", "/api/v1/clusters/north/shares/A/"),
    Route(
        "api/v1/clusters/<slug:cluster>/shares/<str:code>/",
        "/api/v1/clusters/north/shares/A/",
        (401, 403, 403, 400, 403),
        "post",
    ),
    api("api/v1/budget/<str:code>/usage/", "/api/v1/budget/A/usage/?cluster=north"),
    api("api/v1/budget/<str:code>/pace/", "/api/v1/budget/A/pace/"),
    api("api/v1/budget/<str:code>/people/", "/api/v1/budget/A/people/"),
    Route("api/v1/budget/<str:code>/priorities/", "/api/v1/budget/A1/priorities/", (401, 404, OK, OK, OK)),
    api("api/v1/clusters/<slug:cluster>/pyramid/", "/api/v1/clusters/north/pyramid/"),
    api("api/v1/clusters/<slug:cluster>/fairness/", "/api/v1/clusters/north/fairness/"),
    api("api/v1/clusters/<slug:cluster>/failures/", "/api/v1/clusters/north/failures/"),
    api("api/v1/clusters/<slug:cluster>/waits/", "/api/v1/clusters/north/waits/"),
    api("api/v1/clusters/<slug:cluster>/squatting/", "/api/v1/clusters/north/squatting/"),
    api("api/v1/simulations/", "/api/v1/simulations/"),
    Route("api/v1/simulations/", "/api/v1/simulations/", (401, 400, 400, 400, 400), "post"),
    api("api/v1/simulations/<int:number>/", "/api/v1/simulations/{simulation}/"),
    *(Route(*each) for each in (*GOVERNANCE, *OPERATIONS)),
    api("api/v1/me/", "/api/v1/me/"),
    api("api/v1/tokens/", "/api/v1/tokens/"),
    Route("api/v1/tokens/", "/api/v1/tokens/", (401, 400, 400, 400, 400), "post"),
    Route("api/v1/tokens/<int:number>/", "/api/v1/tokens/{token}/", (401, 404, OK, 404, OK)),
    api("api/v1/workloads/", "/api/v1/workloads/"),
    Route("api/v1/workloads/", "/api/v1/workloads/", (401, 400, 400, 400, 400), "post"),
    api("api/v1/workloads/<str:code>/", "/api/v1/workloads/{running}/"),
    api("api/v1/workloads/<str:code>/explain/", "/api/v1/workloads/{running}/explain/"),
    api("api/v1/workloads/<str:code>/try/", "/api/v1/workloads/{waiting}/try/"),
    api("api/v1/workloads/<str:code>/runs/<int:number>/preempted/", "/api/v1/workloads/{held}/runs/1/preempted/"),
    Route("api/v1/workloads/<str:code>/release/", "/api/v1/workloads/{held}/release/", (401, OK, 404, 404, OK), "post"),
    Route("api/v1/workloads/<str:code>/cancel/", "/api/v1/workloads/{running}/cancel/", (401, 405, 405, 405, 405)),
    Route("api/v1/workloads/<str:code>/cancel/", "/api/v1/workloads/{held}/cancel/", (401, OK, 404, 404, OK), "post"),
    api("api/v1/webhooks/", "/api/v1/webhooks/"),
    Route("api/v1/webhooks/", "/api/v1/webhooks/", (401, 400, 400, 400, 400), "post"),
    Route("api/v1/webhooks/<int:number>/", "/api/v1/webhooks/{webhook}/", (401, 404, OK, 404, 404)),
    Route(
        "api/v1/webhooks/<int:number>/deliveries/",
        "/api/v1/webhooks/{webhook}/deliveries/",
        (401, 404, OK, 404, 404),
    ),
    Route(
        "api/v1/webhooks/<int:number>/deliveries/<int:delivery>/",
        "/api/v1/webhooks/{webhook}/deliveries/{delivery}/",
        (401, 404, OK, 404, 404),
    ),
    Route(
        "api/v1/webhooks/<int:number>/deliveries/<int:delivery>/again/",
        "/api/v1/webhooks/{webhook}/deliveries/{delivery}/again/",
        (401, 404, 202, 404, 404),
        "post",
    ),
    Route("api/v1/webhooks/<int:number>/test/", "/api/v1/webhooks/{webhook}/test/", (401, 404, 202, 404, 404), "post"),
    Route(
        "api/v1/webhooks/<int:number>/secret/", "/api/v1/webhooks/{webhook}/secret/", (401, 404, 201, 404, 404), "post"
    ),
    # Whether it lives all may ask; figures are for those whom operators named (tests/portal/test_metrics.py).
    Route("healthz", "/healthz", (200, 200, 200, 200, 200)),
    Route("readyz", "/readyz?only=database", (200, 200, 200, 200, 200)),
    Route("metrics", "/metrics", (200, 200, 200, 200, 200)),
    # The agents' own tokens open these, and no person's session does: tests/executors/ has what tokens get.
    # What is not in their form at all is 400 before a token is looked at.
    Route("api/v1/agent/register", "/api/v1/agent/register", (401, 401, 401, 401, 401), "post"),
    Route("api/v1/agent/sync", "/api/v1/agent/sync", (400, 400, 400, 400, 400), "post"),
    Route("api/v1/agent/log", "/api/v1/agent/log", (400, 400, 400, 400, 400), "post"),
    Route("api/v1/agent/directory/put", "/api/v1/agent/directory/put", (400, 400, 400, 400, 400), "post"),
    Route("api/v1/agent/directory/get", "/api/v1/agent/directory/get", (400, 400, 400, 400, 400), "post"),
    Route("api/v1/agent/directory/fail", "/api/v1/agent/directory/fail", (400, 400, 400, 400, 400), "post"),
    Route("api/v1/agent/listening", "/api/v1/agent/listening", (200, 200, 200, 200, 200)),
]
DJANGO_ADMIN = "admin/"
"""Django's own screens, for staff: read-only for shares, roles and the ledger (tests/budgets)."""


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    """Every address of the portal as its pattern."""
    for each in resolver.url_patterns:
        at = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            if at != DJANGO_ADMIN:
                yield from patterns(each, at)
        elif isinstance(each, URLPattern):
            yield at


def governance(lab: Laboratory) -> dict[str, int]:
    """Numbers of something of each kind that not everybody may see."""
    asks = {
        "node": lab.node["A1"],
        "cluster": lab.cluster,
        "more_basis_points": 500,
        "starts_on": today(),
        "by": lab.ada,
    }
    asked = requests.submit(request=requests.draft(**asks, why="w", otherwise="o"), by=lab.ada)
    file = comments.attach(request=asked, by=lab.ada, name="plan.txt", content=b"plan")
    drafted = requests.draft(**asks, why="w", otherwise="o")
    proposed = reallocations.draft(
        parent=lab.node["A"], cluster=lab.cluster, shares={lab.node["A1"]: 6_000}, starts_on=today(), by=lab.mia
    )
    delegation = delegations.give(
        giver=lab.mia, delegate=lab.max, node=lab.node["A"], limit_basis_points=100, valid_from=today(),
        valid_until=today() + timedelta(days=2),
    )  # fmt: skip
    review = reviews.plan(
        node=lab.node["A"], title="Winter", period_from=today() - timedelta(days=1), period_until=today(),
        meets_at=timezone.now(), applies_from=today(), by=lab.mia,
    )  # fmt: skip
    reviews.open_review(review=review, by=lab.mia, figures_of=review_figures.of_lines)
    decided = reallocations.apply_directly(
        parent=lab.node["LAB"], cluster=lab.cluster, shares={lab.node["B"]: 3_400}, starts_on=today(), by=lab.max,
        reason="r",
    )  # fmt: skip
    rows = [imports.Row(2, "A", "A1", "north", 5_000, today(), None)]
    _, stored = imports.preview(name="a.csv", rows=rows, by=lab.mia)
    assert stored is not None
    return {
        "import": stored.pk,
        "review": review.pk,
        "decided": decided.pk,
        "asked": asked.pk,
        "file": file.pk,
        "drafted": drafted.pk,
        "proposed": proposed.pk,
        "delegation": delegation.pk,
    }


def numbers_of(lab: Laboratory) -> dict[str, object]:
    """What fills the paths of the table."""
    hook = Webhook.objects.create(person=lab.ada, url="https://receiver.example.org/", secret="s")
    return {
        "running": lab.taker.code,
        "waiting": lab.waits.code,
        "held": lab.taken.code,
        "ada": lab.ada.pk,
        "grant": RoleGrant.objects.get(person=lab.mia).pk,
        **governance(lab),
        "simulation": simulation(lab).pk,
        "pass": Pass.objects.latest("pk").pk,
        "token": tokens.create(person=lab.ada, name="t", scopes=["read"], days=1)[0].pk,
        "webhook": hook.pk,
        "delivery": webhook_settings.ping(webhook=hook).pk,
    }


def test_every_address_is_in_the_table() -> None:
    assert {route.pattern for route in ROUTES} == set(patterns(get_resolver()))


def simulation(lab: Laboratory) -> Simulation:
    """Ada's, that no worker has begun."""
    source = History(lab.cluster, lab.now - timedelta(days=1), lab.now)
    return simulations.compare(by=lab.ada, source=source, variants=[Variant("contracts")])


def is_program(path: str) -> bool:
    """Whether an address is for programs, which send JSON; agents, which speak in their own way, apart."""
    return path.startswith("/api/") and not path.startswith("/api/v1/agent/")


@pytest.mark.parametrize("who", WHO)
def test_who_gets_what(lab: Laboratory, as_person: Callable[..., Client], who: str) -> None:
    client = Client() if who == "nobody" else as_person(getattr(lab, who))
    numbers = numbers_of(lab)
    found, wanted = {}, {}
    for route in ROUTES:
        path = route.path.format(**numbers)
        headers = {"HX-Request": "true"} if route.htmx else {}
        body = {"data": "{}", "content_type": "application/json"} if is_program(path) and route.method != "get" else {}
        answer = getattr(client, route.method)(path, headers=headers, **body)
        key = (route.method, path, route.htmx)
        is_sign_in = answer.status_code == 302 and answer.headers["Location"].startswith("/login/?next=")
        found[key] = SIGN_IN if is_sign_in else answer.status_code
        wanted[key] = route.gets[WHO.index(who)]
    assert found == wanted


def test_staff_alone_see_djangos_own_screens(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    for person in (lab.ada, lab.max, lab.ops):
        assert as_person(person).get("/admin/").status_code == 302
