"""Check: verify a whole directory and say exactly what is wrong.

Nothing is repaired and nothing is changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyroaring import BitMap

from .catalog import Catalog, Row, Transaction
from .cursor import CHUNK_OFFSETS
from .errors import LedgerError, SegmentDamaged
from .head import Head, load_head
from .retire import find_orphans
from .segment import Segment, Span, gaps
from .segment_file import SegmentReader, count_entries, file_checksum
from .sessions import Sessions
from .subscriptions import acked_count, list_subscriptions, stored_spans
from .tail import ALL_ROWS, tail_batches, tail_row


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and how."""

    kind: str
    where: str
    detail: str

    def __str__(self) -> str:
        """Return the problem as a line."""
        return f"{self.kind}: {self.where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check looked at and found."""

    topics: int
    segments: int
    messages: int
    problems: tuple[Problem, ...]

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class _TopicState:
    """One topic as one read transaction saw it."""

    topic_id: int
    name: str
    tail_offset: int
    head: Head
    ledgers: list[Row]
    segments: list[Segment]
    frames: list[Row]


def check_directory(directory: Path, catalog: Catalog, sessions: Sessions) -> CheckReport:
    """Verify the catalog, every topic, every segment file and every cursor."""
    problems = [Problem("catalog", "catalog.db", line) for line in catalog.damage()]
    with catalog.read() as tx:
        topics = tx.rows("topics")
    segments = messages = 0
    for topic_id, name, _, _ in topics:
        try:
            with catalog.read() as tx:
                state = _load(tx, topic_id, name)
                problems += _check_cursors(tx, state)
        except (LedgerError, AssertionError) as error:
            problems.append(Problem("topic", name, str(error)))
            continue
        segments += len(state.segments)
        messages += sum(s.messages for s in state.segments) + sum(f[1] for f in state.frames)
        problems += _check_ledgers(state)
        problems += _check_tail(catalog, state)
        for segment in state.segments:
            problems += _check_segment(directory, catalog, state, segment)
    problems += [
        Problem("orphan", path, "no catalog row names this file and its writer is gone")
        for path in find_orphans(directory, catalog, sessions)
    ]
    return CheckReport(len(topics), segments, messages, tuple(problems))


def _load(tx: Transaction, topic_id: int, name: str) -> _TopicState:
    found = tx.row("tail_offset", topic_id)
    assert found is not None
    return _TopicState(
        topic_id=topic_id,
        name=name,
        tail_offset=int(found[0]),
        head=load_head(tx, topic_id, name),
        ledgers=tx.rows("ledgers", topic_id),
        segments=[Segment.from_row(row) for row in tx.rows("live_segments", topic_id)],
        frames=tx.rows("tail_spans", topic_id, int(found[0]), ALL_ROWS),
    )


def _check_ledgers(state: _TopicState) -> Iterator[Problem]:
    """Ledgers follow each other without a gap, and only the last is open."""
    expected, last_id = 0, 0
    for i, row in enumerate(state.ledgers):
        ledger_id, base, _, closed_ms, messages = row[:5]
        where = f"{state.name} ledger {ledger_id}"
        if base != expected:
            yield Problem("ledger", where, f"begins at offset {base} instead of {expected}")
        if ledger_id <= last_id:
            yield Problem("ledger", where, f"comes after ledger {last_id}")
        if closed_ms is None and i != len(state.ledgers) - 1:
            yield Problem("ledger", where, "is open though a newer one exists")
        end = state.head.offset if closed_ms is None else base + messages
        expected, last_id = end, ledger_id


def _check_tail(catalog: Catalog, state: _TopicState) -> Iterator[Problem]:
    """Tail and segments cover everything from the first frame on, once; frames decode."""
    spans = sorted(
        [(s.offset_start, s.offset_end, s.path) for s in state.segments]
        + [(f[0], f[0] + f[1], f"frame at {f[0]}") for f in state.frames]
    )
    for (start, end, a), (next_start, _, b) in itertools.pairwise(spans):
        if next_start < end:
            yield Problem("overlap", state.name, f"{a} and {b} both hold offset {next_start}")
        # Before the tail's first frame a gap may be a retired segment: see _check_cursors.
        if next_start > end and state.frames and start >= state.frames[0][0]:
            yield Problem("gap", state.name, f"offsets {end} to {next_start - 1} are missing")
    if spans and state.frames and spans[-1][1] != state.head.offset:
        yield Problem("gap", state.name, f"offsets {spans[-1][1]} on are missing before the head")
    entries: dict[int, int] = {}
    for offset, messages, count, size, ledger_id, entry_start, *_ in state.frames:
        where = f"{state.name} frame at offset {offset}"
        if ledger_id in entries and entries[ledger_id] != entry_start:
            detail = f"starts at entry {entry_start} instead of {entries[ledger_id]}"
            yield Problem("frame", where, detail)
        entries[ledger_id] = entry_start + count
        yield from _check_frame(catalog, state, where, offset, messages, size)


