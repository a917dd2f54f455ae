"""A process that holds the write lock and is killed or stopped: who waits, and who is told."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages, Topic

PROGRAM = Path(__file__).parent / "programs" / "lock_holder.py"
WARNING_MS = 100
SETTINGS = Settings(wal_pregrow_megabytes=0, lock_wait_warning_ms=WARNING_MS)
PROMPTLY_S = 2.0


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger", SETTINGS, background=False) as opened:
        opened.create_topic("t").append(NewMessages([b"first"], 1))
        yield opened


@contextmanager
def holder_of(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process and wait until it is inside its write transaction."""
    process = subprocess.Popen(
        [sys.executable, PROGRAM, directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        yield process
    finally:
        process.kill()
        process.communicate()


class Append(threading.Thread):
    """An append in a thread, with the moment at which it returned."""

    def __init__(self, topic: Topic) -> None:
        super().__init__()
        self.topic = topic
        self.returned = 0.0
        self.offset = -1

    def run(self) -> None:
        self.offset = self.topic.append(NewMessages([b"next"], 1)).offset_start
        self.returned = time.perf_counter()

    def is_waiting_after(self, seconds: float) -> bool:
        self.join(seconds)
        return self.is_alive()


def test_a_holder_killed_in_its_transaction_lets_the_next_writer_in(ledger: Ledger) -> None:
    topic = ledger.topic("t")
    with holder_of(ledger.directory) as holder:
        append = Append(topic)
        append.start()
        assert append.is_waiting_after(0.1)
        killed = time.perf_counter()
        holder.send_signal(signal.SIGKILL)
        append.join(30)
        waited_s = append.returned - killed
    sys.stdout.write(f"next writer in {waited_s * 1000:.1f} ms after the holder's death\n")
    assert append.offset == 1
    assert 0 < waited_s < PROMPTLY_S
    assert [message.payload for message in topic.read_messages()] == [b"first", b"next"]
    assert ledger.check().sound


def test_a_stopped_holder_makes_writers_wait_and_readers_go_on(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    topic = ledger.topic("t")
    with holder_of(ledger.directory) as holder, caplog.at_level(logging.WARNING):
        holder.send_signal(signal.SIGSTOP)
        append = Append(topic)
        append.start()
        assert append.is_waiting_after(3 * WARNING_MS / 1000)
        began = time.perf_counter()
        assert [message.payload for message in topic.read_messages()] == [b"first"]
        assert time.perf_counter() - began < PROMPTLY_S
        holder.send_signal(signal.SIGCONT)
        holder.communicate("leave\n", timeout=30)
        append.join(30)
    assert append.offset == 1
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [str(holder.pid) in record.getMessage() for record in warnings] == [True]


def test_a_short_wait_for_the_lock_is_not_worth_a_warning(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    with holder_of(ledger.directory) as holder, caplog.at_level(logging.WARNING):
        holder.communicate("leave\n", timeout=30)
        ledger.topic("t").append(NewMessages([b"next"], 1))
    assert caplog.records == []
