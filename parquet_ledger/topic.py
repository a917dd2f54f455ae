"""A topic of an open ledger: append to it, read it, subscribe to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from .append import Appended
from .backlog import Backlog
from .bulk import as_new_messages, discard, message_table, publish_bulk, write_bulk
from .errors import CommitOutcomeUnknown, InvalidMessage, LedgerError
from .new_messages import NewMessages
from .read import Entry, Position, StoredMessage
from .retire import Retention, retire_segments
from .segment import Segment, Span
from .subscriptions import (
    SubscriptionRow,
    acknowledge_in,
    create_subscription,
    delete_subscription,
    find_subscription,
    list_subscriptions,
)
from .topic_name import TopicName

if TYPE_CHECKING:
    from .ledger import Ledger


@dataclass(frozen=True, slots=True)
class Topic:
    """A handle; it holds nothing open and may be used from any thread."""

    ledger: Ledger
    topic_id: int
    name: TopicName

    def append(self, new: NewMessages) -> Appended:
        """Append messages of one producer; returns when they are durable."""
        done = self.ledger.appender.append(self.topic_id, str(self.name), new)
        self.ledger.maintenance.appended(done.frames)
        return done

    def append_table(self, table: pa.Table) -> Appended:
        """Append an Arrow table with a ``payload`` column; returns when it is durable.

        All rows become visible together. A large table goes straight into segments.
        """
        ledger, topic = self.ledger, str(self.name)
        typed = message_table(table, topic, ledger.bulk_limits, ledger.clock_ms())
        small = typed.num_rows < ledger.settings.bulk_rows_min
        if small and typed.nbytes < ledger.settings.bulk_megabytes_min << 20:
            new = as_new_messages(typed)
            if new is not None:
                return self.append(new)
        session = ledger.sessions.current()
        written = write_bulk(ledger.directory, self.topic_id, session, typed, ledger.bulk_limits)
        try:
            return publish_bulk(
                ledger.catalog,
                ledger.appender.heads,
                topic_id=self.topic_id,
                topic=topic,
                written=written,
                clock_ms=ledger.clock_ms,
            )
        except CommitOutcomeUnknown:
            raise  # The segments may be live: their files must stay.
        except LedgerError:
            discard(ledger.directory, written)
            raise

    def read_arrow(
        self, start: int = 0, end: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield messages as record batches, from an offset on, up to what is there now."""
        return self.ledger.reader.batches(self.topic_id, str(self.name), start, end, columns)

    def read_entries(self, start: int = 0, end: int | None = None) -> Iterator[Entry]:
        """Yield messages entry by entry."""
        return self.ledger.reader.entries(self.topic_id, str(self.name), start, end)

    def read_messages(self, start: int = 0, end: int | None = None) -> Iterator[StoredMessage]:
        """Yield messages one by one."""
        return self.ledger.reader.messages(self.topic_id, str(self.name), start, end)

    def next_offset(self) -> int:
        """Return the offset that the next message will have."""
        return self.ledger.reader.head(self.topic_id, str(self.name))

    def last_position(self) -> Position | None:
        """Return the position of the last message, or None if there is none."""
        last = self.next_offset() - 1
        return None if last < 0 else self.position_of(last)

    def position_of(self, offset: int) -> Position | None:
        """Return the position of the message at an offset, or None if it is not stored."""
        return self.ledger.reader.position_of(self.topic_id, str(self.name), offset)

    def offset_of(self, position: Position) -> int:
        """Return the offset of the first message at or after a position."""
        return self.ledger.reader.offset_of(self.topic_id, str(self.name), position)

    def offset_at_time(self, publish_ms: int) -> int:
        """Return the offset of the first message published at or after a time."""
        return self.ledger.reader.offset_at_time(self.topic_id, str(self.name), publish_ms)

    def seal(self) -> list[Segment]:
        """Move everything in the tail into segments, now."""
        ledger = self.ledger
        session = ledger.sessions.current()
        return ledger.sealer.seal(self.topic_id, str(self.name), session, ledger.clock_ms())

    def segments(self) -> list[Segment]:
        """Return the live segments in the order of their offsets."""
        with self.ledger.catalog.read() as tx:
            return [Segment.from_row(row) for row in tx.rows("live_segments", self.topic_id)]

    def retire(self, retention: Retention) -> list[Segment]:
        """Retire the segments that no subscription and no retention needs."""
        return retire_segments(
            self.ledger.catalog, self.topic_id, retention, self.ledger.clock_ms()
        )

    def subscribe(self, name: str, *, start: int | None = None) -> Subscription:
        """Return a durable subscription, created at offset ``start`` or at the end."""
        if not name or len(name) > 255 or not name.isprintable():
            raise InvalidMessage(f"topic {self.name}: {name!r} can't name a subscription")
        with self.ledger.catalog.write() as tx:
            row = create_subscription(
                tx, self.topic_id, str(self.name), name, start, self.ledger.clock_ms()
            )
        return Subscription(self, row)

    def subscription(self, name: str) -> Subscription:
        """Return an existing subscription."""
        with self.ledger.catalog.read() as tx:
            return Subscription(self, find_subscription(tx, self.topic_id, str(self.name), name))

    def subscriptions(self) -> list[Subscription]:
        """Return all durable subscriptions."""
        with self.ledger.catalog.read() as tx:
            return [Subscription(self, row) for row in list_subscriptions(tx, self.topic_id)]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable cursor of a topic."""

    topic: Topic
    row: SubscriptionRow

    @property
    def name(self) -> str:
        """Return the subscription's name."""
        return self.row.name

    def acknowledge(self, spans: Iterable[Span]) -> int:
        """Acknowledge offsets; returns, when it is durable, the first unacknowledged offset."""
        with self.topic.ledger.catalog.write() as tx:
            return acknowledge_in(tx, str(self.topic.name), self.row, list(spans))

    def ack_floor(self) -> int:
        """Return the first unacknowledged offset: the mark-delete position is before it."""
        with self.topic.ledger.catalog.read() as tx:
            topic = self.topic
            return find_subscription(tx, topic.topic_id, str(topic.name), self.name).ack_floor

    def backlog(self) -> Backlog:
        """Return what is not acknowledged: messages, entries and bytes."""
        return self.topic.ledger.backlogs.count(str(self.topic.name), self.row)

    def delete(self) -> None:
        """Remove the subscription."""
        with self.topic.ledger.catalog.write() as tx:
            delete_subscription(tx, self.row.subscription_id)
