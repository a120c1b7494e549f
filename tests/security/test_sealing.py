"""Secrets at rest: what the database holds of them is sealed with keys that it does not hold."""

from __future__ import annotations

import importlib
import json
from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, models, transaction
from hypothesis import given
from hypothesis import strategies as st

from budgets import sealing
from budgets.models.sealed import SealedText, SealedTexts, purpose_of
from budgets.services import resealing
from scheduler.models import Rank, RepairHook, Run, Workload
from scheduler.services import facts
from scheduler.services.secret_variables import NOT_OPENED, variables_of
from tests.portal.conftest import Laboratory

TOKEN = "hf_very-secret-token-123"
KEYS = ["a" * 40, "b" * 40, "c" * 40]


def stored(table: str, column: str) -> list[str]:
    """A column as a dump of the database shows it."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column}::text FROM {table} ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


@given(text=st.text(min_size=12), purpose=st.text(min_size=1, max_size=20))
def test_what_is_sealed_is_opened_by_its_purpose_alone(text: str, purpose: str) -> None:
    sealed = sealing.seal(text, purpose)
    assert (sealing.is_sealed(sealed), sealing.is_sealed(text), text in sealed) == (True, False, False)
    assert sealing.open_sealed(sealed, purpose) == text
    with pytest.raises(sealing.CannotOpen):
        sealing.open_sealed(sealed, purpose + "x")
    assert sealing.seal(text, purpose) != sealed


def test_every_key_opens_and_the_first_one_seals(settings: Any) -> None:
    settings.SEALING_KEYS = KEYS[:1]
    old = sealing.seal(TOKEN, "p")
    settings.SEALING_KEYS = [KEYS[1], KEYS[0]]
    new = sealing.seal(TOKEN, "p")
    assert [sealing.open_sealed(each, "p") for each in (old, new)] == [TOKEN, TOKEN]
    assert [sealing.is_by_first_key(each, "p") for each in (old, new)] == [False, True]
    settings.SEALING_KEYS = [KEYS[1]]
    with pytest.raises(sealing.CannotOpen, match="put back the one that sealed it"):
        sealing.open_sealed(old, "p")
    settings.SEALING_KEYS = []
    with pytest.raises(sealing.CannotSeal, match="ALLOTMENT_SEALING_KEYS_FILE"):
        sealing.seal(TOKEN, "p")


@pytest.mark.parametrize(
    "text",
    ["plain", "sealed1:", "sealed1:AAAA", "sealed1:" + Fernet.generate_key().decode()],
    ids=["plain", "empty", "short", "random"],
)
def test_what_was_tampered_with_is_not_opened(text: str) -> None:
    with pytest.raises(sealing.CannotOpen):
        sealing.open_sealed(text, "p")


def test_a_dump_tells_no_secret_of_a_workload_and_its_names_need_no_key(calm: Laboratory, settings: Any) -> None:
    made = calm.submit("A1", 1, owner=calm.ada, secrets={"HF_TOKEN": TOKEN, "OTHER": "password-9"})
    (row,) = stored("scheduler_workload", "secrets")
    assert (TOKEN in row, "password-9" in row, sorted(json.loads(row))) == (False, False, ["HF_TOKEN", "OTHER"])
    read = Workload.objects.get(pk=made.pk)
    assert read.secrets == {"HF_TOKEN": TOKEN, "OTHER": "password-9"}
    assert TOKEN not in repr(read.secrets)
    read.save()
    assert Workload.objects.get(pk=made.pk).secrets == {"HF_TOKEN": TOKEN, "OTHER": "password-9"}
    settings.SEALING_KEYS = KEYS
    assert sorted(Workload.objects.get(pk=made.pk).secrets) == ["HF_TOKEN", "OTHER"]


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE scheduler_workload SET secrets = '{"T": "plain text"}'""",
        """UPDATE scheduler_workload SET secrets = '{"A": "sealed1:x", "T": "plain text"}'""",
        """UPDATE scheduler_workload SET secrets = '"plain text"'""",
        """UPDATE scheduler_workload SET secrets = '{"T": ["plain text"]}'""",
        """UPDATE scheduler_repairhook SET secret = 'plain text'""",
    ],
)
def test_the_database_takes_nothing_unsealed(calm: Laboratory, statement: str) -> None:
    calm.submit("A1", 1, owner=calm.ada)
    RepairHook.objects.create(cluster=calm.cluster, kind="webhook", url="https://a.example.org/", secret="signs")
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert RepairHook.objects.get().secret == "signs"


