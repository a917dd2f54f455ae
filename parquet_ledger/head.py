"""The head of a topic: where the next message goes, and when a new ledger begins.

The head is never stored. It follows from the newest frame of the tail or, where the tail is empty,
from the newest ledger; so an append writes one row and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .catalog import Transaction, WriteTransaction
from .errors import LedgerError, TopicNotFound

# A position of the tail is one number of 63 bits: 19 for the topic and 44 for the offset.
TOPICS_MAX = 1 << 19
OFFSETS_MAX = (1 << 44) - (1 << 32)  # A ledger that begins before this ends in time.


class Head(NamedTuple):
    """Where the next message of a topic goes. ``ledger_id`` is 0 while no ledger is open."""

    offset: int
    ledger_id: int = 0
    ledger_base: int = 0
    entry: int = 0
    ledger_bytes: int = 0
    opened_ms: int = 0


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """When a ledger is full; looked at before each frame."""

    entries_max: int
    bytes_max: int
    age_ms_max: int


def must_roll_over(head: Head, limits: LedgerLimits, now_ms: int) -> bool:
    """Return whether the next frame begins a new ledger."""
    return (
        head.ledger_id == 0
        or head.entry >= limits.entries_max
        or head.ledger_bytes >= limits.bytes_max
        or now_ms - head.opened_ms >= limits.age_ms_max
    )


def advance_head(tx: Transaction, topic_id: int, topic: str, known: Head) -> Head:
    """Return the head after others committed, with one look at the tail in the usual case."""
    row = tx.row("newest_frame_of_open_ledger", topic_id, known.offset)
    # A frame of an open ledger is the newest there is: whatever comes later closes the ledger.
    return load_head(tx, topic_id, topic) if row is None else Head(*row)


def load_head(tx: Transaction, topic_id: int, topic: str) -> Head:
    """Return the head of a topic as the transaction sees it."""
    found = tx.row("tail_offset", topic_id)
    if found is None:
        raise TopicNotFound(topic)
    ledger = tx.row("newest_ledger", topic_id)
    if ledger is None:
        return Head(offset=0)
    ledger_id, base, opened_ms, closed_ms, messages, entries, size = ledger
    if closed_ms is not None:
        return Head(offset=base + messages)
    newest = tx.row("newest_frame", topic_id, max(base, found[0]))
    if newest is None:
        return Head(base + messages, ledger_id, base, entries, size, opened_ms)
    offset_start, frame_messages, frame_entries, frame_ledger, entry_start, ledger_bytes = newest
    assert frame_ledger == ledger_id, "the newest frame belongs to the open ledger"
    return Head(
        offset=offset_start + frame_messages,
        ledger_id=ledger_id,
        ledger_base=base,
        entry=entry_start + frame_entries,
        ledger_bytes=ledger_bytes,
        opened_ms=opened_ms,
    )


def close_open_ledger(tx: WriteTransaction, head: Head, now_ms: int) -> None:
    """Write the final totals of the head's ledger, if one is open."""
    if head.ledger_id:
        messages = head.offset - head.ledger_base
        tx.run("close_ledger", now_ms, messages, head.entry, head.ledger_bytes, head.ledger_id)


def roll_over(tx: WriteTransaction, topic_id: int, head: Head, now_ms: int) -> Head:
    """Close the open ledger and open the next one."""
    if head.offset >= OFFSETS_MAX:
        raise LedgerError(f"topic {topic_id} is full: it has had {head.offset} messages")
    close_open_ledger(tx, head, now_ms)
    ledger_id = tx.next_id("ledger")
    tx.run("open_ledger", ledger_id, topic_id, head.offset, now_ms)
    return Head(head.offset, ledger_id, head.offset, 0, 0, now_ms)
