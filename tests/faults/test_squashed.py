"""A new database, made by the migrations that stand for many, is as one that went the whole way."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from tests.conftest import REPOSITORY
from tests.faults.test_migrations import MIGRATE, environment_of

STEP_BY_STEP = """
import django
django.setup()
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
executor = MigrationExecutor(connection)
executor.loader = MigrationLoader(connection, replace_migrations=False)
graph = executor.loader.graph
executor.migrate([key for key in graph.leaf_nodes() if not graph.nodes[key].replaces])
"""
"""By the migrations one after the other, as an installation came here that was there before them."""
CATALOGUE = {
    "columns": """
        SELECT table_name, column_name, data_type, udt_name, is_nullable, column_default, identity_generation,
            character_maximum_length, numeric_precision, generation_expression
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, condeferrable, condeferred, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "triggers": "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "functions": """
        SELECT proname, prosrc FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND probin IS NULL""",
    "storage": "SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    "extensions": "SELECT extname FROM pg_extension",
}


def catalogue(database_url: str) -> dict[str, set[tuple[object, ...]]]:
    """What there is, by kind; the order of columns is nobody's business."""
    with psycopg.connect(database_url) as connection:
        return {kind: {tuple(map(str, row)) for row in connection.execute(sql)} for kind, sql in CATALOGUE.items()}


@pytest.mark.long
def test_both_ways_lead_to_the_same_database(process_environment: dict[str, str], own_database: str) -> None:
    environment = environment_of(own_database)
    subprocess.run([sys.executable, "-c", STEP_BY_STEP], env=environment, cwd=REPOSITORY, check=True)
    stepped, made = catalogue(own_database), catalogue(process_environment["DATABASE_URL"])
    for kind in CATALOGUE:
        assert made[kind] == stepped[kind], kind
    said = subprocess.run(MIGRATE, env=environment, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    assert "No migrations to apply" in said


@pytest.mark.long
def test_a_new_database_is_taken_down_and_made_again(own_database: str) -> None:
    environment = environment_of(own_database)
    for words in ((), ("scheduler", "zero"), ("admin", "zero"), ("budgets", "zero"), ()):
        subprocess.run(
            [*MIGRATE, *words],
            env=environment,
            cwd=REPOSITORY,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        left = catalogue(own_database)
        assert bool(left["functions"]) == (words != ("budgets", "zero"))
