#!/usr/bin/env python3
"""Django's command line. `manage.py simulate`, `rank` and `generate` need no database and no server."""

import os
import sys
from pathlib import Path


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
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
