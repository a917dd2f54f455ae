"""Migrations: bring a SQLite catalog's schema up to this version, once and in order."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from .errors import CatalogTooNew
from .named_sql import SqlLibrary

_SCHEMA_TABLE = """CREATE TABLE IF NOT EXISTS schema_migration (
    number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_ms BIGINT NOT NULL)"""


def migrate(connection: apsw.Connection, library: SqlLibrary, path: Path) -> None:
    """Bring the schema up to this version, or refuse a directory of a newer one."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_SCHEMA_TABLE)
        rows = connection.execute("SELECT number FROM schema_migration").fetchall()
        applied = max((int(str(row[0])) for row in rows), default=0)
        newest = len(library.migrations)
        if applied > newest:
            raise CatalogTooNew(
                f"{path} has schema version {applied}, this ledgermq knows {newest}: "
                "upgrade ledgermq to open it. Nothing was changed"
            )
        for migration in library.migrations[applied:]:
            connection.execute(migration.script)
            connection.execute(
                "INSERT INTO schema_migration VALUES (?, ?, ?)",
                (migration.number, migration.name, int(time.time() * 1000)),
            )
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
