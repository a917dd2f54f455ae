"""Flips bits of a segment file, one at a time, and says how reading the topic went.

Arguments: directory, topic, path of the segment, then positions in bits. For each it says
``BIT reading`` first, so that a crash of the interpreter can be told, and then ``BIT OUTCOME`` where
the outcome is ``same``, ``damaged``, ``wrong`` or the name of another error; and ``BIT check
reported`` or ``BIT check sound``. The file is as before at the end.
"""

import os
import sys
from pathlib import Path

import pyarrow as pa

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, SegmentDamaged, Topic


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def outcome(topic: Topic, wanted: pa.Table) -> str:
    try:
        found = pa.Table.from_batches(list(topic.read_arrow()))
    except SegmentDamaged:
        return "damaged"
    except Exception as error:  # noqa: BLE001 - an error of another kind is the finding
        return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    return "same" if found.equals(wanted) else "wrong"


def main(directory: str, topic_name: str, path: str, *bits: str) -> None:
    settings = Settings(wal_pregrow_megabytes=0)
    with Ledger(directory, settings, background=False) as ledger:
        topic = ledger.topic(topic_name)
        wanted = pa.Table.from_batches(list(topic.read_arrow()))
        for bit in map(int, bits):
            say(bit, "reading")
            flip(Path(directory, path), bit)
            try:
                say(bit, outcome(topic, wanted))
                say(bit, "check", "sound" if ledger.check().sound else "reported")
            finally:
                flip(Path(directory, path), bit)


main(*sys.argv[1:])
