"""Reads of a sealed topic against a bare Parquet read, and memory while reading."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from ledgermq.parquet_ledger import Ledger

from .measure import Result, compare
from .workload import message_table

_READ_ALL = """
import resource, sys
from ledgermq.parquet_ledger import Ledger
with Ledger(sys.argv[1], background=False) as ledger:
    rows = 0
    for batch in ledger.topic(sys.argv[2]).read_arrow():
        rows += batch.num_rows
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def sealed_read(path: Path) -> Result:
    with Ledger(path / "read", background=False) as ledger:
        topic = ledger.create_topic("read")
        for part in range(2):
            topic.append_table(message_table(1_000_000, first=part * 1_000_000))
        files = [ledger.directory / segment.path for segment in topic.segments()]

        def ours() -> int:
            return sum(batch.num_rows for batch in topic.read_arrow())

        def floor() -> int:
            return sum(pq.read_table(file).num_rows for file in files)

        what = "Arrow read of a sealed topic : bare Parquet read"
        return compare(what, ours, floor, at_least=0.8, unit=" msg/s")


def read_memory(path: Path) -> Result:
    """Compare the peak memory of reading a small topic and one eight times as large."""
    peaks = []
    with Ledger(path / "memory", background=False) as ledger:
        for name, parts in (("small", 1), ("large", 8)):
            topic = ledger.create_topic(name)
            for part in range(parts):
                topic.append_table(message_table(500_000, first=part * 500_000))
    for name in ("small", "large"):
        command = [sys.executable, "-c", _READ_ALL, str(path / "memory"), name]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peaks.append(int(answer.split()[1]))
    small, large = peaks
    what = "peak memory, reading 4,000,000 : 500,000 messages"
    ratio = large / small
    return Result(what, f"{large} MB", f"{small} MB", ratio, "<= 1.3", ratio <= 1.3)
