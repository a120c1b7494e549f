"""The agents' end of the portal: join, heartbeat, output. JSON in, JSON out; nothing else uses these addresses.

A node's agent shows its own token; only joining takes the installation's join token. Whatever is not exactly as
`scheduler.executors.base` describes it is refused with 400 and the field's name, and changes nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable
from hmac import compare_digest
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.executors.heartbeat import Sync
from scheduler.executors.reading import Malformed, read_object
from scheduler.models import Node
from scheduler.services import facts, nodes, output

log = structlog.get_logger(__name__)

LISTENING_SINCE_S = time.monotonic()
"""When this process began to hear agents, or later."""

REGISTER = {
    "cluster": str,
    "node": str,
    "token": str,
    "devices": int,
    "rack": str,
    "memory_mib": int,
    "cpu_milli": int,
}
LOG = {"cluster": str, "node": str, "run": int, "rank": int, "offset": int, "data": str}


class Refused(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, field: str, message: str) -> None:
        super().__init__(message)
        self.status, self.field, self.message = status, field, message


def answers(view: Callable[[HttpRequest], dict[str, Any]]) -> Callable[[HttpRequest], JsonResponse]:
    """Make a function of a request's JSON into a view: its result, or one line that says what is wrong."""

    @csrf_exempt
    @require_POST
    def answer(request: HttpRequest) -> JsonResponse:
        try:
            return JsonResponse(view(request))
        except (Malformed, InputError) as error:
            status, field, message = 400, error.field, error.message
        except Refused as error:
            status, field, message = error.status, error.field, error.message
        log.warning("agent_refused", path=request.path, status=status, field=field, message=message)
        return JsonResponse({"field": field, "message": message}, status=status)

    return answer


def read_json(request: HttpRequest) -> Any:
    """The request's body."""
    try:
        return json.loads(request.body)
    except RequestDataTooBig:
        raise Malformed("", "is too large") from None
    except (ValueError, RecursionError):
        raise Malformed("", "is not JSON") from None


def bearer(request: HttpRequest) -> str:
    """The token that the request shows."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind != "Bearer" or not token:
        raise Refused(401, "token", "shows no token")
    return token


def node_of(request: HttpRequest, cluster: str, name: str) -> Node:
    """The node that speaks: its name and its token must belong together."""
    try:
        node = nodes.with_token(cluster=cluster, name=name, token=bearer(request))
    except LookupError as error:
        raise Refused(404, "node", str(error)) from None
    if node is None:
        raise Refused(401, "token", "is not known")
    return node


@answers
def register(request: HttpRequest) -> dict[str, Any]:
    """A node joins: shows the join token, and gives the token that it will speak with."""
    if not settings.AGENT_TOKEN or not compare_digest(bearer(request).encode(), settings.AGENT_TOKEN.encode()):
        raise Refused(401, "token", "is not the join token")
    given = read_object(read_json(request), "", REGISTER, required=("cluster", "node", "token", "devices"))
    if not given["token"]:
        raise Malformed("token", "is empty")
    cluster = Cluster.objects.filter(name=given["cluster"]).first()
    if cluster is None:
        raise Malformed("cluster", f"there is no cluster {given['cluster'][:60]!r}")
    if cluster.executor != Cluster.Executor.AGENT:
        raise Malformed("cluster", f"{cluster.name} has no agents")
    node = nodes.register(
        cluster=cluster, name=given["node"], **{name: given[name] for name in given if name not in ("cluster", "node")}
    )
    log.info("node_joined", cluster=cluster.name, node=node.name)
    return {"node": node.name}


@answers
def sync(request: HttpRequest) -> dict[str, Any]:
    """A heartbeat: takes the facts, gives the desired state."""
    said = Sync.read(read_json(request))
    node = node_of(request, said.cluster, said.node)
    now = timezone.now().replace(microsecond=0)
    nodes.heartbeat(node=node, wake_url=wake_url(request, said), now=now)
    strange = facts.report(node=node, facts=said.facts, now=now)
    node.refresh_from_db()
    return {
        "desired": [rank.write() for rank in facts.desired(node, now)],
        "refused": [{"run": fact.run, "rank": fact.rank} for fact in strange],
        "self_fence_s": nodes.policy(node.cluster).self_fence_s,
    }


def wake_url(request: HttpRequest, said: Sync) -> str:
    """Where the agent can be called: its port is of the loopback address, so only an agent on this very machine can.

    A proxy on this machine speaks from there too, for agents elsewhere.
    """
    is_here = request.META["REMOTE_ADDR"] in settings.LOOPBACK_HOSTS and "HTTP_X_FORWARDED_FOR" not in request.META
    if said.wake_port is None or not said.wake_secret or not is_here:
        return ""
    return f"http://127.0.0.1:{said.wake_port}/wake/{said.wake_secret}"


@answers
def log_chunk(request: HttpRequest) -> dict[str, Any]:
    """A piece of what a rank printed; from where on the next is wanted."""
    given = read_object(read_json(request), "", LOG, required=LOG)
    node = node_of(request, given["cluster"], given["node"])
    try:
        data = base64.b64decode(given["data"], validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("data", "is not base64") from None
    wanted = output.keep(node=node, run_id=given["run"], rank_index=given["rank"], offset=given["offset"], data=data)
    if wanted is None:
        raise Refused(404, "rank", f"no rank {given['rank']} of run {given['run']} on {node.name}")
    return {"next": wanted}


@require_GET
def listening(_request: HttpRequest) -> JsonResponse:
    """How long this process has been hearing agents; the loop counts silence no longer than that."""
    return JsonResponse({"for_s": int(time.monotonic() - LISTENING_SINCE_S)})


urlpatterns = [
    path("register", register, name="agent-register"),
    path("sync", sync, name="agent-sync"),
    path("log", log_chunk, name="agent-log"),
    path("listening", listening, name="agent-listening"),
]
