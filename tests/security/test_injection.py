"""Names that are more than names: where they come in they are refused or kept as they are; where they come out they are
text, in pages, files, letters, logs and commands alike.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import logging.config
import shlex
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import structlog
from django.conf import settings as django_settings
from django.core import mail
from django.db import transaction
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from budgets.models import Person
from budgets.queries import today
from budgets.services import checks, messages, reviews, sending, tokens, tree
from portal.csv_files import csv_response
from scheduler.executors.slurm import accounts, commands
from scheduler.executors.slurm.commands import Mark, Shape, Submission
from scheduler.executors.slurm.script import script_of
from scheduler.services import nodes
from scheduler.services.slurm.shares import UNIX_USER
from tests.portal.conftest import Laboratory

HOSTILE = (
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>', "{{7*7}}"),
    *("{% debug %}",),
    *('=HYPERLINK("http://evil")', "+1+1", "-1+1", "@SUM(A1)", "%0d%0aSet-Cookie: a=b", "'; DROP TABLE x; --"),
    *("$(touch /tmp/x)", "`id`", "; rm -rf /", "| cat /etc/passwd", "&& true", "../../etc/passwd", "-oProxyCommand=x"),
    *("--uid=root", "a,b=c", "${HOME}", "%s%s%n", "\\u003cscript\\u003e", "שלום", "مرحبا", "نام‌ها", "👩‍🔬", "𝕏"),
)
"""What is a name all the same: anybody may be called so."""
NO_NAMES = (
    *(
        "a\nb",
        "a\r\nBcc: x@example.org",
        "a\tb",
        "a\0b",
        "\x1b[31mred",
        "a\x07",
        "a\x08b",
        "\x9b2J",
        "\ud800",
        "a\x85b",
    ),
    *("invoice\u202egpj.exe", "\u202aa", "a\u202cb", "a\u2066b\u2069", "a\u2028b", "a\u2029b", "", "   "),
)
"""What is none: it would not be read as it is written, or end a line, or move a cursor."""


def makers(lab: Laboratory) -> dict[str, Callable[[str], str]]:
    """By what it names: makes one of that name, and gives back the name that is stored."""
    return {
        "budget": lambda name: tree.rename(node=lab.node["A1"], name=name, by=None).name,
        "workload": lambda name: lab.submit("A1", 1, owner=lab.ada, name=name).name,
        "token": lambda name: tokens.create(person=lab.ada, name=name, scopes=["read"], days=1)[0].name,
        "review": lambda name: reviews.plan(
            node=lab.node["A"], title=name, period_from=today(), period_until=today(), meets_at=lab.now,
            applies_from=today(), by=lab.mia,
        ).title,
    }  # fmt: skip


def test_a_strange_name_is_kept_as_it_is_and_shown_as_text(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ada)
    make = makers(calm)
    for name in HOSTILE:
        clean = checks.text("x", name, length=200)
        assert {make[what](name) for what in ("budget", "workload", "token")} == {clean}, name
        text = client.get("/budget/A1/").content.decode()
        assert [tag for tag in ("<script>alert", "<img src=x", "<svg onload") if tag in text] == [], name
    for address in ("/tree/north/", "/workloads/", "/search/?q=a", "/tokens/", "/queue/north/", "/audit/"):
        text = client.get(address).content.decode()
        assert [tag for tag in ("<script>alert", "<img src=x", "<svg onload") if tag in text] == [], address
    listed = json.dumps(client.get("/api/v1/workloads/?limit=100").json()["results"])
    assert [name for name in HOSTILE if json.dumps(checks.text("x", name, length=200)) not in listed] == []


def accepted(make: Callable[[str], Any], names: Sequence[str]) -> list[str]:
    """The names that were not refused in one line."""
    found = []
    for name in names:
        try:
            make(name)
        except InputError as error:
            found += [] if error.message.isprintable() else [name]
        else:
            found.append(name)
    return found


def test_what_would_not_be_read_as_it_is_written_is_no_name(calm: Laboratory) -> None:
    for what, make in makers(calm).items():
        may_be_empty = what == "workload"  # it need not have one
        assert accepted(make, [name for name in NO_NAMES if name.strip() or not may_be_empty]) == [], what


def test_a_machine_is_called_by_letters_and_digits(calm: Laboratory) -> None:
    names = ["n 1", "n;1", "-n1", "n\n1", "n,1", "n=1", "n[1-3]", "$(id)", "../n", "", "n" * 200, "ñ"]
    assert accepted(lambda name: nodes.register(cluster=calm.cluster, name=name, devices=1), names) == []


def test_a_budget_has_a_plain_code(calm: Laboratory) -> None:
    codes = ["A 1", "A/1", "../A", "A\n", "-A", "", "A" * 40, "A;B", "А1", "A%00", "_A"]
    child = partial(tree.add_child, parent=calm.node["A"], kind="project", name="x", by=None)
    assert accepted(lambda code: child(code=code), codes) == []


# --- files ------------------------------------------------------------------------------------------------------------


@given(cells=st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=30), min_size=1, max_size=4))
def test_no_cell_of_a_file_is_a_formula(cells: list[str]) -> None:
    answer = csv_response("x", ["a"] * len(cells), [cells])
    content = b"".join(answer) if answer.streaming else answer.content
    rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert len(rows) == 2
    assert [cell for cell in rows[1] if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(cell)] == []


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# --- letters ----------------------------------------------------------------------------------------------------------


def test_no_line_of_a_letters_head_is_somebody_elses(calm: Laboratory, settings: Any) -> None:
    """Subjects hold names; whatever stands in them, a head has one line for it."""
    settings.EMAIL_BACKEND, settings.HAS_MAIL_SERVER = "django.core.mail.backends.locmem.EmailBackend", True
    Person.objects.filter(pk=calm.ada.pk).update(email="ada@example.org")
    subject = "A1\nBcc: all@example.org\r\nX-Evil: 1 \u2028 \u202e"
    with transaction.atomic():
        messages.tell(to=[calm.ada], kind="budget", subject=subject, text="t\r\n.\r\n", path="/tree/", key="k")
    sending.send_due()
    assert len(mail.outbox) == 1
    head = mail.outbox[0].message()
    assert (head["Bcc"], head["X-Evil"], head["To"]) == (None, None, "ada@example.org")
    assert mail.outbox[0].recipients() == ["ada@example.org"]


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\nb forged=line", "\x1b[2J\x1b[31m", "a\rb", "\u202eevil", "a\x00b", "\x9b31m"])
def test_a_line_of_the_log_is_one_line_and_moves_no_cursor(text: str) -> None:
    formatter = logging.config.DictConfigurator(django_settings.LOGGING)  # type: ignore[attr-defined]
    made = formatter.configure_formatter(dict(django_settings.LOGGING["formatters"]["lines"]))
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    logger = logging.getLogger("tests.security.injection")
    logger.addHandler(handler)
    try:
        structlog.get_logger("tests.security.injection").warning("told", said=text, who=[text])
        logger.warning("plain %s", text)
    finally:
        logger.removeHandler(handler)
    for record in records:
        line = made.format(record)
        assert line.isprintable(), line
    assert len(records) == 2


# --- commands ---------------------------------------------------------------------------------------------------------


def submission(**more: Any) -> Submission:
    """A job."""
    given: dict[str, Any] = {
        "mark": Mark("abcdef0123", "A1-0001", 0), "shape": Shape(1, 1), "command": ["true"], "environment": {},
        "limit_s": None,
    }  # fmt: skip
    return Submission(**{**given, **more})


@pytest.mark.parametrize("text", [*HOSTILE, "a\nb", "a'b", 'a"b', "a\\b", "a b", "*", "~", "!x", "{workload}", "{{}}"])
def test_no_shell_reads_a_command_or_a_variable_of_a_slurm_job(text: str) -> None:
    """A shell that reads the line of a job's script in which they stand gets them as they are."""
    script = script_of(submission(command=["/bin/echo", text], environment={"NAME": text}))
    start = script.index("export NAME=")
    line = script[start : start + len("export NAME=") + len(shlex.quote(text))]
    assert script[start + len(line)] == "\n"
    assert f" /bin/echo {shlex.quote(text)}" in script
    told = subprocess.run(
        ["/bin/sh", "-c", f'{line}\nprintf %s "$NAME"; printf %s {shlex.quote(text)}'],
        check=False,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere"},
    )
    assert told.stdout.decode() == text * 2


