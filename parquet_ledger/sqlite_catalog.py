"""The catalog on SQLite: one file, any number of processes and threads, no server.

One connection writes, behind a mutex and the fair lock between processes; a pool of connections
reads. Checkpoints run only while the write lock is held, so that the log starts over instead of
growing. A forked child opens everything anew and never touches what it inherited. Nothing else in
the process may open the catalog's files: closing a second handle would drop SQLite's locks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from .catalog import Row
from .errors import (
    CatalogDamaged,
    CatalogError,
    CatalogTooNew,
    CommitConflict,
    DirectoryNotWritable,
    DiskFull,
    LedgerClosed,
)
from .named_sql import SqlLibrary
from .switch_interval import ShortSwitchInterval
from .wal_sync import MEGABYTE, WalSync
from .write_lock import FairWriteLock

_SCHEMA_TABLE = """CREATE TABLE IF NOT EXISTS schema_migration (
    number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_ms BIGINT NOT NULL)"""
_READ_CACHE_KIB = 4_000
_WRITE_CACHE_KIB = 16_000


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
        self._open: Callable[[], _OpenFiles] = lambda: _OpenFiles(
            directory,
            library,
            checkpoint_pages=checkpoint_pages,
            pregrow_megabytes=pregrow_megabytes,
            lock_wait_warning_ms=lock_wait_warning_ms,
            vfs=vfs,
            fdatasync=fdatasync,
        )
        self._files: _OpenFiles | None = self._open()
        self._closed = False
        _open_catalogs.add(self)

    def read(self) -> _Read:
        """Open a transaction that sees one state and changes nothing."""
        return _Read(self._current(), self._queries)

    def write(self, *, durable: bool = True) -> _Write:
        """Open a transaction alone; it commits at the end of the block."""
        return _Write(self._current(), self._queries, durable=durable)

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
            return _scalar(files.version_watch, "PRAGMA data_version")

    def close(self) -> None:
        """Close all connections and files."""
        self._closed = True
        if self._files is not None:
            self._files.close()
            self._files = None
        _open_catalogs.discard(self)

    def _current(self) -> _OpenFiles:
        if self._files is None:
            if self._closed:
                raise LedgerClosed("the ledger is closed: open the directory again")
            self._files = self._open()
        return self._files

    def _after_fork(self) -> None:
        if self._files is not None:
            self._files.abandon()
            self._files = None


class _OpenFiles:
    """What one process has open of a catalog."""

    def __init__(
        self,
        directory: Path,
        library: SqlLibrary,
        *,
        checkpoint_pages: int,
        pregrow_megabytes: int,
        lock_wait_warning_ms: int,
        vfs: str | None,
        fdatasync: Callable[[int], None],
    ) -> None:
        self.path = directory / "catalog.db"
        self.checkpoint_pages = checkpoint_pages
        self.wal_pages = 0
        self.version_after_commit = -1
        self.foreign_commits = 0
        self.mutex = threading.Lock()
        self.switch = ShortSwitchInterval()
        self.version_mutex = threading.Lock()
        self.usable = True
        self._vfs = vfs
        self._readers: list[apsw.Connection] = []
        self.lock = FairWriteLock(directory / "locks", warn_after_ms=lock_wait_warning_ms)
        try:
            with _translating(self.path):
                self.lock.acquire()
                try:
                    self.writer = self._connect(_WRITE_CACHE_KIB)
                    # Data versions compare only on one and the same connection.
                    self.version_watch = self._connect(_READ_CACHE_KIB)
                    self.writer.set_wal_hook(self._remember_wal_pages)
                    _migrate(self.writer, library, self.path)
                    counters = directory / "locks" / "sync"
                    self.wal = WalSync(Path(f"{self.path}-wal"), counters, fdatasync=fdatasync)
                    self.wal.pregrow(pregrow_megabytes * MEGABYTE)
                finally:
                    self.lock.release()
        except BaseException:
            for opened in vars(self).values():
                if isinstance(opened, (apsw.Connection, FairWriteLock, WalSync)):
                    opened.close()
            raise

    def _connect(self, cache_kib: int) -> apsw.Connection:
        connection = apsw.Connection(str(self.path), vfs=self._vfs)
        try:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            # A log that is deleted at the last close would have to be grown again by the next process.
            for pragma in (
                "page_size=4096",
                "journal_mode=wal",
                "synchronous=normal",
                "wal_autocheckpoint=0",
                "secure_delete=0",
                f"cache_size=-{cache_kib}",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            _persist_wal(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _remember_wal_pages(self, _: apsw.Connection, _database: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    @contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Lend a connection that nobody else is using."""
        if not self.usable:
            raise LedgerClosed("the ledger is closed, or this process was forked in a transaction")
        try:
            connection = self._readers.pop()
        except IndexError:
            with _translating(self.path):
                connection = self._connect(_READ_CACHE_KIB)
        yield connection
        # Not in a finally: a connection that failed in the middle of a transaction is dropped.
        self._readers.append(connection)

    def count_foreign_commits(self) -> int:
        """Return a number that grows when others committed; the caller is in a transaction."""
        version = self.writer.data_version()
        if version != self.version_after_commit:
            self.version_after_commit = version
            self.foreign_commits += 1
        return self.foreign_commits

    def checkpoint(self) -> None:
        """Copy the log into the database; the caller holds the write lock."""
        try:
            self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.FullError, apsw.IOError, apsw.BusyError, apsw.LockedError):
            # The commit stands in the log; a log that can't be copied now is copied later, and a
            # disk that stays full fails the next commit that needs space.
            return

    def close(self) -> None:
        self.usable = False
        with self.mutex:
            self.writer.close()
            self.version_watch.close()
            for connection in self._readers:
                connection.close()
            self._readers.clear()
            self.wal.close()
            self.lock.close()

    def abandon(self) -> None:
        """In a forked child: close the locks' copies, and never touch SQLite's own state."""
        self.usable = False
        self.switch.abandon()
        self.lock.close()
        self.wal.close()
        _inherited.append((self.writer, self.version_watch, self._readers))


