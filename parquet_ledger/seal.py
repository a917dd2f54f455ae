"""Seal: move the oldest part of a topic's tail into a segment.

The segment is written and synced first, without any lock. One short transaction then makes it live
and moves the topic's ``tail_offset`` past it, so every message is in exactly one place at every
moment. The frames behind ``tail_offset`` are dead from then on and are deleted in small
transactions; whoever seals next goes on with what a killed process left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .catalog import Catalog, Row, Transaction
from .columns import SEGMENT_SCHEMA
from .errors import CommitConflict, CommitOutcomeUnknown, LedgerError, TopicNotFound
from .frame_cache import FrameCache
from .segment import Segment
from .segment_file import WrittenSegment, segment_path, write_segment
from .tail import load_frames, tail_batches

_FRAMES_A_DELETE = 500
_READ_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class SealLimits:
    """How large a segment may become, and how its row groups are cut."""

    rows_max: int
    bytes_max: int
    row_group_rows: int
    row_group_bytes_max: int


@dataclass(frozen=True, slots=True)
class SealPolicy:
    """When a tail is worth sealing."""

    frames_min: int
    bytes_min: int
    age_ms_min: int


@dataclass(frozen=True, slots=True)
class TailExtent:
    """How much is in a topic's tail. ``frames`` and ``bytes`` may be over, never under."""

    frames: int
    bytes: int
    oldest_ms: int


@dataclass(frozen=True, slots=True)
class TailRun:
    """Consecutive frames that become one segment."""

    offset_start: int
    offset_end: int
    ledger_first: int
    ledger_last: int
    last_entry_end: int
    last_ledger_bytes: int
    frames: int


def is_due(extent: TailExtent, policy: SealPolicy, now_ms: int) -> bool:
    """Return whether a tail is large or old enough to be sealed."""
    return extent.frames > 0 and (
        extent.frames >= policy.frames_min
        or extent.bytes >= policy.bytes_min
        or now_ms - extent.oldest_ms >= policy.age_ms_min
    )


def choose_run(spans: Sequence[Row], limits: SealLimits) -> TailRun | None:
    """Return the frames to seal next: the oldest ones, up to a gap or the limits.

    ``spans`` are rows of the query ``tail_spans``. A gap is where a bulk append took its place.
    """
    if not spans:
        return None
    rows = size = count = 0
    at = spans[0][0]
    last = spans[0]
    for span in spans:
        offset, messages, _, frame_bytes = span[:4]
        full = rows + messages > limits.rows_max or size + frame_bytes > limits.bytes_max
        if offset != at or (count and full):
            break
        rows, size, at, last, count = (
            rows + messages,
            size + frame_bytes,
            at + messages,
            span,
            count + 1,
        )
    return TailRun(
        offset_start=spans[0][0],
        offset_end=at,
        ledger_first=spans[0][4],
        ledger_last=last[4],
        last_entry_end=last[5] + last[2],
        last_ledger_bytes=last[6],
        frames=count,
    )


def tail_extent(tx: Transaction, topic_id: int) -> TailExtent:
    """Return how much is in a tail, without looking at more than its two ends."""
    found = tx.row("tail_offset", topic_id)
    first = tx.row("tail_end", topic_id, found[0]) if found else None
    if found is None or first is None:
        return TailExtent(0, 0, 0)
    newest = tx.row("newest_frame", topic_id, found[0])
    assert newest is not None
    _, _, newest_entries, newest_ledger, newest_entry, newest_ledger_bytes = newest
    size, ledger_id, entry_start, ledger_bytes, appended_ms = first
    before = ledger_bytes - size
    if ledger_id == newest_ledger:
        frames = newest_entry + newest_entries - entry_start
        return TailExtent(frames, newest_ledger_bytes - before, appended_ms)
    closed = tx.row("ledger_totals_between", topic_id, ledger_id, newest_ledger)
    assert closed is not None
    return TailExtent(
        frames=closed[0] - entry_start + newest_entry + newest_entries,
        bytes=closed[1] - before + newest_ledger_bytes,
        oldest_ms=appended_ms,
    )


