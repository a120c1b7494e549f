"""What a test sees of a page in a browser: whether it fits, whether words lie over each other, what axe finds."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SIZES = {"desk": DESK, "phone": PHONE}
THEMES = ("light", "dark")
AXE = Path(__file__).parent / "vendor" / "axe-core-4.14.1.min.js"
SHOTS = "ALLOTMENT_SHOTS"
"""Names a folder in the environment, into which each page that a test looks at is drawn."""
SERIOUS = ("serious", "critical")

FAULTS = Path(__file__).with_name("faults.js")
"""Everything on a page that does not fit: wider than the screen, blank, words over words, words cut off."""


def faults(page: Page) -> list[str]:
    """What does not fit on the page as it stands."""
    found: list[str] = page.evaluate(FAULTS.read_text(encoding="utf-8"))
    return found


def axe(page: Page) -> list[str]:
    """What axe finds serious or critical on the page as it stands: the rule, and where."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    told: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['target']} {node.get('failureSummary', '')[:200]!r}"
        for rule in told["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"][:4]
    ]


def shoot(page: Page, name: str) -> None:
    """Draw the whole page into the folder that SHOTS names, if it names one."""
    folder = os.environ.get(SHOTS)
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") or "home"
        page.screenshot(path=Path(folder) / f"{plain}.png", full_page=True)


Looks = Sequence[tuple[str, str]]
ALL: Looks = [(size, theme) for size in SIZES for theme in THEMES]
SOME: Looks = [("desk", "light"), ("phone", "dark")]


def every_look(page: Page, address: str, name: str, looks: Looks = ALL) -> list[str]:
    """Open an address, look at it in these sizes and themes, and say what is wrong with it."""
    found: list[str] = []
    opened = ""
    for size, theme in looks:
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size(SIZES[size])  # type: ignore[arg-type]
        if opened != size:
            page.goto(address)
            page.wait_for_load_state("load")
            opened = size
        found += [f"{name}, {theme}, {size}: {each}" for each in [*faults(page), *axe(page)]]
        shoot(page, f"{name}-{theme}-{size}")
    return found
