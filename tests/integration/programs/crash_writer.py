"""Appends until it is killed, and says what it tries and what was confirmed.

Lines on standard output, each one write: ``NAME opening``, then for each append
``NAME try TOPIC FIRST COUNT`` before it and ``NAME done TOPIC FIRST COUNT OFFSET`` after it.
"""

import os
import random
import sys

import pyarrow as pa

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Appended, Ledger, NewMessages, Topic

SETTINGS = Settings(
    bulk_rows_min=200, wal_checkpoint_pages=300, wal_pregrow_megabytes=1, ledger_entries_max=700
)
BATCH_MESSAGES = 1_000
PUBLISH_MS = 1_700_000_000_000


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def payloads(name: str, first: int, count: int) -> list[bytes | None]:
    return [f"{name}:{number}".encode() for number in range(first, first + count)]


def append(topic: Topic, name: str, first: int, count: int, *, bulk: bool) -> Appended:
    if bulk:
        columns = {
            "payload": pa.array(payloads(name, first, count), pa.binary()),
            "producer_name": pa.array([name] * count),
            "sequence_id": pa.array(range(first, first + count), pa.int64()),
        }
        return topic.append_table(pa.table(columns))
    return topic.append(
        NewMessages(
            payloads(name, first, count),
            PUBLISH_MS,
            producer_name=name,
            sequence_ids=first,
            batch_sizes=[count] if count > 1 else None,
        )
    )


def main(directory: str, name: str, seed: str, *topics: str) -> None:
    rng = random.Random(seed)
    say(name, "opening")
    ledger = Ledger(directory, SETTINGS, background=False)
    handles = [ledger.create_topic(topic) for topic in topics]
    first = 0
    while True:
        handle = rng.choice(handles)
        kind = rng.choices(["single", "batch", "bulk"], [90, 3, 7])[0]
        count = {"single": 1, "batch": BATCH_MESSAGES, "bulk": rng.randint(200, 500)}[kind]
        say(name, "try", handle.name.local, first, count)
        done = append(handle, name, first, count, bulk=kind == "bulk")
        say(name, "done", handle.name.local, first, count, done.offset_start)
        first += count


main(*sys.argv[1:])
