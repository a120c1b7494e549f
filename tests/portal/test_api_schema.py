"""The API does what its description says: schemathesis asks every operation of it, with what fits it and what does not.

Every operation is asked by somebody who may do nearly everything, on a laboratory with something of each kind. What an
operation changes is taken back before the next one is asked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import schemathesis
from django.conf import settings as django_settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from budgets.models import Role, RoleGrant
from budgets.queries import today
from budgets.services import tokens
from portal.api.schema import as_yaml, described
from scheduler.models import MaintenanceWindow, Pass
from tests.portal.conftest import Laboratory
from tests.portal.test_routes import governance, simulation

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SAFE = ("get", "head", "options")
QUICK_EXAMPLES = 3
LONG_EXAMPLES = 12


def everything(lab: Laboratory) -> dict[str, int | str]:
    """Something of each kind, by the parameter that names it and the address before it."""
    lab.ops = type(lab.ops).objects.get(pk=lab.ops.pk)
    for code, role in (("LAB", Role.MANAGER), ("LAB", Role.ADMINISTRATOR), ("A1", Role.MEMBER)):
        RoleGrant.objects.create(person=lab.ops, node=lab.node[code], role=role, valid_from=today())
    made = governance(lab)
    window = MaintenanceWindow.objects.create(
        node=lab.cluster.nodes.get(name="n01"), starts_at=lab.now, ends_at=lab.now.replace(year=lab.now.year + 1)
    )
    return {
        "clusters/{cluster}": "north",
        "shares/{code}": "A",
        "nodes/{name}": "n01",
        "windows/{number}": window.pk,
        "passes/{number}": Pass.objects.latest("pk").pk,
        "budget/{code}": "A",
        "workloads/{code}": lab.taker.code,
        "runs/{number}": 1,
        "requests/{number}": made["asked"],
        "reallocations/{number}": made["proposed"],
        "decisions/{number}": made["decided"],
        "reviews/{number}": made["review"],
        "items/{position}": 1,
        "people/{number}": lab.ada.pk,
        "delegations/{number}": made["delegation"],
        "simulations/{number}": simulation(lab).pk,
        "roles/{grant}": RoleGrant.objects.get(person=lab.mia).pk,
        "attachments/{attachment}": made["file"],
    }


def schema_of(lab: Laboratory) -> Any:
    """The API's description, in which parameters of addresses name what is there, or hardly ever what is not."""
    raw = json.loads(json.dumps(described(), default=str))
    there = everything(lab)
    for path, operations in raw["paths"].items():
        for operation in operations.values():
            # What is left out by `fields` is left out, whatever the description says of the whole (test_api_base.py).
            operation["parameters"] = [each for each in operation.get("parameters", ()) if each["name"] != "fields"]
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    before = path.partition(f"{{{parameter['name']}}}")[0].rstrip("/").rpartition("/")[2]
                    known = there.get(f"{before}/{{{parameter['name']}}}", 1)
                    parameter["schema"] = {"type": parameter["schema"]["type"], "enum": [known]}
    loaded = schemathesis.openapi.from_dict(raw)
    loaded.app = get_wsgi_application()
    return loaded


@contextmanager
def taken_back(method: str) -> Iterator[None]:
    """What is done in it is undone after. Reading needs no such thing, and opens transactions of its own."""
    if method in SAFE:
        yield
        return
    whole = transaction.atomic()
    whole._from_testcase = True  # type: ignore[attr-defined]  # as in Django's own tests: durable ones may be inside
    with whole:
        yield
        transaction.set_rollback(True)


def asked(operation: Any, mode: GenerationMode, examples: int, headers: dict[str, str]) -> list[str]:
    """What was wrong with the answers to one operation."""
    wrong: list[str] = []

    @seed(1)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        with taken_back(operation.method):
            answer = case.call(headers=headers)
        try:
            case.validate_response(answer, checks=CHECKS)
        except (Failure, FailureGroup) as error:
            wrong.append(f"{operation.label}: {' '.join(str(error).split())[:900]}")

    with suppress(Unsatisfiable):  # nothing fits it, or everything does
        ask()
    return wrong[:1]


def found_wrong(lab: Laboratory, mode: GenerationMode, examples: int) -> list[str]:
    """What was wrong with the answers, at most one for each operation."""
    scopes = ["read", "submit", "operate", "decide"]
    schema = schema_of(lab)
    token = tokens.create(person=lab.ops, name="schemathesis", scopes=scopes, days=1)[1]
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
    return [
        each for operation in schema.get_all_operations() for each in asked(operation.ok(), mode, examples, headers)
    ]


@pytest.fixture
def quiet() -> Iterator[None]:
    """No line for each refusal; and our transactions outlive requests, as with Django's own client."""
    logging.disable(logging.CRITICAL)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    logging.disable(logging.NOTSET)


def test_answers_are_as_described(lab: Laboratory, quiet: None) -> None:
    wrong = found_wrong(lab, GenerationMode.POSITIVE, QUICK_EXAMPLES)
    assert wrong == [], "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_answers_are_as_described_to_whatever_is_asked(lab: Laboratory, quiet: None, mode: GenerationMode) -> None:
    wrong = found_wrong(lab, mode, LONG_EXAMPLES)
    assert wrong == [], "\n".join(wrong)


def test_nothing_of_the_description_is_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    described()
    warned = [line for line in capsys.readouterr().err.splitlines() if "Warning" in line or "Error" in line]
    assert warned == []


def test_the_description_in_docs_is_that_of_the_code() -> None:
    kept = (django_settings.BASE_DIR / "docs" / "openapi.yaml").read_text(encoding="utf-8")
    assert kept == as_yaml(), "run: manage.py documents"


def test_every_operation_has_a_scope_and_words(as_person: Callable[..., Any]) -> None:
    operations = {
        f"{method} {path}": operation
        for path, methods in described()["paths"].items()
        for method, operation in methods.items()
    }
    assert [name for name, each in operations.items() if not each.get("summary")] == []
    assert [name for name, each in operations.items() if each["x-scope"] is None] == []
    ids = [each["operationId"] for each in operations.values()]
    assert sorted(ids) == sorted(set(ids))
