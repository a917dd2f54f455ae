"""Seals all topics and collects garbage in a tight loop until it is killed.

Says ``NAME opening``, and ``NAME sealed SEGMENTS`` after each round.
"""

import os
import sys

from ledgermq.config import Settings
from ledgermq.parquet_ledger import CommitConflict, Ledger

SETTINGS = Settings(retired_file_grace_ms=0, wal_checkpoint_pages=300, wal_pregrow_megabytes=1)


def main(directory: str, name: str) -> None:
    os.write(1, f"{name} opening\n".encode())
    ledger = Ledger(directory, SETTINGS, background=False)
    while True:
        sealed = 0
        for topic in ledger.topics():
            try:
                sealed += len(topic.seal())
            except CommitConflict:
                continue  # Another process sealed the same frames first.
        ledger.collect_garbage()
        os.write(1, f"{name} sealed {sealed}\n".encode())


main(*sys.argv[1:])
