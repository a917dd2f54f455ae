"""Enters a write transaction, changes something, says ``holding`` and waits for a line to leave."""

import sys

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger


def main(directory: str) -> None:
    with Ledger(directory, Settings(), background=False) as ledger, ledger.catalog.write() as tx:
        tx.next_id("topic")
        sys.stdout.write("holding\n")
        sys.stdout.flush()
        sys.stdin.readline()


main(*sys.argv[1:])
