"""Begins a session, enters a write transaction, and forks a child that only waits.

Says ``SESSION CHILD_PID``, then waits to be killed; so does the child.
"""

import os
import signal
import sys

import pyarrow as pa

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger


def main(directory: str, topic_name: str) -> None:
    ledger = Ledger(directory, Settings(bulk_rows_min=1), background=False)
    ledger.create_topic(topic_name).append_table(pa.table({"payload": [b"x", b"y"]}))
    with ledger.catalog.write() as tx:
        tx.next_id("topic")
        child = os.fork()
        if child:
            sys.stdout.write(f"{ledger.sessions.current()} {child}\n")
            sys.stdout.flush()
        signal.pause()


main(*sys.argv[1:])
