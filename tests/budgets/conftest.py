"""The laboratory of these tests."""

import pytest

from tests.budgets.laboratory import Lab, build


@pytest.fixture
def lab(db: None) -> Lab:
    """Two programs, the first with two projects; one cluster; five people."""
    return build()
