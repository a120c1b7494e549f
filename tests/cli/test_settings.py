"""Where the portal is and who asks: kept for its owner alone, never shown, never sent in the clear."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from allot import settings
from allot.failures import NOT_ALLOWED, USAGE, Failure
from allot.settings import Settings

TOKEN = "allot_" + "s" * 43


def test_what_is_stored_is_for_its_owner_alone(home: Path) -> None:
    kept = Settings(url="https://gpu.example.org", token=TOKEN, cluster="north")
    path = settings.store(kept)
    assert path == home / ".config" / "allot" / "config.json"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]
    assert settings.load() == kept
    assert TOKEN not in repr(kept)


def test_a_file_that_others_may_read_is_refused(home: Path) -> None:
    path = settings.store(Settings(url="https://gpu.example.org", token=TOKEN))
    path.chmod(0o640)
    with pytest.raises(Failure, match=r"others may read .*: chmod 600") as refused:
        settings.load()
    assert refused.value.exit_code == NOT_ALLOWED
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("said", ["{", "[]", '{"token": 7}', '{"plain_http": "yes"}'])
def test_a_damaged_file_is_one_line(home: Path, said: str) -> None:
    path = settings.store(Settings(url="https://gpu.example.org"))
    path.write_text(said)
    with pytest.raises(Failure, match="is damaged: run `allot login` again") as refused:
        settings.load()
    assert refused.value.exit_code == USAGE


def test_what_a_newer_allot_kept_is_left_alone(home: Path) -> None:
    path = settings.store(Settings(url="https://gpu.example.org", token=TOKEN))
    path.write_text(json.dumps({**json.loads(path.read_text()), "theme": "dark"}))
    assert settings.load().token == TOKEN


def test_the_environment_comes_before_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Settings(url="https://gpu.example.org", token=TOKEN, cluster="north", leaf="A1")
    settings.store(kept)
    monkeypatch.setenv("ALLOT_CLUSTER", "west")
    monkeypatch.setenv("ALLOT_TIMEOUT", "2.5")
    assert settings.load() == replace(kept, cluster="west", timeout_s=2.5)
    monkeypatch.setenv("ALLOT_URL", "https://gpu.example.org/")
    assert settings.load().token == TOKEN
    # The token of one portal is never shown to another.
    monkeypatch.setenv("ALLOT_URL", "https://other.example.org")
    assert settings.load() == Settings(url="https://other.example.org", cluster="west", timeout_s=2.5)
    file = home / "token"
    file.write_text("allot_other\n")
    monkeypatch.setenv("ALLOT_TOKEN_FILE", str(file))
    assert settings.load().token == "allot_other"
    monkeypatch.setenv("ALLOT_TOKEN", "allot_first")
    assert settings.load().token == "allot_first"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("gpu.example.org", "https://gpu.example.org"),
        ("https://gpu.example.org/", "https://gpu.example.org"),
        ("https://gpu.example.org/portal/api/v1/", "https://gpu.example.org/portal"),
        ("localhost:8000", "http://localhost:8000"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_addresses_are_kept_in_one_form(text: str, kept: str) -> None:
    assert settings.address(text) == kept


@pytest.mark.parametrize("text", ["", "ftp://x", "https://", "https://x:port", "https://x/?a=1", "https://ann:pw@x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Failure) as refused:
        settings.address(text)
    assert refused.value.exit_code == USAGE
    assert "pw" not in refused.value.message.replace("password", "")


def test_a_token_does_not_travel_in_the_clear(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_URL", "http://gpu.example.org")
    with pytest.raises(Failure, match="is not encrypted"):
        settings.load()
    monkeypatch.setenv("ALLOT_PLAIN_HTTP", "1")
    assert settings.load().plain_http


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "naïve", "tab\t"])
def test_what_is_no_token_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(Failure, match="that is not a token") as refused:
        settings.checked_token(token)
    assert not token or token not in refused.value.message