def test_what_was_stored_before_is_sealed_by_the_migration_and_opened_by_its_reverse(calm: Laboratory) -> None:
    calm.submit("A1", 1, owner=calm.ada, secrets={"HF_TOKEN": TOKEN})
    RepairHook.objects.create(cluster=calm.cluster, kind="webhook", url="https://a.example.org/", secret="signs")
    module = importlib.import_module("scheduler.migrations.0045_secrets_at_rest")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE scheduler_workload DROP CONSTRAINT secrets_are_sealed")
        cursor.execute("ALTER TABLE scheduler_repairhook DROP CONSTRAINT repair_secret_is_sealed")
    with connection.schema_editor() as editor:
        module.plain(apps, editor)
    assert stored("scheduler_workload", "secrets") == [json.dumps({"HF_TOKEN": TOKEN})]
    assert stored("scheduler_repairhook", "secret") == ["signs"]
    with connection.schema_editor() as editor:
        module.sealed(apps, editor)
    assert (Workload.objects.get().secrets, RepairHook.objects.get().secret) == ({"HF_TOKEN": TOKEN}, "signs")
    assert TOKEN not in stored("scheduler_workload", "secrets")[0]


def test_a_key_is_changed_without_losing_anything(calm: Laboratory, settings: Any) -> None:
    settings.SEALING_KEYS = KEYS[:1]
    calm.submit("A1", 1, owner=calm.ada, secrets={"HF_TOKEN": TOKEN})
    calm.submit("A1", 1, owner=calm.ada)
    RepairHook.objects.create(cluster=calm.cluster, kind="webhook", url="https://a.example.org/", secret="signs")

    def run(*words: str) -> list[str]:
        said = StringIO()
        call_command("seal_again", *words, stdout=said)
        return [line for line in said.getvalue().splitlines() if ": 0 sealed" not in line]

    settings.SEALING_KEYS = [KEYS[1], KEYS[0]]
    assert run("--check") == [
        "scheduler_workload.secrets: 1 sealed, 1 of an older key",
        "scheduler_repairhook.secret: 1 sealed, 1 of an older key",
    ]
    assert run() == [
        "scheduler_workload.secrets: 1 sealed, 1 sealed anew",
        "scheduler_repairhook.secret: 1 sealed, 1 sealed anew",
    ]
    assert run() == [
        "scheduler_workload.secrets: 1 sealed, 0 sealed anew",
        "scheduler_repairhook.secret: 1 sealed, 0 sealed anew",
    ]
    settings.SEALING_KEYS = KEYS[1:2]
    assert [row.secrets for row in Workload.objects.order_by("pk")] == [{"HF_TOKEN": TOKEN}, {}]
    assert RepairHook.objects.get().secret == "signs"
    settings.SEALING_KEYS = KEYS[2:]
    with pytest.raises(CommandError, match="none of the keys in ALLOTMENT_SEALING_KEYS opens this"):
        run()


def test_without_its_key_what_has_not_begun_fails_in_words_and_what_runs_goes_on(
    lab: Laboratory, settings: Any
) -> None:
    rank = Rank.objects.filter(run__workload=lab.taker).select_related("run__workload", "node").get()
    Workload.objects.filter(pk=lab.taker.pk).update(secrets={"HF_TOKEN": TOKEN})
    (want,) = [each for each in facts.desired(rank.node) if each.run == rank.run_id]
    assert (want.environment["HF_TOKEN"], want.secrets) == (TOKEN, ["HF_TOKEN"])
    settings.SEALING_KEYS = KEYS
    (want,) = [each for each in facts.desired(rank.node) if each.run == rank.run_id]
    assert ("HF_TOKEN" in want.environment, want.began) == (False, True)
    # The same rank, had it not begun.
    Run.objects.filter(pk=rank.run_id).update(state=Run.State.STARTING, running_at=None)
    Rank.objects.filter(pk=rank.pk).update(state=Rank.State.WANTED, began_at=None, pid=None)
    with pytest.raises(sealing.CannotOpen):
        variables_of(Workload.objects.get(pk=lab.taker.pk))
    assert [each for each in facts.desired(rank.node) if each.run == rank.run_id] == []
    lab.taker.refresh_from_db()
    assert lab.taker.state == Workload.State.FAILED
    rank.refresh_from_db()
    assert rank.message == NOT_OPENED
    assert lab.taker.secrets == {}


def test_every_column_that_is_named_like_a_secret_is_sealed_or_a_hash() -> None:
    """A new column for a secret has to be one of these, or be named below with the reason why it is none."""
    no_secrets = {
        "budgets.person.password",  # hashed by Django
        "scheduler.slurmlink.token",  # marks our jobs among others; anybody may read it in squeue
        "scheduler.node.token_hash",
        "scheduler.throughputreport.tokens",  # how many of them a model was trained on
    }
    words = ("secret", "token", "password", "passphrase", "credential", "private_key", "api_key")
    found = {
        purpose_of(field)
        for model in apps.get_models()
        if model._meta.app_label in ("budgets", "scheduler", "portal")
        for field in model._meta.local_concrete_fields
        if any(word in field.name for word in words)
        and not isinstance(field, SealedText | SealedTexts)
        and not field.is_relation
        and not isinstance(field, models.DateTimeField)
        and not field.name.endswith(("_hash", "_digest"))
    }
    assert found - no_secrets == set()
    assert {purpose_of(field) for field in resealing.columns()} >= {
        "scheduler.workload.secrets",
        "scheduler.repairhook.secret",
    }
