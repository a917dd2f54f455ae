"""What the tests of the ledger share: a clock, small settings, messages, and ways to look."""

import os
import select
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ledgermq.config import Settings
from ledgermq.parquet_ledger import (
    Backlog,
    Ledger,
    NewMessages,
    Segment,
    Span,
    StoredMessage,
    Topic,
)

T0_MS = 1_700_000_000_000
MINUTE_MS = 60_000


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now_ms = T0_MS

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms


def small_settings(**changes: Any) -> Settings:
    """Return settings under which a dozen messages exercise what takes millions by default."""
    values: dict[str, Any] = {"wal_pregrow_megabytes": 0, "bulk_rows_min": 10, **changes}
    return Settings(**values)


@dataclass
class OpenLedger:
    """Opens one directory with a fake clock and without background work."""

    directory: Path
    clock: Clock
    opened: list[Ledger] = field(default_factory=list)

    def __call__(self, **changes: Any) -> Ledger:
        settings = small_settings(**changes)
        ledger = Ledger(self.directory, settings, clock_ms=self.clock, background=False)
        self.opened.append(ledger)
        return ledger

    def close_all(self) -> None:
        for ledger in self.opened:
            ledger.close()


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Return payloads that say their own number."""
    return [b"%d" % i for i in range(start, start + count)]


def new(payloads: Sequence[bytes | None], **columns: Any) -> NewMessages:
    """Return messages to append, published at T0 unless told otherwise."""
    return NewMessages(payloads, **{"publish_time_ms": T0_MS, **columns})


def table(payloads: Sequence[bytes | None], **columns: Any) -> pa.Table:
    """Return an Arrow table for append_table."""
    return pa.table({"payload": pa.array(payloads, pa.binary()), **columns})


def payloads(topic: Topic, start: int = 0, end: int | None = None) -> list[bytes | None]:
    """Return the payloads of a topic in the order in which they are read."""
    return [message.payload for message in topic.read_messages(start, end)]


def offsets(topic: Topic, start: int = 0, end: int | None = None) -> list[int]:
    """Return the offsets of a topic in the order in which they are read."""
    batches = topic.read_arrow(start, end, ["topic_offset"])
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


def whole(topic: Topic) -> pa.Table:
    """Return everything that is stored of a topic."""
    return pa.Table.from_batches(list(topic.read_arrow())).combine_chunks()


def fill_every_place(topic: Topic) -> None:
    """Put numbered messages 0 to 59 into a sealed segment, a bulk segment and the tail.

    The bulk segment, of 30 to 44, lies in the middle of the tail. There are lone messages, batches
    and unbatched runs on both sides of it.
    """
    topic.append(new(numbered(6), batch_sizes=[1, 2, 3]))
    topic.append(new(numbered(1, 6)))
    topic.append(new(numbered(13, 7), keys=[f"k{i}" for i in range(13)]))
    topic.seal()
    topic.append(new(numbered(1, 20), properties=[{"color": "red"}]))
    topic.append(new(numbered(9, 21), batch_sizes=[4, 5]))
    topic.append_table(table(numbered(15, 30)))
    topic.append(new(numbered(1, 45), batch_sizes=[1]))
    topic.append(new(numbered(1, 46)))
    topic.append(new(numbered(13, 47), batch_sizes=[6, 6, 1]))


PLACES = 60


def tail_rows(topic: Topic) -> int:
    """Return how many frames of a topic the catalog holds, dead ones too."""
    with topic.ledger.catalog.read() as tx:
        return len(tx.rows("tail_spans", topic.topic_id, 0, 1 << 40))


def segment_files(directory: Path) -> set[str]:
    """Return the segment files that are on disk."""
    return {str(path.relative_to(directory)) for path in directory.glob("segments/*/*.parquet")}


def counted_backlog(messages: Iterable[StoredMessage], acked: Iterable[int]) -> Backlog:
    """Return the backlog by looking at every message: Subscription.backlog must agree with it."""
    done = set(acked)
    left = [message for message in messages if message.topic_offset not in done]
    entries = {(message.position.ledger_id, message.position.entry_id) for message in left}
    return Backlog(len(left), len(entries), sum(message.size_bytes for message in left))


def spans_of(offsets: Iterable[int]) -> list[Span]:
    """Return a span for each offset."""
    return [Span(offset, offset + 1) for offset in offsets]


def segment(offset_start: int, offset_end: int, **changes: Any) -> Segment:
    """Return a segment as the catalog might describe it."""
    messages = offset_end - offset_start
    values: dict[str, Any] = {
        "segment_id": offset_start + 1,
        "topic_id": 1,
        "offset_start": offset_start,
        "offset_end": offset_end,
        "messages": messages,
        "entries": messages,
        "bytes": messages,
        "file_bytes": 100,
        "ledger_first": 1,
        "ledger_last": 1,
        "publish_ms_min": T0_MS,
        "publish_ms_max": T0_MS,
        "ledger_shift": 0,
        "offset_shift": 0,
        "path": f"segments/1/s1-{offset_start}.parquet",
        "checksum": "",
        "created_ms": T0_MS,
        **changes,
    }
    return Segment(**values)


def fork(act: Callable[[], object]) -> int:
    """Run a function in a forked child and return the child's process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        act()
        status = 0
    except BaseException:  # noqa: BLE001 - the parent sees it as an exit code
        traceback.print_exc()
    finally:
        os._exit(status)


def exit_code(pid: int, timeout_s: float = 10) -> int:
    """Wait for a child and return its exit code: 0 where its function raised nothing.

    A child that does not end in time is killed, which its exit code then says.
    """
    pidfd = os.pidfd_open(pid)
    if not select.select([pidfd], [], [], timeout_s)[0]:
        os.kill(pid, signal.SIGKILL)
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
