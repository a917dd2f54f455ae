"""A power cut at any write keeps everything confirmed.

One run is recorded below SQLite: every write, truncation and sync of the catalog's files, every
segment that was synced or deleted, and every confirmation, in order. The directory is then rebuilt
as a power cut at each of the writes would leave it, opened, and compared with what was confirmed.
A disk keeps what was synced; of later writes it may keep any, in any order, torn at 512 bytes.
"""

import os
import random
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages, Retention, Span, Topic, ledger
from ledgermq.parquet_ledger.sqlite_catalog import SqliteCatalog

SEED = 411
SECTOR = 512
MEANWHILE_S = 0.3
# So small that the run has many checkpoints and the log starts over many times.
RECORDED = Settings(
    wal_pregrow_megabytes=0, wal_checkpoint_pages=12, bulk_rows_min=20, retired_file_grace_ms=0,
    ledger_entries_max=15,
)  # fmt: skip
REOPENED = Settings(wal_pregrow_megabytes=0, retired_file_grace_ms=0)


@dataclass(frozen=True, slots=True)
class Write:
    file: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Delete:
    file: str


@dataclass(frozen=True, slots=True)
class Sync:
    """The file's events before number ``began`` are on the disk from here on."""

    file: str
    began: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """An append, or with ``count`` 0 an acknowledgment up to ``offset``, returned."""

    topic: str
    first: int
    count: int
    offset: int


Event = Write | Truncate | Delete | Sync | Confirmed


@dataclass(slots=True)
class Recorder:
    """The order of events of all threads and ledgers of the run."""

    directory: Path
    events: list[Event] = field(default_factory=list)
    mutex: threading.Lock = field(default_factory=threading.Lock)
    # What another process does between the next commit and its sync.
    meanwhile: threading.Thread | None = None

    def add(self, event: Event) -> None:
        with self.mutex:
            self.events.append(event)

    def around_sync(self, file: str, sync: Callable[[], None]) -> None:
        began = len(self.events)
        sync()
        self.add(Sync(file, began))

    def name(self, path: str) -> str | None:
        """Return a path below the recorded directory, or None for any other."""
        inside = path.startswith(f"{self.directory}/")
        return os.path.relpath(path, self.directory) if inside else None


