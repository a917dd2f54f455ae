"""Appends one message at a time, durably, for some seconds, from one or several threads.

Says ``ready``, waits for a line, and answers with JSON: appends and latencies of each producer.
"""

import json
import sys
import threading
import time

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages, Topic


def loop(topic: Topic, producer: str, until: float, latencies_ms: list[float]) -> None:
    number = 0
    began = time.perf_counter()
    while began < until:
        topic.append(NewMessages([b"x" * 100], 1, producer_name=producer, sequence_ids=number))
        ended = time.perf_counter()
        latencies_ms.append((ended - began) * 1000)
        began = ended
        number += 1


def main(directory: str, topic: str, seconds: str, *producers: str) -> None:
    with Ledger(directory, Settings(), background=False) as ledger:
        handle = ledger.create_topic(topic)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        until = time.perf_counter() + float(seconds)
        latencies: dict[str, list[float]] = {producer: [] for producer in producers}
        threads = [
            threading.Thread(target=loop, args=(handle, producer, until, latencies[producer]))
            for producer in producers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sys.stdout.write(json.dumps(latencies) + "\n")


main(*sys.argv[1:])
