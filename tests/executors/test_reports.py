"""What agents say is taken strictly: malformed, strange or forged reports are refused and change nothing."""

from ipaddress import ip_network
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.executors.heartbeat import Sync
from scheduler.executors.reading import Malformed, read_object
from scheduler.models import Device, Event, LogChunk, Node, Rank, Run
from tests.executors.conftest import Site

TOKEN = "a-token-of-the-nodes-own-choice"
OTHER = "another-token-of-some-other-node"
RUNNING = {"state": "running", "pid": 7, "began_age_s": 1}


def state() -> list[Any]:
    """All that a report could change."""
    nodes = Node.objects.order_by("pk").values("name", "health", "heartbeat_at", "token_hash", "wake_url", "rack")
    return [
        list(nodes),
        list(Rank.objects.order_by("pk").values()),
        list(Run.objects.order_by("pk").values("state", "running_at", "ended_at")),
        Device.objects.count(),
        Event.objects.count(),
        LogChunk.objects.count(),
    ]


class Speaker:
    """A node that the test speaks for."""

    def __init__(self, site: Site, name: str = "n1", token: str = TOKEN) -> None:
        self.site, self.name, self.token = site, name, token
        assert self.register() == (200, {"node": name})

    def register(self, **more: Any) -> tuple[int, dict[str, Any]]:
        """Join, or say it again."""
        offer = {"cluster": "bench", "node": self.name, "token": self.token, "devices": 2, **more}
        return self.site.post("register", offer, token=settings.AGENT_TOKEN)

    def sync(self, *facts: Any, **more: Any) -> tuple[int, dict[str, Any]]:
        """A heartbeat."""
        said = {"cluster": "bench", "node": self.name, "facts": list(facts), **more}
        return self.site.post("sync", said, token=self.token)

    def desired(self) -> list[dict[str, Any]]:
        """What it should make so."""
        status, answer = self.sync()
        assert status == 200
        return answer["desired"]


@pytest.fixture
def speaker(site: Site) -> Speaker:
    """A node with two devices, and a run on it that has not begun."""
    speaker = Speaker(site)
    assert speaker.desired() == []
    site.submit("/bin/train", "--fast", gpus=2, environment={"SEED": "1"}, checkpoint="last", memory_mib_per_rank=64)
    return speaker


def test_the_desired_state_says_all_that_a_rank_needs(speaker: Speaker) -> None:
    run = Run.objects.get()
    assert (
        speaker.desired()
        == speaker.desired()
        == [
            {
                "run": run.pk,
                "workload": "A-0001",
                "rank": 0,
                "nodes": ["n1"],
                "devices": [0, 1],
                "unit": "gpu",
                "command": ["/bin/train", "--fast"],
                "environment": {"SEED": "1"},
                "checkpoint": "last",
                "owner": 0,
                "master": "n1",
                "began": False,
                "grace_s": 2,
                "memory_mib": 64,
                "progress_s": 0,
                "stop_in_s": None,
                "save_command": [],
                "restores": False,
                "directory_from": 0,
                "secrets": [],
                "checkpoint_every_s": 0,
            }
        ]
    )


