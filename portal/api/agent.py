"""The agents' end of the portal: join, heartbeat, output, saved directories. JSON both ways, and for nothing else.

A node's agent shows its own token; only joining takes a join token. Whatever is not exactly as
`scheduler.executors.base` describes it is refused with 400 and the field's name, and changes nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from budgets.errors import InputError
from budgets.models import Cluster
from budgets.services import tokens
from portal.outages import watch
from scheduler.executors.heartbeat import Answer, Sync
from scheduler.executors.reading import LARGEST, Malformed, read_object
from scheduler.models import Node
from scheduler.services import (
    directories,
    epochs,
    facts,
    heartbeats,
    join_tokens,
    node_health,
    nodes,
    output,
    repairs,
    utilization,
)

log = structlog.get_logger(__name__)

LISTENING_SINCE_S = time.monotonic()
"""When this process began to hear agents, or later."""

REGISTER = {
    "cluster": str,
    "node": str,
    "token": str,
    "devices": int,
    "uuids": list[str],
    "epoch": int,
    "rack": str,
    "rail": str,
    "leaf": str,
    "memory_mib": int,
    "cpu_milli": int,
    "gpu_class": str,
}
LOG = {"cluster": str, "node": str, "run": int, "rank": int, "offset": int, "data": str}
PUT = LOG | {"size": int, "digest": str}
FAIL = {"cluster": str, "node": str, "run": int, "rank": int, "message": str}
GET = {"cluster": str, "node": str, "run": int, "rank": int, "offset": int}


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
    """The token that the request shows; people's tokens are of another kind, whatever anybody stored."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind != "Bearer" or not token:
        raise Refused(401, "token", "shows no token")
    if token.startswith(tokens.PREFIX):
        raise Refused(401, "token", "is a person's, not an agent's")
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
    """A node joins: shows a join token, and gives the token that it will speak with."""
    shown, now = bearer(request), timezone.now().replace(microsecond=0)
    is_ours = bool(settings.AGENT_TOKEN) and compare_digest(shown.encode(), settings.AGENT_TOKEN.encode())
    if not is_ours and not shown.startswith(join_tokens.PREFIX):
        raise Refused(401, "token", "is not the join token")
    given = read_object(read_json(request), "", REGISTER, required=("cluster", "node", "token", "devices"))
    if not given["token"]:
        raise Malformed("token", "is empty")
    if given["token"].startswith(tokens.PREFIX):
        raise Malformed("token", "is a person's, not an agent's")
    cluster = Cluster.objects.filter(name=given["cluster"]).first()
    if cluster is None:
        raise Malformed("cluster", f"there is no cluster {given['cluster'][:60]!r}")
    if cluster.executor != Cluster.Executor.AGENT:
        raise Malformed("cluster", f"{cluster.name} has no agents")
    about = {name: given[name] for name in given if name not in ("cluster", "node")}
    with transaction.atomic():
        row = None
        if not is_ours:
            row = join_tokens.find(
                token=shown, cluster=cluster, node_name=given["node"], agent_token=given["token"], now=now
            )
            if row is None:
                raise Refused(401, "token", "is no join token for this node, has expired, or has been used")
        node = nodes.register(cluster=cluster, name=given["node"], **about)
        if row is not None:
            join_tokens.use(row=row, node=node, agent_token=given["token"], now=now)
    log.info("node_joined", cluster=cluster.name, node=node.name)
    return {"node": node.name}


@answers
def sync(request: HttpRequest) -> dict[str, Any]:
    """A heartbeat: takes the facts, gives the desired state."""
    said = Sync.read(read_json(request))
    now = timezone.now().replace(microsecond=0)
    if heartbeats.is_plain(said):
        heard = heartbeats.plain(said=said, token=bearer(request), wake_url=wake_url(request, said), now=now)
        if heard is not None:
            return asdict(heard)
    node = node_of(request, said.cluster, said.node)
    if not nodes.heartbeat(node=node, wake_url=wake_url(request, said), epoch=said.epoch, now=now):
        raise Refused(409, "epoch", "an agent that was started later speaks for this node")
    if said.problems is not None:
        node_health.report(node=node, problems=said.problems, now=now)
    strange = facts.report(node=node, facts=said.facts, now=now)
    keep_samples(node, said, now)
    if said.repair is not None and said.repair_exit_code is not None:
        repairs.ended(
            node=node, number=said.repair, exit_code=said.repair_exit_code, message=said.repair_message, now=now
        )
    node.refresh_from_db()
    return Answer(
        epoch=epochs.current(),
        desired=facts.desired(node, now),
        self_fence_s=nodes.policy(node.cluster).self_fence_s,
        refused=[{"run": fact.run, "rank": fact.rank} for fact in strange],
        removable=directories.removable(names=said.directories, cluster_id=node.cluster_id, now=now),
        repair=repairs.wanted_of(node),
    ).write()


