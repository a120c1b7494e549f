"""As it runs for others: TLS in front, no debugging, secrets in files, and errors that tell nothing of the inside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from budgets.models.sealed import SealedText, SealedTexts
from portal.api import clusters
from portal.supervisor import databases
from portal.supervisor.refusal import Refusal
from portal.views import home
from tests.conftest import REPOSITORY
from tests.portal.conftest import Laboratory
from tests.security.answers import client_of

ASKED = (
    *("DEBUG", "SECURE_HSTS_SECONDS", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "LANGUAGE_COOKIE_SECURE"),
    *(
        "SESSION_COOKIE_HTTPONLY",
        "CSRF_COOKIE_HTTPONLY",
        "SECURE_PROXY_SSL_HEADER",
        "ALLOWED_HOSTS",
        "USE_X_FORWARDED_HOST",
    ),
    *(
        "CSRF_TRUSTED_ORIGINS",
        "X_FRAME_OPTIONS",
        "SESSION_COOKIE_SAMESITE",
        "CSRF_COOKIE_SAMESITE",
        "SECURE_SSL_REDIRECT",
    ),
)
SCRIPT = """
import json
from portal import settings as ours
from django.conf import global_settings
print(json.dumps({name: getattr(ours, name, getattr(global_settings, name, None)) for name in %r}))
"""


def settings_with(**environment: str) -> dict[str, Any]:
    """The settings of an installation with this environment and nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT % (ASKED,)],
        check=False, capture_output=True, text=True, env=environment, cwd=REPOSITORY, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_an_https_address_makes_all_of_it_safe_by_itself() -> None:
    found = settings_with(
        ALLOTMENT_URL="https://allotment.example.org", ALLOTMENT_BEHIND_PROXY="true", SECRET_KEY="x" * 50
    )
    assert found["SECURE_HSTS_SECONDS"] >= 30 * 86_400
    safe = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "LANGUAGE_COOKIE_SECURE")
    closed = ("SESSION_COOKIE_HTTPONLY", "CSRF_COOKIE_HTTPONLY")
    assert [name for name in (*safe, *closed) if found[name] is not True] == []
    assert (found["DEBUG"], found["USE_X_FORWARDED_HOST"]) == (False, False)
    assert found["ALLOWED_HOSTS"] == ["allotment.example.org"]
    assert found["CSRF_TRUSTED_ORIGINS"] == ["https://allotment.example.org"]
    assert found["SECURE_PROXY_SSL_HEADER"] == ["HTTP_X_FORWARDED_PROTO", "https"]
    assert (found["SESSION_COOKIE_SAMESITE"], found["CSRF_COOKIE_SAMESITE"]) == ("Lax", "Lax")


def test_without_a_proxy_nobody_can_claim_to_come_by_tls() -> None:
    found = settings_with(ALLOTMENT_URL="https://allotment.example.org", SECRET_KEY="x" * 50)
    assert found["SECURE_PROXY_SSL_HEADER"] is None


def test_debugging_is_off_unless_it_is_asked_for() -> None:
    assert settings_with()["DEBUG"] is False


def test_answers_by_tls_say_that_there_is_nothing_else(calm: Laboratory, settings: Any) -> None:
    settings.SECURE_HSTS_SECONDS = 2_592_000
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    client = client_of(calm.ada)
    for path in ("/", "/login/", "/nowhere/", "/api/v1/workloads/"):
        assert client.get(path, secure=True).headers["Strict-Transport-Security"] == "max-age=2592000"
    client.get("/workloads/new/", secure=True)
    client.post("/theme/", {"theme": "dark"}, secure=True)
    assert {
        name: bool(cookie["secure"]) for name, cookie in client.cookies.items() if name in ("theme", "csrftoken")
    } == {
        "theme": True,
        "csrftoken": True,
    }


# --- errors -----------------------------------------------------------------------------------------------------------

INSIDE = "hunter2-of-the-inside"