def _check_frame(
    catalog: Catalog, state: _TopicState, where: str, offset: int, messages: int, size: int
) -> Iterator[Problem]:
    with catalog.read() as tx:
        row = tx.row("frame_at_or_before", state.topic_id, offset)
    if row is None or row[0] != offset:
        return  # It was sealed and deleted since.
    try:
        batch = next(tail_batches([tail_row(row)]))
    except Exception as error:  # noqa: BLE001 - whatever a damaged frame raises is the finding
        yield Problem("frame", where, f"can't be decoded: {error}")
        return
    found = int(batch.column("size_bytes").to_numpy().sum())
    if batch.num_rows != messages or found != size:
        detail = f"has {batch.num_rows} messages of {found} bytes, not {messages} of {size}"
        yield Problem("frame", where, detail)


def _check_segment(
    directory: Path, catalog: Catalog, state: _TopicState, segment: Segment
) -> Iterator[Problem]:
    where = f"{state.name} {segment.path}"
    path = directory / segment.path
    try:
        if path.stat().st_size != segment.file_bytes:
            detail = f"has {path.stat().st_size} bytes, not {segment.file_bytes}"
            yield Problem("segment", where, detail)
            return
        if file_checksum(path) != segment.checksum:
            yield Problem("segment", where, "its checksum differs: the file was changed")
            return
        yield from _check_rows(directory, state, segment, where)
    except FileNotFoundError:
        with catalog.read() as tx:
            live = {row[0] for row in tx.rows("live_segments", state.topic_id)}
        if segment.segment_id in live:
            yield Problem("segment", where, "the file is missing")
    except SegmentDamaged as error:
        yield Problem("segment", where, error.reason)


def _check_rows(
    directory: Path, state: _TopicState, segment: Segment, where: str
) -> Iterator[Problem]:
    reader = SegmentReader(directory, state.name, segment)
    expected, entries, size = segment.offset_start, 0, 0
    last_entry: tuple[int, int] | None = None
    try:
        for group in reader.row_groups_from(segment.offset_start):
            table = reader.read(group, ["ledger_id", "entry_id", "topic_offset", "size_bytes"])
            offsets = table.column("topic_offset").to_numpy()
            wanted = np.arange(expected, expected + len(offsets))
            if not np.array_equal(offsets, wanted):
                yield Problem("segment", where, f"offsets are not dense from {expected} on")
                return
            expected += len(offsets)
            first, last = (
                (table["ledger_id"][i].as_py(), table["entry_id"][i].as_py()) for i in (0, -1)
            )
            entries += count_entries(table) - (first == last_entry)
            last_entry = last
            size += int(table.column("size_bytes").to_numpy().sum())
    finally:
        reader.close()
    if (expected, entries, size) != (segment.offset_end, segment.entries, segment.bytes):
        detail = f"ends at {expected} with {entries} entries of {size} bytes, the catalog says "
        detail += f"{segment.offset_end}, {segment.entries} and {segment.bytes}"
        yield Problem("segment", where, detail)


def _check_cursors(tx: Transaction, state: _TopicState) -> Iterator[Problem]:
    head = state.head.offset
    missing = gaps(stored_spans(tx, state.topic_id, head), Span(0, head))
    for subscription in list_subscriptions(tx, state.topic_id):
        where = f"{state.name} subscription {subscription.name}"
        if not 0 <= subscription.ack_floor <= head:
            yield Problem("cursor", where, f"its floor {subscription.ack_floor} is over {head}")
            continue
        for chunk, blob in tx.rows("acked_chunks", subscription.subscription_id, 0, 1 << 62):
            bits = BitMap.deserialize(blob)
            base = chunk * CHUNK_OFFSETS
            inside = (
                bits and subscription.ack_floor < base + bits.min() and base + bits.max() < head
            )
            if not inside:
                yield Problem(
                    "cursor", where, f"acknowledges offsets out of range in chunk {chunk}"
                )
        for gap in missing:
            lost = len(gap) - acked_count(tx, subscription, gap)
            if lost:
                detail = f"{lost} messages of offsets {gap.start} to {gap.end - 1} are gone unacked"
                yield Problem("cursor", where, detail)
