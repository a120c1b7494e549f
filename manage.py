#!/usr/bin/env python3
"""Django's command line. `manage.py simulate`, `rank` and `generate` need no database and no server."""

import os
import sys
from importlib import import_module
from pathlib import Path

ON_FILES = ("simulate", "sweep", "rank", "generate", "import_trace")
"""Commands that work on files alone: they run without setting Django up, which would take longer than most of them."""


def main() -> int:
    """Run one command; what is wrong with the set-up is one line and exit status 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ImportError:
        print(f"{Path(sys.argv[0]).name}: run './run --setup-only' first, then use .venv/bin/python", file=sys.stderr)
        return 2
    try:
        if sys.argv[1:2] and sys.argv[1] in ON_FILES:
            import_module(f"scheduler.management.commands.{sys.argv[1]}").Command().run_from_argv(sys.argv)
        else:
            execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
