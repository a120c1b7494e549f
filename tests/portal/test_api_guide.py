"""The examples of docs/api.md are run with curl against a portal, and give what stands below them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import Any

import pytest
from django.conf import settings

from budgets.services import tokens
from tests.portal.conftest import Laboratory

EXAMPLE = re.compile(r"```sh\n(.*?)```\n(?:```json\n(.*?)```\n)?", re.DOTALL)


def test_the_examples_of_the_guide_give_what_they_say(transactional_db: None, live_server: Any) -> None:
    if shutil.which("curl") is None:
        pytest.skip("NO CURL, so the examples of docs/api.md were not run")
    lab = Laboratory()
    scopes = ["read", "submit", "operate"]
    environment = {
        **os.environ,
        "ALLOTMENT": live_server.url,
        "TOKEN": tokens.create(person=lab.ada, name="guide", scopes=["read", "submit"], days=1)[1],
        "OPS_TOKEN": tokens.create(person=lab.ops, name="guide", scopes=scopes, days=1)[1],
        "LEAD_TOKEN": tokens.create(person=lab.mia, name="guide", scopes=["read", "submit", "decide"], days=1)[1],
        "no_proxy": "*",
    }
    text = (settings.BASE_DIR / "docs" / "api.md").read_text(encoding="utf-8")
    examples = EXAMPLE.findall(text)
    assert len(examples) > 10
    wrong = []
    for script, shown in examples:
        done = subprocess.run(
            ["bash", "-euc", script], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode != 0:
            wrong.append(f"{script}\n{done.stderr}")
        elif shown and json.loads(done.stdout.strip().splitlines()[-1]) != json.loads(shown):
            wrong.append(f"{script}\ngives {done.stdout}")
    assert wrong == [], "\n".join(wrong)
