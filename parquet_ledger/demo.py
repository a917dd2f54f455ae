"""``make demo``: the ledger's story in some seconds, on real components."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from .ledger import Ledger
from .retire import Retention
from .segment import Span

_WRITER = """
import sys, time
from ledgermq import Ledger, NewMessages
ledger = Ledger(sys.argv[1])
topic = ledger.create_topic("orders")
for number in range(10**9):
    body = b'{"order": %d, "amount": %d}' % (number, number % 90 + 10)
    now_ms = int(time.time() * 1000)
    topic.append(NewMessages([body], now_ms, sys.argv[2], number, keys=[f"customer-{number % 50}"]))
    print(number, flush=True)  # Only now: the append has returned, so the message is durable.
"""


def say(text: str) -> None:
    """Print one line of the story."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Tell the story in a directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="ledgermq-demo-") as path:
        directory = Path(path) / "ledger"
        say(f"A ledger in {directory}: no server, just this directory.\n")
        confirmed = write_and_kill(directory)
        with Ledger(directory) as ledger:
            count_after_the_kill(ledger, confirmed)
            bulk(ledger)
            ask(ledger)
            acknowledge_and_retire(ledger)
            report = ledger.check()
        verdict = "sound" if report.sound else "\n".join(map(str, report.problems))
        say(f"\nChecked {report.segments} segments and {report.messages:,} messages: {verdict}.")
    say(
        "\nTry next:\n"
        "  python -c \"from ledgermq import Ledger; print(Ledger('my-ledger').topics())\"\n"
        "  make test    the specification, run\n"
        "  make bench   how close to the disk it is"
    )


def write_and_kill(directory: Path) -> dict[str, int]:
    """Let three processes append, kill them without warning, and return what was confirmed."""
    writers = {
        name: subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(directory), name], stdout=subprocess.PIPE, text=True
        )
        for name in ("web", "shop", "app")
    }
    say("Three processes append orders, one durable commit each …")
    for writer in writers.values():
        assert writer.stdout is not None
        writer.stdout.readline()
    time.sleep(2.0)
    for writer in writers.values():
        os.kill(writer.pid, signal.SIGKILL)
    confirmed = {}
    for name, writer in writers.items():
        lines = writer.communicate()[0].split("\n")
        # A line that the kill cut short was not printed whole, so it does not count.
        confirmed[name] = max([0, *map(int, filter(None, lines[:-1]))]) + 1
    shares = ", ".join(f"{name} {count:,}" for name, count in confirmed.items())
    say(f"… and are killed with SIGKILL. Confirmed until then: {shares}.")
    return confirmed


def count_after_the_kill(ledger: Ledger, confirmed: dict[str, int]) -> None:
    """Compare what is stored with what was confirmed."""
    rows = ledger.sql(
        "SELECT producer_name, count(*), count(DISTINCT sequence_id) FROM orders "
        "GROUP BY producer_name ORDER BY producer_name"
    ).fetchall()
    for name, stored, distinct in rows:
        missing = max(0, confirmed[name] - stored)
        say(f"  {name:>4}: {stored:>6,} stored, {missing} missing, {stored - distinct} twice")


def bulk(ledger: Ledger) -> None:
    """Append an Arrow table of a million messages."""
    rows = 1_000_000
    numbers = np.arange(rows)
    table = pa.table(
        {
            "payload": pa.array([b'{"amount": %d}' % (n % 90 + 10) for n in range(rows)]),
            "key": pa.array([f"customer-{n}" for n in (numbers % 5_000).tolist()]),
        }
    )
    began = time.perf_counter()
    ledger.topic("orders").append_table(table)
    took = time.perf_counter() - began
    say(f"\nAn Arrow table of {rows:,} messages, appended in {took:.2f} s ({rows / took:,.0f}/s).")


def ask(ledger: Ledger) -> None:
    """Ask DuckDB a question over tail and segments."""
    began = time.perf_counter()
    rows = ledger.sql(
        "SELECT key, count(*), sum((decode(payload)->>'$.amount')::INT) FROM orders "
        "GROUP BY key ORDER BY 3 DESC LIMIT 3"
    ).fetchall()
    took = time.perf_counter() - began
    say(f"\nThe best customers, by DuckDB over tail and Parquet in {took * 1e3:.0f} ms:")
    for key, orders, amount in rows:
        say(f"  {key:<14} {orders:>5} orders {amount:>8}")


def acknowledge_and_retire(ledger: Ledger) -> None:
    """Acknowledge with holes, seal, and retire what nobody needs."""
    topic = ledger.topic("orders")
    billing = topic.subscribe("billing", start=0)
    topic.seal()
    last = topic.next_offset()
    billing.acknowledge([Span(0, last - 10), Span(last - 5, last)])
    backlog = billing.backlog()
    retired = topic.retire(Retention())
    say(
        f"\nThe subscription 'billing' acknowledged all but {backlog.messages} messages "
        f"({backlog.bytes} bytes); {len(retired)} segments are needed no more and were retired."
    )


if __name__ == "__main__":
    main()
