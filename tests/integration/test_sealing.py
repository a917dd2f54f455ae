"""Sealing moves the tail into segments and changes nothing that a reader can see."""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from ledger_fixtures import (
    PLACES,
    Clock,
    OpenLedger,
    fill_every_place,
    new,
    numbered,
    payloads,
    segment_files,
    table,
    tail_rows,
    whole,
)

from ledgermq.parquet_ledger import CommitConflict, CommitOutcomeUnknown, Ledger, Topic
from ledgermq.parquet_ledger.bulk import publish_bulk
from ledgermq.parquet_ledger.seal import Sealer
from ledgermq.parquet_ledger.segment_file import write_segment


def ledger_totals(topic: Topic) -> list[tuple[int, ...]]:
    with topic.ledger.catalog.read() as tx:
        return [row[4:] for row in tx.rows("ledgers", topic.topic_id)]


def test_sealing_changes_nothing_that_can_be_read(orders: Topic, open_ledger: OpenLedger) -> None:
    fill_every_place(orders)
    before = whole(orders)
    orders.seal()
    assert whole(open_ledger().topic("orders")).equals(before)


def test_sealing_an_empty_tail_makes_no_segment(orders: Topic) -> None:
    assert orders.seal() == []


def test_sealing_twice_makes_no_second_segment(orders: Topic) -> None:
    orders.append(new(numbered(3)))
    orders.seal()
    assert orders.seal() == []


def test_sealed_frames_leave_the_tail(orders: Topic) -> None:
    fill_every_place(orders)
    orders.seal()
    assert tail_rows(orders) == 0


def test_more_frames_than_one_transaction_deletes_all_leave_the_tail(orders: Topic) -> None:
    orders.ledger.appender.append(orders.topic_id, "orders", new(numbered(1)))
    for i in range(1_100):
        orders.append(new(numbered(1, i + 1)))
    orders.seal()
    assert tail_rows(orders) == 0


def test_the_segments_of_a_topic_cover_it_without_overlap(orders: Topic) -> None:
    fill_every_place(orders)
    orders.seal()
    spans = [(segment.offset_start, segment.offset_end) for segment in orders.segments()]
    assert spans == [(0, 20), (20, 30), (30, 45), (45, PLACES)]


def test_a_file_holds_its_rows_in_the_order_of_positions(orders: Topic) -> None:
    fill_every_place(orders)
    orders.seal()
    for segment in orders.segments():
        rows = pq.read_table(orders.ledger.directory / segment.path).to_pylist()
        keys = [(row["ledger_id"], row["entry_id"], row["batch_index"]) for row in rows]
        assert keys == sorted(set(keys))


def test_what_the_catalog_says_of_a_segment_is_true_of_its_rows(orders: Topic) -> None:
    fill_every_place(orders)
    orders.seal()
    for segment in orders.segments():
        rows = list(orders.read_messages(segment.offset_start, segment.offset_end))
        entries = {(row.position.ledger_id, row.position.entry_id) for row in rows}
        assert segment.messages == len(rows)
        assert segment.entries == len(entries)
        assert segment.bytes == sum(row.size_bytes for row in rows)


def test_sealing_keeps_the_totals_of_the_ledgers(orders: Topic) -> None:
    fill_every_place(orders)
    orders.seal()
    size = sum(message.size_bytes for message in orders.read_messages())
    totals = ledger_totals(orders)
    assert sum(total[0] for total in totals) == PLACES
    assert sum(total[1] for total in totals) == len(list(orders.read_entries()))
    assert sum(total[2] for total in totals) == size


@pytest.mark.parametrize("reopens", [False, True])
def test_appends_go_on_where_the_sealed_tail_ended(open_ledger: OpenLedger, reopens: bool) -> None:
    topic = open_ledger().create_topic("orders")
    topic.append(new(numbered(5), batch_sizes=[2, 3]))
    topic.seal()
    if reopens:
        topic = open_ledger().topic("orders")
    topic.append(new(numbered(1, 5)))
    last, before = topic.position_of(5), topic.position_of(4)
    assert last is not None
    assert before is not None
    assert (last.ledger_id, last.entry_id) == (before.ledger_id, before.entry_id + 1)


