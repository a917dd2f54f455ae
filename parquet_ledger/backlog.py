"""Backlog: how much a subscription has not acknowledged, exactly and without a scan.

Segments and frames that are wholly unacknowledged count by the totals that the catalog keeps of
them; those that are wholly acknowledged count nothing. Only the few in between are looked into,
and of those only the narrow columns: the cost does not grow with the backlog.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from .catalog import Catalog, Row, Transaction
from .cursor import CHUNK_OFFSETS, acked_mask, acked_within
from .errors import SegmentDamaged, SubscriptionNotFound
from .segment import Segment, Span
from .segment_file import SegmentReader
from .subscriptions import SubscriptionRow
from .tail import ALL_ROWS, tail_batches, tail_row

_INDEXES_KEPT = 32


@dataclass(frozen=True, slots=True)
class Backlog:
    """Unacknowledged messages, the entries that hold any of them, and the messages' bytes."""

    messages: int = 0
    entries: int = 0
    bytes: int = 0

    def __add__(self, other: Backlog) -> Backlog:
        return Backlog(
            self.messages + other.messages, self.entries + other.entries, self.bytes + other.bytes
        )


@dataclass(frozen=True, slots=True)
class SizeIndex:
    """Of a run of messages: the number of each one's entry, and its bytes."""

    entries: np.ndarray
    bytes: np.ndarray

    def backlog(self, unacked: np.ndarray) -> Backlog:
        """Return what the unacknowledged messages, given as a mask, add up to."""
        held = self.entries[unacked]
        entries = 0 if held.size == 0 else 1 + int(np.count_nonzero(np.diff(held)))
        return Backlog(int(held.size), entries, int(self.bytes[unacked].sum()))


class AckedBits:
    """All bitmaps of a cursor, loaded once."""

    def __init__(self, chunks: dict[int, BitMap]) -> None:
        self._chunks = chunks

    @classmethod
    def load(cls, tx: Transaction, subscription_id: int) -> AckedBits:
        """Return the bitmaps of a subscription as the transaction sees them."""
        rows = tx.rows("acked_chunks", subscription_id, 0, (1 << 63) - 1)
        return cls({int(chunk): BitMap.deserialize(bits) for chunk, bits in rows})

    def __call__(self, chunk: int) -> BitMap:
        """Return the bitmap of a chunk."""
        return self._chunks.get(chunk) or BitMap()

    def end(self) -> int:
        """Return the offset after the last one that is acknowledged above the floor."""
        if not self._chunks:
            return 0
        last = max(self._chunks)
        return last * CHUNK_OFFSETS + int(self._chunks[last].max()) + 1


class BacklogCounter:
    """Counts backlogs of one directory; keeps the indexes of segments that it looked into."""

    def __init__(self, directory: Path, catalog: Catalog) -> None:
        self._directory = directory
        self._catalog = catalog
        self._indexes: OrderedDict[int, SizeIndex] = OrderedDict()

    def count(self, topic: str, subscription: SubscriptionRow) -> Backlog:
        """Return a subscription's backlog as of one moment."""
        missing = None
        while True:
            try:
                return self._count(topic, subscription)
            except FileNotFoundError as error:
                # The segment was merged or retired meanwhile: count what is live now.
                if error.filename == missing:
                    raise SegmentDamaged(topic, str(missing), "is missing") from error
                missing = error.filename

    def _count(self, topic: str, subscription: SubscriptionRow) -> Backlog:
        topic_id, subscription_id = subscription.topic_id, subscription.subscription_id
        partial: list[Segment] = []
        total = Backlog()
        with self._catalog.read() as tx:
            row = tx.row("ack_floor", subscription_id)
            if row is None:
                raise SubscriptionNotFound(topic, subscription.name)
            floor = int(row[0])
            bits = AckedBits.load(tx, subscription_id)
            for segment in map(Segment.from_row, tx.rows("live_segments", topic_id)):
                acked = acked_within(Span(segment.offset_start, segment.offset_end), floor, bits)
                if acked == 0:
                    total += Backlog(segment.messages, segment.entries, segment.bytes)
                elif acked < segment.messages:
                    partial.append(segment)
            total += _tail_backlog(tx, topic_id, floor, bits)
        for segment in partial:
            mask = acked_mask(Span(segment.offset_start, segment.offset_end), floor, bits)
            total += self._index(topic, segment).backlog(~mask)
        return total

    def _index(self, topic: str, segment: Segment) -> SizeIndex:
        index = self._indexes.pop(segment.segment_id, None)
        if index is None:
            index = _read_index(self._directory, topic, segment)
        self._indexes[segment.segment_id] = index
        while len(self._indexes) > _INDEXES_KEPT:
            self._indexes.popitem(last=False)
        return index


def _read_index(directory: Path, topic: str, segment: Segment) -> SizeIndex:
    reader = SegmentReader(directory, topic, segment)
    try:
        groups = reader.row_groups_from(segment.offset_start)
        columns = ["ledger_id", "entry_id", "size_bytes"]
        table = pa.concat_tables([reader.read(group, columns) for group in groups])
    finally:
        reader.close()
    return _size_index(table)


def _size_index(table: pa.Table | pa.RecordBatch) -> SizeIndex:
    ledgers = table.column("ledger_id").to_numpy()
    entries = table.column("entry_id").to_numpy()
    first = np.concatenate(([True], (np.diff(entries) != 0) | (np.diff(ledgers) != 0)))
    sizes = table.column("size_bytes").to_numpy().astype(np.int64)
    return SizeIndex(np.cumsum(first).astype(np.int32), sizes)


def _tail_backlog(tx: Transaction, topic_id: int, floor: int, bits: AckedBits) -> Backlog:
    found = tx.row("tail_offset", topic_id)
    if found is None:
        return Backlog()
    total = Backlog()
    start = int(found[0])
    bits_end = bits.end()
    if max(floor, bits_end) > start:
        for span in tx.rows("tail_spans", topic_id, start, ALL_ROWS):
            if span[0] >= max(floor, bits_end):
                break
            total += _frame_backlog(tx, topic_id, span, floor, bits)
            start = int(span[0] + span[1])
    whole = tx.row("tail_totals", topic_id, start)
    assert whole is not None
    return total + Backlog(int(whole[1]), int(whole[2]), int(whole[3]))


def _frame_backlog(
    tx: Transaction, topic_id: int, row: Row, floor: int, bits: AckedBits
) -> Backlog:
    offset_start, messages, entries, size = (int(value) for value in row[:4])
    span = Span(offset_start, offset_start + messages)
    acked = acked_within(span, floor, bits)
    if acked == 0:
        return Backlog(messages, entries, size)
    if acked == messages:
        return Backlog()
    frame = tx.row("frame_at_or_before", topic_id, offset_start)
    assert frame is not None
    batch = next(tail_batches([tail_row(frame)]))
    return _size_index(batch).backlog(~acked_mask(span, floor, bits))
