"""Pages as PDF: by WeasyPrint where its text library (Pango) is installed, else by a headless Chromium."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import structlog
from django.utils.translation import gettext_lazy

log = structlog.get_logger(__name__)

logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it tells each step of each page

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TAKES_S = 40
"""A browser that has not printed by then is given up; the web server's own limit is above it."""

WHAT_IS_MISSING = gettext_lazy(
    "This server can't make a PDF: it has neither Pango (in Debian: libpango-1.0-0 and "
    "libpangoft2-1.0-0) nor a Chromium. Open the pack as a page and print it from your "
    "browser; it is made for that."
)


class NoPrinter(Exception):
    """Neither way of making a PDF is there; the text says what to install, or what to do without."""


def pdf_of(html: str) -> bytes:
    """The page as PDF. It must hold all it needs: nothing is fetched.

    Raises:
        NoPrinter: neither Pango nor a Chromium is installed.
    """
    try:
        from weasyprint import HTML  # here, since importing it fails where Pango is missing
        from weasyprint.urls import URLFetcher
    except OSError as error:
        log.info("no_pango", error=str(error).splitlines()[0])
        return by_browser(html)
    return HTML(string=html, url_fetcher=URLFetcher(allowed_protocols=())).write_pdf()


def by_browser(html: str) -> bytes:
    """The page as a headless Chromium prints it. It fetches nothing there if its own policy says so (pack/print.html).

    Raises:
        NoPrinter: none is installed.
    """
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise NoPrinter(WHAT_IS_MISSING)
    with tempfile.TemporaryDirectory() as folder:
        page, pdf = Path(folder, "page.html"), Path(folder, "page.pdf")
        page.write_text(html, encoding="utf-8")
        subprocess.run(
            [
                program, "--headless", *(["--no-sandbox"] if os.geteuid() == 0 else []), "--disable-gpu",
                f"--user-data-dir={folder}/profile",
                "--host-resolver-rules=MAP * ~NOTFOUND", "--no-pdf-header-footer", f"--print-to-pdf={pdf}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=TAKES_S,
        )  # fmt: skip
        return pdf.read_bytes()