class RecordedFile(apsw.VFSFile):
    def __init__(self, recorder: Recorder, name: Any, flags: list[int]) -> None:
        path = name if isinstance(name, str) else name.filename()
        self._recorder = recorder
        self._file = os.path.basename(path)
        self._syncs_directory = self._file.endswith(("-journal", "-wal"))
        super().__init__("unix", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._recorder.add(Write(self._file, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._recorder.add(Truncate(self._file, size))

    def xSync(self, flags: int) -> None:
        sync, began = super().xSync, len(self._recorder.events)
        self._recorder.around_sync(self._file, lambda: sync(flags))
        # SQLite syncs the directory with the first sync of a journal or log that it opened, as
        # strace shows; until then a deleted journal may come back.
        if self._syncs_directory:
            self._syncs_directory = False
            self._recorder.add(Sync("catalog.db-journal", began))


class RecordingVfs(apsw.VFS):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        super().__init__("ledgermq-power-cut", "unix")

    def xOpen(self, name: Any, flags: list[int]) -> RecordedFile:
        return RecordedFile(self._recorder, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._recorder.add(Delete(os.path.basename(filename)))


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """Return the record of one run."""
    recorder = Recorder(tmp_path_factory.mktemp("power-cut") / "ledger")
    vfs = RecordingVfs(recorder)
    real_fsync, real_unlink = os.fsync, os.unlink

    def catalog(*arguments: Any, **options: Any) -> SqliteCatalog:
        def sync_wal(fd: int) -> None:
            meanwhile, recorder.meanwhile = recorder.meanwhile, None
            if meanwhile is not None:
                meanwhile.start()
                meanwhile.join(MEANWHILE_S)  # It may have to wait for this very sync.
            recorder.around_sync("catalog.db-wal", lambda: os.fdatasync(fd))

        return SqliteCatalog(*arguments, **options, vfs="ledgermq-power-cut", fdatasync=sync_wal)

    def fsync(fd: int) -> None:
        name = recorder.name(os.readlink(f"/proc/self/fd/{fd}")) or ""
        began = len(recorder.events)
        real_fsync(fd)
        if name.endswith(".parquet"):
            recorder.add(Write(name, 0, (recorder.directory / name).read_bytes()))
        elif name.startswith("segments/"):
            # Files come and go for good when their directory is synced.
            for file in {e.file for e in recorder.events if isinstance(e, (Write, Delete))}:
                if file.startswith(f"{name}/"):
                    recorder.add(Sync(file, began))

    def unlink(path: Any, **options: Any) -> None:
        real_unlink(path, **options)
        if name := recorder.name(os.fspath(path)):
            recorder.add(Delete(name))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "SqliteCatalog", catalog)
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "unlink", unlink)
        run(recorder)
    yield recorder
    vfs.unregister()


def payload(topic: str, number: int) -> bytes:
    return f"{topic}:{number}:".encode() + bytes(number % 700)


class Run:
    """Appends numbered messages and records what was confirmed."""

    def __init__(self, recorder: Recorder, topic: Topic) -> None:
        self.topic = topic
        self._recorder = recorder
        self._name = topic.name.local

    def append(self, first: int, count: int, *, bulk: bool = False) -> None:
        payloads: list[bytes | None] = [payload(self._name, first + i) for i in range(count)]
        numbers = range(first, first + count)
        if bulk:
            columns = {"payload": pa.array(payloads), "sequence_id": pa.array(numbers)}
            done = self.topic.append_table(pa.table(columns))
        else:
            done = self.topic.append(NewMessages(payloads, 1, sequence_ids=first))
        self._recorder.add(Confirmed(self._name, first, count, done.offset_start))

    def acknowledge(self, end: int) -> None:
        self.topic.subscription("s").acknowledge([Span(0, end)])
        self._recorder.add(Confirmed(self._name, 0, 0, end))


def run(recorder: Recorder) -> None:
    """Do some of everything: two ledgers in turn, two threads at once, seals, retirement."""
    directory = recorder.directory
    with (
        Ledger(directory, RECORDED, background=False) as one,
        Ledger(directory, RECORDED, background=False) as two,
    ):
        first = Run(recorder, one.create_topic("a"))
        other = Run(recorder, two.create_topic("a"))
        first.topic.subscribe("s", start=0)
        for i in range(0, 40, 2):
            first.append(i, 1)
            other.append(i + 1, 1)
        first.topic.seal()
        other.append(40, 30)
        other.append(70, 25, bulk=True)
        for i in range(95, 98):
            first.append(i, 1)
            first.acknowledge(i + 1)
            other.topic.seal()
            recorder.meanwhile = other_process = threading.Thread(target=one.collect_garbage)
            other.topic.retire(Retention(minutes=0, bytes=0))
            other_process.join()
        threads = [
            Run(recorder, ledger.create_topic(f"t{i}")) for i, ledger in ((0, one), (1, one))
        ]
        run_together(threads, appends=12)
        first.append(98, 5)


def run_together(runs: list[Run], appends: int) -> None:
    def work(mine: Run) -> None:
        for number in range(appends):
            mine.append(number, 1)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def apply(content: bytearray | None, event: Event, keep: Callable[[], bool]) -> bytearray | None:
    """Return a file's content after an event of which a disk may have kept some sectors only."""
    if isinstance(event, Delete):
        return None
    content = bytearray() if content is None else content
    if isinstance(event, Truncate):
        return content[: event.size] + bytes(max(0, event.size - len(content)))
    assert isinstance(event, Write)
    for at in range(0, len(event.data), SECTOR):
        if keep():
            piece, start = event.data[at : at + SECTOR], event.offset + at
            content.extend(bytes(max(0, start + len(piece) - len(content))))
            content[start : start + len(piece)] = piece
    return content


def after_cut(events: list[Event], rng: random.Random | None) -> dict[str, bytearray]:
    """Return the files after a cut; with ``rng`` a random part of what was not synced is lost."""
    synced: dict[str, int] = {}
    for event in events:
        if isinstance(event, Sync):
            synced[event.file] = max(event.began, synced.get(event.file, 0))
    files: dict[str, bytearray | None] = {}
    for number, event in enumerate(events):
        if isinstance(event, (Sync, Confirmed)):
            continue
        if rng is None or number < synced.get(event.file, 0):
            files[event.file] = apply(files.get(event.file), event, lambda: True)
        elif (fate := rng.random()) < 0.6:
            torn = fate < 0.2 and isinstance(event, Write)
            keep = (lambda: rng.random() < 0.5) if torn else (lambda: True)
            files[event.file] = apply(files.get(event.file), event, keep)
    return {name: content for name, content in files.items() if content is not None}


def rebuild(directory: Path, files: dict[str, bytearray]) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "segments").mkdir(parents=True)
    for name, content in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)


