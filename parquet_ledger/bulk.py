"""Bulk append: an Arrow table becomes segments directly and never touches the tail.

The files are written before their place in the topic is known, without any lock: their ledger and
offsets count from 0, and the one transaction that publishes them records how far to shift both.
The messages become one closed ledger of their own, an entry each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from .append import Appended, Heads
from .catalog import Catalog
from .columns import MESSAGE_FIELDS, SEGMENT_SCHEMA, TIME, complete, constant, message_sizes
from .errors import InvalidMessage, MessageTooLarge
from .head import Head, close_open_ledger
from .new_messages import NewMessages
from .segment import Segment
from .segment_file import WrittenSegment, segment_path, write_segment

# Below this a file of its own for every core is not worth it.
_ROWS_A_CORE_MIN = 131_072
_DERIVED = ("size_bytes", "null_value", "compression")
# Columns that a frame of the tail holds once for all its messages.
_SHARED_IN_A_FRAME = ("producer_name", "schema_version", "key_is_base64")


@dataclass(frozen=True, slots=True)
class BulkLimits:
    """How a table is checked and cut."""

    message_bytes_max: int
    segment_rows_max: int
    segment_bytes_max: int
    row_group_rows: int
    row_group_bytes_max: int


def message_table(table: pa.Table, topic: str, limits: BulkLimits, now_ms: int) -> pa.Table:
    """Return a user's table with the message columns' types, or say what can't be stored."""
    unknown = [name for name in table.column_names if name not in MESSAGE_FIELDS]
    if len(set(table.column_names)) < table.num_columns:
        raise InvalidMessage(f"topic {topic}: two columns of the table have the same name")
    if unknown or "payload" not in table.column_names:
        what = f"unknown columns {unknown}" if unknown else "no column 'payload'"
        allowed = [name for name in MESSAGE_FIELDS if name not in _DERIVED]
        raise InvalidMessage(f"topic {topic}: the table has {what}; it may have {allowed}")
    if table.num_rows == 0:
        raise InvalidMessage(f"topic {topic}: the table has no rows")
    table = table.drop_columns([name for name in _DERIVED if name in table.column_names])
    columns = {}
    for name in table.column_names:
        field = MESSAGE_FIELDS[name]
        try:
            columns[name] = table.column(name).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidMessage(f"topic {topic}: column {name!r}: {error}") from error
        if columns[name].null_count and not field.nullable:
            raise InvalidMessage(f"topic {topic}: column {name!r} has null values")
    if "publish_time" not in columns:
        columns["publish_time"] = constant(now_ms, pa.field("publish_time", TIME), table.num_rows)
    if "properties" in columns and any(map(_has_null_item, columns["properties"].chunks)):
        raise InvalidMessage(f"topic {topic}: column 'properties' has a property without a value")
    typed = pa.table(columns)
    for batch in typed.to_batches():
        largest = int(
            message_sizes(dict(zip(batch.schema.names, batch.columns, strict=True))).max()
        )
        if largest > limits.message_bytes_max:
            raise MessageTooLarge(topic, largest, limits.message_bytes_max)
    return typed


def as_new_messages(table: pa.Table) -> NewMessages | None:
    """Return a small table as messages for the tail, or None where a frame can't hold them."""
    if any(name in table.column_names for name in _SHARED_IN_A_FRAME):
        return None
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    # A frame's header takes Python integers, and a lone message takes Python values only.
    for name in columns if table.num_rows == 1 else ("publish_time", "sequence_id"):
        if (array := columns.get(name)) is not None:
            times = array.type == TIME
            columns[name] = array.cast(pa.int64()).to_pylist() if times else array.to_pylist()
    if table.num_rows == 1:
        columns = {
            name: values
            for name, values in columns.items()
            if values[0] is not None or name == "payload"
        }
        if "properties" in columns:
            columns["properties"] = [dict(columns["properties"][0])]
    return NewMessages(
        payloads=columns["payload"],
        publish_time_ms=columns["publish_time"],
        sequence_ids=columns.get("sequence_id"),
        keys=columns.get("key"),
        ordering_keys=columns.get("ordering_key"),
        sticky_hashes=columns.get("sticky_hash"),
        properties=columns.get("properties"),
        event_times_ms=columns.get("event_time"),
        deliver_at_ms=columns.get("deliver_at"),
        chunk_uuids=columns.get("chunk_uuid"),
        chunk_ids=columns.get("chunk_id"),
        chunk_counts=columns.get("chunk_count"),
        chunk_total_bytes=columns.get("chunk_total_bytes"),
    )