def keep_samples(node: Node, said: Sync, now: datetime) -> None:
    """Keep what was measured; samples that cannot be are no reason to keep the desired state from the node."""
    if not said.samples:
        return
    try:
        utilization.keep(node=node, samples=said.samples, now=now)
    except InputError as error:
        log.warning("samples_refused", node=node.name, field=error.field, message=error.message)


def wake_url(request: HttpRequest, said: Sync) -> str:
    """Where the agent can be called: on this very machine, or in a network that the operator has named.

    A proxy on this machine speaks from there too, for agents elsewhere. What is called is always /wake/SECRET.
    """
    if said.wake_port is None or not said.wake_secret:
        return ""
    if said.wake_address:
        try:
            address = ip_address(said.wake_address)
        except ValueError:
            raise Malformed("wake_address", "is not an address") from None
        if not any(address in network for network in settings.AGENT_NETWORKS):
            return ""
        host = f"[{address}]" if address.version == 6 else str(address)
        return f"http://{host}:{said.wake_port}/wake/{said.wake_secret}"
    is_here = request.META["REMOTE_ADDR"] in settings.LOOPBACK_HOSTS and "HTTP_X_FORWARDED_FOR" not in request.META
    return f"http://127.0.0.1:{said.wake_port}/wake/{said.wake_secret}" if is_here else ""


@answers
def log_chunk(request: HttpRequest) -> dict[str, Any]:
    """A piece of what a rank printed; from where on the next is wanted."""
    given = read_object(read_json(request), "", LOG, required=LOG)
    node = node_of(request, given["cluster"], given["node"])
    data = decoded(given["data"])
    wanted = output.keep(node=node, run_id=given["run"], rank_index=given["rank"], offset=given["offset"], data=data)
    if wanted is None:
        raise Refused(404, "rank", f"no rank {given['rank']} of run {given['run']} on {node.name}")
    return {"next": wanted}


def decoded(text: str) -> bytes:
    """Bytes as they come in JSON."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("data", "is not base64") from None


@answers
def put_directory(request: HttpRequest) -> dict[str, Any]:
    """A piece of the archive of a saved working directory; from where on the next is wanted."""
    given = read_object(read_json(request), "", PUT, required=PUT)
    node = node_of(request, given["cluster"], given["node"])
    wanted = directories.put(
        node=node,
        run_id=bounded("run", given["run"]),
        rank_index=bounded("rank", given["rank"], 2**31 - 1),
        offset=given["offset"],
        size=given["size"],
        data=decoded(given["data"]),
        digest=given["digest"],
    )
    if wanted is None:
        raise Refused(
            404, "run", f"nothing of run {given['run']} was saved on {node.name}, or it was saved again since"
        )
    return {"next": wanted}


@answers
def fail_directory(request: HttpRequest) -> dict[str, Any]:
    """What was saved on this node cannot be sent."""
    given = read_object(read_json(request), "", FAIL, required=FAIL)
    node = node_of(request, given["cluster"], given["node"])
    run, rank = bounded("run", given["run"]), bounded("rank", given["rank"], 2**31 - 1)
    return {"known": directories.cannot_travel(node=node, run_id=run, rank_index=rank, problem=given["message"])}


@answers
def get_directory(request: HttpRequest) -> dict[str, Any]:
    """A piece of the archive that a rank of this node needs before it starts."""
    given = read_object(read_json(request), "", GET, required=GET)
    node = node_of(request, given["cluster"], given["node"])
    run, rank = bounded("run", given["run"]), bounded("rank", given["rank"], 2**31 - 1)
    try:
        piece = directories.get(node=node, run_id=run, rank_index=rank, offset=bounded("offset", given["offset"]))
    except directories.NotThere:
        raise Refused(409, "run", "its saved directory has not arrived yet") from None
    except directories.NeverThere as error:
        raise Refused(404, "run", str(error)) from None
    if piece is None:
        raise Refused(404, "run", f"no directory is kept for rank {given['rank']} of run {given['run']} on {node.name}")
    data, size, digest = piece
    return {"data": base64.b64encode(data).decode(), "size": size, "digest": digest}


def bounded(name: str, value: int, most: int = LARGEST) -> int:
    """The number, if a row could have it."""
    if not 0 <= value <= most:
        raise Malformed(name, f"{value} is not 0 to {most}")
    return value


@require_GET
def listening(_request: HttpRequest) -> JsonResponse:
    """How long this process has been hearing agents; the loop counts silence no longer than that.

    While the database was away, nothing that was said could be taken down.
    """
    since_s = max(LISTENING_SINCE_S, watch.back_s)
    return JsonResponse({"for_s": int(time.monotonic() - since_s)})


urlpatterns = [
    path("register", register, name="agent-register"),
    path("sync", sync, name="agent-sync"),
    path("log", log_chunk, name="agent-log"),
    path("directory/put", put_directory, name="agent-put-directory"),
    path("directory/fail", fail_directory, name="agent-fail-directory"),
    path("directory/get", get_directory, name="agent-get-directory"),
    path("listening", listening, name="agent-listening"),
]
