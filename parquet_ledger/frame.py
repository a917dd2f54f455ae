"""Frames: how a run of messages is kept in a row of the tail.

A frame is a header, the sizes of its entries where they are batches, the producer's name, and a
body: one Arrow record batch with only those columns that any message uses. Which ones is a bit
mask in the header, so the body needs no schema of its own. A lone message takes a leaner body,
because building a record batch for one row costs more than committing it. The layout is part of
the directory's format: a change takes a new magic.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from .columns import COLUMN_DEFAULTS, MESSAGE_FIELDS, complete, constant, message_sizes
from .compression import Compression, compress, decompress
from .errors import CatalogDamaged, InvalidMessage
from .new_messages import NewMessages

MAGIC = b"LMF1"
_KIND_ARROW = 0
_KIND_SINGLE = 1
_PADDING = tuple(bytes(-at & 7) for at in range(8))  # Arrow reads bodies that are aligned to 8.
_BATCHED = 1
_HAS_SEQUENCE = 2
_HAS_SCHEMA_VERSION = 4
_KEY_IS_BASE64 = 8

# magic, kind, codec, flags, mask, messages, entries, body length, name length,
# publish time, first sequence id, schema version
_HEADER = struct.Struct("<4sBBHIIIIIqqq")
_SINGLE = struct.Struct("<iII")  # sticky hash, length of the key, length of the rest as JSON

# Columns of a body, in the order of their bits. Never reorder: the masks on disk count on it.
_BODY_COLUMNS = (
    ("payload", "payloads"),
    ("key", "keys"),
    ("ordering_key", "ordering_keys"),
    ("sticky_hash", "sticky_hashes"),
    ("properties", "properties"),
    ("event_time", "event_times_ms"),
    ("deliver_at", "deliver_at_ms"),
    ("sequence_id", "sequence_ids"),
    ("publish_time", "publish_time_ms"),
    ("chunk_uuid", "chunk_uuids"),
    ("chunk_id", "chunk_ids"),
    ("chunk_count", "chunk_counts"),
    ("chunk_total_bytes", "chunk_total_bytes"),
)
_BIT = {name: 1 << bit for bit, (name, _) in enumerate(_BODY_COLUMNS)}
_SINGLE_REST = tuple(name for name, _ in _BODY_COLUMNS[4:])
_rest_of = attrgetter(*(attribute for _, attribute in _BODY_COLUMNS[4:]))


class EncodedFrame(NamedTuple):
    """A frame ready for the tail, with what the tail's row says of it."""

    data: bytes
    messages: int
    entries: int
    size_bytes: int
    largest_bytes: int
    publish_ms_max: int


@dataclass(slots=True)
class Frame:
    """Decoded messages: their columns, and how they make up entries."""

    messages: int
    entries: int
    columns: dict[str, pa.Array]
    batch_sizes: np.ndarray | None
    """Messages per entry; None where every message is an entry of its own."""
    batched: np.ndarray | bool
    """Whether a message belongs to a batch; one answer for all, or one per message."""

    def column(self, name: str) -> pa.Array | None:
        """Return a column, or None where no message has a value for it."""
        return self.columns.get(name)

    def message_arrays(self) -> list[pa.Array]:
        """Return all message columns, in the order of MESSAGE_COLUMNS."""
        return complete(self.columns, self.messages)

    def entry_ordinals(self) -> np.ndarray:
        """Return, for each message, the number of its entry within the frame."""
        if self.batch_sizes is None:
            return np.arange(self.messages, dtype=np.int64)
        return np.repeat(np.arange(self.entries, dtype=np.int64), self.batch_sizes)

    def batch_indexes(self) -> np.ndarray:
        """Return each message's place within its batch, -1 where it was not batched."""
        if self.batch_sizes is None:
            batched = np.broadcast_to(self.batched, self.messages)
            return np.where(batched, np.int32(0), np.int32(-1))
        starts = np.cumsum(self.batch_sizes) - self.batch_sizes
        within: np.ndarray = np.arange(self.messages) - np.repeat(starts, self.batch_sizes)
        return within.astype(np.int32)


def encode(new: NewMessages) -> EncodedFrame:
    """Return the messages as one frame, or raise InvalidMessage where a value has no place."""
    try:
        return _encode(new)
    except (UnicodeEncodeError, TypeError, AttributeError, pa.ArrowException) as error:
        raise InvalidMessage(f"a message can't be stored: {error}") from error


