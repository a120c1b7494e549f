"""Takes the README's pictures of the real pages: docs/screenshots.py URL LOG-INS, of a demo that `./run` has started.

LOG-INS is the demo's list of log-ins, DATA/demo-logins.txt. Writes into docs/screenshots/ and prints what it wrote.
"""

from __future__ import annotations

import struct
import sys
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).resolve().parent / "screenshots"
CHROMIUM = "/usr/bin/chromium-headless-shell"
SIZE = {"width": 1440, "height": 960}
LARGEST_BYTES = 150_000
MANAGER = "adaeze"
"""Who sees everything: the manager of the whole laboratory."""
FACE = """
document.addEventListener("readystatechange", () => {
  const style = document.createElement("style");
  style.textContent = ":root { --font: Inter, system-ui, sans-serif }";
  document.head.append(style);
}, {once: true});
"""
"""Stands in for the system's face, which headless Chromium does not have."""
PIXELS = """
async encoded => {
  const image = new Image();
  image.src = `data:image/png;base64,${encoded}`;
  await image.decode();
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const bytes = context.getImageData(0, 0, image.width, image.height).data;
  const parts = [];
  for (let at = 0; at < bytes.length; at += 32768) parts.push(String.fromCharCode(...bytes.subarray(at, at + 32768)));
  return btoa(parts.join(""));
}
"""
"""The red, green, blue and opacity of each pixel of a picture."""
PAGES = {"tree": "/tree/north/", "queue": "/queue/north/", "budget-node": "/budget/A1/?cluster=north&window=28d"}


def password_of(log_ins: Path, username: str) -> str:
    """The password that the list gives this person."""
    for line in log_ins.read_text(encoding="utf-8").splitlines():
        if line.split()[:1] == [username]:
            return line.split()[1]
    raise SystemExit(f"{log_ins}: has no {username}")


def with_palette(pixels: bytes, width: int, height: int) -> bytes:
    """A PNG of at most 256 colours; the edges of letters have thousands of shades, which nobody sees."""
    colours = [pixels[at : at + 3] for at in range(0, len(pixels), 4)]
    counts = Counter(colours)
    palette = [colour for colour, _ in counts.most_common(256)]

    def nearest(colour: bytes) -> int:
        return min(
            range(len(palette)),
            key=lambda index: sum((a - b) ** 2 for a, b in zip(colour, palette[index], strict=True)),
        )

    index = {colour: nearest(colour) for colour in counts}
    rows = bytes(index[colour] for colour in colours)
    lines = b"".join(b"\0" + rows[at : at + width] for at in range(0, len(rows), width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def take(page: Page, name: str) -> None:
    """Save what the page shows once its charts are drawn."""
    page.wait_for_load_state("networkidle")
    if page.locator("figure[data-chart]").count():
        page.locator("figure[data-drawn]").first.wait_for()
    pixels = b64decode(page.evaluate(PIXELS, b64encode(page.screenshot()).decode()))
    picture = with_palette(pixels, SIZE["width"], SIZE["height"])
    if len(picture) > LARGEST_BYTES:
        raise SystemExit(f"{name}.png: {len(picture):,} bytes is more than {LARGEST_BYTES:,}")
    (FOLDER / f"{name}.png").write_bytes(picture)
    print(f"{name}.png: {len(picture):,} bytes")


def main(url: str, log_ins: Path) -> None:
    """Sign in and go through the pages; the workload is the first in the queue that holds a reservation."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-lcd-text"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.add_init_script(FACE)
        page.goto(f"{url}/login/")
        page.get_by_label("Username").fill(MANAGER)
        page.get_by_label("Password").fill(password_of(log_ins, MANAGER))
        page.get_by_role("button", name="Sign in").click()
        for name, path in PAGES.items():
            page.goto(f"{url}{path}")
            take(page, name)
        page.goto(f"{url}/queue/north/")
        page.locator("tr:has(.lead b) th a, tbody th a").first.click()
        take(page, "workload")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: docs/screenshots.py URL LOG-INS")
    main(sys.argv[1].rstrip("/"), Path(sys.argv[2]))