class Sealer:
    """Seals topics of one directory."""

    def __init__(
        self, directory: Path, catalog: Catalog, cache: FrameCache, limits: SealLimits
    ) -> None:
        self._directory = directory
        self._cache = cache
        self._catalog = catalog
        self._limits = limits

    def seal(self, topic_id: int, topic: str, session_id: int, now_ms: int) -> list[Segment]:
        """Seal everything that is in a topic's tail now; return the new segments."""
        with self._catalog.read() as tx:
            newest = tx.row("newest_frame", topic_id, 0)
        end = newest[0] + newest[1] if newest else 0
        sealed: list[Segment] = []
        while True:
            self._delete_sealed(topic_id)
            segment = self._seal_one(topic_id, topic, session_id, end, now_ms)
            if segment is None:
                return sealed
            self._cache.forget_below(topic_id, segment.offset_end)
            sealed.append(segment)

    def _seal_one(
        self, topic_id: int, topic: str, session_id: int, end: int, now_ms: int
    ) -> Segment | None:
        with self._catalog.read() as tx:
            found = tx.row("tail_offset", topic_id)
            if found is None:
                raise TopicNotFound(topic)
            tail_offset = int(found[0])
            spans = tx.rows("tail_spans", topic_id, tail_offset, self._limits.rows_max)
        run = choose_run([span for span in spans if span[0] < end], self._limits)
        if run is None:
            return None
        table = self._load(topic_id, run)
        path = segment_path(topic_id, session_id)
        written = write_segment(
            self._directory,
            path,
            table,
            row_group_rows=self._limits.row_group_rows,
            row_group_bytes_max=self._limits.row_group_bytes_max,
        )
        try:
            return self._publish(topic_id, topic, run, written, tail_offset, now_ms)
        except CommitOutcomeUnknown:
            raise  # The segment may be live: its file must stay.
        except LedgerError:
            (self._directory / path).unlink(missing_ok=True)
            raise

    def _load(self, topic_id: int, run: TailRun) -> pa.Table:
        """Return the messages of a run; it stays in the tail until this or another seal ends."""
        batches: list[pa.RecordBatch] = []
        at = run.offset_start
        while at < run.offset_end:
            with self._catalog.read() as tx:
                rows = load_frames(
                    tx, topic_id, at, end=run.offset_end, rows_max=10_000, bytes_max=_READ_BYTES
                )
            if not rows or rows[0].offset_start != at:
                raise CommitConflict(f"topic {topic_id} was sealed by another process meanwhile")
            batches += tail_batches(rows)
            at = rows[-1].offset_end
        return pa.Table.from_batches(batches, schema=SEGMENT_SCHEMA).combine_chunks()

    def _publish(
        self,
        topic_id: int,
        topic: str,
        run: TailRun,
        written: WrittenSegment,
        tail_offset: int,
        now_ms: int,
    ) -> Segment:
        assert written.messages == run.offset_end - run.offset_start
        with self._catalog.write() as tx:
            found = tx.row("tail_offset", topic_id)
            if found is None:
                raise TopicNotFound(topic)
            if found[0] != tail_offset:
                raise CommitConflict(f"{topic} was sealed by another process meanwhile")
            segment = Segment(
                segment_id=tx.next_id("segment"),
                topic_id=topic_id,
                offset_start=run.offset_start,
                offset_end=run.offset_end,
                messages=written.messages,
                entries=written.entries,
                bytes=written.bytes,
                file_bytes=written.file_bytes,
                ledger_first=run.ledger_first,
                ledger_last=run.ledger_last,
                publish_ms_min=written.publish_ms_min,
                publish_ms_max=written.publish_ms_max,
                ledger_shift=0,
                offset_shift=0,
                path=written.path,
                checksum=written.checksum,
                created_ms=now_ms,
            )
            tx.run("insert_segment", *segment.insert_parameters())
            tx.run("set_tail_offset", run.offset_end, topic_id)
            # While the ledger is open its row counts what left the tail; see load_head.
            tx.run(
                "settle_open_ledger",
                run.offset_end,
                run.last_entry_end,
                run.last_ledger_bytes,
                run.ledger_last,
            )
        return segment

    def _delete_sealed(self, topic_id: int) -> None:
        """Delete dead frames, a few at a time, so that no append waits for long."""
        while True:
            with self._catalog.read() as tx:
                found = tx.row("tail_offset", topic_id)
                oldest = tx.rows("tail_spans", topic_id, 0, 1)
            if found is None or not oldest or oldest[0][0] >= found[0]:
                return
            with self._catalog.write(durable=False) as tx:
                tx.run("delete_sealed_frames", topic_id, found[0], _FRAMES_A_DELETE)
