"""Hosts of their own: agents in network namespaces, joined by a bridge. A gang really talks over MASTER_ADDR, and a
node whose link is cut keeps to section 7 of semantics.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any

import pytest

from scheduler.models import Node, Rank, Run
from scheduler.services import policies
from tests.executors.conftest import Gate, Site, wait_for
from tests.scheduler.conftest import check_books

pytestmark = pytest.mark.long

NODES = ("n1", "n2", "n3")
TALK = """
import os, socket, time
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    listener = socket.create_server(address)
    peer, _ = listener.accept()
else:
    for _ in range(100):
        try:
            peer = socket.create_connection(address, timeout=1)
            break
        except OSError:
            time.sleep(0.1)
heard = peer.makefile()
for number in range(3):
    peer.sendall(b"%d of %d\\n" % (rank, number))
    print(heard.readline().strip(), flush=True)
print("from", peer.getsockname()[0], "to", peer.getpeername()[0], flush=True)
time.sleep(600)
"""


def ip(*argv: str) -> None:
    """Change the network."""
    done = subprocess.run(("ip", *argv), check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(argv)}: {done.stderr.strip()}")


@dataclass
class Network:
    """A bridge, and a namespace for each node with one link to it."""

    bridge: str
    net: IPv4Network

    @property
    def portal(self) -> str:
        """The portal's address on it."""
        return str(self.net[1])

    def address(self, node: str) -> str:
        """A node's."""
        return str(self.net[10 + NODES.index(node)])

    def namespace(self, node: str) -> str:
        """A node's."""
        return f"{self.bridge}-{node}"

    def within(self, node: str) -> list[str]:
        """What a command begins with that runs on a node."""
        return ["ip", "netns", "exec", self.namespace(node)]

    def make(self) -> None:
        """All of it."""
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.portal}/{self.net.prefixlen}", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for node in NODES:
            space, near = self.namespace(node), f"{self.bridge}{node}"
            ip("netns", "add", space)
            ip("link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", near, "master", self.bridge, "up")
            ip("-n", space, "addr", "add", f"{self.address(node)}/{self.net.prefixlen}", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", space, "link", "set", device, "up")

    def link(self, node: str, state: str) -> None:
        """Cut a node off, or join it again: "down" or "up"."""
        ip("link", "set", f"{self.bridge}{node}", state)

    def remove(self) -> None:
        """All of it that is there."""
        for node in NODES:
            subprocess.run(("ip", "netns", "del", self.namespace(node)), check=False, capture_output=True)
        subprocess.run(("ip", "link", "del", self.bridge), check=False, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    """A network of this test's; without the right to make one, a skip that says so."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("NOT ROOT, or no `ip`: no agents in network namespaces")
    made = Network(f"al{os.getpid() % 100_000}", IPv4Network(f"10.213.{os.getpid() % 250}.0/24"))
    try:
        try:
            made.make()
        except OSError as error:
            pytest.skip(f"NO NETWORK NAMESPACES HERE ({error})")
        yield made
    finally:
        made.remove()


@pytest.fixture
def hosts(site: Site, network: Network, settings: Any) -> Iterator[Site]:
    """The site with an agent in each namespace, which reaches the portal over its link alone, and is woken there."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, network.portal]
    settings.AGENT_NETWORKS = [ip_network(str(network.net))]
    policies.change(cluster=site.cluster, knobs={"heartbeat_timeout_s": 2, "self_fence_s": 4, "lost_after_s": 9})
    gate = Gate(site.url, network.portal)
    try:
        for node in NODES:
            site.agent(node, portal=gate.url, within=network.within(node), **{"wake-address": network.address(node)})
        yield site
    finally:
        gate.close()


def talked(site: Site, run: Run) -> bool:
    """Whether both ranks have said where they talk from and to."""
    return all("from" in "".join(c.text for c in rank.chunks.all()) for rank in run.ranks.all())


def pids(site: Site, run: Run, rank: int) -> list[int]:
    """The living processes of one rank."""
    mark = f"RANK={rank}".encode()
    return [pid for pid in site.marked(run) if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]


def test_a_gang_talks_from_host_to_host_and_a_link_that_is_cut_runs_nothing_twice(
    hosts: Site, network: Network
) -> None:
    site = hosts
    workload = site.submit("/usr/bin/python3", "-c", TALK, gpus=4, resumable=True)
    site.wait(workload, "running")
    first = site.run(workload)
    wait_for(lambda: talked(site, first))
    at = {node: network.address(node) for node in NODES}
    assert site.printed(workload, 0) == f"1 of 0\n1 of 1\n1 of 2\nfrom {at['n1']} to {at['n2']}\n"
    assert site.printed(workload, 1) == f"0 of 0\n0 of 1\n0 of 2\nfrom {at['n2']} to {at['n1']}\n"

    network.link("n2", "down")
    heard_at = Node.objects.get(name="n2").heartbeat_at
    states: list[str] = []
    stopped_s = lost_s = 0.0
    ends_s = time.monotonic() + 40
    while first.state != "ended":
        assert time.monotonic() < ends_s, states
        site.look()
        if not stopped_s and not pids(site, first, 1):
            stopped_s = time.monotonic()
        if not lost_s and Rank.objects.get(run=first, index=1).state == "gone":
            lost_s = time.monotonic()
        first.refresh_from_db()
        if first.state not in states:
            states.append(first.state)
        time.sleep(0.1)
    assert 0 < stopped_s < lost_s, "it was given up while it still ran"
    assert states[:2] == ["running", "unreachable"]
    assert (first.end_reason, Node.objects.get(name="n2").health) == ("node_lost", "unreachable")
    gone = Rank.objects.get(run=first, index=1)
    assert gone.state == "gone"
    assert gone.exited_at is not None
    assert heard_at is not None
    assert 0 <= (gone.exited_at - heard_at).total_seconds() <= 2  # as of the last heartbeat
    assert site.marked(first) == []

    wait_for(lambda: site.look() or site.run(workload).pk != first.pk)
    site.wait(workload, "running")
    second = site.run(workload)
    wait_for(lambda: talked(site, second))
    assert [rank.node.name for rank in second.ranks.order_by("index")] == ["n1", "n3"]
    assert site.printed(workload, 1).endswith(f"from {at['n3']} to {at['n1']}\n")

    network.link("n2", "up")
    wait_for(lambda: Node.objects.get(name="n2").health == "healthy", within_s=30)
    site.look()
    assert site.marked(first) == []
    assert (Run.objects.get(pk=second.pk).state, workload.runs.count()) == ("running", 2)
    check_books()
