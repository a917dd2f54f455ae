"""Processes and threads that append together: dense offsets, each in order, nobody starved."""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages, Topic

PROGRAM = Path(__file__).parent / "programs" / "append_loop.py"
SETTINGS = Settings(wal_pregrow_megabytes=0)
SECONDS = 2.5
# Of the whole, where four processes share: a quarter would be even.
SHARE_MIN = 0.10
# Generous for a noisy machine; a starved process waited for seconds.
LATENCY_MS_MAX = 250


def run_together(directory: Path, plan: list[tuple[str, list[str]]]) -> dict[str, list[float]]:
    """Run one process for each (topic, producers); return the latencies of each producer."""
    with Ledger(directory, SETTINGS, background=False):
        pass
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, directory, topic, str(SECONDS), *producers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for topic, producers in plan
    ]
    latencies: dict[str, list[float]] = {}
    try:
        for process in processes:
            assert _pipe(process.stdout).readline() == "ready\n"
        for process in processes:
            _pipe(process.stdin).write("go\n")
            _pipe(process.stdin).flush()
        for process in processes:
            answer, _ = process.communicate(timeout=60)
            assert process.returncode == 0
            latencies |= json.loads(answer)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return latencies


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def assert_dense_and_in_order(topic: Topic, counts: dict[str, int]) -> None:
    """Assert that a topic holds what each producer sent, in its order, and nothing else."""
    columns = ["topic_offset", "producer_name", "sequence_id"]
    numbers: dict[str, list[int]] = defaultdict(list)
    offsets = []
    for batch in topic.read_arrow(columns=columns):
        offset, producer, number = (column.to_pylist() for column in batch.columns)
        offsets += offset
        for name, value in zip(producer, number, strict=True):
            numbers[name].append(value)
    assert np.array_equal(offsets, np.arange(sum(counts.values())))
    assert numbers == {name: list(range(count)) for name, count in counts.items()}


def report(title: str, latencies: dict[str, list[float]]) -> None:
    total = sum(map(len, latencies.values()))
    shares = sorted(len(each) / total for each in latencies.values())
    slowest = max(max(each) for each in latencies.values())
    sys.stdout.write(
        f"{title}: {total / SECONDS:,.0f} appends/s, shares {shares[0]:.0%} to {shares[-1]:.0%}, "
        f"slowest append {slowest:.1f} ms\n"
    )


@pytest.mark.parametrize(
    ("title", "topics"),
    [("one topic", ["t", "t", "t", "t"]), ("different topics", ["a", "b", "c", "c"])],
)
def test_four_processes_share_the_write_lock_fairly(
    tmp_path: Path, title: str, topics: list[str]
) -> None:
    directory = tmp_path / "ledger"
    plan = [(topic, [f"p{i}"]) for i, topic in enumerate(topics)]
    latencies = run_together(directory, plan)
    report(f"four processes, {title}", latencies)
    with Ledger(directory, SETTINGS, background=False) as ledger:
        for topic in set(topics):
            counts = {p[0]: len(latencies[p[0]]) for name, p in plan if name == topic}
            assert_dense_and_in_order(ledger.topic(topic), counts)
        assert ledger.check().sound
    total = sum(map(len, latencies.values()))
    assert min(map(len, latencies.values())) >= SHARE_MIN * total
    assert max(map(max, latencies.values())) < LATENCY_MS_MAX


def test_processes_and_threads_together_keep_every_writers_order(tmp_path: Path) -> None:
    directory = tmp_path / "ledger"
    producers = {f"process{p}": [f"p{p}t{t}" for t in range(4)] for p in range(2)}
    latencies = run_together(directory, [("t", names) for names in producers.values()])
    report("two processes of four threads", latencies)
    with Ledger(directory, SETTINGS, background=False) as ledger:
        counts = {producer: len(each) for producer, each in latencies.items()}
        assert_dense_and_in_order(ledger.topic("t"), counts)
        assert ledger.check().sound
    total = sum(map(len, latencies.values()))
    assert min(map(len, latencies.values())) >= SHARE_MIN / 2 * total
    assert max(map(max, latencies.values())) < LATENCY_MS_MAX


def test_a_busy_python_thread_does_not_stop_appends(tmp_path: Path) -> None:
    stop = threading.Event()

    def be_busy() -> None:
        while not stop.is_set():
            sum(range(1_000))

    busy = threading.Thread(target=be_busy)
    latencies = []
    with Ledger(tmp_path / "ledger", SETTINGS, background=False) as ledger:
        topic = ledger.create_topic("t")
        usual = sys.getswitchinterval()
        busy.start()
        try:
            for _ in range(300):
                began = time.perf_counter()
                topic.append(NewMessages([b"x"], 1))
                latencies.append((time.perf_counter() - began) * 1000)
        finally:
            stop.set()
            busy.join()
    median = statistics.median(latencies)
    sys.stdout.write(f"beside a busy thread: p50 {median:.2f} ms, max {max(latencies):.1f} ms\n")
    assert median < 20
    assert sys.getswitchinterval() == usual