def _encode(new: NewMessages) -> EncodedFrame:
    # The leaner body takes Python values: one row that was cut off an Arrow table is a batch.
    if len(new.payloads) == 1 and not isinstance(new.payloads, pa.Array):
        return _encode_single(new)
    mask, arrays = _body_arrays(new)
    body = pa.record_batch(list(arrays.values()), schema=_body_schema(mask)).serialize()
    sizes = message_sizes(arrays)
    return EncodedFrame(
        data=_assemble(new, _KIND_ARROW, mask, body.to_pybytes()),
        messages=len(new.payloads),
        entries=len(new.payloads) if new.batch_sizes is None else len(new.batch_sizes),
        size_bytes=int(sizes.sum()),
        largest_bytes=int(sizes.max()),
        publish_ms_max=_newest(new.publish_time_ms),
    )


def is_single(data: bytes) -> bool:
    """Return whether a frame holds a lone message."""
    return data[4] == _KIND_SINGLE


def decode(data: bytes) -> Frame:
    """Return the frame that ``data`` holds."""
    if is_single(data):
        return decode_singles([data])
    header = _read_header(data)
    messages, batched = header.messages, bool(header.flags & _BATCHED)
    batch_sizes = np.frombuffer(data, "<i4", header.entries, _HEADER.size) if batched else None
    schema = _body_schema(header.mask)
    batch = pa.ipc.read_record_batch(_body(data, header), schema)
    columns = dict(zip(schema.names, batch.columns, strict=True))
    if "publish_time" not in columns:
        columns["publish_time"] = _constant("publish_time", header.publish_ms, messages)
    if header.flags & _HAS_SEQUENCE and "sequence_id" not in columns:
        first = header.sequence
        columns["sequence_id"] = pa.array(np.arange(first, first + messages), pa.int64())
    for name, value in _constants(data, header).items():
        columns[name] = _constant(name, value, messages)
    return Frame(messages, header.entries, columns, batch_sizes, batched)


def decode_singles(run: Sequence[bytes]) -> Frame:
    """Return the lone messages of several frames as one, built column by column."""
    rows = []
    batched = np.empty(len(run), bool)
    for i, data in enumerate(run):
        header = _read_header(data)
        batched[i] = header.flags & _BATCHED
        values = _single_values(_body(data, header).to_pybytes(), header.mask)
        values.setdefault("publish_time", header.publish_ms)
        if header.flags & _HAS_SEQUENCE:
            values.setdefault("sequence_id", header.sequence)
        values.update(_constants(data, header))
        rows.append(values)
    names = dict.fromkeys(name for values in rows for name in values)
    columns = {
        name: pa.array([values.get(name, COLUMN_DEFAULTS.get(name)) for values in rows], field.type)
        for name, field in MESSAGE_FIELDS.items()
        if name in names
    }
    return Frame(len(run), len(run), columns, None, batched)


class _Header(NamedTuple):
    magic: bytes
    kind: int
    codec: int
    flags: int
    mask: int
    messages: int
    entries: int
    body_bytes: int
    name_bytes: int
    publish_ms: int
    sequence: int
    schema_version: int


def _read_header(data: bytes) -> _Header:
    header = _Header._make(_HEADER.unpack_from(data))
    if header.magic != MAGIC:
        raise CatalogDamaged(f"a frame of the tail starts with {header.magic!r}, not {MAGIC!r}")
    return header


def _name_at(header: _Header) -> int:
    return _HEADER.size + (4 * header.entries if header.flags & _BATCHED else 0)


def _body(data: bytes, header: _Header) -> pa.Buffer:
    at = _aligned(_name_at(header) + header.name_bytes)
    return decompress(Compression(header.codec), pa.py_buffer(data).slice(at), header.body_bytes)


def _constants(data: bytes, header: _Header) -> dict[str, Any]:
    """Return the values that all messages of a frame share."""
    shared: dict[str, Any] = {}
    if header.name_bytes:
        at = _name_at(header)
        shared["producer_name"] = data[at : at + header.name_bytes].decode("utf-8")
    if header.flags & _HAS_SCHEMA_VERSION:
        shared["schema_version"] = header.schema_version
    if header.flags & _KEY_IS_BASE64:
        shared["key_is_base64"] = True
    if header.codec:
        shared["compression"] = Compression(header.codec).name
    return shared