def write_bulk(
    directory: Path, topic_id: int, session_id: int, table: pa.Table, limits: BulkLimits
) -> list[WrittenSegment]:
    """Write a table of message columns as files whose positions count from 0."""
    pieces = list(_pieces(table, limits))
    paths = [segment_path(topic_id, session_id) for _ in pieces]

    def write(path: str, piece: tuple[int, pa.Table]) -> WrittenSegment:
        return write_segment(
            directory,
            path,
            _with_positions(piece[1], piece[0]),
            row_group_rows=limits.row_group_rows,
            row_group_bytes_max=limits.row_group_bytes_max,
        )

    try:
        # Parquet is encoded on one core a file, so a few files at once use them all.
        with ThreadPoolExecutor(min(_cores(), len(pieces)), "ledgermq-bulk") as pool:
            return list(pool.map(write, paths, pieces))
    except BaseException:
        for path in paths:
            (directory / path).unlink(missing_ok=True)
        raise


def publish_bulk(
    catalog: Catalog,
    heads: Heads,
    *,
    topic_id: int,
    topic: str,
    written: list[WrittenSegment],
    clock_ms: Callable[[], int],
) -> Appended:
    """Make written files the next ledger of a topic, in one transaction."""
    messages = sum(file.messages for file in written)
    now = clock_ms()
    try:
        with catalog.write() as tx:
            head = heads.get(tx, topic_id, topic)
            close_open_ledger(tx, head, now)
            ledger_id, base = tx.next_id("ledger"), head.offset
            size = sum(file.bytes for file in written)
            tx.run(
                "insert_closed_ledger",
                *(ledger_id, topic_id, base, now, now, messages, messages, size),
            )
            at = base
            for file in written:
                segment = _bulk_segment(
                    tx.next_id("segment"), topic_id, file, at, ledger_id, base, now
                )
                tx.run("insert_segment", *segment.insert_parameters())
                at = segment.offset_end
            heads.put(topic_id, Head(offset=at))
    except BaseException:
        heads.forget()
        raise
    return Appended(base, messages, ())


def discard(directory: Path, written: list[WrittenSegment]) -> None:
    """Remove files that no transaction published."""
    for file in written:
        (directory / file.path).unlink(missing_ok=True)


def _bulk_segment(
    segment_id: int,
    topic_id: int,
    file: WrittenSegment,
    at: int,
    ledger_id: int,
    base: int,
    now_ms: int,
) -> Segment:
    return Segment(
        segment_id=segment_id,
        topic_id=topic_id,
        offset_start=at,
        offset_end=at + file.messages,
        messages=file.messages,
        entries=file.entries,
        bytes=file.bytes,
        file_bytes=file.file_bytes,
        ledger_first=ledger_id,
        ledger_last=ledger_id,
        publish_ms_min=file.publish_ms_min,
        publish_ms_max=file.publish_ms_max,
        ledger_shift=ledger_id,
        offset_shift=base,
        path=file.path,
        checksum=file.checksum,
        created_ms=now_ms,
    )


def _pieces(table: pa.Table, limits: BulkLimits) -> Iterator[tuple[int, pa.Table]]:
    """Cut a table into pieces of at most the allowed rows and, roughly, bytes."""
    bytes_a_row = max(1, table.nbytes // table.num_rows)
    rows = max(1, min(limits.segment_rows_max, limits.segment_bytes_max // bytes_a_row))
    a_core = -(-table.num_rows // _cores())
    if a_core >= _ROWS_A_CORE_MIN:
        rows = min(rows, a_core)
    for start in range(0, table.num_rows, rows):
        yield start, table.slice(start, rows)


def _has_null_item(maps: pa.MapArray) -> bool:
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    return bool(maps.items.slice(first, last - first).null_count)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _with_positions(piece: pa.Table, start: int) -> pa.Table:
    rows = piece.num_rows
    columns = {name: piece.column(name).combine_chunks() for name in piece.column_names}
    ordinals = pa.array(np.arange(start, start + rows, dtype=np.int64))
    positions = [
        pa.array(np.zeros(rows, np.int64)),
        ordinals,
        pa.array(np.full(rows, -1, np.int32)),
        ordinals,
    ]
    return pa.table([*positions, *complete(columns, rows)], schema=SEGMENT_SCHEMA)
