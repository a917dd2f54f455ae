"""Segments retired from the middle of a topic leave cursors and the check in good order."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages, Retention, Span, Topic

SETTINGS = Settings(wal_pregrow_megabytes=0, bulk_rows_min=2, retired_file_grace_ms=0)
NOTHING_KEPT = Retention(minutes=0, bytes=0)
ROWS = 5


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    with Ledger(tmp_path / "ledger", SETTINGS, background=False) as ledger:
        yield ledger.create_topic("t")


def append_bulk(topic: Topic) -> None:
    topic.append_table(pa.table({"payload": [b"x"] * ROWS}))


def append_one(topic: Topic) -> None:
    topic.append(NewMessages([b"x"], 1))


def test_a_bulk_segment_behind_unsealed_messages_is_retired_after_they_are_sealed(
    topic: Topic,
) -> None:
    subscription = topic.subscribe("s", start=0)
    append_one(topic)
    append_bulk(topic)
    append_one(topic)
    subscription.acknowledge([Span(0, ROWS + 2)])
    assert topic.retire(NOTHING_KEPT) == []
    topic.seal()
    assert sum(segment.messages for segment in topic.retire(NOTHING_KEPT)) == ROWS + 2
    assert topic.ledger.check().sound


def test_a_new_subscription_can_acknowledge_everything_although_some_was_retired(
    topic: Topic,
) -> None:
    subscription = topic.subscribe("s", start=0)
    append_one(topic)
    append_bulk(topic)
    append_one(topic)
    subscription.acknowledge([Span(0, ROWS + 2)])
    topic.retire(NOTHING_KEPT)
    late = topic.subscribe("late", start=0)
    read = [message.topic_offset for message in topic.read_messages()]
    late.acknowledge([Span(offset, offset + 1) for offset in read])
    assert late.ack_floor() == topic.next_offset()


def test_a_segment_retired_from_the_middle_is_no_gap_for_the_check(topic: Topic) -> None:
    subscription = topic.subscribe("s", start=0)
    for _ in range(3):
        append_bulk(topic)
    subscription.acknowledge([Span(ROWS, 2 * ROWS)])
    assert len(topic.retire(NOTHING_KEPT)) == 1
    report = topic.ledger.check()
    assert report.sound, report.problems
