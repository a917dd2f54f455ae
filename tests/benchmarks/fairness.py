"""Four processes committing in tight loops: the total, the shares and the longest wait."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from ledgermq.parquet_ledger import Ledger

from .append_rates import bare_sqlite
from .measure import Result

_WRITER = """
import json, sys, time
from ledgermq.parquet_ledger import Ledger, NewMessages
kind, path, start, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
payload = b"x" * 100
if kind == "ours":
    ledger = Ledger(path, background=False)
    topic = ledger.create_topic("fair")
    def write(i): topic.append(NewMessages([payload], 0, "p", i))
else:
    import apsw
    connection = apsw.Connection(path)
    for pragma in ("journal_mode=wal", "synchronous=full", "busy_timeout=10000"):
        connection.execute("PRAGMA " + pragma).fetchall()
    def write(i): connection.execute("INSERT INTO t (data) VALUES (?)", (payload,))
while time.time() < start: pass
end, count, longest = start + seconds, 0, 0.0
while True:
    began = time.time()
    if began >= end: break
    write(count)
    now = time.time()
    longest = max(longest, now - began)
    count += now <= end
print(json.dumps([count, longest]))
"""


def four_processes(path: Path, *, seconds: float = 3.0) -> list[Result]:
    """Compare four writers of ours with four of bare SQLite, a few rounds in turn."""
    with Ledger(path / "fair", background=False) as ledger:
        ledger.create_topic("fair")
    bare_sqlite(path / "fair.db").close()
    rounds = []
    for _ in range(3):
        bare = _run("bare", path / "fair.db", seconds)
        rounds.append((_run("ours", path / "fair", seconds), bare))
    rounds.sort(key=lambda pair: pair[0][0] / pair[1][0])
    (total, share, wait), (bare_total, bare_share, bare_wait) = rounds[len(rounds) // 2]
    ratio = total / bare_total
    ours, floor = f"{total / seconds:,.0f}/s", f"{bare_total / seconds:,.0f}/s"
    waits = f"{wait * 1e3:.0f} ms", f"{bare_wait * 1e3:.0f} ms"
    return [
        Result("4 processes, total : bare SQLite x4", ours, floor, ratio, ">= 1.2", ratio >= 1.2),
        Result(
            "4 processes, smallest share",
            f"{share:.0%}",
            f"{bare_share:.0%}",
            share,
            ">= 0.1",
            share >= 0.1,
        ),
        Result(
            "4 processes, longest wait (ratio: seconds)",
            waits[0],
            waits[1],
            wait,
            "<= 0.05",
            wait <= 0.05,
        ),
    ]


def _run(kind: str, path: Path, seconds: float) -> tuple[int, float, float]:
    """Return the total, the smallest share and the longest wait of four processes."""
    start = time.time() + 2.0
    command = [sys.executable, "-c", _WRITER, kind, str(path), str(start), str(seconds)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [json.loads(writer.communicate()[0]) for writer in writers]
    counts = [count for count, _ in answers]
    return sum(counts), min(counts) / sum(counts), max(wait for _, wait in answers)
