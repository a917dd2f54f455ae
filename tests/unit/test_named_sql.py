"""SQL in files: each query has a name, each name is used, migrations are numbered."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ledgermq.parquet_ledger
from ledgermq.parquet_ledger.named_sql import load_library, parse_queries

FOLDER = Path(ledgermq.parquet_ledger.__file__).parent
METHODS = {"row", "rows", "run"}
# Ledger.delete_topic puts this name together.
PATTERNS = {"delete_topic_": ("acks", "subscriptions", "tail", "ledgers")}


def names_in(path: Path) -> Iterator[str]:
    """Yield the names of the queries that a module runs."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        # A method may have been picked beforehand: run = tx.run_last if … else tx.run.
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        query = node.args[0]
        if called not in METHODS:
            continue
        if isinstance(query, ast.Constant) and isinstance(query.value, str):
            yield query.value
        elif isinstance(query, ast.JoinedStr) and isinstance(query.values[0], ast.Constant):
            start = str(query.values[0].value)
            yield from (start + end for end in PATTERNS[start])


USED = {name for path in FOLDER.rglob("*.py") for name in names_in(path)}


def test_every_query_that_the_code_runs_is_defined() -> None:
    assert USED - load_library().queries.keys() == set()


def test_every_query_that_is_defined_is_run() -> None:
    assert load_library().queries.keys() - USED == set()


def test_a_query_is_the_text_up_to_the_next_name() -> None:
    text = "-- A comment.\n-- name: one\nSELECT 1;\n\n-- name: two\nSELECT\n  2;\n"
    assert parse_queries(text) == {"one": "SELECT 1", "two": "SELECT\n  2"}


def test_a_text_without_names_has_no_queries() -> None:
    assert parse_queries("SELECT 1;") == {}


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="one is defined twice"):
        parse_queries("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")


def test_migrations_are_numbered_from_one_without_gaps() -> None:
    numbers = [migration.number for migration in load_library().migrations]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_migration_file_is_loaded() -> None:
    files = sorted((FOLDER / "sql" / "migrations").glob("*.sql"))
    assert [m.script for m in load_library().migrations] == [f.read_text("utf-8") for f in files]