def stored(topic: Topic) -> dict[int, tuple[int, bytes]]:
    """Return the stored messages by offset; each is there once."""
    columns = ["topic_offset", "sequence_id", "payload"]
    rows = [
        tuple(row.values())
        for batch in topic.read_arrow(columns=columns)
        for row in batch.to_pylist()
    ]
    assert len({offset for offset, _, _ in rows}) == len(rows)
    return {offset: (number, data) for offset, number, data in rows}


def verify(directory: Path, confirmed: list[Confirmed], counts: dict[tuple[str, int], int]) -> None:
    """Open a directory after a cut; ``counts`` has the length of each append by its first number."""
    with Ledger(directory, REOPENED, background=False) as reopened:
        reopened.collect_garbage()
        report = reopened.check()
        assert report.sound, report.problems
        for name in {event.topic for event in confirmed}:
            topic = reopened.topic(name)
            found = stored(topic)
            head = topic.next_offset()
            floor = min((s.ack_floor() for s in topic.subscriptions()), default=0)
            for event in (event for event in confirmed if event.topic == name):
                if event.count == 0:
                    assert floor >= event.offset, event
                for i in range(event.count):
                    wanted = (event.first + i, payload(name, event.first + i))
                    assert found.get(event.offset + i, wanted) == wanted, event
            lost = [offset for offset in range(floor, head) if offset not in found]
            assert not lost, f"{name}: offsets {lost} are missing"
            ends = [e.offset + e.count for e in confirmed if e.topic == name]
            assert head >= max(ends), f"{name}: the head {head} is before what was confirmed"
            numbers = {number for number, _ in found.values()}
            for (of_topic, first), count in counts.items():
                here = numbers & set(range(first, first + count)) if of_topic == name else set()
                assert len(here) in (0, count), f"{name}: the append of {first} is half there"
            assert topic.append(NewMessages([b"next"], 1)).offset_start == head


def boundaries(events: list[Event]) -> list[int]:
    return [i for i, event in enumerate(events, start=1) if isinstance(event, (Write, Truncate))]


def cut_everywhere(recorder: Recorder, directory: Path, cuts: list[int], seed: int | None) -> None:
    events = recorder.events
    counts = {(e.topic, e.first): e.count for e in events if isinstance(e, Confirmed) and e.count}
    for cut in cuts:
        rng = None if seed is None else random.Random(f"{seed}/{cut}")
        rebuild(directory, after_cut(events[:cut], rng))
        confirmed = [event for event in events[:cut] if isinstance(event, Confirmed)]
        try:
            verify(directory, confirmed, counts)
        except BaseException as error:
            error.add_note(f"power cut after event {cut} ({len(events)} in all), seed {seed}")
            raise


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a place in memory where there is one: thousands of directories are opened there."""
    shared = Path("/dev/shm")
    place = shared / f"ledgermq-{os.getpid()}" if os.access(shared, os.W_OK) else tmp_path / "d"
    yield place
    shutil.rmtree(place, ignore_errors=True)


def test_the_recorded_run_has_what_makes_power_cuts_dangerous(recorder: Recorder) -> None:
    events = recorder.events
    restarts = sum(
        isinstance(e, Write) and e.file.endswith("-wal") and not e.offset for e in events
    )
    checkpoints = sum(isinstance(e, Sync) and e.file == "catalog.db" for e in events)
    deleted = sum(isinstance(e, Delete) and e.file.endswith(".parquet") for e in events)
    commits = sum(isinstance(e, Confirmed) for e in events)
    sys.stdout.write(
        f"{len(boundaries(events))} writes, {commits} confirmations, {checkpoints} checkpoints, "
        f"{restarts} starts of the log, {deleted} segments deleted\n"
    )
    assert commits >= 60
    assert checkpoints >= 10
    assert restarts >= 10
    assert deleted >= 1


def test_a_cut_after_any_write_keeps_everything_confirmed(recorder: Recorder, disk: Path) -> None:
    cut_everywhere(recorder, disk, boundaries(recorder.events), None)


def test_a_cut_that_loses_unsynced_writes_keeps_everything_confirmed(
    recorder: Recorder, disk: Path
) -> None:
    for seed in (SEED, SEED + 1):
        cut_everywhere(recorder, disk, boundaries(recorder.events), seed)


@pytest.mark.soak
def test_many_cuts_that_lose_unsynced_writes(recorder: Recorder, disk: Path) -> None:
    for seed in range(max(1, int(os.environ.get("SOAK_ROUNDS", "500")) // 50)):
        cut_everywhere(recorder, disk, boundaries(recorder.events), seed)
