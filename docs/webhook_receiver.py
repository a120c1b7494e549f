"""A receiver of Allotment's webhooks, with nothing but Python's own library: docs/webhooks.md explains it.

    WEBHOOK_SECRET=... python webhook_receiver.py 8080

It proves that a post is ours and new, prints what it says on one line, and answers within a moment; whatever takes
longer belongs behind a queue of your own.
"""

import hashlib
import hmac
import json
import os
import sys
import time
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WINDOW_S = 300
"""A signature whose instant is further away than that is refused, so that nobody can play an old post again."""
REMEMBERED = 10_000
"""Ids of posts that were had: within the window the same one is taken once."""
LARGEST = 1_000_000


# [verify]
def is_ours(secret: str, header: str, body: bytes, now_s: float) -> bool:
    """Whether the body was signed with the secret, lately. Compare bytes as they came, before any JSON is read."""
    parts = [part.partition("=") for part in header.split(",")]
    stamps = [value for name, _, value in parts if name == "t"]
    proofs = [value for name, _, value in parts if name == "v1"]
    if len(stamps) != 1 or not (stamps[0].isascii() and stamps[0].isdigit()):
        return False
    if abs(now_s - int(stamps[0])) > WINDOW_S:
        return False
    signed = stamps[0].encode() + b"." + body
    wanted = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(wanted, proof) for proof in proofs)  # two while the secret changes


# [/verify]


class Receiver(BaseHTTPRequestHandler):
    """Answers one post."""

    seen: "OrderedDict[str, None]" = OrderedDict()
    secret = ""

    def do_POST(self) -> None:
        """204 for what is ours, taken once; 401 for anything else."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST:
            self.answer(413)
            return
        body = self.rfile.read(int(length))
        if not is_ours(self.secret, self.headers.get("X-Allotment-Signature", ""), body, time.time()):
            self.answer(401)
            return
        said = json.loads(body)
        if said["id"] not in self.seen:
            self.seen[said["id"]] = None
            if len(self.seen) > REMEMBERED:
                self.seen.popitem(last=False)
            print(json.dumps(said), flush=True)
        self.answer(204)

    def answer(self, status: int) -> None:
        """A status and nothing else."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing beside what was posted."""


if __name__ == "__main__":
    Receiver.secret = os.environ["WEBHOOK_SECRET"]
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"listening on {server.server_address[1]}", file=sys.stderr, flush=True)
    server.serve_forever()
