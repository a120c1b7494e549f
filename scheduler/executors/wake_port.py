"""The one door that an agent opens: a call that shows the secret makes it ask the portal at once."""

from __future__ import annotations

import secrets
import socket
from hmac import compare_digest

PATIENCE_S = 0.3
"""How long a caller may take to say what it wants; meanwhile the agent does nothing else."""


class WakePort:
    """A port of one address of this machine.

    Attributes:
        number: which.
        address: which address's.
        secret: what a call must show: only the portal knows it.
    """

    def __init__(self, number: int, address: str = "127.0.0.1") -> None:
        """Listen; 0 is any port.

        Raises:
            OSError: the port is taken.
        """
        self._listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((address, number))
        self._listener.listen(16)
        self.address = address
        self.number: int = self._listener.getsockname()[1]
        self.secret = secrets.token_urlsafe(24)

    def fileno(self) -> int:
        """Becomes readable when somebody calls."""
        return self._listener.fileno()

    def was_called(self) -> bool:
        """Take one call; whether it showed the secret."""
        caller, _address = self._listener.accept()
        with caller:
            caller.settimeout(PATIENCE_S)
            try:
                line = caller.recv(1024).split(b"\r\n")[0].split()
                good = len(line) == 3 and compare_digest(line[1], f"/wake/{self.secret}".encode())
                caller.sendall(b"HTTP/1.0 204 No Content\r\n\r\n" if good else b"HTTP/1.0 404 Not Found\r\n\r\n")
            except TimeoutError:
                return False
            except OSError:  # the caller did not wait for our answer
                return good
        return good
