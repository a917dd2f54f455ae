"""Reading a topic: from any place, in any form, whatever happens meanwhile."""

import itertools
from pathlib import Path

import pytest
from ledger_fixtures import (
    PLACES,
    T0_MS,
    OpenLedger,
    fill_every_place,
    new,
    numbered,
    offsets,
    payloads,
    table,
    whole,
)

from ledgermq.parquet_ledger import (
    Ledger,
    LedgerError,
    Position,
    Retention,
    SegmentDamaged,
    Topic,
    TopicNotFound,
)
from ledgermq.parquet_ledger.columns import SEGMENT_SCHEMA

ALL = numbered(PLACES)


def test_an_empty_topic_has_nothing_to_read(orders: Topic) -> None:
    assert payloads(orders) == []
    assert (orders.next_offset(), orders.last_position()) == (0, None)


def test_everything_is_read_in_order_wherever_it_is(orders: Topic) -> None:
    fill_every_place(orders)
    assert payloads(orders) == ALL


@pytest.mark.parametrize("start", range(PLACES + 2))
def test_reading_begins_at_any_offset(tmp_path: Path, start: int) -> None:
    with Ledger(tmp_path / "ledger", background=False) as ledger:
        topic = ledger.create_topic("orders")
        fill_every_place(topic)
        assert payloads(topic, start) == ALL[start:]


def test_reading_ends_at_any_offset(orders: Topic) -> None:
    fill_every_place(orders)
    bounds = itertools.combinations(range(0, PLACES + 1, 7), 2)
    for start, end in bounds:
        assert offsets(orders, start, end) == list(range(start, end))


def test_offsets_are_dense_and_positions_increase(orders: Topic) -> None:
    fill_every_place(orders)
    messages = list(orders.read_messages())
    positions = [message.position for message in messages]
    assert [message.topic_offset for message in messages] == list(range(PLACES))
    assert positions == sorted(set(positions))


