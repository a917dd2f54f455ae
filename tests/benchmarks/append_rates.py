"""Appends against a bare SQLite commit, a bare fdatasync and a bare Parquet write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pyarrow.parquet as pq

from ledgermq.parquet_ledger import Ledger, NewMessages
from ledgermq.parquet_ledger.append import now_ms
from ledgermq.parquet_ledger.frame import encode

from .measure import Result, compare
from .workload import message_table, payloads


def bare_sqlite(path: Path) -> apsw.Connection:
    """Return what a careful user would set up: WAL, and a sync with every commit."""
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode=wal", "synchronous=full", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, data BLOB)")
    return connection


def single_appends(path: Path) -> list[Result]:
    count = 1_500
    payload = payloads(1)[0]
    data = encode(NewMessages([payload], now_ms(), "bench", 0)).data
    bare = bare_sqlite(path / "bare.db")
    log = os.open(path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    with Ledger(path / "single", background=False) as ledger:
        topic = ledger.create_topic("single")

        def ours() -> int:
            for i in range(count):
                topic.append(NewMessages([payload], now_ms(), "bench", i))
            return count

        def floor() -> int:
            for _ in range(count):
                bare.execute("INSERT INTO t (data) VALUES (?)", (data,))
            return count

        def fdatasync() -> int:
            for _ in range(count):
                os.write(log, data)
                os.fdatasync(log)
            return count

        results = [
            compare("1 durable append : bare SQLite commit", ours, floor, at_least=0.8),
            compare("1 durable append : append + fdatasync", ours, fdatasync),
        ]
    bare.close()
    os.close(log)
    return results


def frame_appends(path: Path) -> Result:
    batch, frames = payloads(1_000), 100
    data = encode(NewMessages(batch, now_ms(), "bench", 0, batch_sizes=[1_000])).data
    bare = bare_sqlite(path / "bare-frames.db")
    with Ledger(path / "frames", background=False) as ledger:
        topic = ledger.create_topic("frames")

        def ours() -> int:
            for i in range(frames):
                new = NewMessages(batch, now_ms(), "bench", i * 1_000, batch_sizes=[1_000])
                topic.append(new)
            return frames * 1_000

        def floor() -> int:
            for _ in range(frames):
                bare.execute("INSERT INTO t (data) VALUES (?)", (data,))
            return frames * 1_000

        what = "1,000-message frames : bare SQLite blobs"
        result = compare(what, ours, floor, at_least=0.5, unit=" msg/s")
    bare.close()
    return result


def bulk_appends(path: Path) -> Result:
    table = message_table(500_000)
    with Ledger(path / "bulk", background=False) as ledger:
        topic = ledger.create_topic("bulk")

        def ours() -> int:
            topic.append_table(table)
            return int(table.num_rows)

        what = "bulk Arrow append : bare Parquet write + fsync"
        floor = _parquet_writer(path / "bare.parquet", table)
        return compare(what, ours, floor, at_least=0.8, unit=" msg/s", rounds=5)


def _parquet_writer(path: Path, table: object) -> Callable[[], int]:
    def write() -> int:
        pq.write_table(table, path, compression="zstd", compression_level=1)
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        return int(getattr(table, "num_rows", 0))

    return write
