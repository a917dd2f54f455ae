"""Processes killed with SIGKILL at random moments lose nothing confirmed and block nobody.

Writers say on a pipe what they try and, after the append returned, what was confirmed. When enough
was confirmed they are killed; the directory is then opened here and compared with what they said.
A directory lives through many rounds, so that damage would add up.
"""

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, Topic

PROGRAMS = Path(__file__).parent / "programs"
SETTINGS = Settings(retired_file_grace_ms=0, wal_pregrow_megabytes=0)
ROUNDS = 26
ROUNDS_A_DIRECTORY = 26
SEED = 20_251
PATIENCE_S = 60.0
# The retirer works on the second topic only; the first must keep everything.
KEPT, FLOWING = "kept", "flowing"
SUBSCRIPTIONS = ("fast", "slow")
COLUMNS = ["topic_offset", "producer_name", "sequence_id", "payload"]


@dataclass(slots=True)
class Attempt:
    """One append of one producer; ``offset`` is known once it was confirmed or found."""

    producer: str
    first: int
    count: int
    offset: int | None = None


@dataclass(slots=True)
class Truth:
    """What the programs said, over all rounds of a directory."""

    appends: dict[str, list[Attempt]] = field(default_factory=lambda: {KEPT: [], FLOWING: []})
    trying: dict[tuple[str, str], Attempt] = field(default_factory=dict)
    ack_asked: Counter[str] = field(default_factory=Counter)
    ack_confirmed: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    confirmed: Counter[str] = field(default_factory=Counter)

    def hear(self, line: str) -> None:
        name, verb, *words = line.split()
        self.seen[verb] += 1
        if verb == "try":
            attempt = Attempt(name, int(words[1]), int(words[2]))
            self.trying[name, words[0]] = attempt
        elif verb == "done":
            attempt = self.trying.pop((name, words[0]))
            assert (attempt.first, attempt.count) == (int(words[1]), int(words[2]))
            attempt.offset = int(words[3])
            self.appends[words[0]].append(attempt)
            self.confirmed[name] += 1
        elif verb in ("sealed", "retired"):
            self.confirmed[name] += 1
        elif verb == "ack":
            self.ack_asked[words[0]] = max(self.ack_asked[words[0]], int(words[1]))
        elif verb == "acked":
            self.ack_confirmed[words[0]] = max(self.ack_confirmed[words[0]], int(words[1]))