MALFORMED_FACTS: list[tuple[Any, str, str]] = [
    ("running", "facts[0]", "is not an object"),
    ({}, "facts[0].run", "is missing"),
    ({"run": "1", "rank": 0, **RUNNING}, "facts[0].run", "is not a whole number"),
    ({"run": True, "rank": 0, **RUNNING}, "facts[0].run", "is not a whole number"),
    ({"run": 1.0, "rank": 0, **RUNNING}, "facts[0].run", "is not a whole number"),
    ({"run": -1, "rank": 0, **RUNNING}, "facts[0].run", "-1 is negative"),
    ({"run": 2**70, "rank": 0, **RUNNING}, "facts[0].run", "is too large a number"),
    ({"run": 1, "rank": None, **RUNNING}, "facts[0].rank", "is not a whole number"),
    ({"run": 1, "rank": 0, "state": "dead"}, "facts[0].state", "is not one of running, exited, failed"),
    ({"run": 1, "rank": 0, "state": ["running"]}, "facts[0].state", "is not one of running, exited, failed"),
    ({"run": 1, "rank": 0, **RUNNING, "ended_at": 5}, "facts[0].ended_at", "is not a known field"),
    ({"run": 1, "rank": 0, "state": "running"}, "facts[0].began_age_s", "is missing for a running rank"),
    ({"run": 1, "rank": 0, "state": "exited"}, "facts[0].exited_age_s", "is missing for a rank that has exited"),
    ({"run": 1, "rank": 0, **RUNNING, "began_age_s": -5}, "facts[0].began_age_s", "-5 is negative"),
    (
        {"run": 1, "rank": 0, "state": "exited", "exited_age_s": 1, "exit_code": 999},
        "facts[0].exit_code",
        "999 is not -64 to 255",
    ),
    (
        {"run": 1, "rank": 0, **RUNNING, "message": "x" * 301},
        "facts[0].message",
        "is longer than 300 characters, or holds a zero byte",
    ),
]


def test_a_malformed_fact_is_refused_by_its_name(speaker: Speaker) -> None:
    run = Run.objects.get().pk
    before = state()
    for fact, field, message in MALFORMED_FACTS:
        if isinstance(fact, dict) and type(fact.get("run")) is int and fact["run"] == 1:
            fact = {**fact, "run": run}  # of a rank that is there, and else well formed
        assert speaker.sync(fact) == (400, {"field": field, "message": message})
    assert state() == before


MALFORMED_HEARTBEATS: list[tuple[Any, str, str]] = [
    (b"", "", "is not JSON"),
    (b"{", "", "is not JSON"),
    (b"[" * 100_000, "", "is not JSON"),
    (b"\xff", "", "is not JSON"),
    ([], "", "is not an object"),
    ({"cluster": "bench"}, "node", "is missing"),
    ({"cluster": "bench", "node": "n1", "clock": 3}, "clock", "is not a known field"),
    ({"cluster": "bench", "node": "n1", "facts": {}}, "facts", "is not a list of at most 1000"),
    ({"cluster": "bench", "node": "n1", "wake_port": 0}, "wake_port", "0 is not 1 to 65535"),
    (
        {"cluster": "bench", "node": "n1", "wake_port": 80, "wake_secret": "/../x"},
        "wake_secret",
        "is not letters and digits, at most 100",
    ),
    ({"cluster": "bench", "node": "n1", "wake_address": "evil.example"}, "wake_address", "is not an address"),
    ({"cluster": "bench", "node": "n1", "epoch": -1}, "epoch", "-1 is negative"),
    ({"cluster": "bench", "node": "n1", "problems": "all"}, "problems", "is not a list of texts"),
    ({"cluster": "bench", "node": "n1", "problems": ["x"] * 33}, "problems", "is longer than 32"),
    (
        {"cluster": "bench", "node": "n1", "problems": ["x" * 301]},
        "problems",
        "holds a text longer than 300 characters, or a zero byte",
    ),
    ({"cluster": "bench", "node": "n1", "directories": ["x"] * 201}, "directories", "is longer than 200"),
    ({"cluster": "bench", "node": "n1", "samples": [{}]}, "samples[0].run_id", "is missing"),
    ({"cluster": "bench", "node": "n1", "repair": "1"}, "repair", "is not a whole number"),
]


def refused(caplog: pytest.LogCaptureFixture) -> int:
    """How many refusals the portal has logged; no log holds a token."""
    assert not [token for token in (TOKEN, OTHER, UNKNOWN) if token in caplog.text]
    return sum("agent_refused" in record.getMessage() for record in caplog.records)


