"""The columns of a message, the same in the tail, in a segment, in DuckDB and in Spark.

``MESSAGE_COLUMNS`` are what a producer gives; ``POSITION_COLUMNS`` are what the ledger adds. A row
of a segment has both. Times are in milliseconds and UTC, as in Pulsar.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TIME = pa.timestamp("ms", tz="UTC")
PROPERTIES = pa.map_(pa.string(), pa.string())

POSITION_COLUMNS = (
    pa.field("ledger_id", pa.int64(), nullable=False),
    pa.field("entry_id", pa.int64(), nullable=False),
    pa.field("batch_index", pa.int32(), nullable=False),
    pa.field("topic_offset", pa.int64(), nullable=False),
)
MESSAGE_COLUMNS = (
    pa.field("publish_time", TIME, nullable=False),
    pa.field("event_time", TIME),
    pa.field("deliver_at", TIME),
    pa.field("producer_name", pa.string()),
    pa.field("sequence_id", pa.int64()),
    pa.field("key", pa.string()),
    pa.field("key_is_base64", pa.bool_(), nullable=False),
    pa.field("ordering_key", pa.binary()),
    pa.field("sticky_hash", pa.int32()),
    pa.field("schema_version", pa.int64()),
    pa.field("properties", PROPERTIES),
    pa.field("compression", pa.string(), nullable=False),
    pa.field("chunk_uuid", pa.string()),
    pa.field("chunk_id", pa.int32()),
    pa.field("chunk_count", pa.int32()),
    pa.field("chunk_total_bytes", pa.int64()),
    pa.field("size_bytes", pa.int32(), nullable=False),
    pa.field("null_value", pa.bool_(), nullable=False),
    pa.field("payload", pa.binary()),
)
SEGMENT_SCHEMA = pa.schema([*POSITION_COLUMNS, *MESSAGE_COLUMNS])
MESSAGE_FIELDS = {field.name: field for field in MESSAGE_COLUMNS}
COLUMN_DEFAULTS: dict[str, object] = {"key_is_base64": False, "compression": "NONE"}

COLUMN_MEANINGS = {
    "ledger_id": "The ledger that holds the message: the first part of its message id.",
    "entry_id": "The entry within the ledger: one producer batch, or one message.",
    "batch_index": "The place within the batch, or -1 for a message that was not batched.",
    "topic_offset": "The dense number of the message within its topic, from 0.",
    "publish_time": "When the producer published it.",
    "event_time": "The time that the application attached, if any.",
    "deliver_at": "Before this time Shared and Key_Shared subscriptions do not deliver it.",
    "producer_name": "The producer's name.",
    "sequence_id": "The producer's number for it, the basis of deduplication.",
    "key": "The partition key.",
    "key_is_base64": "Whether the key is binary and written in base64.",
    "ordering_key": "The key for Key_Shared where it differs from the partition key.",
    "sticky_hash": "Murmur3 of the ordering key, partition key or producer and sequence id.",
    "schema_version": "The version of the schema that the payload follows.",
    "properties": "The application's properties.",
    "compression": "The codec that the producer chose: it compressed the entry in the tail.",
    "chunk_uuid": "The large message that this is a chunk of.",
    "chunk_id": "The chunk's place within the large message.",
    "chunk_count": "How many chunks the large message has.",
    "chunk_total_bytes": "The size of the large message.",
    "size_bytes": "Bytes of payload, keys and properties: what the backlog counts.",
    "null_value": "Whether the message has no value at all, which is not an empty one.",
    "payload": "The message's bytes, uncompressed; null for a null value.",
}


def message_sizes(columns: dict[str, pa.Array]) -> np.ndarray:
    """Return the bytes of payload, keys and properties of each message."""
    payload = columns["payload"]
    sizes = _lengths(payload)
    for name in ("key", "ordering_key"):
        if (array := columns.get(name)) is not None:
            sizes = sizes + _lengths(array)
    if (properties := columns.get("properties")) is not None:
        sizes = sizes + _map_lengths(properties)
    return sizes


def constant(value: object, field: pa.Field, rows: int) -> pa.Array:
    """Return a column that holds one value in every row."""
    if value is None:
        return pa.nulls(rows, field.type)
    return pa.repeat(pa.scalar(value, field.type), rows)


def default_column(name: str, rows: int) -> pa.Array:
    """Return the column that a message has where nobody gave one."""
    return constant(COLUMN_DEFAULTS.get(name), MESSAGE_FIELDS[name], rows)


def complete(columns: dict[str, pa.Array], rows: int) -> list[pa.Array]:
    """Return all of MESSAGE_COLUMNS in order, filling in what is not given."""
    columns = dict(columns)
    columns["size_bytes"] = pa.array(message_sizes(columns), pa.int32())
    columns["null_value"] = pc.is_null(columns["payload"])
    return [
        columns[name] if name in columns else default_column(name, rows) for name in MESSAGE_FIELDS
    ]


def concat(batches: Iterable[pa.RecordBatch], schema: pa.Schema = SEGMENT_SCHEMA) -> pa.Table:
    """Return the batches as one table."""
    return pa.Table.from_batches(list(batches), schema=schema)


def _lengths(array: pa.Array) -> np.ndarray:
    lengths = pc.binary_length(array)
    if lengths.null_count:
        lengths = pc.fill_null(lengths, 0)
    sizes: np.ndarray = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _map_lengths(array: pa.MapArray) -> np.ndarray:
    """Return the bytes of keys and values of each map of an array, nulls as 0."""
    starts = array.offsets.to_numpy()
    ends = np.concatenate(([0], np.cumsum(_lengths(array.keys) + _lengths(array.items))))
    sizes: np.ndarray = np.diff(ends[starts])
    if array.null_count:
        sizes = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, sizes)
    return sizes
