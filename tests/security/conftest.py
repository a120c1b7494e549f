"""The portal's laboratory, for tests of what it keeps from whom."""

from tests.portal.conftest import as_person, calm, lab

__all__ = ["as_person", "calm", "lab"]
