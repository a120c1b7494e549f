"""Speaking to the portal: JSON by POST, with a token; whatever goes wrong is one error."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

PORTAL_TIMEOUT_S = 15
ANSWER_MAX_BYTES = 8 * 1024 * 1024


class Cut(Exception):
    """The portal was not reached, or would not do what was asked.

    Attributes:
        status: its HTTP status, 0 without an answer.
        said: its own line, if it said one.
    """

    def __init__(self, message: str, status: int = 0, said: str = "") -> None:
        super().__init__(message)
        self.status, self.said = status, said


def post(url: str, token: str, content: dict[str, Any]) -> dict[str, Any]:
    """Post JSON to the portal; its answer.

    Raises:
        Cut: no answer in time, or not a good one.
    """
    request = urllib.request.Request(
        url,
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=PORTAL_TIMEOUT_S) as answer:
            read = json.loads(answer.read(ANSWER_MAX_BYTES))
    except urllib.error.HTTPError as error:
        said = error.read(600).decode(errors="replace")
        raise Cut(f"{url}: {error.code} {said[:300]}", error.code, _line_of(said)) from None
    except (OSError, ValueError) as error:  # refused, timed out, broken off, no JSON
        raise Cut(f"{url}: {getattr(error, 'reason', error)}") from None
    if not isinstance(read, dict):
        raise Cut(f"{url}: the answer is not an object")
    return read


def _line_of(said: str) -> str:
    """The message in the portal's own words."""
    try:
        read = json.loads(said)
    except ValueError:
        return ""
    return str(read.get("message", "")) if isinstance(read, dict) else ""
