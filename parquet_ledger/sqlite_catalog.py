"""The catalog on SQLite: one file, any number of processes and threads, no server.

One connection writes, behind a mutex and the fair lock between processes; a pool of connections
reads. Checkpoints run only while the write lock is held, so that the log starts over instead of
growing. A forked child opens everything anew and never touches what it inherited. Nothing else in
the process may open the catalog's files: closing a second handle would drop SQLite's locks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .errors import LedgerClosed
from .fork_gate import watch_forks
from .named_sql import SqlLibrary
from .sqlite_files import OpenFiles
from .sqlite_transactions import SqliteRead, SqliteWrite


class SqliteCatalog:
    """A catalog in ``directory``; see ``Catalog`` for what its methods promise."""

    def __init__(
        self,
        directory: Path,
        library: SqlLibrary,
        *,
        checkpoint_pages: int = 2_000,
        pregrow_megabytes: int = 16,
        lock_wait_warning_ms: int = 5_000,
        vfs: str | None = None,
        fdatasync: Callable[[int], None] = os.fdatasync,
    ) -> None:
        self._queries = library.queries
        self._open: Callable[[], OpenFiles] = lambda: OpenFiles(
            directory,
            library,
            checkpoint_pages=checkpoint_pages,
            pregrow_megabytes=pregrow_megabytes,
            lock_wait_warning_ms=lock_wait_warning_ms,
            vfs=vfs,
            fdatasync=fdatasync,
        )
        self._files: OpenFiles | None = self._open()
        self._closed = False
        self._forked_in_transaction = False
        watch_forks(self)

    def read(self) -> SqliteRead:
        """Open a transaction that sees one state and changes nothing."""
        return SqliteRead(self._current(), self._queries)

    def write(self, *, durable: bool = True) -> SqliteWrite:
        """Open a transaction alone; it commits at the end of the block."""
        return SqliteWrite(self._current(), self._queries, durable=durable)

    def sync(self, commit: int) -> None:
        """Return when the commit of that number, and every one before it, is durable."""
        self._current().wal.wait(commit)

    def damage(self) -> list[str]:
        """Return what SQLite finds wrong with its files."""
        with self._current().reader() as connection:
            found = connection.execute("PRAGMA integrity_check").fetchall()
        return [str(row[0]) for row in found if row[0] != "ok"]

    def changes(self) -> int:
        """Return a number that differs after another process or object committed."""
        files = self._current()
        with files.version_mutex:
            return int(files.version_watch.pragma("data_version"))

    def close(self) -> None:
        """Close all connections and files."""
        self._closed = True
        if self._files is not None:
            self._files.close()
            self._files = None

    def _current(self) -> OpenFiles:
        if self._files is None:
            if self._closed:
                raise LedgerClosed("the ledger is closed: open the directory again")
            if self._forked_in_transaction:
                raise LedgerClosed(
                    "this process was forked while a transaction was under way, so it can't use "
                    "the ledger: fork outside of transactions, or start the process with spawn"
                )
            self._files = self._open()
        return self._files

    def pause(self, timeout_s: float) -> bool:
        """Before a fork: let nobody begin, and return whether everything came to rest."""
        return self._files is None or self._files.pause(timeout_s)

    def resume(self) -> None:
        """In the parent of a fork: go on."""
        if self._files is not None:
            self._files.resume()

    def abandon(self, *, at_rest: bool) -> None:
        """In a forked child: let go of what was inherited; open anew when first used."""
        if self._files is not None:
            self._files.abandon()
            self._files = None
        self._forked_in_transaction = self._forked_in_transaction or not at_rest
