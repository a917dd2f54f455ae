"""Append: messages in, confirmed when they are durable.

All appends of a process that wait at one moment go into one transaction: whoever gets the leader's
lock commits for everybody in the queue, and one sync of the log serves them all. A lone writer
commits in its own thread.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .catalog import Catalog, WriteTransaction
from .errors import LedgerError, MessageTooLarge
from .frame import EncodedFrame, encode
from .frame_cache import FrameCache, TailRow
from .head import Head, LedgerLimits, advance_head, load_head, must_roll_over, roll_over
from .new_messages import NewMessages


def now_ms() -> int:
    """Return the time in milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class AppendLimits:
    """What is checked before anything is written."""

    message_bytes_max: int
    frame_bytes_max: int
    ledger: LedgerLimits


class Appended(NamedTuple):
    """Where messages went: their offsets, and the ledger and first entry of each frame."""

    offset_start: int
    messages: int
    frames: tuple[TailRow, ...]

    @property
    def offset_end(self) -> int:
        """Return the offset after the last message."""
        return self.offset_start + self.messages


class Heads:
    """The heads of the topics as of this catalog object's last commit.

    They hold while nobody else committed; ``WriteTransaction.commits_of_others`` tells. Whoever
    changes a topic's head in another way calls ``forget``.
    """

    def __init__(self) -> None:
        self._heads: dict[int, Head] = {}
        self._outdated: dict[int, Head] = {}
        self._seen = -1

    def get(self, tx: WriteTransaction, topic_id: int, topic: str) -> Head:
        """Return the head of a topic inside a write transaction."""
        if tx.commits_of_others != self._seen:
            self._outdated.update(self._heads)
            self._heads.clear()
            self._seen = tx.commits_of_others
        head = self._heads.get(topic_id)
        if head is not None:
            return head
        known = self._outdated.pop(topic_id, None)
        if known is not None:
            return advance_head(tx, topic_id, topic, known)
        return load_head(tx, topic_id, topic)

    def put(self, topic_id: int, head: Head) -> None:
        """Remember a head; call ``forget`` if the transaction fails after this."""
        self._heads[topic_id] = head

    def forget(self) -> None:
        """Forget everything."""
        self._heads.clear()
        self._outdated.clear()
        self._seen = -1


@dataclass(slots=True)
class _Request:
    topic_id: int
    topic: str
    frames: Sequence[EncodedFrame]
    placed: list[TailRow] = field(default_factory=list)
    commit: int = 0
    done: bool = False
    error: BaseException | None = None


class Appender:
    """Appends to any topic of one ledger, from any thread."""

    def __init__(
        self,
        catalog: Catalog,
        limits: AppendLimits,
        cache: FrameCache,
        *,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._catalog = catalog
        self._limits = limits
        self._cache = cache
        self._clock_ms = clock_ms
        self._leader = threading.Lock()
        self._waiting: list[_Request] = []
        self.heads = Heads()
        _open_appenders.add(self)

    def append(self, topic_id: int, topic: str, new: NewMessages) -> Appended:
        """Return when the messages are durable; they stand together, in order."""
        frames = encode_within_limits(new, self._limits, topic)
        request = _Request(topic_id, topic, frames)
        self._waiting.append(request)
        with self._leader:
            if not request.done:
                self._commit_waiting()
        if request.error is not None:
            raise request.error
        self._catalog.sync(request.commit)
        placed = request.placed
        first = placed[0].offset_start
        return Appended(first, placed[-1].offset_end - first, tuple(placed))

    def append_in(
        self,
        tx: WriteTransaction,
        topic_id: int,
        topic: str,
        frames: Sequence[EncodedFrame],
        *,
        last: bool = False,
    ) -> list[TailRow]:
        """Append inside a transaction; with ``last`` the caller changes nothing after this."""
        head = self.heads.get(tx, topic_id, topic)
        now = self._clock_ms()
        placed = []
        run = tx.run_last if last and len(frames) == 1 else tx.run
        for frame in frames:
            if must_roll_over(head, self._limits.ledger, now):
                head = roll_over(tx, topic_id, head, now)
            ledger_bytes = head.ledger_bytes + frame.size_bytes
            run(
                "append_frame", topic_id, head.offset, frame.messages, frame.entries,
                frame.size_bytes, head.ledger_id, head.entry, ledger_bytes, frame.publish_ms_max,
                now, frame.data,
            )  # fmt: skip
            offset, ledger_id, base, entry, _, opened_ms = head
            messages, entries = frame.messages, frame.entries
            placed.append(TailRow(offset, messages, entries, ledger_id, entry, frame.data))
            head = Head(
                offset + messages, ledger_id, base, entry + entries, ledger_bytes, opened_ms
            )
        self.heads.put(topic_id, head)
        return placed

    def _commit_waiting(self) -> None:
        """Commit every request of the queue; a request that can't be placed fails alone."""
        count = len(self._waiting)
        group = self._waiting[:count]
        del self._waiting[:count]
        alone = count == 1
        try:
            with self._catalog.write(durable=False) as tx:
                for request in group:
                    try:
                        request.placed = self.append_in(
                            tx, request.topic_id, request.topic, request.frames, last=alone
                        )
                    except LookupError as error:  # The topic is gone: nothing was written for it.
                        request.error = error
            commit = tx.commit
        except BaseException as error:
            self.heads.forget()
            failure = error if isinstance(error, LedgerError) else None
            for request in group:
                request.error = request.error or failure or LedgerError(f"append failed: {error}")
                request.done = True
            if failure is None:
                raise
            return
        for request in group:
            request.commit = commit
            request.done = True
            for row in request.placed:
                self._cache.put(request.topic_id, row)

    def _after_fork(self) -> None:
        # Heads hold for the parent's connection only; its threads, whose requests wait here and
        # who may hold the leader's lock, are not in this process.
        self._leader = threading.Lock()
        self._waiting = []
        self.heads.forget()


_open_appenders: weakref.WeakSet[Appender] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for appender in list(_open_appenders):
        appender._after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)


def encode_within_limits(
    new: NewMessages, limits: AppendLimits, topic: str
) -> Sequence[EncodedFrame]:
    """Return the messages as frames of at most the allowed size, cut between entries."""
    frame = encode(new)
    if frame.largest_bytes > limits.message_bytes_max:
        raise MessageTooLarge(topic, frame.largest_bytes, limits.message_bytes_max)
    if frame.size_bytes <= limits.frame_bytes_max or frame.entries == 1:
        return (frame,)
    first, second = new.halves()
    return (
        *encode_within_limits(first, limits, topic),
        *encode_within_limits(second, limits, topic),
    )
