"""Advice by the API: what it says, what it refuses by name, and that it reads and keeps nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client

from scheduler.advisor import Severity, advise, document
from tests.portal.conftest import Laboratory
from tests.portal.test_tokens import client_of

pytestmark = pytest.mark.django_db
ADVICE = "/api/v1/advice/"
TRAIN = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=64)\n"


@pytest.fixture
def ada(calm: Laboratory, as_person: Callable) -> Client:
    """Signed in."""
    return as_person(calm.ada)


def asked(client: Client, **body: object):
    """The answer to it."""
    return client.post(ADVICE, body, "application/json")


def test_one_script(ada: Client) -> None:
    answer = asked(ada, script=TRAIN, gpus=1)
    (finding,) = answer.json()["findings"]
    assert answer.status_code == 200
    assert finding == {
        "rule": "HOST_GPU.workers",
        "severity": "warn",
        "file": "script.py",
        "line": 3,
        "evidence": "loader = DataLoader(data, batch_size=64)",
        "what": "This loader has no num_workers: the GPU waits while each batch is loaded.",
        "fix": "num_workers=4 to 8 for each GPU, persistent_workers=True: batches are loaded while the GPU computes.",
        "effect": "Inefficient transfer between host and GPU: 197 of 706 issues (27.90%), the most frequent.",
        "source": "Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs, ICSE 2024",
    }
    assert answer.json()["counts"] == {"error": 0, "warn": 1, "info": 0, "unknown": 0}


def test_a_package_is_read_as_the_advisor_reads_it(ada: Client) -> None:
    files = {"train.py": TRAIN, "run.sh": "torchrun --nnodes=2 --nproc_per_node=4 train.py\nsleep 1h\n"}
    for more in ({}, {"nodes": 1}, {"is_interactive_pool": True}):
        told = asked(ada, files=files, gpus=8, **more).json()["findings"]
        assert [(each["rule"], each["line"]) for each in told] == [
            (each.rule, each.line) for each in advise(files, gpus=8, **more)
        ]
    assert [each["rule"] for each in told] == ["OVERSUB.wrapper", "UNRELEASED", "HOST_GPU.workers"]


def test_what_cant_be_read_is_a_finding(ada: Client) -> None:
    told = asked(ada, files={"bad.py": "def f(:\n", "good.py": TRAIN, "page.html": "<p>"}, gpus=1).json()["findings"]
    assert [(each["rule"], each["severity"], each["file"]) for each in told] == [
        ("HOST_GPU.workers", Severity.WARN, "good.py"),
        ("READ", Severity.UNKNOWN, "bad.py"),
        ("READ", Severity.UNKNOWN, "page.html"),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"gpus": 1}, "files"),
        ({"gpus": 1, "script": "", "files": {"a.py": ""}}, "files"),
        ({"gpus": 1, "files": {}}, "files"),
        ({"gpus": 1, "files": []}, "files"),
        ({"gpus": 1, "files": {"a.py": 1.5, "b.py": ["x"]}}, "files.b.py"),
        ({"gpus": 1, "files": {"a\nb.py": ""}}, "files"),
        ({"gpus": 1, "files": {"": ""}}, "files"),
        ({"gpus": 1, "files": {"a" * 300: ""}}, "files"),
        ({"gpus": 1, "files": {f"m{number}.py": "" for number in range(501)}}, "files"),
        ({"gpus": 1, "files": {"a.py": "x\0y"}}, "files.a.py"),
        ({"script": ""}, "gpus"),
        ({"script": "", "gpus": -1}, "gpus"),
        ({"script": "", "gpus": "many"}, "gpus"),
        ({"script": "", "gpus": 8, "nodes": 0}, "nodes"),
        ({"script": "", "gpus": 8, "run": True}, "run"),
    ],
)
def test_what_is_refused_is_named(ada: Client, body: dict, field: str) -> None:
    answer = asked(ada, **body)
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]


def test_ten_megabytes_are_too_much(ada: Client) -> None:
    answer = asked(ada, script="x" * 10_000_000, gpus=1)
    assert (answer.status_code, answer.json()["status"]) == (413, 413)
    (finding,) = asked(ada, script="x" * 600_000, gpus=1).json()["findings"]
    assert (finding["rule"], finding["what"]) == ("READ", "It was not read: 0.6 MB; a file may have 0.5 MB.")


def test_a_token_needs_the_scope_submit(calm: Laboratory) -> None:
    assert asked(client_of(calm.ada, "submit"), script="", gpus=0).status_code == 200
    assert asked(client_of(calm.ada, "read"), script="", gpus=0).status_code == 403
    assert asked(Client(), script="", gpus=0).status_code == 401


def test_the_document_has_the_rules_of_the_catalogue() -> None:
    text = (settings.BASE_DIR / "docs" / "advisor.md").read_text(encoding="utf-8")
    assert text == document.written_into(text), "run: manage.py documents"
