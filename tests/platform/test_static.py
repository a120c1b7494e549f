"""What browsers are given: from here alone, and in the versions the code speaks to."""

import re

import pytest
from plotly.offline import get_plotlyjs_version

from tests.conftest import REPOSITORY


def test_the_vendored_charts_are_of_the_version_that_the_pinned_plotly_writes_for() -> None:
    version = get_plotlyjs_version()
    vendored = sorted(path.name for path in (REPOSITORY / "static" / "vendor").glob("plotly*.js"))
    assert vendored == [f"plotly-cartesian-{version}.min.js"]
    head = (REPOSITORY / "static" / "vendor" / vendored[0]).read_text(encoding="utf-8")[:200]
    assert f"v{version}" in head


@pytest.mark.parametrize("suffix", ["html", "css", "js"])
def test_nothing_is_asked_of_other_hosts(suffix: str) -> None:
    asked = re.compile(r"""(?:src|href|action|hx-get|hx-post)=["'](?:https?:)?//|url\(["']?(?:https?:)?//|@import""")
    folders = [REPOSITORY / "templates", REPOSITORY / "static" / "css", REPOSITORY / "static" / "js"]
    files = [path for folder in folders if folder.is_dir() for path in folder.rglob(f"*.{suffix}")]
    assert [str(path) for path in files if asked.search(path.read_text(encoding="utf-8"))] == []