class Programs:
    """Programs that share one pipe to this process; a line is written in one piece."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        self._pending = b""
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, program: str, directory: Path, name: str, *arguments: str) -> None:
        command = [sys.executable, str(PROGRAMS / program), str(directory), name, *arguments]
        self.running[name] = subprocess.Popen(command, stdout=self._write_fd)

    def lines(self) -> Iterator[str]:
        """Yield lines as they come, and fail when none comes for long."""
        while True:
            while b"\n" in self._pending:
                line, _, self._pending = self._pending.partition(b"\n")
                yield line.decode()
            ended = {name: program.poll() for name, program in self.running.items()}
            assert not any(status is not None for status in ended.values()), f"ended: {ended}"
            ready, _, _ = select.select([self._read_fd], [], [], PATIENCE_S)
            assert ready, f"nobody said anything for {PATIENCE_S} s: {self.running}"
            self._pending += os.read(self._read_fd, 1 << 16)

    def places(self) -> dict[str, str]:
        """Return where in the kernel each program is, for the message of a failure."""
        return {
            name: Path(f"/proc/{program.pid}/wchan").read_text()
            for name, program in self.running.items()
        }

    def kill(self, names: list[str]) -> None:
        """Kill programs that must still be running."""
        for name in names:
            status = self.running[name].poll()
            assert status is None, f"{name} ended by itself with status {status}"
            self.running[name].send_signal(signal.SIGKILL)
        for name in names:
            self.running.pop(name).wait()

    def rest(self) -> list[str]:
        """Return what was said and not read yet, once everybody is gone."""
        assert not self.running
        os.set_blocking(self._read_fd, False)
        while True:
            try:
                self._pending += os.read(self._read_fd, 1 << 16)
            except BlockingIOError:
                return self._pending.decode().splitlines()

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        os.close(self._read_fd)
        os.close(self._write_fd)


@contextmanager
def programs() -> Iterator[Programs]:
    started = Programs()
    try:
        yield started
    finally:
        started.close()


def listen_until_confirmed(running: Programs, truth: Truth, wanted: Counter[str]) -> None:
    """Listen until each of the named programs confirmed so many appends or rounds in all."""
    if truth.confirmed >= wanted:
        return
    until = time.monotonic() + PATIENCE_S
    for line in running.lines():
        truth.hear(line)
        if truth.confirmed >= wanted:
            return
        # Others may go on talking beside one that waits for ever.
        late = wanted - truth.confirmed
        assert time.monotonic() < until, f"not done in {PATIENCE_S} s: {late}; {running.places()}"


def run_and_kill(directory: Path, truth: Truth, rng: random.Random, number: int) -> None:
    """Run writers, in every second round with a sealer and a retirer, and kill them."""
    writers = [f"round{number}-writer{i}" for i in range(rng.choice([1, 2]))]
    with programs() as running:
        for writer in writers:
            seed = str(rng.getrandbits(32))
            running.start("crash_writer.py", directory, writer, seed, KEPT, FLOWING)
        if number % 2:
            running.start("crash_sealer.py", directory, f"round{number}-sealer")
            retirer = f"round{number}-retirer"
            running.start("crash_retirer.py", directory, retirer, FLOWING, *SUBSCRIPTIONS)
        if rng.random() < 0.1:
            # Killed while it opens the directory, perhaps the first time ever.
            truth.hear(next(running.lines()))
        else:
            enough = Counter({writer: rng.randint(1, 60) for writer in writers})
            enough += Counter({name: rng.randint(1, 3) for name in running.running if number % 2})
            listen_until_confirmed(running, truth, enough)
        everybody = list(running.running)
        if rng.random() < 0.5 and len(everybody) > 1:
            victim = rng.choice(everybody)
            running.kill([victim])
            # The others go on: nobody waits for the dead one.
            others = Counter({w: truth.confirmed[w] + 10 for w in writers if w != victim})
            listen_until_confirmed(running, truth, others)
        time.sleep(rng.random() * 0.002)
        running.kill(list(running.running))
        for line in running.rest():
            truth.hear(line)


def stored_rows(topic: Topic) -> pa.Table:
    batches = list(topic.read_arrow(columns=COLUMNS))
    if not batches:
        return pa.table({name: [] for name in COLUMNS})
    return pa.Table.from_batches(batches)


def adopt_unconfirmed(rows: pa.Table, truth: Truth, topic: str) -> None:
    """Take what was tried and not confirmed for stored if any of it is; all of it must be then."""
    for key in [key for key in truth.trying if key[1] == topic]:
        attempt = truth.trying.pop(key)
        mine = pc.and_(
            pc.equal(rows["producer_name"], attempt.producer),
            pc.greater_equal(rows["sequence_id"], attempt.first),
        )
        found = rows.filter(mine)
        if found.num_rows:
            ahead = found["sequence_id"][0].as_py() - attempt.first
            attempt.offset = found["topic_offset"][0].as_py() - ahead
            truth.appends[topic].append(attempt)


def compare(rows: pa.Table, truth: Truth, topic: str, *, head: int, retired_below: int) -> None:
    """Assert that each offset holds what was confirmed for it, unless it may be retired."""
    producers = np.full(head, "", object)
    sequence = np.full(head, -1, np.int64)
    for attempt in truth.appends[topic]:
        assert attempt.offset is not None
        place = slice(attempt.offset, attempt.offset + attempt.count)
        assert attempt.offset + attempt.count <= head, f"{attempt} is beyond the head {head}"
        assert (sequence[place] == -1).all(), f"{attempt} has the offset of another message"
        producers[place] = attempt.producer
        sequence[place] = np.arange(attempt.first, attempt.first + attempt.count)
    offsets = rows["topic_offset"].to_numpy().astype(np.int64)
    assert (np.diff(offsets) > 0).all(), "a message is there twice"
    missing = np.setdiff1d(np.arange(head), offsets)
    assert (missing < retired_below).all(), f"{topic}: offsets {missing[:9]} are lost"
    assert rows["producer_name"].to_pylist() == producers[offsets].tolist()
    assert rows["sequence_id"].to_pylist() == sequence[offsets].tolist()
    pairs = zip(producers[offsets], sequence[offsets], strict=True)
    wanted = [f"{producer}:{number}".encode() for producer, number in pairs]
    assert rows["payload"].to_pylist() == wanted


def verify(directory: Path, truth: Truth) -> None:
    """Open the directory after a crash and compare it with the truth."""
    with Ledger(directory, SETTINGS, background=False) as ledger:
        before = [problem for problem in ledger.check().problems if problem.kind != "orphan"]
        assert not before, before
        ledger.collect_garbage()
        report = ledger.check()
        assert report.sound, report.problems
        for name in (KEPT, FLOWING):
            topic = ledger.create_topic(name)
            floors = {s.name: s.ack_floor() for s in topic.subscriptions()}
            for subscription, floor in floors.items():
                asked = truth.ack_asked[subscription]
                assert truth.ack_confirmed[subscription] <= floor <= asked, subscription
            rows = stored_rows(topic)
            adopt_unconfirmed(rows, truth, name)
            retired_below = min(floors.values(), default=0)
            compare(rows, truth, name, head=topic.next_offset(), retired_below=retired_below)


def create(directory: Path) -> None:
    with Ledger(directory, SETTINGS, background=False) as ledger:
        ledger.create_topic(KEPT)
        for subscription in SUBSCRIPTIONS:
            ledger.create_topic(FLOWING).subscribe(subscription, start=0)


def crash_rounds(parent: Path, rounds: int, seed: int) -> Counter[str]:
    """Run rounds of crashes and return how often each kind of line was heard."""
    heard: Counter[str] = Counter()
    for number in range(rounds):
        if number % ROUNDS_A_DIRECTORY == 0:
            directory = parent / f"ledger-{number}"
            truth = Truth()
            create(directory)
        rng = random.Random(f"{seed}/{number}")
        try:
            run_and_kill(directory, truth, rng, number)
            verify(directory, truth)
        except BaseException as error:
            error.add_note(f"crash round {number} of seed {seed}, directory {directory}")
            raise
        heard += truth.seen
        truth.seen.clear()
    return heard


def test_killed_processes_lose_nothing_confirmed_and_leave_nothing_half_done(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    heard = crash_rounds(tmp_path, ROUNDS, SEED)
    record_property("heard", dict(heard))
    sys.stdout.write(f"{ROUNDS} crash rounds: {dict(heard)}\n")
    assert min(heard[verb] for verb in ("done", "sealed", "retired")) > 0


@pytest.mark.soak
def test_killed_processes_lose_nothing_confirmed_for_hours(tmp_path: Path) -> None:
    rounds = int(os.environ.get("SOAK_ROUNDS", "500"))
    seed = int(os.environ.get("SOAK_SEED", str(time.time_ns())))
    sys.stdout.write(f"{rounds} crash rounds of seed {seed}\n")
    sys.stdout.write(f"heard {dict(crash_rounds(tmp_path, rounds, seed))}\n")
