"""Secrets: hidden in what is printed, however it is written; on no page, and gone when their workload has ended."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from budgets.models import Person
from portal.api import workloads_out
from scheduler.executors.hiding import Hiding, hide
from scheduler.models import Workload
from scheduler.services import workloads
from tests.executors.conftest import Site, wait_for

TOKEN = "hf_abcabcabcabd"
SECRETS = {"HF_TOKEN": TOKEN, "PASSWORD": "abcabcabcabdxyz", "SIX": "zzzzzz"}


def told(pieces: list[bytes], secrets: dict[str, str]) -> bytes:
    hiding = Hiding(secrets)
    return b"".join(hiding.feed(piece) for piece in pieces) + hiding.rest()


@given(
    st.lists(st.sampled_from([TOKEN, "abcabcabcabdxyz", "abc", "hf_", "abd", "xyz", "z", "\n", "ü"]), max_size=8),
    st.lists(st.integers(0, 80), max_size=6),
)
def test_a_secret_is_hidden_however_it_is_cut_into_writes(parts: list[str], places: list[int]) -> None:
    text = "".join(parts).encode()
    cuts = sorted(min(place, len(text)) for place in places)
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = told(pieces, SECRETS)
    assert found == told([text], SECRETS)
    assert not any(value.encode() in found for value in SECRETS.values())
    if not any(value in text.decode() for value in SECRETS.values()):
        assert found == text


def test_the_longer_of_two_that_begin_alike_is_hidden_whole() -> None:
    secrets = {"SHORT": "abcdefgh", "LONG": "abcdefghij"}
    assert told([b"x abcdefgh", b"ij y abcdefgh", b" z"], secrets) == b"x [LONG] y [SHORT] z"
    assert hide("nothing", {}) == "nothing"


def test_what_cannot_become_a_secret_is_told_at_once() -> None:
    hiding = Hiding({"T": "secret-value"})
    assert hiding.feed(b"step 1\n") == b"step 1\n"
    assert hiding.feed(b"a sec") == b"a "
    assert hiding.feed(b"ond\n") == b"second\n"


def test_megabytes_with_long_secrets_take_little_time() -> None:
    hiding = Hiding({"KEY": "k" * 4_000, "OTHER": "kk" + "x" * 3_000})
    began_s = time.process_time()
    for _ in range(20):
        hiding.feed(b"kkkkkkkkk" * 7_000 + b"\n")
    assert time.process_time() - began_s < 5


SPLIT = """
import os, sys, time
value = os.environ["HF_TOKEN"]
for part in ("token: ", value[:5], value[5:], "\\n", value, "\\n"):
    sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.3)
time.sleep(600 if len(sys.argv) > 1 else 0)
"""


def test_a_secret_reaches_neither_output_nor_pages_nor_what_is_kept(
    site: Site, owners: list[Person], client: Client
) -> None:
    agent = site.agent()
    workload = site.submit(
        "/usr/bin/python3", "-c", SPLIT, "stay", secrets={"HF_TOKEN": TOKEN}, environment={"SEED": "1"}
    )
    site.wait(workload, "running")
    wait_for(lambda: site.printed(workload).count("\n") == 2)
    assert site.printed(workload) == "token: [HF_TOKEN]\n[HF_TOKEN]\n"
    for path in agent.state.rglob("*"):
        if path.is_file() and path.name != "spec.json":
            assert TOKEN.encode() not in path.read_bytes()
    assert TOKEN not in agent.log()
    workload.refresh_from_db()
    Workload.objects.filter(pk=workload.pk).update(owner=owners[0])
    workload.refresh_from_db()
    shown = workloads_out.workload(workload, owners[0])
    client.force_login(owners[0], backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(f"/workloads/{workload.code}/").content.decode()
    assert "<code>HF_TOKEN</code>" in page
    assert TOKEN not in page
    assert TOKEN not in json.dumps(shown)
    assert shown["inside"]["secrets"] == ["HF_TOKEN"]
    workloads.cancel(workload=workload, by=None)
    site.wait(workload, "cancelled")
    assert Workload.objects.get().secrets == {}


@pytest.mark.parametrize(
    ("secrets", "field", "message"),
    [
        ({"T": "short"}, "secrets.T", "must be 8 to 4096 characters: a shorter one cannot be told from other text"),
        ({"SEED": "12345678"}, "secrets.SEED", "is among the plain variables too"),
        ({"T": "/bin/true"}, "secrets.T", "its value stands in the command, in a plain variable or the name"),
        ({"LD_PRELOAD": "12345678"}, "secrets.LD_PRELOAD", "is set by the scheduler, or not allowed"),
        ({"1T": "12345678"}, "secrets", "'1T' is not the name of a variable"),
        (["T"], "secrets", "must be names with texts"),
    ],
)
def test_a_secret_that_cannot_be_kept_is_refused(site: Site, secrets: Any, field: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        site.submit("/bin/true", secrets=secrets, environment={"SEED": "1"})
    assert (caught.value.field, caught.value.message) == (field, message)


def test_saving_and_restoring_go_together(site: Site) -> None:
    with pytest.raises(InputError) as caught:
        site.submit("/bin/true", save_command=["/bin/true"])
    assert caught.value.field == "restore_command"
    with pytest.raises(InputError) as caught:
        site.submit("/bin/true", save_command=["/bin/true"], restore_command="sh -c x")
    assert str(caught.value) == "restore_command: must be a list of arguments, not a line for a shell"
    assert site.submit("/bin/true", save_command=["/a"], restore_command=["/b"]).resumable
