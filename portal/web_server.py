"""gunicorn's settings, but for the address (portal/supervisor/services.py)."""

import signal
from typing import Any

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


def post_fork(_server: Any, worker: Any) -> None:
    """Let no worker outlive its killed parent and go on holding the port."""
    end_with_parent(worker.ppid, signal.SIGKILL)