def test_the_tail_alone_is_read(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    assert payloads(orders, 2) == numbered(3, 2)


def test_segments_alone_are_read(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    orders.seal()
    assert payloads(orders, 2) == numbered(3, 2)


def test_another_process_without_a_cache_reads_the_same(
    orders: Topic, open_ledger: OpenLedger
) -> None:
    fill_every_place(orders)
    other = open_ledger(frame_cache_megabytes=0).topic("orders")
    assert whole(other).equals(whole(orders))


def test_small_batches_give_the_same_messages(open_ledger: OpenLedger) -> None:
    topic = open_ledger(read_batch_rows=3, row_group_rows=4).create_topic("orders")
    fill_every_place(topic)
    assert payloads(topic) == ALL


def test_a_message_has_all_its_components(orders: Topic) -> None:
    fill_every_place(orders)
    message = next(orders.read_messages(20))
    assert (message.payload, message.properties) == (b"20", {"color": "red"})
    with pytest.raises(AttributeError):
        _ = message.colour


def test_entries_are_the_producers_batches(orders: Topic) -> None:
    fill_every_place(orders)
    entries = list(orders.read_entries())
    sizes = [entry.messages.num_rows for entry in entries]
    assert sizes == [1, 2, 3, *[1] * 14, 1, 4, 5, *[1] * 15, 1, 1, 6, 6, 1]
    assert [entry.offset_start for entry in entries] == [sum(sizes[:i]) for i in range(len(sizes))]


def test_an_entry_is_whole_though_it_spans_two_row_groups(open_ledger: OpenLedger) -> None:
    topic = open_ledger(row_group_rows=2).create_topic("orders")
    topic.append(new(numbered(9), batch_sizes=[5, 4]))
    topic.seal()
    assert [entry.messages.num_rows for entry in topic.read_entries()] == [5, 4]


def test_reading_entries_begins_within_an_entry(orders: Topic) -> None:
    orders.append(new(numbered(6), batch_sizes=[4, 2]))
    assert [entry.messages.num_rows for entry in orders.read_entries(1)] == [3, 2]


def test_only_the_wanted_columns_are_read(orders: Topic) -> None:
    fill_every_place(orders)
    batches = list(orders.read_arrow(25, 50, columns=["payload", "key"]))
    assert {tuple(batch.schema.names) for batch in batches} == {("payload", "key")}
    assert sum(batch.num_rows for batch in batches) == 25


def test_all_columns_have_the_types_of_a_segment(orders: Topic) -> None:
    fill_every_place(orders)
    assert all(batch.schema.equals(SEGMENT_SCHEMA) for batch in orders.read_arrow())


def test_an_unknown_column_is_named(orders: Topic) -> None:
    orders.append(new([b"a"]))
    with pytest.raises(LedgerError, match="colour"):
        list(orders.read_arrow(columns=["payload", "colour"]))


def test_every_offset_and_its_position_lead_to_each_other(orders: Topic) -> None:
    fill_every_place(orders)
    for offset in range(PLACES):
        position = orders.position_of(offset)
        assert position is not None
        assert orders.offset_of(position) == offset


def test_a_position_between_messages_means_the_next_one(orders: Topic) -> None:
    orders.append(new(numbered(5), batch_sizes=[2, 3]))
    ledger_id = next(orders.read_messages()).position.ledger_id
    assert orders.offset_of(Position(ledger_id, 0, 7)) == 2
    assert orders.offset_of(Position(ledger_id, 1)) == 2
    assert orders.offset_of(Position(ledger_id, 9)) == 5


def test_positions_outside_of_the_topic_mean_its_ends(orders: Topic) -> None:
    fill_every_place(orders)
    assert orders.offset_of(Position(0, 0)) == 0
    assert orders.offset_of(Position(1 << 40, 0)) == PLACES


def test_the_last_position_is_that_of_the_last_message(orders: Topic) -> None:
    fill_every_place(orders)
    assert orders.last_position() == list(orders.read_messages())[-1].position


def test_an_offset_that_is_not_stored_has_no_position(orders: Topic) -> None:
    fill_every_place(orders)
    assert orders.position_of(PLACES) is None


@pytest.mark.parametrize("seal_after", [0, 4, 8])
def test_the_first_message_since_a_time_is_found(orders: Topic, seal_after: int) -> None:
    # Publish times are the producers' and need not increase.
    times = [10, 20, 15, 40, 30, 30, 60, 50]
    for i, time in enumerate(times):
        orders.append(new(numbered(1, i), publish_time_ms=T0_MS + time))
        if i + 1 == seal_after:
            orders.seal()
    for asked in range(0, 70, 5):
        late = [offset for offset, time in enumerate(times) if time >= asked]
        assert orders.offset_at_time(T0_MS + asked) == min(late, default=len(times))


def test_messages_appended_during_a_read_are_not_seen(orders: Topic) -> None:
    fill_every_place(orders)
    reading = orders.read_messages()
    seen = [next(reading).payload]
    orders.append(new(numbered(5, PLACES)))
    orders.append_table(table(numbered(15, PLACES + 5)))
    seen += [message.payload for message in reading]
    assert seen == ALL


@pytest.mark.parametrize("cache", [0, 64])
def test_a_read_sees_each_message_once_while_seals_go_on(
    open_ledger: OpenLedger, cache: int
) -> None:
    ledger = open_ledger(read_batch_rows=1, frame_cache_megabytes=cache)
    topic = ledger.create_topic("orders")
    fill_every_place(topic)
    seen = []
    for i, message in enumerate(topic.read_messages()):
        seen.append(message.payload)
        if i % 20 == 5:
            topic.seal()
    assert seen == ALL


def test_a_read_goes_on_in_files_that_are_retired_meanwhile(
    open_ledger: OpenLedger,
) -> None:
    topic = open_ledger(read_batch_rows=1, row_group_rows=5).create_topic("orders")
    topic.append(new(numbered(40)))
    topic.seal()
    reading = topic.read_messages()
    seen = [next(reading).payload]
    topic.retire(Retention())
    topic.ledger.collect_garbage()
    seen += [message.payload for message in reading]
    assert seen == numbered(40)


def test_retired_messages_are_skipped(open_ledger: OpenLedger) -> None:
    topic = open_ledger().create_topic("orders")
    topic.append(new(numbered(5)))
    topic.seal()
    topic.retire(Retention())
    topic.append(new(numbered(5, 5)))
    other = open_ledger().topic("orders")
    assert payloads(other) == numbered(5, 5)


def test_retired_messages_are_not_read_from_the_cache_either(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    orders.seal()
    orders.retire(Retention())
    assert payloads(orders) == []


def characters_read() -> int:
    """Return how many bytes this process has read by system calls, this call's own included."""
    text = Path("/proc/self/io").read_text("ascii")
    return int(text.split()[1])


def test_a_reader_that_keeps_up_reads_no_files(orders: Topic) -> None:
    for i in range(50):
        orders.append(new(numbered(1, i)))
    payloads(orders, 0, 50)
    own = characters_read()
    own = characters_read() - own
    before = characters_read()
    seen = payloads(orders, 0, 50)
    read = characters_read() - before
    assert seen == numbered(50)
    # The counter's text may have grown by a digit or two.
    assert read <= own + 4


def test_a_file_that_is_missing_is_named(open_ledger: OpenLedger) -> None:
    topic = open_ledger(frame_cache_megabytes=0).create_topic("orders")
    topic.append(new(numbered(5)))
    (segment,) = topic.seal()
    (topic.ledger.directory / segment.path).unlink()
    with pytest.raises(SegmentDamaged) as damage:
        payloads(topic)
    assert damage.value.path == segment.path


def test_a_deleted_topic_can_not_be_read(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    orders.ledger.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        payloads(orders)


def test_null_and_empty_payloads_stay_apart_in_tail_and_segment(orders: Topic) -> None:
    orders.append(new([None, b"", b"x"]))
    before = payloads(orders)
    orders.seal()
    assert before == payloads(orders) == [None, b"", b"x"]
