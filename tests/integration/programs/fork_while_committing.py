"""Forks again and again while another thread appends; each child appends too.

Arguments: directory, topic, number of children. Answers with JSON: what the parent's thread and
each child had confirmed, as [producer, sequence id, offset], and the children that did not end well
with what stopped them.
"""

import json
import os
import signal
import sys
import threading
import traceback

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages, Topic

CHILD_APPENDS = 3
CHILD_SECONDS = 5
Confirmed = list[tuple[str, int, int]]


def append(topic: Topic, producer: str, number: int) -> tuple[str, int, int]:
    new = NewMessages([b"x"], 1, producer_name=producer, sequence_ids=number)
    return producer, number, topic.append(new).offset_start


def child(topic: Topic, producer: str, answer: int) -> None:
    """Append in a forked child and leave without running the parent's clean-up."""
    signal.alarm(CHILD_SECONDS)  # A child that hangs is killed, and the parent sees the signal.
    try:
        done = [append(topic, producer, number) for number in range(CHILD_APPENDS)]
        read = sum(batch.num_rows for batch in topic.read_arrow())
        assert read > done[-1][2], "a child reads what it appended"
        interval = sys.getswitchinterval()
        assert interval > 1e-4, f"the switch interval is {interval} in the child"
        os.write(answer, json.dumps(done).encode())
        os._exit(0)
    except BaseException:  # noqa: BLE001 - whatever it is, the test wants to see it
        os.write(answer, traceback.format_exc()[-1500:].encode())
        os._exit(1)


def fork_child(topic: Topic, producer: str, confirmed: Confirmed) -> str | None:
    """Run one child to its end; return what went wrong."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(topic, producer, write_fd)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as answers:
        answer = answers.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == 0:
        confirmed += [tuple(each) for each in json.loads(answer)]
        return None
    return f"{producer} ended with status {status}: {answer}"


def main(directory: str, topic_name: str, children: str) -> None:
    confirmed: Confirmed = []
    stop = threading.Event()
    with Ledger(directory, Settings(), background=False) as ledger:
        topic = ledger.create_topic(topic_name)

        def keep_appending() -> None:
            number = 0
            while not stop.is_set():
                confirmed.append(append(topic, "parent", number))
                number += 1

        thread = threading.Thread(target=keep_appending)
        thread.start()
        outcomes = [fork_child(topic, f"child{i}", confirmed) for i in range(int(children))]
        stop.set()
        thread.join()
    failures = [outcome for outcome in outcomes if outcome is not None]
    sys.stdout.write(json.dumps({"confirmed": confirmed, "failures": failures}) + "\n")


main(*sys.argv[1:])
