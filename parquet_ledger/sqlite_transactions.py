"""Transactions of a SQLite catalog: named queries between BEGIN and COMMIT."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import apsw

from .catalog import Row
from .errors import LedgerClosed
from .sqlite_errors import translate
from .sqlite_files import OpenFiles


class _Queries:
    """Named queries on one connection."""

    __slots__ = ("_connection", "_files", "_queries")
    _connection: apsw.Connection

    def __init__(self, files: OpenFiles, queries: dict[str, str]) -> None:
        self._files = files
        self._queries = queries

    def rows(self, query: str, *parameters: object) -> list[Row]:
        """Return all rows of a named query."""
        try:
            return self._connection.execute(self._queries[query], parameters).fetchall()
        except apsw.Error as error:
            raise translate(error, self._files.path) from error

    def row(self, query: str, *parameters: object) -> Row | None:
        """Return the only row of a named query, or None."""
        rows = self.rows(query, *parameters)
        assert len(rows) <= 1, query
        return rows[0] if rows else None


class SqliteRead(_Queries):
    """A read transaction; see ``Transaction``."""

    __slots__ = ("_lease",)

    def __enter__(self) -> Self:
        self._lease = self._files.reader()
        self._connection = self._lease.__enter__()
        try:
            self._connection.execute("BEGIN")
        except apsw.Error as error:
            raise translate(error, self._files.path) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.execute("COMMIT")
        self._lease.__exit__(None, None, None)


class SqliteWrite(_Queries):
    """A write transaction; see ``WriteTransaction``."""

    __slots__ = ("_begun", "_done", "_durable", "commit", "commits_of_others")

    def __init__(self, files: OpenFiles, queries: dict[str, str], *, durable: bool) -> None:
        self._files = files
        self._queries = queries
        self._durable = durable
        self._begun = False
        self._done = False
        self.commit = 0

    def __enter__(self) -> Self:
        files = self._files
        files.mutex.acquire()
        files.writing_thread = threading.get_ident()
        files.switch.__enter__()
        try:
            if not files.usable:
                raise LedgerClosed("the ledger is closed, or this process was forked")
            files.wal.raise_if_failed()
            files.lock.acquire()
            # BEGIN waits for the first change: until then the lock alone keeps others out.
            self._connection = files.writer
            self.commits_of_others = files.count_foreign_commits()
        except BaseException:
            files.switch.__exit__()
            files.writing_thread = 0
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
        try:
            try:
                if kind is not None and not self._done:
                    self._roll_back()
                elif self._begun or self._done:
                    self.commit = self._commit_or_roll_back()
            finally:
                files.lock.release()
                files.writing_thread = 0
                files.mutex.release()
            if self.commit and self._durable:
                files.wal.wait(self.commit)
        finally:
            files.switch.__exit__()

    def _commit_or_roll_back(self) -> int:
        files = self._files
        if self._begun:
            files.begin_commit()
            try:
                self._connection.execute("COMMIT")
            except apsw.Error as error:
                self._roll_back()
                raise translate(error, files.path) from error
        commit = files.wal.committed()
        if files.wal_pages >= files.checkpoint_pages:
            files.checkpoint()
        return commit

    def _roll_back(self) -> None:
        # What was concluded from the rolled-back changes must not outlive them.
        self._files.foreign_commits += 1
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def run(self, statement: str, *parameters: object) -> int:
        """Run a named statement and return how many rows it changed."""
        if not self._begun:
            self._begin()
        try:
            self._connection.execute(self._queries[statement], parameters)
        except apsw.Error as error:
            raise translate(error, self._files.path) from error
        return self._connection.changes()

    def run_last(self, statement: str, *parameters: object) -> None:
        """Run the last statement of a transaction; where it is the only one it commits itself."""
        if self._begun:
            self.run(statement, *parameters)
            return
        self._files.begin_commit()
        try:
            self._connection.execute(self._queries[statement], parameters)
        except apsw.Error as error:
            raise translate(error, self._files.path) from error
        self._done = True

    def _begin(self) -> None:
        assert not self._done, "nothing is changed after run_last"
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            raise translate(error, self._files.path) from error
        self._begun = True

    def next_id(self, counter: str) -> int:
        """Return the next id of a counter."""
        if not self._begun:
            self._begin()
        row = self.row("next_id", counter)
        assert row is not None, counter
        return int(row[0])
