"""What one process has open of a SQLite catalog: connections, locks and the log."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from .errors import LedgerClosed
from .fork_gate import Activity
from .named_sql import SqlLibrary
from .sqlite_errors import translating
from .sqlite_migration import migrate
from .switch_interval import ShortSwitchInterval
from .wal_sync import MEGABYTE, WalSync
from .write_lock import FairWriteLock

_READ_CACHE_KIB = 4_000
_WRITE_CACHE_KIB = 16_000

# Connections of the parent process: finalising them here would disturb its files.
_inherited: list[object] = []


class OpenFiles:
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
        self._commits_begun = -1
        self.foreign_commits = 0
        self.mutex = threading.Lock()
        self.switch = ShortSwitchInterval()
        self.version_mutex = threading.Lock()
        self.activity = Activity()
        self.writing_thread = 0
        self._paused_mutex = False
        self.usable = True
        self._vfs = vfs
        self._readers: list[apsw.Connection] = []
        try:
            with translating(self.path):
                self.lock = FairWriteLock(directory / "locks", warn_after_ms=lock_wait_warning_ms)
                self.lock.acquire()
                try:
                    self.writer = self._connect(_WRITE_CACHE_KIB)
                    # Data versions compare only on one and the same connection.
                    self.version_watch = self._connect(_READ_CACHE_KIB)
                    self.writer.set_wal_hook(self._remember_wal_pages)
                    migrate(self.writer, library, self.path)
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
        with self.activity:
            try:
                connection = self._readers.pop()
            except IndexError:
                with translating(self.path):
                    connection = self._connect(_READ_CACHE_KIB)
            yield connection
            # Not in a finally: a connection that failed in a transaction is dropped.
            self._readers.append(connection)

    def count_foreign_commits(self) -> int:
        """Return a number that grows when others committed; the caller holds the write lock."""
        begun = self.wal.commits_begun()
        if begun != self._commits_begun:
            self._commits_begun = begun
            self.foreign_commits += 1
        return self.foreign_commits

    def begin_commit(self) -> None:
        """Tell the others that what they know is old; the caller commits next."""
        self._commits_begun = self.wal.begin_commit()

    def checkpoint(self) -> None:
        """Copy the log into the database; the caller holds the write lock."""
        try:
            self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.FullError, apsw.IOError, apsw.BusyError, apsw.LockedError):
            # The commit stands in the log; a log that can't be copied now is copied later, and a
            # disk that stays full fails the next commit that needs space.
            return

    def close(self) -> None:
        """Close everything; a transaction under way ends first."""
        self.usable = False
        with self.mutex:
            self.writer.close()
            self.version_watch.close()
            for connection in self._readers:
                connection.close()
            self._readers.clear()
            self.wal.close()
            self.lock.close()

    def pause(self, timeout_s: float) -> bool:
        """Wait until no thread is inside SQLite, and let none begin."""
        mine = self.writing_thread == threading.get_ident()
        self._paused_mutex = not mine and self.mutex.acquire(timeout=timeout_s)
        self.version_mutex.acquire()
        return self.activity.pause(timeout_s) and self._paused_mutex

    def resume(self) -> None:
        """Go on after a fork."""
        self.activity.resume()
        self.version_mutex.release()
        if self._paused_mutex:
            self.mutex.release()

    def abandon(self) -> None:
        """In a forked child: close the locks' copies, and never touch SQLite's own state."""
        self.usable = False
        self.switch.abandon()
        self.lock.close()
        self.wal.close()
        _inherited.append((self.writer, self.version_watch, self._readers))


def _persist_wal(connection: apsw.Connection) -> None:
    flag = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(flag))