def test_a_malformed_heartbeat_is_refused(speaker: Speaker, caplog: pytest.LogCaptureFixture) -> None:
    before = state()
    for body, field, message in MALFORMED_HEARTBEATS:
        assert speaker.site.post("sync", body, token=TOKEN) == (400, {"field": field, "message": message})
    assert state() == before
    assert refused(caplog) == len(MALFORMED_HEARTBEATS)


UNKNOWN = "unknown-token-that-nobody-gave"
FORGERIES: list[tuple[str, str, int, dict[str, str]]] = [
    ("", "n1", 401, {"field": "token", "message": "shows no token"}),
    (UNKNOWN, "n1", 401, {"field": "token", "message": "is not known"}),
    (UNKNOWN, "n9", 401, {"field": "token", "message": "is not known"}),
    (OTHER, "n1", 404, {"field": "node", "message": "no node n1 in cluster bench with this token"}),
    (TOKEN, "n9", 404, {"field": "node", "message": "no node n9 in cluster bench with this token"}),
]


def test_nobody_speaks_for_another_node(speaker: Speaker, caplog: pytest.LogCaptureFixture) -> None:
    Speaker(speaker.site, "n2", OTHER)
    before = state()
    run = Run.objects.get().pk
    for token, node, status, answer in FORGERIES:
        said = {"cluster": "bench", "node": node, "facts": [{"run": run, "rank": 0, **RUNNING}]}
        assert speaker.site.post("sync", said, token=token) == (status, answer)
        chunk = {"cluster": "bench", "node": node, "run": run, "rank": 0, "offset": 0, "data": "eA=="}
        assert speaker.site.post("log", chunk, token=token) == (status, answer)
    assert state() == before
    assert refused(caplog) == 2 * len(FORGERIES)


def test_a_node_cannot_speak_of_what_runs_elsewhere(speaker: Speaker) -> None:
    other = Speaker(speaker.site, "n2", OTHER)
    other.sync()
    before = state()[1:]
    run = Run.objects.get().pk
    facts = [{"run": run, "rank": 0, **RUNNING}, {"run": run + 99, "rank": 0, **RUNNING}]
    status, answer = other.sync(*facts)
    assert (status, answer["refused"]) == (200, [{"run": run, "rank": 0}, {"run": run + 99, "rank": 0}])
    chunk = {"cluster": "bench", "node": "n2", "run": run, "rank": 0, "offset": 0, "data": "eA=="}
    status, answer = speaker.site.post("log", chunk, token=OTHER)
    assert (status, answer) == (404, {"field": "rank", "message": f"no rank 0 of run {run} on n2"})
    assert state()[1:] == before


BAD_OFFERS: list[tuple[dict[str, Any], str, str]] = [
    ({"cluster": "nowhere"}, "cluster", "there is no cluster 'nowhere'"),
    ({"node": "../etc"}, "node", "must be 1 to 60 letters, digits, dots, - and _, the first a letter or a digit"),
    ({"rack": "a b"}, "rack", "must be 1 to 60 letters, digits, dots, - and _, the first a letter or a digit"),
    ({"devices": -1}, "devices", "-1 is not 0 to 4096"),
    ({"devices": "2"}, "devices", "is not a whole number"),
    ({"devices": 1}, "devices", "n1 has 2; a node with fewer is another node"),
    ({"token": ""}, "token", "is empty"),
    ({"token": "short"}, "token", "must be 20 to 200 characters"),
    ({"memory_mib": -5}, "memory_mib", "-5 is not 0 to 1099511627776"),
    ({"is_root": True}, "is_root", "is not a known field"),
    (
        {"token": OTHER},
        "node",
        "n1 is here already, with another token; it can be replaced once it is silent",
    ),
]


def test_a_bad_offer_is_refused(speaker: Speaker) -> None:
    before = state()
    for offer, field, message in BAD_OFFERS:
        assert speaker.register(**offer) == (400, {"field": field, "message": message})
    assert state() == before