def test_a_segment_has_at_most_so_many_rows(open_ledger: OpenLedger) -> None:
    topic = open_ledger(segment_rows_max=10).create_topic("orders")
    for i in range(25):
        topic.append(new(numbered(1, i)))
    assert [segment.messages for segment in topic.seal()] == [10, 10, 5]
    assert payloads(topic) == numbered(25)


def test_a_ledger_rolls_over_after_so_many_entries(open_ledger: OpenLedger) -> None:
    topic = open_ledger(ledger_entries_max=2).create_topic("orders")
    for i in range(5):
        topic.append(new(numbered(1, i)))
    positions = [message.position for message in topic.read_messages()]
    assert [position.entry_id for position in positions] == [0, 1, 0, 1, 0]
    assert len({position.ledger_id for position in positions}) == 3


def test_a_ledger_rolls_over_with_age(open_ledger: OpenLedger, clock: Clock) -> None:
    topic = open_ledger(ledger_minutes_max=1).create_topic("orders")
    topic.append(new(numbered(1)))
    clock.advance(60_000)
    topic.append(new(numbered(1, 1)))
    assert len({message.position.ledger_id for message in topic.read_messages()}) == 2


class Meanwhile:
    """Does something once, just before a segment file is written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act
        monkeypatch.setattr("ledgermq.parquet_ledger.seal.write_segment", self)

    def __call__(self, *arguments: Any, **options: Any) -> object:
        act, self._act = self._act, None
        if act is not None:
            act()
        return write_segment(*arguments, **options)


def test_of_two_sealers_one_wins_and_the_other_leaves_no_file(
    orders: Topic, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append(new(numbered(5)))
    other = open_ledger().topic("orders")
    Meanwhile(monkeypatch, other.seal)
    with pytest.raises(CommitConflict):
        orders.seal()
    (segment,) = orders.segments()
    assert segment_files(orders.ledger.directory) == {segment.path}
    assert payloads(orders) == numbered(5)


def test_messages_appended_during_a_seal_stay_in_the_tail(
    orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append(new(numbered(5)))
    Meanwhile(monkeypatch, lambda: orders.append(new(numbered(5, 5))))
    orders.seal()
    assert [segment.offset_end for segment in orders.segments()] == [5]
    assert payloads(orders) == numbered(10)


class Killed(BaseException):
    """Stands for a process that is killed: no ledger code may handle it."""


def kill() -> None:
    raise Killed


def test_a_seal_that_was_killed_before_writing_is_done_again(
    orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append(new(numbered(5)))
    Meanwhile(monkeypatch, kill)
    with pytest.raises(Killed):
        orders.seal()
    orders.seal()
    assert [segment.messages for segment in orders.segments()] == [5]
    assert payloads(orders) == numbered(5)


def test_frames_that_a_killed_seal_left_behind_are_deleted_by_the_next(
    orders: Topic, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append(new(numbered(5)))
    with monkeypatch.context() as patch:
        # The first deletion is before the segment, the second, which fails, is after it.
        deletions: Iterator[Callable[[], None]] = iter([lambda: None, kill])
        patch.setattr(Sealer, "_delete_sealed", lambda *_: next(deletions)())
        with pytest.raises(Killed):
            orders.seal()
    assert tail_rows(orders) == 1
    other = open_ledger().topic("orders")
    assert payloads(other) == numbered(5)
    other.seal()
    assert tail_rows(other) == 0
    assert payloads(other) == numbered(5)


def test_a_segment_whose_commit_may_have_happened_keeps_its_file(
    orders: Topic, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append(new(numbered(5)))
    publish = Sealer._publish

    def publish_and_lose_the_answer(*arguments: Any) -> None:
        publish(*arguments)
        raise CommitOutcomeUnknown("the sync failed after the commit")

    with monkeypatch.context() as patch:
        patch.setattr(Sealer, "_publish", publish_and_lose_the_answer)
        with pytest.raises(CommitOutcomeUnknown):
            orders.seal()
    other = open_ledger(frame_cache_megabytes=0)
    assert payloads(other.topic("orders")) == numbered(5)
    assert other.check().sound


def append_small(topic: Topic, count: int = 1) -> None:
    for i in range(count):
        topic.append(new(numbered(1, i)))


def test_a_tail_that_is_neither_large_nor_old_is_left_alone(orders: Topic) -> None:
    append_small(orders)
    assert orders.ledger.maintenance.run_once() == []


def test_a_tail_is_sealed_when_its_oldest_frame_is_old_enough(
    open_ledger: OpenLedger, clock: Clock
) -> None:
    ledger = open_ledger(seal_age_ms=1_000)
    append_small(ledger.create_topic("orders"))
    clock.advance(999)
    assert ledger.maintenance.run_once() == []
    clock.advance(1)
    assert [segment.messages for segment in ledger.maintenance.run_once()] == [1]


def test_a_tail_is_sealed_when_it_has_enough_frames(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(seal_rows=3)
    topic = ledger.create_topic("orders")
    append_small(topic, 2)
    assert ledger.maintenance.run_once() == []
    append_small(topic)
    assert [segment.messages for segment in ledger.maintenance.run_once()] == [3]


def test_a_tail_is_sealed_when_it_has_enough_bytes(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(seal_megabytes=1)
    topic = ledger.create_topic("orders")
    topic.append(new([bytes(1 << 19)]))
    assert ledger.maintenance.run_once() == []
    topic.append(new([bytes(1 << 19)]))
    assert [segment.messages for segment in ledger.maintenance.run_once()] == [2]


@pytest.mark.parametrize("rolls_over_after", [2, 50_000])
def test_a_tail_over_several_ledgers_is_counted_in_full(
    open_ledger: OpenLedger, rolls_over_after: int
) -> None:
    ledger = open_ledger(seal_rows=6, ledger_entries_max=rolls_over_after)
    topic = ledger.create_topic("orders")
    append_small(topic, 4)
    topic.append_table(table(numbered(12)))
    append_small(topic, 2)
    assert sum(segment.messages for segment in ledger.maintenance.run_once()) == 6


def test_only_one_process_maintains_at_a_time(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(seal_rows=1)
    append_small(ledger.create_topic("orders"))
    fd = os.open(ledger.directory / "locks" / "maintenance", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert ledger.maintenance.run_once() == []
    os.close(fd)
    assert len(ledger.maintenance.run_once()) == 1


def test_maintenance_goes_on_with_other_topics_after_a_conflict(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger(seal_rows=1)
    for name in ("a", "b"):
        append_small(ledger.create_topic(name))
    Meanwhile(monkeypatch, open_ledger().topic("a").seal)
    assert [segment.topic_id for segment in ledger.maintenance.run_once()] == [2]


def test_the_background_thread_seals_a_large_tail(open_ledger: OpenLedger) -> None:
    sealed = threading.Event()
    quiet = open_ledger()
    with Ledger(quiet.directory, quiet.settings.model_copy(update={"seal_megabytes": 1})) as busy:
        run_once = busy.maintenance.run_once

        def run_and_tell() -> list[Any]:
            segments = run_once()
            if segments:
                sealed.set()
            return segments

        busy.maintenance.run_once = run_and_tell  # type: ignore[method-assign]
        busy.create_topic("orders").append(new([bytes(1 << 20)]))
        assert sealed.wait(10)


def test_a_small_table_goes_to_the_tail(orders: Topic) -> None:
    orders.append_table(table(numbered(9)))
    assert (tail_rows(orders), orders.segments()) == (1, [])
    assert payloads(orders) == numbered(9)


def test_a_large_table_goes_to_segments_of_limited_size(open_ledger: OpenLedger) -> None:
    topic = open_ledger(segment_rows_max=10).create_topic("orders")
    done = topic.append_table(table(numbered(25)))
    assert (tail_rows(topic), [segment.messages for segment in topic.segments()]) == (
        0,
        [10, 10, 5],
    )
    assert (done.offset_start, done.offset_end, payloads(topic)) == (0, 25, numbered(25))


def test_a_table_whose_commit_may_have_happened_keeps_its_files(
    orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish_and_lose_the_answer(*arguments: Any, **options: Any) -> None:
        publish_bulk(*arguments, **options)
        raise CommitOutcomeUnknown("the sync failed after the commit")

    target = "ledgermq.parquet_ledger.topic.publish_bulk"
    monkeypatch.setattr(target, publish_and_lose_the_answer)
    with pytest.raises(CommitOutcomeUnknown):
        orders.append_table(table(numbered(15)))
    assert payloads(orders) == numbered(15)