@pytest.mark.parametrize("path", ["/", "/api/v1/clusters/"])
def test_a_page_that_breaks_tells_nothing_of_the_inside(
    calm: Laboratory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    def broken(*_args: Any, **_more: Any) -> None:
        password = INSIDE
        raise RuntimeError(f"a fault of ours with {len(password)}")

    monkeypatch.setattr(home.Home, "get", broken)
    monkeypatch.setattr(clusters.Clusters, "get", broken)
    client = client_of(calm.ada)
    answer = client.get(
        path, headers={"X-Api-Key": INSIDE, "Cookie": f"secret={INSIDE}; sessionid={client.cookies['sessionid'].value}"}
    )
    text = answer.content.decode()
    assert answer.status_code == 500
    told = [
        word
        for word in (INSIDE, "Traceback", "RuntimeError", "a fault of ours", str(REPOSITORY), "settings")
        if word in text
    ]
    assert told == []
    assert "RuntimeError: a fault of ours" in caplog.text  # the operator reads what it was
    assert INSIDE not in caplog.text


def test_a_password_that_was_typed_is_in_no_log(
    calm: Laboratory, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    client = client_of()
    for name in ("ada", "nobody-of-that-name"):
        client.post("/login/", {"username": name, "password": INSIDE, "next": "/"})
    client.get("/api/v1/workloads/", headers={"Authorization": f"Bearer allot_{INSIDE}"})
    client_of(calm.ada).post("/workloads/new/", {"secrets": f"HF_TOKEN={INSIDE}"})
    assert INSIDE not in caplog.text
    assert INSIDE not in "".join(capsys.readouterr())


# --- files ------------------------------------------------------------------------------------------------------------

READ = """
from portal import settings as ours
print(ours.DATABASES["default"].get("PASSWORD"), ours.REDIS_URL, ours.SECRET_KEY, ours.AGENT_TOKEN, *ours.SEALING_KEYS)
"""


def test_every_secret_can_stand_in_a_file(tmp_path: Path) -> None:
    values = {
        "DATABASE_URL": "postgres://allotment:pass-word@db.example.org/allotment",
        "REDIS_URL": "redis://:broker-word@broker.example.org/0",
        "SECRET_KEY": "k" * 50,
        "ALLOTMENT_AGENT_TOKEN": "agent-word",
        "ALLOTMENT_SEALING_KEYS": "first-key-" + "a" * 30 + "\nsecond-key-" + "b" * 30,
    }
    environment = {}
    for name, value in values.items():
        (tmp_path / name).write_text(value + "\n")
        environment[f"{name}_FILE"] = str(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", READ], check=False, capture_output=True, text=True, env=environment, cwd=REPOSITORY
    )
    keys = values["ALLOTMENT_SEALING_KEYS"].split()
    assert done.stdout.split() == ["pass-word", values["REDIS_URL"], "k" * 50, "agent-word", *keys, "k" * 50], (
        done.stderr
    )


def test_the_supervisor_reads_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "url").write_text("postgres://a:b@c/d\n")
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "url"))
    assert databases.named("DATABASE_URL") == "postgres://a:b@c/d"
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "nothing"))
    with pytest.raises(Refusal, match="DATABASE_URL_FILE: cannot read"):
        databases.named("DATABASE_URL")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SECRET_KEY_FILE", "/nowhere/key", "SECRET_KEY_FILE: cannot read /nowhere/key: No such file or directory"),
        ("ALLOTMENT_SEALING_KEYS", "short", "ALLOTMENT_SEALING_KEYS: each must have 32 characters or more"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named_and_not_told(name: str, value: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "manage.py"), "check"],
        check=False, capture_output=True, text=True, env={name: value}, cwd=REPOSITORY,
    )  # fmt: skip
    assert said in done.stderr
    assert done.returncode != 0


def test_djangos_own_screens_show_no_secret(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    """A superuser may look at tables there; at none with secrets in it."""
    for model, shown in admin.site._registry.items():
        sealed = {field.name for field in model._meta.get_fields() if isinstance(field, SealedText | SealedTexts)}
        assert not sealed or sealed <= set(shown.exclude or ()), model