def test_registering_again_changes_nothing_and_more_devices_are_added(speaker: Speaker) -> None:
    before = state()
    assert speaker.register() == (200, {"node": "n1"})
    assert state() == before
    assert speaker.register(devices=3)[0] == 200
    assert list(Node.objects.get().devices.values_list("index", flat=True)) == [0, 1, 2]


def test_only_an_agent_of_this_machine_is_called(speaker: Speaker, client: Any) -> None:
    body = {"cluster": "bench", "node": "n1", "wake_port": 5, "wake_secret": "abc"}
    found = []
    for address in ({}, {"REMOTE_ADDR": "192.0.2.7"}, {"HTTP_X_FORWARDED_FOR": "192.0.2.7"}):
        more = {"content_type": "application/json", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}", **address}
        assert client.post("/api/v1/agent/sync", body, **more).status_code == 200
        found.append(Node.objects.get().wake_url)
    assert found == ["http://127.0.0.1:5/wake/abc", "", ""]


def test_agents_in_the_networks_that_the_operator_names_are_called_there(
    speaker: Speaker, client: Any, settings: Any
) -> None:
    settings.AGENT_NETWORKS = [ip_network("10.20.0.0/16"), ip_network("2001:db8::/32")]
    found = []
    for address in ("10.20.3.4", "10.21.0.1", "127.0.0.1", "2001:db8::7", "169.254.169.254"):
        body = {"cluster": "bench", "node": "n1", "wake_port": 5, "wake_secret": "abc", "wake_address": address}
        more = {"content_type": "application/json", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}
        assert client.post("/api/v1/agent/sync", body, **more).status_code == 200
        found.append(Node.objects.get().wake_url)
    assert found == ["http://10.20.3.4:5/wake/abc", "", "", "http://[2001:db8::7]:5/wake/abc", ""]


BAD_DIRECTORIES: list[tuple[str, dict[str, Any], int, str]] = [
    ("put", {"size": 0}, 400, "size"),
    ("put", {"size": 2**50}, 400, "size"),
    ("put", {"offset": 9}, 400, "size"),
    ("put", {"data": ""}, 400, "data"),
    ("put", {"data": "no base64!"}, 400, "data"),
    ("put", {}, 404, "run"),
    ("get", {}, 404, "run"),
    ("get", {"offset": -1}, 400, "offset"),
    ("get", {"run": 2**63}, 400, "run"),
    ("fail", {"rank": -1}, 400, "rank"),
    ("fail", {"message": 5}, 400, "message"),
]


def test_nobody_puts_or_gets_a_directory_that_is_not_theirs(speaker: Speaker) -> None:
    before = state()
    for verb, change, status, field in BAD_DIRECTORIES:
        given: dict[str, Any] = {"cluster": "bench", "node": "n1", "run": Run.objects.get().pk, "rank": 0}
        given |= {"put": {"offset": 0, "size": 3, "data": "eHh4", "digest": "0" * 64}, "get": {"offset": 0}}.get(
            verb, {"message": "too large"}
        )
        said, answer = speaker.site.post(f"directory/{verb}", given | change, token=TOKEN)
        assert (said, answer["field"]) == (status, field), (verb, change)
    assert state() == before


def test_queries_of_a_heartbeat_do_not_grow_with_its_ranks(site: Site, client: Any) -> None:
    Speaker(site).register(devices=4)
    more = {"content_type": "application/json", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}
    counts = []
    for _workload in range(3):
        site.submit("/bin/train")
        with CaptureQueriesContext(connection) as queries:
            answer = client.post("/api/v1/agent/sync", {"cluster": "bench", "node": "n1"}, **more)
        counts.append((len(answer.json()["desired"]), len(queries)))
    assert [ranks for ranks, _queries in counts] == [1, 2, 3]
    assert {queries for _ranks, queries in counts} == {counts[0][1]}


