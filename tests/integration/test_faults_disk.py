"""A full or read-only disk: a clear error, nothing confirmed is lost, and work goes on after it.

The disks are small file systems in memory. Mounting them needs root, so other users run these tests
once more inside a user namespace, where they are root.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import DirectoryNotWritable, DiskFull, Ledger, NewMessages, Topic

DISK_MEGABYTES = 24
SETTINGS = Settings(wal_pregrow_megabytes=1, bulk_rows_min=1_000, wal_checkpoint_pages=200)
BALLAST_BYTES = 13 << 20
IS_ROOT = os.geteuid() == 0


def mount(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT TESTED: this machine does not let us mount: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return the place of a small file system of its own."""
    if not IS_ROOT:
        pytest.skip("runs in a user namespace, by test_other_users_run_these_in_a_namespace")
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", place)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.skipif(IS_ROOT, reason="root runs the tests of this file directly")
def test_other_users_run_these_in_a_namespace() -> None:
    inside = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: neither root nor user namespaces: no disk could be filled")
    command = [*inside, sys.executable, "-m", "pytest", "-q", __file__]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def ledger(disk: Path) -> Iterator[Ledger]:
    """Return a ledger on the small disk, beside a file that can be deleted to make room."""
    (disk / "ballast").write_bytes(bytes(BALLAST_BYTES))
    with Ledger(disk / "ledger", SETTINGS, background=False) as opened:
        yield opened


def append_one(topic: Topic, number: int) -> int:
    new = NewMessages([os.urandom(4_000)], 1, producer_name="p", sequence_ids=number)
    topic.append(new)
    return 1


def append_table(topic: Topic, number: int) -> int:
    rows = 1_000
    columns = {
        "payload": pa.array([os.urandom(400) for _ in range(rows)]),
        "sequence_id": pa.array(range(number, number + rows)),
    }
    topic.append_table(pa.table(columns))
    return rows


def append_until_full(topic: Topic, append: Callable[[Topic, int], int]) -> int:
    """Append until the disk is full; return how many messages were confirmed."""
    confirmed = topic.next_offset()
    with pytest.raises(DiskFull, match="no space is left") as caught:  # noqa: PT012
        while confirmed < 1_000_000:
            confirmed += append(topic, confirmed)
    assert "free some space" in str(caught.value).lower()
    assert str(topic.ledger.directory) in str(caught.value)
    return confirmed


def assert_holds(topic: Topic, confirmed: int) -> None:
    assert [m.sequence_id for m in topic.read_messages()] == list(range(confirmed))
    problems = topic.ledger.check().problems
    assert not problems, problems


def make_room(ledger: Ledger) -> None:
    (ledger.directory.parent / "ballast").unlink()


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            return


@pytest.mark.parametrize("append", [append_one, append_table])
def test_a_full_disk_keeps_what_was_confirmed_and_goes_on_when_there_is_room(
    ledger: Ledger, append: Callable[[Topic, int], int]
) -> None:
    topic = ledger.create_topic("t")
    confirmed = append_until_full(topic, append)
    assert confirmed > 0
    assert_holds(topic, confirmed)
    make_room(ledger)
    confirmed += append(topic, confirmed)
    assert_holds(topic, confirmed)


def test_a_full_disk_stays_an_error_and_never_a_lie(ledger: Ledger) -> None:
    topic = ledger.create_topic("t")
    confirmed = append_until_full(topic, append_one)
    for _ in range(5):
        confirmed = append_until_full(topic, append_one)
    with pytest.raises(DiskFull):
        append_table(topic, confirmed)
    assert_holds(topic, confirmed)


def test_a_seal_on_a_full_disk_leaves_the_messages_in_the_tail(ledger: Ledger) -> None:
    topic = ledger.create_topic("t")
    ledger.sessions.current()  # So that the segment is the first thing that finds no room.
    confirmed = append_until_full(topic, append_one)
    with pytest.raises(DiskFull, match="Nothing was lost"):
        topic.seal()
    assert topic.segments() == []
    assert_holds(topic, confirmed)
    make_room(ledger)
    topic.seal()
    assert len(topic.segments()) >= 1
    assert_holds(topic, confirmed)


def test_what_was_confirmed_before_the_disk_was_full_is_there_after_reopening(
    ledger: Ledger,
) -> None:
    confirmed = append_until_full(ledger.create_topic("t"), append_one)
    ledger.close()
    make_room(ledger)
    with Ledger(ledger.directory, SETTINGS, background=False) as reopened:
        assert_holds(reopened.topic("t"), confirmed)


def test_a_ledger_on_a_full_disk_opens_for_reading(ledger: Ledger, disk: Path) -> None:
    append_one(ledger.create_topic("t"), 0)
    ledger.close()
    fill(disk)
    # The log is smaller than this process would grow it: that must not keep anybody out.
    larger = Settings(wal_pregrow_megabytes=4)
    with Ledger(ledger.directory, larger, background=False) as reopened:
        assert_holds(reopened.topic("t"), 1)


def test_a_full_disk_never_kills_the_process(ledger: Ledger, disk: Path) -> None:
    append_one(ledger.create_topic("t"), 0)
    ledger.close()
    # As in a directory that was restored without its locks: everything there is made anew.
    for path in (ledger.directory / "locks").iterdir():
        path.unlink()
    fill(disk)
    program = "import sys; from ledgermq.parquet_ledger import *\n" + (
        "with Ledger(sys.argv[1], background=False) as ledger:\n"
        "    ledger.topic('t').append(NewMessages([b'y'], 1))\n"
    )
    command = [sys.executable, "-c", program, str(ledger.directory)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1, f"ended with {done.returncode}: a signal if negative"
    assert "DiskFull" in done.stderr


def test_a_new_ledger_on_a_full_disk_is_a_clear_error_and_works_later(disk: Path) -> None:
    fill(disk)
    with pytest.raises(DiskFull, match="no space is left"):
        Ledger(disk / "ledger", SETTINGS, background=False)
    (disk / "filler").unlink()
    with Ledger(disk / "ledger", SETTINGS, background=False) as ledger:
        append_one(ledger.create_topic("t"), 0)
        assert_holds(ledger.topic("t"), 1)


def test_a_read_only_disk_is_refused_and_left_alone(ledger: Ledger, disk: Path) -> None:
    append_one(ledger.create_topic("t"), 0)
    ledger.close()
    before = {path.name: path.stat().st_mtime_ns for path in ledger.directory.iterdir()}
    mount("-o", "remount,ro", disk)
    with pytest.raises(DirectoryNotWritable, match="can't be written") as caught:
        Ledger(ledger.directory, SETTINGS, background=False)
    assert str(ledger.directory) in str(caught.value)
    assert {p.name: p.stat().st_mtime_ns for p in ledger.directory.iterdir()} == before
    mount("-o", "remount,rw", disk)
    with Ledger(ledger.directory, SETTINGS, background=False) as reopened:
        assert_holds(reopened.topic("t"), 1)


def test_a_new_ledger_on_a_read_only_disk_is_refused(disk: Path) -> None:
    mount("-o", "remount,ro", disk)
    with pytest.raises(DirectoryNotWritable, match="can't be written"):
        Ledger(disk / "ledger", SETTINGS, background=False)
    assert list(disk.iterdir()) == []
