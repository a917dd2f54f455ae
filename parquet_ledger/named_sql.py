"""SQL kept in ``.sql`` files: named queries and numbered migrations.

A query is ``-- name: some_name`` and the statement up to the next name. Parameters are ``?`` in
order or ``?1``, ``?2``, …; a catalog with another parameter style can translate them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the catalog's schema."""

    number: int
    name: str
    script: str


@dataclass(frozen=True, slots=True)
class SqlLibrary:
    """What a catalog needs to know of its SQL."""

    queries: dict[str, str]
    migrations: tuple[Migration, ...]


def parse_queries(text: str) -> dict[str, str]:
    """Return the statements of a ``.sql`` text by name."""
    pieces = _NAME.split(text)
    queries: dict[str, str] = {}
    for name, statement in zip(pieces[1::2], pieces[2::2], strict=True):
        if name in queries:
            raise ValueError(f"the query {name} is defined twice")
        queries[name] = statement.strip().rstrip(";")
    return queries


def load_library(package: str = f"{__package__}.sql") -> SqlLibrary:
    """Return the queries and migrations that lie in ``package``."""
    root = files(package)
    queries = parse_queries((root / "queries.sql").read_text("utf-8"))
    migrations = sorted(
        (m for entry in (root / "migrations").iterdir() if (m := _migration(entry)) is not None),
        key=lambda migration: migration.number,
    )
    numbers = [migration.number for migration in migrations]
    assert numbers == list(range(1, len(numbers) + 1)), "migrations are numbered without gaps"
    return SqlLibrary(queries, tuple(migrations))


def _migration(entry: Traversable) -> Migration | None:
    match = _MIGRATION.fullmatch(entry.name)
    return Migration(int(match[1]), match[2], entry.read_text("utf-8")) if match else None