def test_slurm_is_called_by_argument_lists_whose_values_cannot_be_options() -> None:
    argv = commands.submit(submission(account="--uid=root", user="x", partition="-p", qos="", folder="-D/"), "job.sh")
    assert [word for word in argv if word in ("--uid=root", "-p", "-D/")] == []
    assert argv[-1] == "job.sh"
    assert "--account=--uid=root" in argv
    drained = commands.drain("n1", "fan broke\nState=RESUME")
    assert all(isinstance(word, str) for word in drained)


@pytest.mark.parametrize("name", ["-i", "--help", "a b", "a,b", "a=b", "", "ñ", "a\nb", "x" * 80])
def test_nobody_is_named_to_slurm_who_would_be_an_option_or_a_list(name: str) -> None:
    assert UNIX_USER.fullmatch(name) is None
    assert UNIX_USER.fullmatch("ada.l-1@example")


NAMES = ("a b", "a,b", "a=b", "root where", "A1;x", "a'b", 'a"b', "")


@pytest.mark.parametrize("name", NAMES)
def test_an_account_of_slurm_has_a_plain_name(name: str) -> None:
    """sacctmgr takes `name=value` and lists with commas: a name with these would be another command."""
    wanted = accounts.Tree({name: accounts.Account(name, "root", 1)}, {})
    found = accounts.Tree({}, {})
    for each in accounts.differences(wanted, found, "c"):
        for command in each.commands:
            words = [word for word in command if name and name in word]
            assert all(word == name or "=" in word for word in words)
