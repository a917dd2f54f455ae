"""Read: forward from any position, over tail and segments alike.

A message is at every moment in exactly one place, and its offset never changes. So a reader holds
no snapshot open: it asks, for the next offset, where that message is now, reads a piece from there
and goes on. Seals, merges and retirements meanwhile move what it has not read yet, and nothing is
seen twice or missed. A read without ``end`` stops at what was there when it began.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .catalog import Catalog, Transaction
from .columns import SEGMENT_SCHEMA
from .errors import LedgerError, SegmentDamaged, TopicNotFound
from .frame_cache import FrameCache, TailRow
from .head import load_head
from .segment import Segment
from .segment_file import SegmentReader
from .tail import load_frames, tail_batches, tail_row

_FRAMES_A_READ = 1_000
_BYTES_A_READ = 4 << 20
_POSITION = ["ledger_id", "entry_id", "batch_index", "topic_offset"]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The message id's part that the ledger decides; positions order as offsets do."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message with all its components; see ``columns.COLUMN_MEANINGS``."""

    position: Position
    topic_offset: int
    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True, slots=True)
class Entry:
    """One producer batch, or one message that was not batched."""

    ledger_id: int
    entry_id: int
    offset_start: int
    messages: pa.RecordBatch


class Reader:
    """Reads topics of one directory; safe to use from several threads."""

    def __init__(
        self, directory: Path, catalog: Catalog, cache: FrameCache, *, batch_rows: int
    ) -> None:
        self._directory = directory
        self._catalog = catalog
        self._cache = cache
        self._batch_rows = batch_rows

    def batches(
        self,
        topic_id: int,
        topic: str,
        start: int = 0,
        end: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages from offset ``start`` up to ``end`` as record batches."""
        names = list(SEGMENT_SCHEMA.names if columns is None else columns)
        unknown = [name for name in names if name not in SEGMENT_SCHEMA.names]
        if unknown:
            raise LedgerError(f"there are no columns {unknown}; see {SEGMENT_SCHEMA.names}")
        end = self.head(topic_id, topic) if end is None else end
        at = start
        missing: str | None = None
        while at < end:
            place = self._locate(topic_id, topic, at, end)
            if place is None:
                return
            if isinstance(place, Segment):
                try:
                    for table in self._segment_tables(topic, place, at, end, names):
                        yield from table.to_batches(max_chunksize=self._batch_rows)
                    at, missing = place.offset_end, None
                except FileNotFoundError:
                    # It was merged or retired since: the catalog knows where the messages are now.
                    if missing == place.path:
                        raise SegmentDamaged(topic, place.path, "is missing") from None
                    missing = place.path
            else:
                for batch in tail_batches(place):
                    yield from _cut(batch.select(names), batch, at, end)
                at = place[-1].offset_end

    def head(self, topic_id: int, topic: str) -> int:
        """Return the offset that the next message will have."""
        with self._catalog.read() as tx:
            return load_head(tx, topic_id, topic).offset

    def messages(
        self, topic_id: int, topic: str, start: int = 0, end: int | None = None
    ) -> Iterator[StoredMessage]:
        """Yield the messages one by one."""
        names = [name for name in SEGMENT_SCHEMA.names if name not in _POSITION]
        for batch in self.batches(topic_id, topic, start, end):
            columns = [batch.column(name).to_pylist() for name in names]
            places = (batch.column(name).to_pylist() for name in _POSITION)
            for i, (ledger, entry, index, offset) in enumerate(zip(*places, strict=True)):
                values = {name: column[i] for name, column in zip(names, columns, strict=True)}
                values["properties"] = dict(values["properties"] or ())
                yield StoredMessage(Position(ledger, entry, index), offset, values)

    def entries(
        self, topic_id: int, topic: str, start: int = 0, end: int | None = None
    ) -> Iterator[Entry]:
        """Yield the messages entry by entry, beginning within the entry that holds ``start``."""
        held: pa.RecordBatch | None = None
        for batch in self.batches(topic_id, topic, start, end):
            pieces = _split_entries(batch)
            if held is not None:
                if _same_entry(held, pieces[0]):
                    pieces[0] = _join(held, pieces[0])
                else:
                    pieces.insert(0, held)
            # The last piece may go on in the next batch.
            held = pieces.pop()
            yield from map(_entry, pieces)
        if held is not None:
            yield _entry(held)

    def frames(self, topic_id: int, topic: str, start: int, end: int) -> list[TailRow] | None:
        """Return tail frames from ``start`` on, or None where a segment or nothing holds it."""
        place = self._locate(topic_id, topic, start, end)
        return place if isinstance(place, list) else None

    def position_of(self, topic_id: int, topic: str, offset: int) -> Position | None:
        """Return the position of the message at an offset, or None if it is not stored."""
        for batch in self.batches(topic_id, topic, offset, offset + 1, _POSITION):
            ledger, entry, index, _ = (column[0].as_py() for column in batch.columns)
            return Position(ledger, entry, index)
        return None

    def offset_of(self, topic_id: int, topic: str, position: Position) -> int:
        """Return the offset of the first message at or after a position."""
        with self._catalog.read() as tx:
            found = tx.row("tail_offset", topic_id)
            if found is None:
                raise TopicNotFound(topic)
            ledgers = tx.rows("ledgers", topic_id)
            head = load_head(tx, topic_id, topic).offset
            frame = tx.row(
                "frame_of_entry", topic_id, found[0], position.ledger_id, position.entry_id
            )
        bases = [(int(row[0]), int(row[1])) for row in ledgers]
        later = [base for ledger_id, base in bases if ledger_id > position.ledger_id]
        ends = min(later, default=head)
        start = next((base for ledger_id, base in bases if ledger_id == position.ledger_id), None)
        if start is None:
            return ends
        if frame is not None:
            start = tail_row(frame).offset_start
        # An entry has at least one message, so its offset is at least its number in the ledger.
        else:
            start = min(start + max(position.entry_id, 0), ends)
            start = self._back_to_entry(topic_id, topic, start, position, bases)
        for batch in self.batches(topic_id, topic, start, ends, _POSITION):
            entry = batch.column("entry_id").to_numpy()
            index = batch.column("batch_index").to_numpy()
            after = entry > position.entry_id
            at = after | ((entry == position.entry_id) & (index >= position.batch_index))
            if at.any():
                return int(batch.column("topic_offset")[int(np.argmax(at))].as_py())
        return ends

    def offset_at_time(self, topic_id: int, topic: str, publish_ms: int) -> int:
        """Return the offset of the first message published at or after a time, or the head."""
        with self._catalog.read() as tx:
            head = load_head(tx, topic_id, topic).offset
            found = tx.row("tail_offset", topic_id)
            assert found is not None
            segment = tx.row("live_segment_published_since", topic_id, publish_ms)
            frame = tx.row("first_frame_published_since", topic_id, found[0], publish_ms)
        starts = [int(row[0]) for row in (frame,) if row is not None]
        if segment is not None:
            starts.append(Segment.from_row(segment).offset_start)
        if not starts:
            return head
        time = pa.scalar(publish_ms, SEGMENT_SCHEMA.field("publish_time").type)
        for batch in self.batches(
            topic_id, topic, min(starts), head, ["publish_time", "topic_offset"]
        ):
            late = pc.greater_equal(batch.column("publish_time"), time)
            if pc.any(late).as_py():
                return int(batch.column("topic_offset").filter(late)[0].as_py())
        return head

    def _back_to_entry(
        self,
        topic_id: int,
        topic: str,
        offset: int,
        position: Position,
        bases: list[tuple[int, int]],
    ) -> int:
        """Return an offset at or before the first message of an entry of a sealed ledger."""
        base = dict(bases)[position.ledger_id]
        with self._catalog.read() as tx:
            rows = tx.rows("live_segments", topic_id)
        starts = [
            segment.offset_start
            for segment in map(Segment.from_row, rows)
            if segment.ledger_first <= position.ledger_id <= segment.ledger_last
        ]
        for start in sorted(starts, reverse=True):
            first = self.position_of(topic_id, topic, start)
            if first is not None and first <= position:
                return max(start, base)
        return base

    def _locate(
        self, topic_id: int, topic: str, offset: int, end: int
    ) -> Segment | list[TailRow] | None:
        """Return the segment or the frames that hold the first stored message from ``offset``."""
        cached = self._cached_run(topic_id, offset, end)
        if cached:
            return cached
        with self._catalog.read() as tx:
            place = locate(tx, topic_id, topic, offset, end)
        if isinstance(place, list):
            for row in place:
                self._cache.put(topic_id, row)
        return place

    def _cached_run(self, topic_id: int, offset: int, end: int) -> list[TailRow]:
        run: list[TailRow] = []
        at = offset
        while at < end and len(run) < _FRAMES_A_READ:
            row = self._cache.get(topic_id, at)
            if row is None:
                break
            run.append(row)
            at = row.offset_end
        return run

    def _segment_tables(
        self, topic: str, segment: Segment, start: int, end: int, names: list[str]
    ) -> Iterator[pa.Table]:
        reader = SegmentReader(self._directory, topic, segment)
        try:
            whole = start <= segment.offset_start and end >= segment.offset_end
            wanted = names if whole or "topic_offset" in names else [*names, "topic_offset"]
            for table in reader.read_all(reader.row_groups_from(start), wanted):
                if not whole:
                    offsets = table.column("topic_offset").to_numpy()
                    if offsets[0] >= end:
                        return
                    first, last = np.searchsorted(offsets, (start, end))
                    table = table.slice(first, last - first)
                yield table.select(names)
        finally:
            reader.close()


def locate(
    tx: Transaction, topic_id: int, topic: str, offset: int, end: int
) -> Segment | list[TailRow] | None:
    """Return where the first stored message at or after ``offset`` and before ``end`` is."""
    found = tx.row("tail_offset", topic_id)
    if found is None:
        raise TopicNotFound(topic)
    row = tx.row("live_segment_ending_after", topic_id, topic_id, offset, offset)
    segment = Segment.from_row(row) if row is not None else None
    if segment is not None and segment.offset_start <= offset:
        return segment
    limit = end if segment is None else min(end, segment.offset_start)
    frames = load_frames(
        tx,
        topic_id,
        max(offset, int(found[0])),
        end=limit,
        rows_max=_FRAMES_A_READ,
        bytes_max=_BYTES_A_READ,
    )
    if frames and frames[0].offset_start < limit:
        return frames
    return segment if segment is not None and segment.offset_start < end else None


def _cut(
    wanted: pa.RecordBatch, batch: pa.RecordBatch, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``wanted`` whose offsets, in ``batch``, are from start up to end."""
    offsets = batch.column("topic_offset").to_numpy()
    first, last = np.searchsorted(offsets, (start, end))
    if last > first:
        yield wanted.slice(first, last - first)


def _split_entries(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    entries = batch.column("entry_id").to_numpy()
    ledgers = batch.column("ledger_id").to_numpy()
    cuts = np.flatnonzero((np.diff(entries) != 0) | (np.diff(ledgers) != 0)) + 1
    bounds = [0, *cuts.tolist(), batch.num_rows]
    return [batch.slice(a, b - a) for a, b in itertools.pairwise(bounds)]


def _same_entry(a: pa.RecordBatch, b: pa.RecordBatch) -> bool:
    return bool(a["entry_id"][0] == b["entry_id"][0] and a["ledger_id"][0] == b["ledger_id"][0])


def _join(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.RecordBatch:
    return pa.Table.from_batches([a, b]).combine_chunks().to_batches()[0]


def _entry(piece: pa.RecordBatch) -> Entry:
    ledger, entry, _, offset = (piece[name][0].as_py() for name in _POSITION)
    return Entry(ledger, entry, offset, piece)
