"""Which Arrow tables can be appended, small or large, and that a refused one leaves nothing."""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from ledger_fixtures import (
    OpenLedger,
    fill_every_place,
    numbered,
    offsets,
    payloads,
    segment_files,
    table,
)

from ledgermq.parquet_ledger import InvalidMessage, MessageTooLarge, Topic
from ledgermq.parquet_ledger.columns import PROPERTIES, TIME

SMALL, LARGE = 5, 15


def rows(count: int) -> list[bytes]:
    return numbered(count)


def bad_tables(count: int) -> dict[str, tuple[pa.Table, str]]:
    """Return tables that can't be stored, and what the error must name."""
    payload = pa.array(rows(count))
    some_null = [None, *[1] * (count - 1)]
    return {
        "unknown column": (table(rows(count), colour=["red"] * count), "colour"),
        "no payload": (pa.table({"key": ["k"] * count}), "payload"),
        "no rows": (table([]), "no rows"),
        "two payloads": (pa.Table.from_arrays([payload] * 2, ["payload"] * 2), "same name"),
        "null time": (table(rows(count), publish_time=pa.array(some_null, TIME)), "publish_time"),
        "null flag": (table(rows(count), key_is_base64=[None] * count), "key_is_base64"),
        "text time": (table(rows(count), publish_time=["soon"] * count), "publish_time"),
        "fraction": (table(rows(count), sequence_id=[0.5] * count), "sequence_id"),
        "list key": (table(rows(count), key=[["k"]] * count), "key"),
        "number payload": (pa.table({"payload": [[1]] * count}), "payload"),
        "property without value": (
            table(rows(count), properties=pa.array([[("a", None)]] * count, PROPERTIES)),
            "properties",
        ),
    }


@pytest.mark.parametrize("count", [1, SMALL, LARGE])
@pytest.mark.parametrize("what", bad_tables(1))
def test_a_table_that_can_not_be_stored_is_refused_and_leaves_nothing(
    orders: Topic, what: str, count: int
) -> None:
    bad, named = bad_tables(count)[what]
    with pytest.raises(InvalidMessage, match=named):
        orders.append_table(bad)
    assert (orders.next_offset(), segment_files(orders.ledger.directory)) == (0, set())


@pytest.mark.parametrize("count", [1, SMALL, LARGE])
def test_a_message_over_the_limit_is_refused_and_leaves_nothing(
    open_ledger: OpenLedger, count: int
) -> None:
    topic = open_ledger(message_bytes_max=100).create_topic("orders")
    with pytest.raises(MessageTooLarge):
        topic.append_table(table([*rows(count - 1), bytes(101)]))
    assert (topic.next_offset(), segment_files(topic.ledger.directory)) == (0, set())


@pytest.mark.parametrize("count", [1, SMALL, LARGE])
@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view()]
)
def test_payloads_of_any_binary_or_text_type_are_taken(
    orders: Topic, kind: pa.DataType, count: int
) -> None:
    orders.append_table(pa.table({"payload": pa.array(rows(count)).cast(kind)}))
    assert payloads(orders) == rows(count)


@pytest.mark.parametrize("count", [1, SMALL, LARGE])
def test_dictionaries_and_chunked_columns_are_taken(orders: Topic, count: int) -> None:
    keys = pa.array(["k"] * count).dictionary_encode()
    whole = table(rows(count), key=keys)
    orders.append_table(pa.concat_tables([whole.slice(0, 1), whole.slice(1)]))
    assert [message.key for message in orders.read_messages()] == ["k"] * count


def every_column(count: int) -> dict[str, Any]:
    gaps = [None, 2, 3] * count
    return {
        "publish_time": pa.array(range(count), TIME),
        "event_time": pa.array(gaps[:count], TIME),
        "deliver_at": pa.array(gaps[:count], TIME),
        "sequence_id": pa.array(gaps[:count], pa.int64()),
        "key": pa.array([None, "ä", ""] * count)[:count],
        "ordering_key": pa.array([None, b"o", b""] * count)[:count],
        "sticky_hash": pa.array(gaps[:count], pa.int32()),
        "properties": pa.array([None, [("a", "b")], []] * count, PROPERTIES)[:count],
        "chunk_uuid": pa.array([None, "u", "u"] * count)[:count],
        "chunk_id": pa.array(gaps[:count], pa.int32()),
        "chunk_count": pa.array(gaps[:count], pa.int32()),
        "chunk_total_bytes": pa.array(gaps[:count], pa.int64()),
    }


@pytest.mark.parametrize("count", [1, SMALL, LARGE])
def test_every_column_of_a_table_is_kept(orders: Topic, count: int) -> None:
    given = table([None, b"", b"x"] * count).slice(0, count)
    for name, column in every_column(count).items():
        given = given.append_column(name, column)
    orders.append_table(given)
    stored = pa.Table.from_batches(list(orders.read_arrow())).select(given.column_names)
    assert stored.to_pylist() == given.to_pylist()


def test_columns_that_a_frame_can_not_hold_are_kept_too(orders: Topic) -> None:
    orders.append_table(table(rows(2), producer_name=["p", None], schema_version=[1, 2]))
    found = [(message.producer_name, message.schema_version) for message in orders.read_messages()]
    assert found == [("p", 1), (None, 2)]


def test_a_time_without_a_zone_is_taken_as_utc(orders: Topic) -> None:
    orders.append_table(table(rows(1), event_time=pa.array([datetime(2024, 1, 2)])))
    (message,) = orders.read_messages()
    assert message.event_time.isoformat() == "2024-01-02T00:00:00+00:00"


def test_a_table_without_times_is_published_now(orders: Topic) -> None:
    orders.append_table(table(rows(LARGE)))
    times = {message.publish_time.timestamp() for message in orders.read_messages()}
    assert times == {orders.ledger.clock_ms() / 1000}


def test_a_table_becomes_visible_all_at_once(open_ledger: OpenLedger) -> None:
    topic = open_ledger(segment_rows_max=10).create_topic("orders")
    other = open_ledger().topic("orders")
    reading = other.read_messages()
    fill_every_place(topic)
    before = other.next_offset()
    topic.append_table(table(rows(35)))
    assert (before, other.next_offset()) == (60, 95)
    assert len(list(reading)) == 95
    assert offsets(other) == list(range(95))


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_the_messages_of_a_table_are_entries_of_their_own(orders: Topic, count: int) -> None:
    orders.append_table(table(rows(count)))
    positions = [message.position for message in orders.read_messages()]
    assert [(p.entry_id, p.batch_index) for p in positions] == [(i, -1) for i in range(count)]


def test_a_small_table_over_the_frame_limit_is_cut_into_frames(open_ledger: OpenLedger) -> None:
    topic = open_ledger(frame_bytes_max=1_024).create_topic("orders")
    done = topic.append_table(table([bytes(500)] * 9, key=["k"] * 9))
    assert len(done.frames) > 1
    assert offsets(topic) == list(range(9))
