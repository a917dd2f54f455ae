"""Acknowledges and retires what is in a topic, in a tight loop, until it is killed.

The first subscription is acknowledged to the end, the others to the half. Says ``NAME opening``,
``NAME ack SUBSCRIPTION END`` before each acknowledgment, ``NAME acked SUBSCRIPTION FLOOR`` after it
and ``NAME retired SEGMENTS`` after each round.
"""

import os
import sys

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, Retention, Span

SETTINGS = Settings(retired_file_grace_ms=0, wal_checkpoint_pages=300, wal_pregrow_megabytes=1)


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(directory: str, name: str, topic_name: str, *subscriptions: str) -> None:
    say(name, "opening")
    ledger = Ledger(directory, SETTINGS, background=False)
    topic = ledger.create_topic(topic_name)
    while True:
        end = topic.next_offset()
        for i, subscription in enumerate(subscriptions):
            upto = end if i == 0 else end // 2
            say(name, "ack", subscription, upto)
            floor = topic.subscription(subscription).acknowledge([Span(0, upto)])
            say(name, "acked", subscription, floor)
        retired = topic.retire(Retention(minutes=0, bytes=0))
        ledger.collect_garbage()
        say(name, "retired", len(retired))


main(*sys.argv[1:])