def test_without_the_join_token_nobody_joins(site: Site, settings: Any) -> None:
    offer = {"cluster": "bench", "node": "n1", "token": TOKEN, "devices": 2}
    refused = (401, {"field": "token", "message": "is not the join token"})
    assert site.post("register", offer, token="wrong") == refused
    settings.AGENT_TOKEN = ""
    assert site.post("register", offer, token="x") == refused
    assert not Node.objects.exists()


BAD_OUTPUT: list[tuple[dict[str, Any], int, str]] = [
    ({"offset": -1}, 400, "offset"),
    ({"offset": "0"}, 400, "offset"),
    ({"data": "no base64!"}, 400, "data"),
    ({"data": ""}, 400, "data"),
    ({"data": "QUFB" * 100_000}, 400, "data"),
    ({"run": 2**62}, 404, "rank"),
    ({"rank": 2**40}, 404, "rank"),
]


def test_bad_output_is_refused(speaker: Speaker) -> None:
    given = {"cluster": "bench", "node": "n1", "run": Run.objects.get().pk, "rank": 0, "offset": 0, "data": "eA=="}
    before = state()
    for chunk, status, field in BAD_OUTPUT:
        said, answer = speaker.site.post("log", {**given, **chunk}, token=TOKEN)
        assert (said, answer["field"]) == (status, field)
    assert state() == before


def test_output_is_kept_once_and_in_order(speaker: Speaker) -> None:
    run = Run.objects.get().pk

    def send(offset: int, data: str) -> int:
        chunk = {"cluster": "bench", "node": "n1", "run": run, "rank": 0, "offset": offset, "data": data}
        status, answer = speaker.site.post("log", chunk, token=TOKEN)
        assert status == 200
        return answer["next"]

    assert [send(0, "YWIA"), send(0, "YWIA"), send(9, "eHh4"), send(3, "//8=")] == [3, 3, 3, 5]
    kept = LogChunk.objects.values_list("offset", "length", "text")
    assert list(kept) == [(0, 3, "ab\N{REPLACEMENT CHARACTER}"), (3, 2, "\N{REPLACEMENT CHARACTER}" * 2)]


def test_a_get_is_refused(speaker: Speaker, client: Any) -> None:
    assert [client.get(f"/api/v1/agent/{name}").status_code for name in ("register", "sync", "log")] == [405] * 3


def test_reading_is_the_reverse_of_writing() -> None:
    said = {
        "cluster": "bench",
        "node": "n1",
        "facts": [
            {"run": 5, "rank": 0, "state": "exited", "pid": 9, "began_age_s": 8, "exited_age_s": 1, "exit_code": -15}
            | {"cause": "asked", "message": "told", "saved": True, "checkpoint_age_s": 3},
            {"run": 6, "rank": 0, "state": "running", "pid": 9, "began_age_s": 8, "exited_age_s": None}
            | {"exit_code": None, "cause": "itself", "message": "", "saved": None, "checkpoint_age_s": None}
            | {"report_age_s": 3, "tokens": 0, "span_ms": 1_500, "parameters": 7_000_000_000},
        ],
        "wake_port": 80,
        "wake_secret": "abc",
        "wake_address": "192.0.2.4",
        "epoch": 12,
        "problems": ["GPU 3 has fallen off the bus"],
        "samples": [],
        "directories": ["A-0001"],
        "repair": 4,
        "repair_exit_code": -9,
        "repair_message": "rebooted",
    }
    assert Sync.read(said).write() == said


@pytest.mark.parametrize("value", [[1, True], ["a\0"], [1, -2], {"a": 1}, {"a": "\0"}, "text"])
@pytest.mark.parametrize("kind", [list[int], list[str], dict[str, str]])
def test_lists_and_objects_are_read_strictly(value: Any, kind: Any) -> None:
    with pytest.raises(Malformed):
        read_object({"it": value}, "", {"it": kind}, required=["it"])
