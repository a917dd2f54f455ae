"""The catalog: the one transactional database that says what is where.

Callers see named queries inside transactions and nothing of the database behind them, so that
another database takes this interface and the shared SQL and leaves the callers alone. What every
implementation keeps (``tests/conformance`` checks it):

- A write transaction sees and changes everything alone; it commits whole or not at all.
- When ``write()`` ends without an error, its changes are durable, unless ``durable=False``.
- A read transaction sees one state of the catalog, however many queries it runs.
- No writer starves: waiting processes get their turn.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


class Transaction(Protocol):
    """Queries against one state of the catalog."""

    def rows(self, query: str, *parameters: object) -> list[Row]:
        """Return all rows of a named query."""

    def row(self, query: str, *parameters: object) -> Row | None:
        """Return the only row of a named query, or None."""


class WriteTransaction(Transaction, Protocol):
    """A transaction that may change the catalog."""

    commits_of_others: int
    """A number that stays the same while only this catalog object commits, and never rolls back:
    as long as it does, what was concluded in an earlier transaction holds."""

    commit: int
    """After the block: the commit's number, for ``Catalog.sync``."""

    def run(self, statement: str, *parameters: object) -> int:
        """Run a named statement and return how many rows it changed."""

    def run_last(self, statement: str, *parameters: object) -> None:
        """Run the statement after which the transaction changes nothing more."""

    def next_id(self, counter: str) -> int:
        """Return the next id of a counter; an id is never given out twice."""


class Catalog(Protocol):
    """A shared, durable catalog."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that sees one state and changes nothing. Keep it short."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[WriteTransaction]:
        """Open a transaction alone; it commits at the end of the block, or rolls back on error.

        With ``durable=False`` it may return before the commit reached the disk: use it only for
        what may be lost in a power cut, and follow with ``sync()`` before confirming anything.
        """

    def sync(self, commit: int) -> None:
        """Return when the commit of that number, and every one before it, is durable."""

    def changes(self) -> int:
        """Return a number that differs after any other process or catalog object committed."""

    def damage(self) -> list[str]:
        """Return what the database itself finds wrong with its files; nothing if all is well."""

    def close(self) -> None:
        """Let go of all files. Closing twice is allowed."""
