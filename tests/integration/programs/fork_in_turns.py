"""A parent and its forked child append in turns, each with heads the other has made stale.

Answers with JSON: the offsets in the order of the appends, or what went wrong.
"""

import json
import os
import signal
import sys
import traceback

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages

TURNS = 3
SECONDS = 20


def main(directory: str, topic_name: str) -> None:
    signal.alarm(SECONDS)
    ledger = Ledger(directory, Settings(), background=False)
    topic = ledger.create_topic(topic_name)
    to_child, from_parent = os.pipe(), os.pipe()
    offsets = [topic.append(NewMessages([b"before"], 1)).offset_start]
    pid = os.fork()
    mine, other = (to_child[0], from_parent[1]) if pid == 0 else (from_parent[0], to_child[1])
    # The parent goes first, so the child's first append must not trust the head that it inherited.
    try:
        for turn in range(TURNS):
            if pid == 0 or turn:
                offsets = json.loads(os.read(mine, 4096))
            offsets.append(topic.append(NewMessages([b"turn"], 1)).offset_start)
            if pid and turn == 1:
                topic.seal()
            os.write(other, json.dumps(offsets).encode())
    except BaseException:  # noqa: BLE001 - whatever it is, the test wants to see it
        sys.stdout.write(json.dumps({"who": pid, "failure": traceback.format_exc()[-1500:]}))
        sys.stdout.flush()
        os._exit(1)
    if pid == 0:
        os._exit(0)
    sys.stdout.write(json.dumps({"offsets": json.loads(os.read(mine, 4096))}))
    ledger.close()


main(*sys.argv[1:])
