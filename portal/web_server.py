"""gunicorn's settings, but for the address (portal/supervisor/services.py)."""

import signal
from http import HTTPStatus
from typing import Any

from gunicorn.glogging import Logger

from portal.supervisor.processes import end_with_parent

wsgi_app = "portal.wsgi"
worker_class = "gthread"
workers = 2
threads = 4
preload_app = True  # the workers share the memory of what is loaded before they fork
graceful_timeout = 5
timeout = 60
accesslog = "-"
control_socket_disable = True  # it would lie in the home folder


class AgentsAside(Logger):
    """Writes down every request but the agents' own that went well: these would be all there is to read."""

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        """One line of the access log."""
        if not req.path.startswith("/api/v1/agent/") or resp.status_code != HTTPStatus.OK:
            super().access(resp, req, environ, request_time)


logger_class = AgentsAside


def post_fork(_server: Any, worker: Any) -> None:
    """Let no worker outlive its killed parent and go on holding the port."""
    end_with_parent(worker.ppid, signal.SIGKILL)