def _encode_single(new: NewMessages) -> EncodedFrame:
    payload = new.payloads[0]
    key = new.keys[0] if new.keys is not None else None
    key_data = b"" if key is None else key.encode("utf-8")
    size = len(payload or b"") + len(key_data)
    mask = _BIT["payload"] * (payload is not None) | _BIT["key"] * (key is not None)
    sticky = 0
    if new.sticky_hashes is not None:
        sticky = new.sticky_hashes[0]
        mask |= _BIT["sticky_hash"]
    rest, rest_bytes = _single_rest(new)
    size += rest_bytes
    head = _SINGLE.pack(sticky, len(key_data), len(rest))
    body = b"".join((head, key_data, rest, payload or b""))
    publish = new.publish_time_ms
    newest = publish if isinstance(publish, int) else publish[0]
    return EncodedFrame(_assemble(new, _KIND_SINGLE, mask, body), 1, 1, size, size, newest)


def _single_rest(new: NewMessages) -> tuple[bytes, int]:
    """Return the rarely used values of a lone message as JSON, and how many bytes they count."""
    values: dict[str, Any] = {}
    size = 0
    for name, column in zip(_SINGLE_REST, _rest_of(new), strict=True):
        if column is not None and not isinstance(column, int) and column[0] is not None:
            values[name] = dict(column[0]) if name == "properties" else column[0]
    if new.ordering_keys is not None and (ordering := new.ordering_keys[0]) is not None:
        values["ordering_key"] = ordering.hex()
        size += len(ordering)
    if not values:
        return b"", 0
    for key, value in values.get("properties", {}).items():
        size += len(key.encode("utf-8")) + len(value.encode("utf-8"))
    return json.dumps(values, separators=(",", ":")).encode("utf-8"), size


def _single_values(body: bytes, mask: int) -> dict[str, Any]:
    """Return the values of a lone message by column."""
    sticky, key_bytes, rest_bytes = _SINGLE.unpack_from(body)
    key_at = _SINGLE.size
    rest_at = key_at + key_bytes
    payload_at = rest_at + rest_bytes
    values: dict[str, Any] = {"payload": body[payload_at:] if mask & _BIT["payload"] else None}
    if mask & _BIT["key"]:
        values["key"] = body[key_at:rest_at].decode("utf-8")
    if mask & _BIT["sticky_hash"]:
        values["sticky_hash"] = sticky
    if rest_bytes:
        rest = json.loads(body[rest_at:payload_at])
        if "ordering_key" in rest:
            rest["ordering_key"] = bytes.fromhex(rest["ordering_key"])
        values.update(rest)
    return values


def _body_arrays(new: NewMessages) -> tuple[int, dict[str, pa.Array]]:
    mask = 0
    arrays: dict[str, pa.Array] = {}
    for name, attribute in _BODY_COLUMNS:
        column = getattr(new, attribute)
        if column is None or isinstance(column, int):
            continue
        arrays[name] = pa.array(column, MESSAGE_FIELDS[name].type)
        mask |= _BIT[name]
    return mask, arrays


@lru_cache(maxsize=256)
def _body_schema(mask: int) -> pa.Schema:
    return pa.schema([MESSAGE_FIELDS[name] for name, _ in _BODY_COLUMNS if mask & _BIT[name]])


def _assemble(new: NewMessages, kind: int, mask: int, body: bytes) -> bytes:
    """Return header, sizes of the entries, producer's name and body as one piece."""
    flags = _KEY_IS_BASE64 if new.keys_are_base64 else 0
    name = b"" if new.producer_name is None else new.producer_name.encode("utf-8")
    sizes = b""
    entries = len(new.payloads)
    if new.batch_sizes is not None:
        flags |= _BATCHED
        entries = len(new.batch_sizes)
        sizes = np.asarray(new.batch_sizes, "<i4").tobytes()
    sequence = new.sequence_ids
    if sequence is not None:
        flags |= _HAS_SEQUENCE
        if not isinstance(sequence, int):
            sequence = sequence[0]
    if new.schema_version is not None:
        flags |= _HAS_SCHEMA_VERSION
    publish = new.publish_time_ms
    if not isinstance(publish, int):
        publish = publish[0]
    header = _HEADER.pack(
        MAGIC, kind, new.compression, flags, mask, len(new.payloads), entries, len(body),
        len(name), publish, sequence or 0, new.schema_version or 0,
    )  # fmt: skip
    padding = _PADDING[(_HEADER.size + len(sizes) + len(name)) & 7]
    if new.compression:
        body = compress(new.compression, body)
    return b"".join((header, sizes, name, padding, body))


def _aligned(at: int) -> int:
    return (at + 7) & ~7


def _constant(name: str, value: object, rows: int) -> pa.Array:
    return constant(value, MESSAGE_FIELDS[name], rows)


def _newest(times: int | Sequence[int]) -> int:
    return times if isinstance(times, int) else max(times)
