"""An operation of migrations that makes all tables of an application at once.

Django looks at every related model again after each table, constraint and index that a migration adds; with a hundred
tables that takes most of the time of a new database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import CreateModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class CreateModels(Operation):
    """As these operations one after the other: tables may refer to those that come after them.

    Args:
        models: with their constraints and indexes among their options.
    """

    reduces_to_sql = True

    def __init__(self, models: Sequence[CreateModel]) -> None:
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Know the models; those that were looked at before are looked at anew with them, once."""
        state.__dict__.pop("apps", None)
        for each in self.models:
            each.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        """Make the tables."""
        for each in self.models:
            each.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        """Drop them, those that refer to others first."""
        for each in reversed(self.models):
            each.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        """What it does, in words."""
        return f"Create {len(self.models)} models at once"
