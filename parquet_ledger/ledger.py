"""The ledger: one directory, opened by any number of processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ledgermq.config import Settings

from .append import Appender, AppendLimits, now_ms
from .backlog import BacklogCounter
from .bulk import BulkLimits
from .check import CheckReport, check_directory
from .duckdb_views import TopicViews
from .errors import DirectoryNotWritable, LedgerError, NotALedger, TopicNotFound
from .file_system import refuse_network_file_system
from .frame_cache import FrameCache
from .head import TOPICS_MAX, LedgerLimits
from .maintenance import Maintenance
from .named_sql import load_library
from .read import Reader
from .retire import delete_orphans, delete_retired
from .seal import Sealer, SealLimits, SealPolicy
from .segment_file import sync_directory
from .sessions import Sessions
from .sqlite_catalog import SqliteCatalog
from .topic import Topic
from .topic_name import TopicName

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_OURS = frozenset(
    ("catalog.db", "catalog.db-wal", "catalog.db-shm", "catalog.db-journal", "locks", "segments")
)


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files that were deleted: of retired segments, and of writers that died."""

    retired: list[str]
    orphans: list[str]


class Ledger:
    """Topics in a directory. Open it with ``Ledger(path)``; it is a context manager."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Settings | None = None,
        *,
        clock_ms: Callable[[], int] = now_ms,
        background: bool = True,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.settings = settings = Settings() if settings is None else settings
        self.clock_ms = clock_ms
        prepare_directory(self.directory)
        self.catalog = SqliteCatalog(
            self.directory,
            load_library(),
            checkpoint_pages=settings.wal_checkpoint_pages,
            pregrow_megabytes=settings.wal_pregrow_megabytes,
            lock_wait_warning_ms=settings.lock_wait_warning_ms,
        )
        self.sessions = Sessions(self.directory, self.catalog)
        cache = FrameCache(settings.frame_cache_megabytes << 20)
        self.appender = Appender(self.catalog, _append_limits(settings), cache, clock_ms=clock_ms)
        self.reader = Reader(
            self.directory, self.catalog, cache, batch_rows=settings.read_batch_rows
        )
        self.backlogs = BacklogCounter(self.directory, self.catalog)
        self.sealer = Sealer(self.directory, self.catalog, cache, _seal_limits(settings))
        self.bulk_limits = _bulk_limits(settings)
        self.maintenance = Maintenance(
            self.directory,
            self.catalog,
            self.sealer,
            self.sessions,
            _seal_policy(settings),
            clock_ms=clock_ms,
            background=background,
        )
        self._views = TopicViews(self.directory, self.catalog, self.reader)
        self._closed = False

    def create_topic(self, name: str) -> Topic:
        """Return a topic, creating it if it is not there yet."""
        parsed = TopicName.parse(name)
        with self.catalog.read() as tx:
            found = tx.row("topic_by_name", str(parsed))
        if found is None:
            with self.catalog.write() as tx:
                found = tx.row("topic_by_name", str(parsed))
                if found is None:
                    found = (tx.next_id("topic"),)
                    if found[0] >= TOPICS_MAX:
                        raise LedgerError(f"{parsed}: {TOPICS_MAX - 1} topics is the limit")
                    tx.run("insert_topic", found[0], str(parsed), self.clock_ms())
        return Topic(self, int(found[0]), parsed)

    def topic(self, name: str) -> Topic:
        """Return an existing topic, or raise TopicNotFound."""
        parsed = TopicName.parse(name)
        with self.catalog.read() as tx:
            found = tx.row("topic_by_name", str(parsed))
        if found is None:
            raise TopicNotFound(str(parsed))
        return Topic(self, int(found[0]), parsed)

    def topics(self) -> list[Topic]:
        """Return all topics by name."""
        with self.catalog.read() as tx:
            rows = tx.rows("topics")
        return [Topic(self, int(row[0]), TopicName.parse(row[1])) for row in rows]

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages and subscriptions; its files go after the grace."""
        topic = self.topic(name)
        with self.catalog.write() as tx:
            tx.run("retire_topic_segments", self.clock_ms(), topic.topic_id)
            for statement in ("acks", "subscriptions", "tail", "ledgers"):
                tx.run(f"delete_topic_{statement}", topic.topic_id)
            tx.run("delete_topic", topic.topic_id)
            self.appender.heads.forget()

    def collect_garbage(self) -> Garbage:
        """Delete the files of segments retired longer than the grace period ago, and orphans."""
        self.sessions.forget_dead()
        before = self.clock_ms() - self.settings.retired_file_grace_ms
        return Garbage(
            retired=delete_retired(self.directory, self.catalog, before),
            orphans=delete_orphans(self.directory, self.catalog, self.sessions),
        )

    def check(self) -> CheckReport:
        """Verify the whole directory; changes nothing."""
        return check_directory(self.directory, self.catalog, self.sessions)

    def duckdb(self) -> DuckDBPyConnection:
        """Return a DuckDB connection with a view of every topic as of now."""
        return self._views.connect()

    def sql(self, query: str) -> DuckDBPyRelation:
        """Return the answer to a SELECT over topics, as of now."""
        return self._views.sql(query)

    def close(self) -> None:
        """Let go of the directory. What was confirmed is safe, closed or not."""
        if self._closed:
            return
        self._closed = True
        self.maintenance.stop()
        try:
            self.sessions.close()
        finally:
            self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def prepare_directory(directory: Path) -> None:
    """Make sure that a directory can hold a ledger, creating it for its owner alone."""
    refuse_network_file_system(directory)
    try:
        if directory.exists():
            found = {entry.name for entry in directory.iterdir()}
            if found and "catalog.db" not in found and not found <= _OURS:
                raise NotALedger(
                    f"{directory} holds other files ({', '.join(sorted(found)[:3])}, …) and no "
                    "catalog.db: give an empty directory or one that ledgermq made"
                )
        if not os.access(_existing_part(directory), os.W_OK):
            raise DirectoryNotWritable(f"{directory} can't be written: check its permissions")
        is_new = not directory.exists()
        for path in (directory, directory / "locks", directory / "segments"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_new:
            sync_directory(directory)
            sync_directory(directory.parent)
    except OSError as error:
        raise DirectoryNotWritable(f"{directory} can't be used: {error}") from error


def _existing_part(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _append_limits(settings: Settings) -> AppendLimits:
    return AppendLimits(
        message_bytes_max=settings.message_bytes_max,
        frame_bytes_max=settings.frame_bytes_max,
        ledger=LedgerLimits(
            entries_max=settings.ledger_entries_max,
            bytes_max=settings.ledger_megabytes_max << 20,
            age_ms_max=settings.ledger_minutes_max * 60_000,
        ),
    )


def _bulk_limits(settings: Settings) -> BulkLimits:
    return BulkLimits(
        message_bytes_max=settings.message_bytes_max,
        segment_rows_max=settings.segment_rows_max,
        segment_bytes_max=settings.segment_megabytes_max << 20,
        row_group_rows=settings.row_group_rows,
        row_group_bytes_max=settings.row_group_megabytes_max << 20,
    )


def _seal_limits(settings: Settings) -> SealLimits:
    return SealLimits(
        rows_max=settings.segment_rows_max,
        bytes_max=settings.segment_megabytes_max << 20,
        row_group_rows=settings.row_group_rows,
        row_group_bytes_max=settings.row_group_megabytes_max << 20,
    )


def _seal_policy(settings: Settings) -> SealPolicy:
    return SealPolicy(
        frames_min=settings.seal_rows,
        bytes_min=settings.seal_megabytes << 20,
        age_ms_min=settings.seal_age_ms,
    )