class _Read:
    """A read transaction; see ``Transaction``."""

    __slots__ = ("_connection", "_files", "_lease", "_queries")

    def __init__(self, files: _OpenFiles, queries: dict[str, str]) -> None:
        self._files = files
        self._queries = queries

    def __enter__(self) -> Self:
        self._lease = self._files.reader()
        self._connection = self._lease.__enter__()
        try:
            self._connection.execute("BEGIN")
        except apsw.Error as error:
            raise _translate(error, self._files.path) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.execute("COMMIT")
        self._lease.__exit__(None, None, None)

    def rows(self, query: str, *parameters: object) -> list[Row]:
        try:
            return self._connection.execute(self._queries[query], parameters).fetchall()
        except apsw.Error as error:
            raise _translate(error, self._files.path) from error

    def row(self, query: str, *parameters: object) -> Row | None:
        rows = self.rows(query, *parameters)
        assert len(rows) <= 1, query
        return rows[0] if rows else None


class _Write:
    """A write transaction; see ``WriteTransaction``."""

    __slots__ = ("_connection", "_durable", "_files", "_queries", "commit", "commits_of_others")

    def __init__(self, files: _OpenFiles, queries: dict[str, str], *, durable: bool) -> None:
        self._files = files
        self._queries = queries
        self._durable = durable

    def __enter__(self) -> Self:
        files = self._files
        files.mutex.acquire()
        files.switch.__enter__()
        try:
            if not files.usable:
                raise LedgerClosed("the ledger is closed, or this process was forked")
            files.wal.raise_if_failed()
            files.lock.acquire()
            self._connection = files.writer
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self.commits_of_others = files.count_foreign_commits()
            except BaseException as error:
                files.lock.release()
                if isinstance(error, apsw.Error):
                    raise _translate(error, files.path) from error
                raise
        except BaseException:
            files.switch.__exit__()
            files.mutex.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        files = self._files
        if not files.usable:
            return  # This is a forked child leaving its parent's block: nothing here is its own.
        self.commit = 0
        try:
            try:
                if kind is None:
                    self.commit = self._commit_or_roll_back()
                else:
                    self._roll_back()
            finally:
                files.lock.release()
                files.mutex.release()
            if self.commit and self._durable:
                files.wal.wait(self.commit)
        finally:
            files.switch.__exit__()

    def _commit_or_roll_back(self) -> int:
        files = self._files
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back()
            raise _translate(error, self._files.path) from error
        files.version_after_commit = self._connection.data_version()
        commit = files.wal.committed()
        if files.wal_pages >= files.checkpoint_pages:
            files.checkpoint()
        return commit

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def rows(self, query: str, *parameters: object) -> list[Row]:
        try:
            return self._connection.execute(self._queries[query], parameters).fetchall()
        except apsw.Error as error:
            raise _translate(error, self._files.path) from error

    def row(self, query: str, *parameters: object) -> Row | None:
        rows = self.rows(query, *parameters)
        assert len(rows) <= 1, query
        return rows[0] if rows else None

    def run(self, statement: str, *parameters: object) -> int:
        try:
            self._connection.execute(self._queries[statement], parameters)
        except apsw.Error as error:
            raise _translate(error, self._files.path) from error
        return self._connection.changes()

    def next_id(self, counter: str) -> int:
        row = self.row("next_id", counter)
        assert row is not None, counter
        return int(row[0])


def _migrate(connection: apsw.Connection, library: SqlLibrary, path: Path) -> None:
    """Bring the schema up to this version, or refuse a directory of a newer one."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_SCHEMA_TABLE)
        applied = int(_scalar(connection, "SELECT coalesce(max(number), 0) FROM schema_migration"))
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


def _persist_wal(connection: apsw.Connection) -> None:
    flag = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(flag))


def _scalar(connection: apsw.Connection, sql: str) -> int:
    value = connection.execute(sql).fetchall()[0][0]
    assert isinstance(value, int), sql
    return value


@contextmanager
def _translating(path: Path) -> Iterator[None]:
    """Turn SQLite's errors while opening into ours, chained."""
    try:
        yield
    except apsw.Error as error:
        raise _translate(error, path) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _translate(apsw.FullError(str(error)), path) from error


def _translate(error: apsw.Error, path: Path) -> CatalogError | DirectoryNotWritable:
    if isinstance(error, apsw.FullError):
        return DiskFull(
            f"{path}: no space is left on the disk. Nothing of this write was kept, what was "
            "confirmed before is safe: free some space and try again"
        )
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError)):
        return DirectoryNotWritable(f"{path} can't be written: {error}")
    if isinstance(error, (apsw.NotADBError, apsw.CorruptError)):
        return CatalogDamaged(f"{path} is damaged ({error}): restore it from a backup")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return CommitConflict(f"{path} is locked by a program that is not ledgermq: {error}")
    return CatalogError(f"{path}: {error}")


_open_catalogs: weakref.WeakSet[SqliteCatalog] = weakref.WeakSet()
# Connections of the parent process: finalising them here would disturb its files.
_inherited: list[object] = []


def _reopen_after_fork() -> None:
    for catalog in list(_open_catalogs):
        catalog._after_fork()


os.register_at_fork(after_in_child=_reopen_after_fork)
