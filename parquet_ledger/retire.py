"""Retire: which segments nobody needs, and how their files go.

A segment may go when every durable subscription has acknowledged all of it and retention lets go
of it, from the middle of a topic as well as from the front. One transaction retires it; the file
is deleted after a grace period, for the sake of readers that opened it before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .catalog import Catalog, Transaction
from .errors import LedgerError
from .segment import Segment, Span
from .segment_file import files_below
from .sessions import Sessions
from .subscriptions import acked_count, list_subscriptions

FOREVER = -1
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept although everybody acknowledged it; -1 keeps for ever on that axis.

    As in Pulsar a segment goes as soon as one axis lets go: it is too old, or newer segments fill
    the size already.
    """

    minutes: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        if self.minutes < FOREVER or self.bytes < FOREVER:
            raise LedgerError(f"retention {self} must be -1 (for ever), 0 (nothing) or more")


def released_by_retention(
    acknowledged: Sequence[Segment], retention: Retention, now_ms: int
) -> list[Segment]:
    """Return those of the acknowledged segments, oldest first, that retention no longer keeps."""
    released = []
    newer_bytes = 0
    for segment in sorted(acknowledged, key=lambda s: s.offset_start, reverse=True):
        newer_bytes += segment.file_bytes
        age_ms = now_ms - segment.publish_ms_max
        expired = retention.minutes != FOREVER and age_ms >= retention.minutes * MINUTE_MS
        over_size = retention.bytes != FOREVER and newer_bytes > retention.bytes
        if expired or over_size:
            released.append(segment)
    return released[::-1]


def retire_segments(
    catalog: Catalog, topic_id: int, retention: Retention, now_ms: int
) -> list[Segment]:
    """Retire what no cursor and no retention needs, in one transaction; return it."""
    with catalog.write() as tx:
        segments = _before_tail(tx, topic_id)
        for subscription in list_subscriptions(tx, topic_id):
            segments = [
                segment
                for segment in segments
                if acked_count(tx, subscription, Span(segment.offset_start, segment.offset_end))
                == segment.offset_end - segment.offset_start
            ]
        released = released_by_retention(segments, retention, now_ms)
        for segment in released:
            tx.run("retire_segment", now_ms, segment.segment_id)
    return released


def _before_tail(tx: Transaction, topic_id: int) -> list[Segment]:
    """Return the live segments before the first frame of the tail.

    A bulk segment behind it waits until the frames are sealed: ``stored_spans`` relies on nothing
    being missing from the first frame on.
    """
    segments = [Segment.from_row(row) for row in tx.rows("live_segments", topic_id)]
    found = tx.row("tail_offset", topic_id)
    first = tx.rows("tail_spans", topic_id, found[0], 1) if found else []
    return [s for s in segments if not first or s.offset_end <= first[0][0]]


def delete_retired(directory: Path, catalog: Catalog, retired_before_ms: int) -> list[str]:
    """Delete the files of segments that were retired long enough ago; return their paths.

    A file goes before its row: after a crash in between the row leads here again.
    """
    with catalog.read() as tx:
        rows = tx.rows("segments_retired_before", retired_before_ms)
    if rows:
        # Another process' retirement may be visible and not durable yet. A durable commit, though it
        # changes nothing, syncs the log up to it; otherwise a power cut could keep the row as live
        # and lose the file.
        with catalog.write() as tx:
            for segment_id, _ in rows:
                tx.run("retire_segment", retired_before_ms, segment_id)
    for _, path in rows:
        (directory / path).unlink(missing_ok=True)
    if rows:
        with catalog.write(durable=False) as tx:
            for segment_id, _ in rows:
                tx.run("forget_segment", segment_id)
    return [str(path) for _, path in rows]


def find_orphans(directory: Path, catalog: Catalog, sessions: Sessions) -> list[str]:
    """Return files that no catalog row names and no living process may still publish.

    The order matters: files first, then who is dead, then the catalog. Whatever a dead process
    published, it did before it died.
    """
    candidates = [path for path in files_below(directory) if not _has_live_writer(path, sessions)]
    with catalog.read() as tx:
        named = {row[0] for row in tx.rows("segment_paths")}
    return [path for path in candidates if path not in named]


def delete_orphans(directory: Path, catalog: Catalog, sessions: Sessions) -> list[str]:
    """Delete what ``find_orphans`` finds and return it."""
    orphans = find_orphans(directory, catalog, sessions)
    for path in orphans:
        (directory / path).unlink(missing_ok=True)
    return orphans


def _has_live_writer(path: str, sessions: Sessions) -> bool:
    session, dash, _ = Path(path).name.partition("-")
    if not dash or not session.startswith("s") or not session[1:].isdigit():
        return True  # Not a name of ours: leave it alone.
    return sessions.is_alive(int(session[1:]))
