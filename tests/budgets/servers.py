"""A mail server and a web server on this machine's own loopback, that keep what they are given."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.controller import Controller


@dataclass
class Mailbox:
    """What the mail server took, and what it says to the next letters."""

    port: int = 0
    letters: list[EmailMessage] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    async def handle_DATA(self, _server, _session, envelope) -> str:  # noqa: N802 (the server's word)
        """Take a letter, or answer as told."""
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("250"):
            self.letters.append(message_from_bytes(envelope.content, policy=policy.default))
        return answer


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """A mail server that runs as long as the block."""
    mailbox = Mailbox(port=free_port())
    controller = Controller(mailbox, hostname="127.0.0.1", port=mailbox.port)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()


@dataclass
class Hook:
    """What was posted, and how the next posts are answered."""

    port: int = 0
    posts: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    says: bytes = b""
    release: threading.Event = field(default_factory=threading.Event)
    is_slow: bool = False

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def web_server() -> Iterator[Hook]:
    """A web server that runs as long as the block; a slow one dribbles its answer until it is released."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.posts.append((dict(self.headers), body))
            if hook.is_slow:
                self.dribble()
                return
            status = hook.answers.pop(0) if hook.answers else 204
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{hook.port}/secret")
            said = b"" if status == 204 else hook.says
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def do_GET(self) -> None:
            hook.gets.append(self.path)
            self.send_response(200)
            self.end_headers()

        def dribble(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not hook.release.wait(0.2):
                try:
                    self.wfile.write(b"X-A: 1\r\n")
                    self.wfile.flush()
                except OSError:
                    return

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.release.set()
        server.shutdown()
        server.server_close()
        thread.join()
