"""One sync serves all commits that wait for it; a failed one is never forgotten."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgermq.parquet_ledger import CommitOutcomeUnknown
from ledgermq.parquet_ledger.wal_sync import WalSync


class Disk:
    """Counts syncs, waits in them for the test, and fails when told to."""

    def __init__(self) -> None:
        self.syncs = 0
        self.fails = False
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def fdatasync(self, _: int) -> None:
        self.syncs += 1
        self.began.set()
        assert self.may_end.wait(10)
        if self.fails:
            raise OSError(5, "Input/output error")


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def wal(tmp_path: Path, disk: Disk) -> Iterator[WalSync]:
    path = tmp_path / "wal"
    path.touch()
    wal = WalSync(path, tmp_path / "sync", fdatasync=disk.fdatasync)
    yield wal
    wal.close()


def in_thread(wal: WalSync, commit: int) -> threading.Thread:
    thread = threading.Thread(target=wal.wait, args=(commit,))
    thread.start()
    return thread


def test_commits_are_numbered_in_order(wal: WalSync) -> None:
    assert [wal.committed() for _ in range(3)] == [1, 2, 3]


def test_a_sync_makes_all_commits_before_it_durable(wal: WalSync, disk: Disk) -> None:
    first, second = wal.committed(), wal.committed()
    wal.wait(first)
    wal.wait(second)
    assert disk.syncs == 1


def test_a_commit_during_a_sync_takes_another_sync(wal: WalSync, disk: Disk) -> None:
    disk.may_end.clear()
    thread = in_thread(wal, wal.committed())
    assert disk.began.wait(10)
    late = wal.committed()
    disk.may_end.set()
    thread.join()
    wal.wait(late)
    assert disk.syncs == 2


def test_all_commits_that_wait_during_a_sync_share_the_next(wal: WalSync, disk: Disk) -> None:
    disk.may_end.clear()
    threads = [in_thread(wal, wal.committed())]
    assert disk.began.wait(10)
    threads += [in_thread(wal, wal.committed()) for _ in range(8)]
    disk.may_end.set()
    for thread in threads:
        thread.join()
    assert disk.syncs == 2


def test_a_failed_sync_leaves_the_outcome_unknown(wal: WalSync, disk: Disk) -> None:
    disk.fails = True
    with pytest.raises(CommitOutcomeUnknown):
        wal.wait(wal.committed())


def test_after_a_failed_sync_no_further_commit_is_taken(wal: WalSync, disk: Disk) -> None:
    disk.fails = True
    with pytest.raises(CommitOutcomeUnknown):
        wal.wait(wal.committed())
    disk.fails = False
    with pytest.raises(CommitOutcomeUnknown):
        wal.committed()


def test_whoever_waits_for_a_sync_that_fails_is_told(wal: WalSync, disk: Disk) -> None:
    outcomes: list[str] = []

    def wait(commit: int) -> None:
        try:
            wal.wait(commit)
        except CommitOutcomeUnknown:
            outcomes.append("unknown")

    disk.fails = True
    disk.may_end.clear()
    commits = [wal.committed() for _ in range(4)]
    threads = [threading.Thread(target=wait, args=(commit,)) for commit in commits]
    for thread in threads:
        thread.start()
    disk.may_end.set()
    for thread in threads:
        thread.join()
    assert outcomes == ["unknown"] * 4


def test_growing_the_log_in_advance_only_adds_zeros(tmp_path: Path) -> None:
    path = tmp_path / "wal"
    path.write_bytes(b"frames")
    wal = WalSync(path, tmp_path / "counters")
    wal.pregrow(3 << 20)
    wal.close()
    assert path.read_bytes() == b"frames" + bytes((3 << 20) - 6)
