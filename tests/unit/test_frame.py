"""A frame gives back exactly the messages that went into it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgermq.parquet_ledger import CatalogDamaged, Compression, InvalidMessage, NewMessages
from ledgermq.parquet_ledger.columns import MESSAGE_FIELDS, SEGMENT_SCHEMA
from ledgermq.parquet_ledger.frame import Frame, decode, encode
from ledgermq.parquet_ledger.frame_cache import TailRow
from ledgermq.parquet_ledger.tail import tail_batches

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TIMES = st.integers(0, 4_000_000_000_000)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def column(values: st.SearchStrategy[Any], rows: int) -> st.SearchStrategy[Any]:
    """Give no column at all, or one with some values missing."""
    return st.none() | st.lists(st.none() | values, min_size=rows, max_size=rows)


@st.composite
def new_messages(draw: st.DrawFn, rows_max: int = 6) -> NewMessages:
    rows = draw(st.integers(1, rows_max))

    def full(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(values, min_size=rows, max_size=rows)

    batch_sizes = None
    if draw(st.booleans()):
        cuts = sorted(draw(st.sets(st.integers(1, rows - 1)))) if rows > 1 else []
        batch_sizes = [b - a for a, b in zip([0, *cuts], [*cuts, rows], strict=True)]
    first = st.integers(0, 1 << 40)
    return NewMessages(
        payloads=draw(full(st.none() | st.binary(max_size=8))),
        publish_time_ms=draw(TIMES | full(TIMES)),
        producer_name=draw(st.none() | TEXT.filter(bool)),
        sequence_ids=draw(st.none() | first | full(INT64)),
        keys=draw(column(TEXT, rows)),
        keys_are_base64=draw(st.booleans()),
        ordering_keys=draw(column(st.binary(max_size=5), rows)),
        sticky_hashes=draw(st.none() | full(st.integers(0, (1 << 31) - 1))),
        properties=draw(column(st.dictionaries(TEXT, TEXT, max_size=3), rows)),
        event_times_ms=draw(column(TIMES, rows)),
        deliver_at_ms=draw(column(TIMES, rows)),
        schema_version=draw(st.none() | INT64),
        chunk_uuids=draw(column(TEXT, rows)),
        chunk_ids=draw(column(st.integers(0, 99), rows)),
        chunk_counts=draw(column(st.integers(0, 99), rows)),
        chunk_total_bytes=draw(column(st.integers(0, 1 << 40), rows)),
        batch_sizes=batch_sizes,
        compression=draw(st.sampled_from(Compression)),
    )


def expected(new: NewMessages) -> list[dict[str, Any]]:
    """Return the rows that the messages should become, worked out one by one."""
    return [_expected_row(new, i) for i in range(len(new.payloads))]


def _expected_row(new: NewMessages, i: int) -> dict[str, Any]:
    def at(values: Sequence[Any] | None) -> Any:
        return None if values is None else values[i]

    def time(ms: int | None) -> datetime | None:
        return None if ms is None else EPOCH + timedelta(milliseconds=ms)

    publish, sequence = new.publish_time_ms, new.sequence_ids
    key, ordering, properties = at(new.keys), at(new.ordering_keys), at(new.properties)
    size = len(new.payloads[i] or b"") + len((key or "").encode()) + len(ordering or b"")
    size += sum(len(k.encode()) + len(v.encode()) for k, v in (properties or {}).items())
    return {
        "publish_time": time(publish if isinstance(publish, int) else publish[i]),
        "event_time": time(at(new.event_times_ms)),
        "deliver_at": time(at(new.deliver_at_ms)),
        "producer_name": new.producer_name,
        "sequence_id": sequence + i if isinstance(sequence, int) else at(sequence),
        "key": key,
        "key_is_base64": new.keys_are_base64,
        "ordering_key": ordering,
        "sticky_hash": at(new.sticky_hashes),
        "schema_version": new.schema_version,
        "properties": None if properties is None else list(properties.items()),
        "compression": new.compression.name,
        "chunk_uuid": at(new.chunk_uuids),
        "chunk_id": at(new.chunk_ids),
        "chunk_count": at(new.chunk_counts),
        "chunk_total_bytes": at(new.chunk_total_bytes),
        "size_bytes": size,
        "null_value": new.payloads[i] is None,
        "payload": new.payloads[i],
    }


def rows(frame: Frame) -> list[dict[str, Any]]:
    arrays = [array.to_pylist() for array in frame.message_arrays()]
    return [dict(zip(MESSAGE_FIELDS, row, strict=True)) for row in zip(*arrays, strict=True)]


@given(new_messages())
def test_every_component_of_every_message_survives(new: NewMessages) -> None:
    assert rows(decode(encode(new).data)) == expected(new)


@given(new_messages(rows_max=1))
def test_every_component_of_a_lone_message_survives(new: NewMessages) -> None:
    assert rows(decode(encode(new).data)) == expected(new)


@given(new_messages())
def test_the_entries_of_a_frame_are_its_batches(new: NewMessages) -> None:
    frame = decode(encode(new).data)
    sizes = [1] * len(new.payloads) if new.batch_sizes is None else list(new.batch_sizes)
    entries = [entry for entry, size in enumerate(sizes) for _ in range(size)]
    places = [place for size in sizes for place in range(size)]
    assert frame.entry_ordinals().tolist() == entries
    indexes = [-1] * len(new.payloads) if new.batch_sizes is None else places
    assert frame.batch_indexes().tolist() == indexes


@given(new_messages())
def test_what_the_tail_says_of_a_frame_agrees_with_the_frame(new: NewMessages) -> None:
    encoded = encode(new)
    decoded = rows(decode(encoded.data))
    sizes = [row["size_bytes"] for row in decoded]
    newest = max(row["publish_time"] for row in decoded)
    assert (encoded.size_bytes, encoded.largest_bytes) == (sum(sizes), max(sizes))
    assert (encoded.messages, EPOCH + timedelta(milliseconds=encoded.publish_ms_max)) == (
        len(decoded),
        newest,
    )
    assert encoded.entries == decode(encoded.data).entries


@given(st.lists(new_messages(rows_max=2), min_size=1, max_size=6))
def test_frames_of_a_tail_become_rows_with_their_positions(frames: list[NewMessages]) -> None:
    tail, at, entry = list[TailRow](), 0, 0
    for new in frames:
        encoded = encode(new)
        tail.append(TailRow(at, encoded.messages, encoded.entries, 7, entry, encoded.data))
        at, entry = at + encoded.messages, entry + encoded.entries
    read = [row for batch in tail_batches(tail) for row in batch.to_pylist()]
    assert [row["topic_offset"] for row in read] == list(range(at))
    assert {row["ledger_id"] for row in read} == {7}
    values = [{name: row[name] for name in MESSAGE_FIELDS} for row in read]
    assert values == [row for new in frames for row in expected(new)]


def test_rows_of_the_tail_have_the_columns_of_a_segment() -> None:
    encoded = encode(NewMessages([b"a", None], 1))
    batch = next(tail_batches([TailRow(0, 2, 2, 1, 0, encoded.data)]))
    assert batch.schema == SEGMENT_SCHEMA


@pytest.mark.parametrize("count", [1, 2])
def test_bytes_that_are_no_frame_are_reported_as_damage(count: int) -> None:
    data = encode(NewMessages([b"a"] * count, 1)).data
    with pytest.raises(CatalogDamaged):
        decode(b"????" + data[4:])


def test_a_key_that_is_no_unicode_text_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="can't be stored"):
        encode(NewMessages([b"x"], 0, keys=["\ud800"]))


def test_a_payload_that_is_no_bytes_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="can't be stored"):
        encode(NewMessages([1, 2], 0))  # type: ignore[list-item]
