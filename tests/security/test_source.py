"""What the source never does: shells, evaluated text, unpickled bytes, open doors; and patterns that never end."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PLACES = ("budgets", "scheduler", "portal", "cli", "benchmarks", "docs", "run", "test", "manage.py")
FORBIDDEN_CALLS = {
    *("os.system", "os.popen", "os.spawnl", "os.spawnv", "os.spawnvp", "os.execl", "pty.spawn", "subprocess.getoutput"),
    *("subprocess.getstatusoutput", "eval", "exec", "__import__", "pickle.loads", "pickle.load", "marshal.loads"),
    *("shelve.open", "yaml.load", "yaml.unsafe_load", "tempfile.mktemp", "ssl._create_unverified_context"),
    *("asyncio.create_subprocess_shell", "xml.etree.ElementTree.parse", "django.utils.safestring.SafeString"),
}
"""Each turns text or bytes of others into something that is done."""
MARKED_SAFE = {
    "portal/templatetags/advice.py": "words of rules that were escaped first, between marks of ours",
    "portal/templatetags/cells.py": "digits and separators that formats.py makes",
    "portal/templatetags/allotment.py": "an attribute of ours",
    "portal/guides.py": "Markdown files of ours, read with HTML turned off",
    "portal/run_line.py": "an empty text",
    "portal/timelines.py": "a drawing whose every text was escaped by timeline_svg.py",
}
"""Where HTML is taken as it is, and why that is ours."""
CONNECTS = {
    "budgets/services/webhooks.py": "posts to an address that was looked at first",
    "scheduler/services/silence.py": "asks the portal's own address whether agents could have been heard",
    "scheduler/executors/contact.py": "an agent calls its portal",
    "portal/supervisor/services.py": "asks whether its own web server answers",
    "portal/openid.py": "the OpenID provider that the operator has named",
}
"""Who opens connections, and to whom."""
EXEMPT_FROM_CSRF = {"portal/api/agent.py": "opened by tokens in a header, which no browser sends by itself"}


@cache
def modules() -> tuple[tuple[str, ast.Module, str], ...]:
    """(path, tree, text) of every Python file of ours that is run."""
    paths: list[Path] = []
    for place in PLACES:
        root = REPOSITORY / place
        paths += sorted(root.rglob("*.py")) if root.is_dir() else [root] if root.exists() else []
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py" or re.match(r"#!.*python", text):
            found.append((str(path.relative_to(REPOSITORY)), ast.parse(text), text))
    return tuple(found)


def dotted(node: ast.expr) -> str:
    """The name of what is called, as it is written."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """(place, call, name) of every call."""
    for path, tree, _text in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield f"{path}:{node.lineno}", node, dotted(node.func)


def test_there_is_something_to_look_at() -> None:
    assert len(modules()) > 300


def test_no_shell_reads_a_command_and_no_text_is_run() -> None:
    found = [(place, name) for place, _call, name in calls() if name in FORBIDDEN_CALLS]
    found += [
        (place, f"{name}(shell=...)")
        for place, call, name in calls()
        if any(each.arg == "shell" for each in call.keywords)
    ]
    assert found == []


def test_every_command_is_an_argument_list() -> None:
    """Not one text that something would split."""
    starts = (
        "subprocess.run",
        "subprocess.Popen",
        "subprocess.check_output",
        "subprocess.check_call",
        "subprocess.call",
    )
    found = [
        place
        for place, call, name in calls()
        if name in starts and (not call.args or isinstance(call.args[0], ast.Constant | ast.JoinedStr))
    ]
    assert found == []


def test_no_statement_for_the_database_is_put_together_of_texts() -> None:
    """Names of tables may be: those are quoted, and ours. Values are parameters."""
    found = set()
    for place, call, name in calls():
        if (
            not name.endswith((".execute", ".executemany", ".raw", ".extra"))
            or not call.args
            or "/migrations/" in place
        ):
            continue
        for part in ast.walk(call.args[0]):
            if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)):
                found.add(place.partition(":")[0])
    assert found <= {
        "scheduler/services/bulk.py",  # a table's name, quoted
        "budgets/services/resealing.py",  # a table's and a column's name, quoted
        "portal/supervisor/servers.py",  # the name of our own database, a constant
        "portal/metrics_facts.py",  # a number of ours
    }


def test_html_is_taken_as_it_is_only_where_it_is_ours() -> None:
    found = {place.partition(":")[0] for place, _call, name in calls() if name.endswith(("mark_safe", "SafeString"))}
    assert found == set(MARKED_SAFE)
    templates = list((REPOSITORY / "templates").rglob("*.html"))  # letters are plain text
    assert len(templates) > 100
    assert [path.name for path in templates if re.search(r"\|\s*safe\b|autoescape off", path.read_text())] == []


def test_only_agents_addresses_take_forms_without_a_token() -> None:
    found = {path for path, _tree, text in modules() if "csrf_exempt" in text}
    assert found == set(EXEMPT_FROM_CSRF)


def test_no_part_of_the_api_is_open_by_mistake() -> None:
    found = [
        path for path, _tree, text in modules() if re.search(r"AllowAny|permission_classes\s*=\s*(\(\)|\[\])", text)
    ]
    assert found == []


def test_connections_are_opened_where_it_is_known_to_whom() -> None:
    opens = re.compile(
        r"create_connection\(|HTTPS?Connection\(|urlopen\(|^import (?:requests|httpx|urllib3)\b", re.MULTILINE
    )
    found = {
        path for path, _tree, text in modules() if opens.search(text) and not path.startswith(("benchmarks/", "cli/"))
    }
    assert found == set(CONNECTS)


def test_secrets_come_from_the_environment_or_from_files() -> None:
    """Each setting that is a secret is read by `secret`, which takes NAME and NAME_FILE."""
    text = (REPOSITORY / "portal" / "settings.py").read_text(encoding="utf-8")
    read = set(re.findall(r'(?<!def )secret\(\s*f?"([A-Z_]+)"', text))
    assert read >= {"SECRET_KEY", "ALLOTMENT_SEALING_KEYS", "ALLOTMENT_AGENT_TOKEN", "ALLOTMENT_EMAIL_URL"}
    plain = re.findall(r'env\.\w+\(\s*"([A-Z_]*(?:SECRET|TOKEN|PASSWORD|KEY)[A-Z_]*)"', text)
    assert [name for name in plain if not name.endswith(("_FILE", "_DAYS", "_MAX"))] == []
    told = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [name for name in read if f"`{name}_FILE`" not in told] == []


# --- patterns ---------------------------------------------------------------------------------------------------------

LENGTH = 2_000
LONGEST_S = 0.15


FLAGS = {"re.IGNORECASE": re.IGNORECASE, "re.DOTALL": re.DOTALL, "re.MULTILINE": re.MULTILINE}


def patterns() -> Iterator[tuple[str, str, int]]:
    """(place, pattern, flags) of every regular expression that is written out."""
    for place, call, name in calls():
        first = call.args[0] if call.args else None
        if name.startswith("re.") and isinstance(first, ast.Constant) and isinstance(first.value, str):
            named = [dotted(part) for part in ast.walk(call) if isinstance(part, ast.Attribute)]
            yield place, first.value, sum(FLAGS[each] for each in set(named) & set(FLAGS))


def attacks(pattern: str) -> Iterator[str]:
    """Long texts of what the pattern looks for, with an end that it does not want."""
    letters = sorted({letter for letter in pattern if letter in " .,:-_/=|[]"} | set("a0 \n,"))
    for letter in letters:
        yield letter * LENGTH + "\x00!"
    for pair in ("a0", "a ", "0,", "a.", "=a", '"a', "[1", "1d"):
        yield pair * (LENGTH // 2) + "\x00!"


def test_no_pattern_takes_time_that_grows_with_the_square_of_a_text() -> None:
    found = [each for each in patterns() if not each[0].startswith(("cli/", "benchmarks/", "docs/"))]
    assert len(found) > 50
    slow = []
    for place, pattern, flags in found:
        compiled = re.compile(pattern, flags)
        for text in attacks(pattern):
            for search in (compiled.search, compiled.fullmatch):
                began_s = time.process_time()
                search(text)
                if time.process_time() - began_s > LONGEST_S:
                    slow.append((place, pattern, text[:4]))
    assert slow == []


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(\w+\s?)*x"])
def test_a_bad_pattern_would_be_noticed(pattern: str) -> None:
    compiled = re.compile(pattern)
    began_s = time.process_time()
    compiled.search("a" * 21 + "!")
    assert time.process_time() - began_s > 0.02
