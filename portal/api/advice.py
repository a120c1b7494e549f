"""Advice on a program before it is submitted; it is read, never run, and nothing of it is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.base import Api
from portal.api.problems import Strict
from portal.api.scopes import SUBMIT
from scheduler.advisor import MAX_FILES, Severity, advise

MAX_NAME_CHARS = 255
MOST = 1_000_000
SCRIPT = "script.py"


class Source(serializers.CharField):
    """The text of a file, with all its white space."""

    def __init__(self, **more: Any) -> None:
        """It may be empty."""
        super().__init__(**{"allow_blank": True, "trim_whitespace": False, **more})


class AdviceIn(Strict):
    """A program: one of `files` (the text of each file by its path) and `script` (the text of one Python file)."""

    files = serializers.DictField(
        child=Source(), required=False, allow_empty=False, help_text="text by path: Python (.py), launch scripts (.sh)"
    )
    script = Source(required=False)
    gpus = serializers.IntegerField(min_value=0, max_value=MOST, help_text="GPUs asked for, on all nodes together")
    nodes = serializers.IntegerField(
        min_value=1, max_value=MOST, required=False, help_text="on how many nodes; else as the launch script says, or 1"
    )
    is_interactive_pool = serializers.BooleanField(
        default=False, help_text="it is for a pool where people work interactively"
    )

    def validate(self, said: dict[str, Any]) -> dict[str, Any]:
        """One of both; names that a line can show."""
        if ("files" in said) == ("script" in said):
            raise ValidationError({"files": [gettext("Say exactly one of files and script.")]})
        files = said.pop("files", None) or {SCRIPT: said.pop("script", "")}
        if len(files) > MAX_FILES:
            raise ValidationError({"files": [gettext("At most {most} files.").format(most=MAX_FILES)]})
        if not all(0 < len(name) <= MAX_NAME_CHARS and name.isprintable() for name in files):
            message = gettext("The path of a file is one line of at most {most} characters.")
            raise ValidationError({"files": [message.format(most=MAX_NAME_CHARS)]})
        return {**said, "files": files}


class FindingOut(serializers.Serializer):
    """One thing that was found; the rules are those of docs/advisor.md."""

    rule = serializers.CharField()
    severity = serializers.ChoiceField([each.value for each in Severity])
    file = serializers.CharField()
    line = serializers.IntegerField(help_text="from 1; 0 is the file as a whole")
    evidence = serializers.CharField(help_text="the line itself, shortened")
    what = serializers.CharField()
    fix = serializers.CharField()
    effect = serializers.CharField(help_text="what was published about it")
    source = serializers.CharField(help_text="where")  # type: ignore[assignment]


class CountsOut(serializers.Serializer):
    """How many findings there are of each severity."""

    error = serializers.IntegerField()
    warn = serializers.IntegerField()
    info = serializers.IntegerField()
    unknown = serializers.IntegerField()


class AdviceOut(serializers.Serializer):
    """What was found, the worst first. `unknown` is what only the run knows: it is not a good mark."""

    findings = FindingOut(many=True)
    counts = CountsOut()


class Advice(Api):
    """What in a program is known to leave GPUs idle."""

    scopes = {"POST": SUBMIT}

    @extend_schema(request=AdviceIn, responses=AdviceOut)
    def post(self, request: Request) -> Response:
        """Check a program. It is parsed and never run; nothing of it is kept, and nothing is refused for it.

        (With an Idempotency-Key the answer is kept for 48 h, as every answer.)
        """
        said = self.read(AdviceIn(data=request.data))
        findings = advise(
            said["files"],
            gpus=said["gpus"],
            nodes=said.get("nodes"),
            is_interactive_pool=said["is_interactive_pool"],
        )
        counts = Counter(each.severity for each in findings)
        return Response(
            {
                "findings": [asdict(each) for each in findings],
                "counts": {each.value: counts[each] for each in Severity},
            }
        )
