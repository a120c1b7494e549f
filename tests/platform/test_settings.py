"""The settings: from the environment, and from none at all."""

import subprocess
import sys

import pytest
from django.core.management import call_command
from django.db import connection

from budgets.models import Person
from portal.celery import app
from portal.settings import broker_url
from tests.conftest import REPOSITORY


def manage(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run manage.py with that environment and nothing else."""
    return subprocess.run(
        (sys.executable, str(REPOSITORY / "manage.py"), *arguments),
        check=False,
        capture_output=True,
        text=True,
        env=environment or {},
        timeout=60,
    )


def test_a_command_that_needs_no_database_runs_with_no_environment() -> None:
    done = manage("check")
    assert (done.returncode, done.stderr) == (0, "System check identified no issues (0 silenced).\n") or (
        done.returncode,
        done.stdout,
    ) == (0, "System check identified no issues (0 silenced).\n")


def test_a_command_that_needs_a_database_says_so_in_one_line() -> None:
    done = manage("showmigrations")
    assert done.returncode == 2
    assert done.stderr.startswith("manage.py: this needs a database: set DATABASE_URL")
    assert done.stderr.count("\n") == 1


@pytest.mark.django_db
def test_the_test_database_is_postgresql() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database(), inet_server_addr() IS NULL")
        assert cursor.fetchone() == ("test_allotment", True)


@pytest.mark.django_db(transaction=True)
def test_a_process_beside_the_test_sees_what_the_test_wrote(process_environment: dict[str, str]) -> None:
    Person.objects.create(username="ada")
    asked = "from budgets.models import Person; print(*Person.objects.values_list('username', flat=True))"
    done = manage("shell", "--no-imports", "-c", asked, environment=process_environment)
    assert (done.returncode, done.stdout) == (0, "ada\n")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "DATABASE_URL",
            "sqlite:///db",
            "DATABASE_URL: only PostgreSQL is supported (postgres://user:password@host:port/name)",
        ),
        (
            "ALLOTMENT_URL",
            "allotment",
            "ALLOTMENT_URL: 'allotment' is not an address such as https://allotment.example.org",
        ),
        ("ALLOTMENT_TIME_ZONE", "Mars", "ALLOTMENT_TIME_ZONE: 'Mars' is not a time zone such as Europe/Berlin"),
        (
            "ALLOTMENT_EMAIL_URL",
            "mail.example.org:25",
            "ALLOTMENT_EMAIL_URL: must be smtp+tls://user:password@host:port, or smtp+ssl:// or smtp:// in its place",
        ),
        ("ALLOTMENT_DIGEST_HOUR", "24", "ALLOTMENT_DIGEST_HOUR: 24 is not an hour from 0 to 23"),
        (
            "ALLOTMENT_WEBHOOK_NETWORKS",
            "10.0.0.0/8,inside",
            "ALLOTMENT_WEBHOOK_NETWORKS: 'inside' does not appear to be an IPv4 or IPv6 network",
        ),
        ("ALLOTMENT_METRICS_TOKEN", "short", "ALLOTMENT_METRICS_TOKEN: needs 20 characters or more"),
        (
            "ALLOTMENT_METRICS_NETWORKS",
            "10.20.0.0/16,inside",
            "ALLOTMENT_METRICS_NETWORKS: 'inside' does not appear to be an IPv4 or IPv6 network",
        ),
        (
            "ALLOTMENT_METRICS_BUDGETS",
            "9999",
            "ALLOTMENT_METRICS_BUDGETS: 9999 is not a number from 0 to 5000",
        ),
        ("ALLOTMENT_LOG_LEVEL", "LOUD", "ALLOTMENT_LOG_LEVEL: 'LOUD' is not DEBUG, INFO, WARNING or ERROR"),
        ("SECRET_KEY_FILE", "/not/there", "SECRET_KEY_FILE: cannot read /not/there: No such file or directory"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(name: str, value: str, said: str) -> None:
    done = manage("check", environment={name: value})
    assert (done.returncode, done.stderr) == (2, f"manage.py: {said}\n")


@pytest.mark.parametrize(
    ("url", "cookies_need_https"),
    [
        ("http://127.0.0.1:8000", False),
        ("http://localhost:8000", False),
        ("https://allotment.example.org", True),
        ("http://allotment.example.org", True),
    ],
)
def test_cookies_travel_unencrypted_on_this_machine_alone(url: str, cookies_need_https: bool) -> None:
    asked = "from django.conf import settings as s; print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE)"
    done = manage("shell", "--no-imports", "-c", asked, environment={"ALLOTMENT_URL": url})
    assert done.stdout == f"{cookies_need_https} {cookies_need_https}\n"


def test_the_web_process_refuses_to_start_without_a_lasting_secret() -> None:
    done = subprocess.run(
        (sys.executable, "-c", "import portal.wsgi"),
        check=False,
        capture_output=True,
        text=True,
        env={},
        cwd=REPOSITORY,
    )
    assert done.stderr.endswith("SECRET_KEY or SECRET_KEY_FILE must be set for the web process\n")


@pytest.mark.parametrize(
    ("redis_url", "in_celery_words"),
    [
        ("redis://broker.example.org:6379/2", "redis://broker.example.org:6379/2"),
        ("unix://:p%40ss@/run/x/valkey.sock?db=3", "redis+socket://:p%40ss@/run/x/valkey.sock?virtual_host=3"),
    ],
)
def test_the_broker_is_named_in_celerys_words(redis_url: str, in_celery_words: str) -> None:
    assert broker_url(redis_url) == in_celery_words


@pytest.mark.django_db
def test_a_task_reaches_the_private_broker() -> None:
    with app.connection_for_write() as connected, connected.SimpleQueue("of-this-test") as queue:
        queue.put({"n": 7})
        message = queue.get(timeout=5)
        message.ack()
        assert message.payload == {"n": 7}


def test_every_beat_calls_a_task_that_there_is() -> None:
    app.loader.import_default_modules()
    assert [each["task"] for each in app.conf.beat_schedule.values() if each["task"] not in app.tasks] == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "False  25 False False"),
        ("smtp://mail.example.org", "True mail.example.org 25 False False"),
        ("smtp+tls://me:p%40ss@mail.example.org", "True mail.example.org 587 True False"),
        ("smtp+ssl://mail.example.org:4650", "True mail.example.org 4650 False True"),
    ],
)
def test_the_mail_server_is_named_by_one_address(url: str, said: str) -> None:
    asked = (
        "from django.conf import settings as s;"
        "print(s.HAS_MAIL_SERVER, s.EMAIL_HOST, s.EMAIL_PORT, s.EMAIL_USE_TLS, s.EMAIL_USE_SSL)"
    )
    done = manage("shell", "--no-imports", "-c", asked, environment={"ALLOTMENT_EMAIL_URL": url})
    assert done.stdout == f"{said}\n"


@pytest.mark.django_db
def test_every_model_is_as_the_migrations_leave_it() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
