"""Durable subscriptions: the shell around ``cursor`` that loads and stores it.

Creating a subscription counts as acknowledged what is stored no more, so a cursor's holes are
always messages that can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from .catalog import Transaction, WriteTransaction
from .cursor import LoadChunk, acked_within, acknowledge
from .errors import InvalidMessage, SubscriptionNotFound
from .head import load_head
from .segment import Segment, Span, gaps


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A row of the catalog's subscription table."""

    subscription_id: int
    topic_id: int
    name: str
    created_ms: int
    ack_floor: int


def find_subscription(tx: Transaction, topic_id: int, topic: str, name: str) -> SubscriptionRow:
    """Return a subscription, or raise SubscriptionNotFound."""
    row = tx.row("subscription_by_name", topic_id, name)
    if row is None:
        raise SubscriptionNotFound(topic, name)
    return SubscriptionRow(*row)


def list_subscriptions(tx: Transaction, topic_id: int) -> list[SubscriptionRow]:
    """Return a topic's subscriptions by name."""
    return [SubscriptionRow(*row) for row in tx.rows("subscriptions", topic_id)]


def create_subscription(
    tx: WriteTransaction, topic_id: int, topic: str, name: str, start: int | None, now_ms: int
) -> SubscriptionRow:
    """Return the subscription, creating it at ``start``, or at the end of the topic if None.

    An existing one keeps its place, as in Pulsar.
    """
    found = tx.row("subscription_by_name", topic_id, name)
    if found is not None:
        return SubscriptionRow(*found)
    head = load_head(tx, topic_id, topic).offset
    if start is not None and not 0 <= start <= head:
        raise InvalidMessage(
            f"topic {topic}: subscription {name!r} can't start at offset {start}, "
            f"which is outside of 0 to {head}"
        )
    floor = head if start is None else start
    subscription_id = tx.next_id("subscription")
    tx.run("insert_subscription", subscription_id, topic_id, name, now_ms, floor)
    dead = gaps(stored_spans(tx, topic_id, head), Span(floor, head))
    floor = apply_acknowledgment(tx, subscription_id, floor, dead)
    return SubscriptionRow(subscription_id, topic_id, name, now_ms, floor)


def delete_subscription(tx: WriteTransaction, subscription_id: int) -> None:
    """Remove a subscription and its cursor."""
    tx.run("delete_acks", subscription_id)
    tx.run("delete_subscription", subscription_id)


def acknowledge_in(
    tx: WriteTransaction, topic: str, subscription: SubscriptionRow, spans: Sequence[Span]
) -> int:
    """Acknowledge offsets inside a transaction and return the new floor."""
    row = tx.row("ack_floor", subscription.subscription_id)
    if row is None:
        raise SubscriptionNotFound(topic, subscription.name)
    head = load_head(tx, subscription.topic_id, topic).offset
    beyond = [span for span in spans if span.end > head]
    if beyond:
        raise InvalidMessage(
            f"topic {topic}: can't acknowledge offset {beyond[0].end - 1}, the last is {head - 1}"
        )
    return apply_acknowledgment(tx, subscription.subscription_id, int(row[0]), spans)


def apply_acknowledgment(
    tx: WriteTransaction, subscription_id: int, floor: int, spans: Sequence[Span]
) -> int:
    """Write what an acknowledgment changes and return the new floor."""
    change = acknowledge(floor, spans, chunk_loader(tx, subscription_id))
    for chunk, bits in change.bitmaps.items():
        if bits:
            bits.run_optimize()
            tx.run("put_acked_chunk", subscription_id, chunk, len(bits), bits.serialize())
        else:
            tx.run("delete_acked_chunk", subscription_id, chunk)
    if change.floor != floor:
        from_chunk = change.floor // (1 << 16)
        tx.run("delete_acked_chunks_below", subscription_id, from_chunk)
        tx.run("set_ack_floor", change.floor, subscription_id)
    return change.floor


def chunk_loader(tx: Transaction, subscription_id: int) -> LoadChunk:
    """Return a function that loads one bitmap of a cursor from the catalog."""

    def load(chunk: int) -> BitMap:
        rows = tx.rows("acked_chunks", subscription_id, chunk, chunk)
        return BitMap.deserialize(rows[0][1]) if rows else BitMap()

    return load


def stored_spans(tx: Transaction, topic_id: int, head: int) -> list[Span]:
    """Return which offsets of a topic are stored: its live segments and its tail."""
    segments = [Segment.from_row(row) for row in tx.rows("live_segments", topic_id)]
    spans = [Span(segment.offset_start, segment.offset_end) for segment in segments]
    found = tx.row("tail_offset", topic_id)
    # From the first frame of the tail on nothing is ever missing: what is not a frame is a segment.
    first = tx.rows("tail_spans", topic_id, found[0] if found else 0, 1)
    if first:
        start = int(first[0][0])
        spans = [span for span in spans if span.end <= start]
        spans.append(Span(start, head))
    return spans


def acked_count(tx: Transaction, subscription: SubscriptionRow, span: Span) -> int:
    """Return how many messages of a span a subscription has acknowledged."""
    load = chunk_loader(tx, subscription.subscription_id)
    return acked_within(span, subscription.ack_floor, load)
