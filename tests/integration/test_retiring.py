"""Retiring: what nobody needs goes, its file later, and nothing else ever."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_fixtures import (
    MINUTE_MS,
    Clock,
    OpenLedger,
    exit_code,
    fork,
    new,
    numbered,
    offsets,
    segment_files,
    small_settings,
    table,
)

from ledgermq.parquet_ledger import Ledger, Retention, Segment, Span, Topic, TopicNotFound

GRACE_MS = 600_000


def three_segments(topic: Topic) -> None:
    """Make segments of the offsets 0 to 9, 10 to 19 and 20 to 29."""
    for i in range(3):
        topic.append(new(numbered(10, 10 * i)))
        topic.seal()


def starts(segments: list[Segment]) -> list[int]:
    return [segment.offset_start for segment in segments]


def test_without_subscriptions_everything_sealed_may_go(orders: Topic) -> None:
    three_segments(orders)
    assert starts(orders.retire(Retention())) == [0, 10, 20]


def test_the_tail_is_never_retired(open_ledger: OpenLedger) -> None:
    topic = open_ledger(frame_cache_megabytes=0).create_topic("orders")
    three_segments(topic)
    topic.append(new(numbered(5, 30)))
    topic.retire(Retention())
    assert offsets(topic) == list(range(30, 35))


@pytest.mark.parametrize(
    ("acked", "retired"),
    [
        ([Span(0, 10)], [0]),
        ([Span(10, 20)], [10]),
        ([Span(0, 9)], []),
        ([Span(0, 19)], [0]),
        ([Span(5, 25)], [10]),
        ([Span(0, 10), Span(20, 30)], [0, 20]),
        ([Span(0, 30)], [0, 10, 20]),
    ],
)
def test_a_segment_goes_when_all_of_it_is_acknowledged(
    orders: Topic, acked: list[Span], retired: list[int]
) -> None:
    three_segments(orders)
    orders.subscribe("sub", start=0).acknowledge(acked)
    assert starts(orders.retire(Retention())) == retired


def test_a_segment_stays_while_any_subscription_needs_it(orders: Topic) -> None:
    three_segments(orders)
    orders.subscribe("fast", start=0).acknowledge([Span(0, 30)])
    orders.subscribe("slow", start=0).acknowledge([Span(0, 10)])
    assert starts(orders.retire(Retention())) == [0]


def test_deleting_the_last_subscription_that_needs_it_lets_a_segment_go(orders: Topic) -> None:
    three_segments(orders)
    orders.subscribe("slow", start=0).delete()
    assert len(orders.retire(Retention())) == 3


def test_retention_keeps_what_is_acknowledged(orders: Topic, clock: Clock) -> None:
    three_segments(orders)
    clock.advance(5 * MINUTE_MS)
    assert orders.retire(Retention(minutes=6, bytes=-1)) == []
    assert len(orders.retire(Retention(minutes=5, bytes=-1))) == 3


def test_offsets_and_positions_go_on_after_everything_went(open_ledger: OpenLedger) -> None:
    topic = open_ledger().create_topic("orders")
    three_segments(topic)
    last = topic.last_position()
    topic.retire(Retention())
    topic = open_ledger().topic("orders")
    done = topic.append(new(numbered(1, 30)))
    position = topic.last_position()
    assert last is not None
    assert position is not None
    assert (done.offset_start, position > last) == (30, True)


def test_what_is_left_is_sound(orders: Topic, clock: Clock) -> None:
    three_segments(orders)
    orders.subscribe("sub", start=0).acknowledge([Span(10, 20)])
    orders.retire(Retention())
    clock.advance(GRACE_MS)
    orders.ledger.collect_garbage()
    assert orders.ledger.check().problems == ()


def test_a_topic_of_tables_is_sound_when_one_went_from_the_middle(orders: Topic) -> None:
    for i in range(3):
        orders.append_table(table(numbered(15, 15 * i)))
    orders.subscribe("sub", start=0).acknowledge([Span(15, 30)])
    orders.retire(Retention())
    assert orders.ledger.check().problems == ()


def test_a_table_within_the_tail_goes_only_when_the_frames_before_it_are_sealed(
    orders: Topic,
) -> None:
    orders.append(new(numbered(5)))
    orders.append_table(table(numbered(15, 5)))
    orders.append(new(numbered(5, 20)))
    assert orders.retire(Retention()) == []
    orders.seal()
    assert starts(orders.retire(Retention())) == [0, 5, 20]


def test_a_tail_is_sound_when_what_lies_before_it_went(orders: Topic) -> None:
    orders.append_table(table(numbered(15)))
    orders.append(new(numbered(5, 15)))
    orders.append_table(table(numbered(15, 20)))
    orders.retire(Retention())
    assert orders.ledger.check().problems == ()
    assert orders.subscribe("late", start=0).ack_floor() == 15


def test_a_file_stays_for_the_grace_period(orders: Topic, clock: Clock) -> None:
    three_segments(orders)
    paths = {segment.path for segment in orders.retire(Retention())}
    clock.advance(GRACE_MS - 1)
    assert orders.ledger.collect_garbage().retired == []
    assert segment_files(orders.ledger.directory) == paths


def test_a_file_goes_after_the_grace_period(orders: Topic, clock: Clock) -> None:
    three_segments(orders)
    paths = [segment.path for segment in orders.retire(Retention())]
    clock.advance(GRACE_MS)
    assert sorted(orders.ledger.collect_garbage().retired) == sorted(paths)
    assert segment_files(orders.ledger.directory) == set()


def test_collecting_again_finds_nothing(orders: Topic, clock: Clock) -> None:
    three_segments(orders)
    orders.retire(Retention())
    clock.advance(GRACE_MS)
    orders.ledger.collect_garbage()
    assert orders.ledger.collect_garbage().retired == []


def test_live_files_are_never_collected(orders: Topic, clock: Clock) -> None:
    three_segments(orders)
    clock.advance(10 * GRACE_MS)
    garbage = orders.ledger.collect_garbage()
    assert (garbage.retired, garbage.orphans) == ([], [])


def leave_file(directory: Path, session_id: int) -> str:
    """Leave a file behind as a writer would that has not published it yet."""
    path = f"segments/1/s{session_id}-{'0' * 32}.parquet"
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    (directory / path).write_bytes(b"unfinished")
    return path


def test_the_unpublished_file_of_a_living_process_is_kept(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    path = leave_file(ledger.directory, open_ledger().sessions.current())
    assert ledger.collect_garbage().orphans == []
    assert segment_files(ledger.directory) == {path}


def test_the_unpublished_file_of_a_closed_session_is_an_orphan(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    other = open_ledger()
    path = leave_file(ledger.directory, other.sessions.current())
    other.close()
    assert ledger.collect_garbage().orphans == [path]
    assert segment_files(ledger.directory) == set()


def test_the_unpublished_file_of_a_dead_process_is_an_orphan(ledger: Ledger) -> None:
    told, tell = os.pipe()

    def die_with_a_session() -> None:
        os.write(tell, b"%d" % ledger.sessions.current())
        os._exit(0)

    assert exit_code(fork(die_with_a_session)) == 0
    path = leave_file(ledger.directory, int(os.read(told, 20)))
    os.close(told)
    os.close(tell)
    assert ledger.collect_garbage().orphans == [path]


def test_a_file_that_is_not_ours_is_left_alone(ledger: Ledger) -> None:
    (ledger.directory / "segments" / "1").mkdir(parents=True)
    (ledger.directory / "segments" / "1" / "notes.parquet").touch()
    assert ledger.collect_garbage().orphans == []


def test_a_deleted_topic_is_gone_and_its_files_follow_after_the_grace(
    orders: Topic, clock: Clock
) -> None:
    three_segments(orders)
    orders.subscribe("sub", start=0)
    ledger = orders.ledger
    ledger.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        ledger.topic("orders")
    assert len(segment_files(ledger.directory)) == 3
    clock.advance(GRACE_MS)
    ledger.collect_garbage()
    assert segment_files(ledger.directory) == set()


def test_a_topic_that_is_made_again_starts_from_nothing(orders: Topic) -> None:
    three_segments(orders)
    orders.subscribe("sub", start=0)
    orders.ledger.delete_topic("orders")
    again = orders.ledger.create_topic("orders")
    assert (offsets(again), again.next_offset(), again.subscriptions()) == ([], 0, [])


def test_appending_to_a_deleted_topic_is_refused(orders: Topic) -> None:
    orders.append(new(numbered(1)))
    orders.ledger.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        orders.append(new(numbered(1)))
    with pytest.raises(TopicNotFound):
        orders.append_table(table(numbered(15)))
    assert segment_files(orders.ledger.directory) == set()


SPANS = st.lists(
    st.tuples(st.integers(0, 29), st.integers(1, 15)).map(lambda s: Span(s[0], min(30, sum(s)))),
    max_size=4,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acks=st.lists(SPANS, min_size=1, max_size=3))
def test_nothing_that_is_unacknowledged_ever_goes(
    tmp_path_factory: pytest.TempPathFactory, acks: list[list[Span]]
) -> None:
    directory = tmp_path_factory.mktemp("ledger")
    options = small_settings(frame_cache_megabytes=0, retired_file_grace_ms=0)
    with Ledger(directory, options, background=False) as ledger:
        topic = ledger.create_topic("orders")
        three_segments(topic)
        needed = set[int]()
        for i, spans in enumerate(acks):
            topic.subscribe(f"sub{i}", start=0).acknowledge(spans)
            acked = {offset for span in spans for offset in range(span.start, span.end)}
            needed |= set(range(30)) - acked
        topic.retire(Retention())
        ledger.collect_garbage()
        assert needed <= set(offsets(topic))
