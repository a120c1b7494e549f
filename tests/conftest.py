"""What every test may use: databases, processes beside the test, a browser."""

import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from celery import current_app
from django.conf import settings
from django.test import Client
from django.utils import translation
from hypothesis import settings as examples

from portal import counters
from portal.supervisor.databases import private_services, release, started
from portal.supervisor.place import Place
from portal.supervisor.testing import find_chromium
from portal.web_server import spare_the_loaded
from scheduler.queries import moments
from scheduler.services import events

BROWSER_FIXTURES = {"browser", "context", "page"}
REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"

# A change is judged by what it does, not by which examples were drawn that day: CI tries the same ones each time.
# Everywhere else each run draws new ones, and keeps those that failed.
examples.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    examples.load_profile("ci")


def pytest_configure() -> None:
    """A run that a shell put into the background was told to ignore Ctrl-C, and so would be all that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a browser, so that `-m "not browser"` leaves it out."""
    for item in items:
        if BROWSER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("browser")


def pytest_collection_finish() -> None:
    """What was imported stays: looking for garbage in it again and again takes a fifth of the tests' time."""
    spare_the_loaded()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing of the run on the disk."""
    if settings.configured and hasattr(settings, "ADDRESSES"):
        release(settings.ADDRESSES)
        shutil.rmtree(settings.TEST_DIR, ignore_errors=True)


@pytest.fixture(autouse=True)
def in_english() -> None:
    """Each test begins in English: a request leaves its thread in the language of its page."""
    translation.activate(settings.LANGUAGE_CODE)


@pytest.fixture(autouse=True)
def own_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test counts tries anew: what another one tried is none of its business."""
    monkeypatch.setattr(counters, "NAMESPACE", f"test-{uuid.uuid4().hex}")
    monkeypatch.setattr(counters, "_own", counters.Own())


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins as a new process does: what one remembers of a cluster or of a broker was another test's."""
    monkeypatch.setattr(moments, "_kept", {})
    monkeypatch.setattr(moments, "_told", {})
    monkeypatch.setattr(moments, "_renewed", {})
    monkeypatch.setattr(events, "_no_broker_until_s", float("-inf"))
    monkeypatch.setattr(events, "_woken_s", {})
    yield
    assert current_app.main == "allotment", "another Celery application is in force: messages of later tests go astray"


@pytest.fixture(scope="session")
def private_servers() -> Iterator[None]:
    """PostgreSQL and Valkey answer at the addresses in the environment."""
    place = Place.open(settings.TEST_DIR)
    with started(private_services(place, settings.ADDRESSES, throwaway=True)):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(private_servers: None) -> None:
    """Start the servers before the test database is made."""


@pytest.fixture
def process_environment(transactional_db: None) -> dict[str, str]:
    """The environment for a process beside the test: it sees the test's database, and the broker."""
    return environment_of_processes()


def environment_of_processes() -> dict[str, str]:
    """The same, once there is a test database."""
    name = settings.DATABASES["default"]["NAME"]
    url = urlsplit(os.environ["DATABASE_URL"])
    return {
        **os.environ,
        "DATABASE_URL": url._replace(path=f"/{name}").geturl(),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "ALLOTMENT_DEBUG": "true",  # plain static files: nothing is collected for tests
        "PYTHONPATH": str(REPOSITORY),
        "REMAP_SIGTERM": "SIGQUIT",
    }


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared scenarios and traces beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared data at ../shared, which is not here")
    return SHARED


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict) -> dict:
    """Use the system's Chromium; without one, skip loudly, or fail where everything must be shown (CI)."""
    program = find_chromium()
    if program is None:
        reason = "NO CHROMIUM, so no browser tests: install the package chromium-headless-shell"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return {**browser_type_launch_args, "executable_path": program}


@pytest.fixture
def sign_in(live_server: object) -> Callable[..., None]:
    """`sign_in(page, person)` gives a browser page that person's session, without the log-in form."""

    def give_session(page, person) -> None:  # type: ignore[no-untyped-def]
        client = Client()
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": live_server.url}])

    return give_session
