"""The glossary for programs."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets import glossary
from portal.api.base import Api


class TermSerializer(serializers.Serializer):
    """One word of the glossary, in the language that is asked for (Accept-Language)."""

    key = serializers.CharField(help_text="names it; its address is /help/glossary/#KEY")
    word = serializers.CharField()
    meaning = serializers.CharField()
    see = serializers.ListField(child=serializers.CharField(), help_text="keys of words beside it")


class Glossary(Api):
    """Every word of the product with its one meaning."""

    out = TermSerializer

    @extend_schema(responses=TermSerializer(many=True))
    def get(self, request: Request) -> Response:
        """All of them, in the order of the glossary."""
        found: list[dict[str, Any]] = [
            {"key": term.key, "word": str(term.word), "meaning": str(term.meaning), "see": list(term.see)}
            for term in glossary.TERMS
        ]
        return Response(TermSerializer(found, many=True).data)
