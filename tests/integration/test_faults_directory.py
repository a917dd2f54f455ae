"""Directories that can't hold a ledger get a clear error, and nothing in them changes."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import (
    CatalogDamaged,
    CatalogTooNew,
    DirectoryNotWritable,
    Ledger,
    NetworkFileSystem,
    NewMessages,
    NotALedger,
)

SETTINGS = Settings(wal_pregrow_megabytes=0)


def open_ledger(directory: Path) -> Ledger:
    return Ledger(directory, SETTINGS, background=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a closed ledger with one message."""
    with open_ledger(tmp_path / "ledger") as ledger:
        ledger.create_topic("t").append(NewMessages([b"x"], 1))
    return tmp_path / "ledger"


def payloads(directory: Path) -> list[bytes]:
    with open_ledger(directory) as ledger:
        return [message.payload for message in ledger.topic("t").read_messages()]


def test_a_new_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "a" / "b"):
        pass
    for path in (tmp_path / "a" / "b", tmp_path / "a" / "b" / "segments"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_directory_of_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(NotALedger, match=r"letter\.txt.*give an empty directory") as caught:
        open_ledger(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("dear")
    with pytest.raises(DirectoryNotWritable, match="file"):
        open_ledger(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "dear"


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_a_network_file_system_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    read_text = Path.read_text
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"2 1 0:9 / {tmp_path} rw,relatime shared:1 - {kind} server:/export rw\n"
    )

    def mounted(path: Path, *arguments: str) -> str:
        return mounts if str(path) == "/proc/self/mountinfo" else read_text(path, *arguments)

    monkeypatch.setattr(Path, "read_text", mounted)
    with pytest.raises(NetworkFileSystem, match=f"{kind}.*local disk.*PostgreSQL") as caught:
        open_ledger(tmp_path / "ledger")
    assert str(tmp_path / "ledger") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_catalog_of_a_newer_version_is_refused_and_left_alone(directory: Path) -> None:
    connection = apsw.Connection(str(directory / "catalog.db"))
    connection.execute("INSERT INTO schema_migration VALUES (999, 'future', 0)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    before = (directory / "catalog.db").read_bytes()
    for _ in range(2):
        with pytest.raises(CatalogTooNew, match=r"catalog\.db has schema version 999.*upgrade"):
            open_ledger(directory)
    assert (directory / "catalog.db").read_bytes() == before


def test_a_refused_opening_leaves_no_file_open(directory: Path) -> None:
    connection = apsw.Connection(str(directory / "catalog.db"))
    connection.execute("INSERT INTO schema_migration VALUES (999, 'future', 0)")
    connection.close()

    def opened() -> Iterator[str]:
        for fd in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{fd}")
            except FileNotFoundError:
                continue  # The listing's own.
            if target.startswith(str(directory)):
                yield target

    with pytest.raises(CatalogTooNew):
        open_ledger(directory)
    assert list(opened()) == []


@pytest.mark.parametrize("length", [100, 4096, 100_000])
def test_a_catalog_of_garbage_is_refused_and_left_alone(directory: Path, length: int) -> None:
    (directory / "catalog.db-wal").unlink()
    (directory / "catalog.db-shm").unlink(missing_ok=True)
    garbage = bytes(range(1, 251)) * (length // 250 + 1)
    (directory / "catalog.db").write_bytes(garbage)
    with pytest.raises(CatalogDamaged, match=r"catalog\.db is damaged.*restore it from a backup"):
        open_ledger(directory)
    assert (directory / "catalog.db").read_bytes() == garbage


def test_a_restored_catalog_works_after_a_refusal(directory: Path) -> None:
    aside = {name: (directory / name).read_bytes() for name in ("catalog.db", "catalog.db-wal")}
    (directory / "catalog.db").write_bytes(b"garbage" * 2_000)
    (directory / "catalog.db-wal").unlink()
    with pytest.raises(CatalogDamaged):
        open_ledger(directory)
    for name, content in aside.items():
        (directory / name).write_bytes(content)
    assert payloads(directory) == [b"x"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores modes: see test_faults_disk.py")
def test_a_directory_without_write_permission_is_refused(directory: Path) -> None:
    directory.chmod(0o500)
    try:
        with pytest.raises(DirectoryNotWritable, match="check its permissions"):
            open_ledger(directory)
    finally:
        directory.chmod(0o700)
    assert payloads(directory) == [b"x"]
