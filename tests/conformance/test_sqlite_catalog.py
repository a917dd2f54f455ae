"""What is particular to the catalog on SQLite: forks, migrations, a disk that fails."""

import functools
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_fixtures import OpenLedger, exit_code, fork, new

from ledgermq.parquet_ledger import (
    CatalogDamaged,
    CatalogTooNew,
    CommitOutcomeUnknown,
    LedgerClosed,
    fork_gate,
)
from ledgermq.parquet_ledger.named_sql import Migration, SqlLibrary, load_library
from ledgermq.parquet_ledger.sqlite_catalog import SqliteCatalog


def open_in(directory: Path, library: SqlLibrary | None = None) -> SqliteCatalog:
    (directory / "locks").mkdir(exist_ok=True)
    return SqliteCatalog(directory, library or load_library(), pregrow_megabytes=0)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqliteCatalog]:
    catalog = open_in(tmp_path)
    yield catalog
    catalog.close()


def add_topic(catalog: SqliteCatalog, name: str) -> None:
    with catalog.write() as tx:
        tx.run("insert_topic", tx.next_id("topic"), name, 0)


def names_in(catalog: SqliteCatalog) -> list[str]:
    with catalog.read() as tx:
        return [row[1] for row in tx.rows("topics")]


def test_a_forked_child_and_its_parent_both_go_on(catalog: SqliteCatalog) -> None:
    add_topic(catalog, "before")
    pid = fork(lambda: add_topic(catalog, "child"))
    add_topic(catalog, "parent")
    assert exit_code(pid) == 0
    assert names_in(catalog) == ["before", "child", "parent"]


def refused(catalog: SqliteCatalog) -> None:
    """In a child: fail unless the catalog says why it can't be used."""
    with pytest.raises(LedgerClosed, match="forked while a transaction"):
        add_topic(catalog, "child")


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_child_forked_inside_a_transaction_is_refused_and_its_parent_goes_on(
    catalog: SqliteCatalog, kind: str
) -> None:
    with getattr(catalog, kind)() as tx:
        assert exit_code(fork(lambda: refused(catalog))) == 0
        assert tx.rows("topics") == []
    add_topic(catalog, "parent")
    assert names_in(catalog) == ["parent"]


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_child_is_refused_where_another_threads_transaction_does_not_end(
    catalog: SqliteCatalog, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_gate, "FORK_WAIT_S", 0.05)
    inside, may_end = threading.Event(), threading.Event()

    def stay() -> None:
        with getattr(catalog, kind)() as tx:
            assert tx.rows("topics") == []
            inside.set()
            assert may_end.wait(10)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(10)
    pid = fork(lambda: refused(catalog))
    may_end.set()
    thread.join()
    assert exit_code(pid) == 0
    add_topic(catalog, "parent")
    assert names_in(catalog) == ["parent"]


def test_a_child_that_leaves_its_parents_write_commits_nothing(catalog: SqliteCatalog) -> None:
    with catalog.write() as tx:
        tx.run("insert_topic", tx.next_id("topic"), "parent", 0)
        assert exit_code(fork(lambda: tx.__exit__(None, None, None))) == 0
        # What the child left behind is the parent's still, and not committed yet.
        assert names_in(catalog) == []
    assert names_in(catalog) == ["parent"]


def test_a_child_forked_in_a_write_gets_the_usual_switch_interval(catalog: SqliteCatalog) -> None:
    usual_s = sys.getswitchinterval()

    def act() -> None:
        assert sys.getswitchinterval() == usual_s

    with catalog.write():
        assert exit_code(fork(act)) == 0


def test_threads_and_forks_do_not_disturb_each_other(catalog: SqliteCatalog) -> None:
    def write(name: str) -> None:
        for i in range(20):
            add_topic(catalog, f"{name}-{i}")

    threads = [threading.Thread(target=write, args=(f"thread{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    children = [fork(functools.partial(write, f"child{n}")) for n in range(2)]
    # A child that hangs holds up the threads: it goes first.
    codes = [exit_code(pid, timeout_s=5) for pid in children]
    for thread in threads:
        thread.join()
    assert codes == [0, 0]
    assert len(names_in(catalog)) == 5 * 20


def test_a_parent_killed_in_a_write_blocks_nobody_though_its_child_lives(
    tmp_path: Path, catalog: SqliteCatalog
) -> None:
    catalog.close()
    ready, tell = os.pipe()
    stay, release = os.pipe()

    def parent() -> None:
        mine = open_in(tmp_path)
        with mine.write() as tx:
            tx.run("insert_topic", tx.next_id("topic"), "lost", 0)

            def child() -> None:
                os.close(release)
                os.write(tell, b"x")
                os.read(stay, 1)  # Ends when the test lets go of the other end.

            fork(child)
            os.kill(os.getpid(), signal.SIGKILL)

    pid = fork(parent)
    assert exit_code(pid) == -signal.SIGKILL
    assert select.select([ready], [], [], 10)[0]
    survivor = open_in(tmp_path)
    add_topic(survivor, "kept")
    assert names_in(survivor) == ["kept"]
    survivor.close()
    for fd in (ready, tell, stay, release):
        os.close(fd)


def test_migrations_are_applied_once(tmp_path: Path, catalog: SqliteCatalog) -> None:
    add_topic(catalog, "a")
    catalog.close()
    reopened = open_in(tmp_path)
    assert names_in(reopened) == ["a"]
    reopened.close()


def newer(script: str) -> SqlLibrary:
    library = load_library()
    number = len(library.migrations) + 1
    return replace(library, migrations=(*library.migrations, Migration(number, "next", script)))


def test_a_new_migration_is_applied_to_an_old_catalog(
    tmp_path: Path, catalog: SqliteCatalog
) -> None:
    add_topic(catalog, "a")
    catalog.close()
    upgraded = open_in(tmp_path, newer("UPDATE topic SET name = 'migrated';"))
    assert names_in(upgraded) == ["migrated"]
    upgraded.close()


def test_a_migration_that_fails_leaves_the_catalog_as_it_was(
    tmp_path: Path, catalog: SqliteCatalog
) -> None:
    add_topic(catalog, "a")
    catalog.close()
    with pytest.raises(Exception, match="no such table"):
        open_in(tmp_path, newer("UPDATE topic SET name = 'half'; UPDATE nowhere SET x = 1;"))
    reopened = open_in(tmp_path)
    assert names_in(reopened) == ["a"]
    reopened.close()


def contents(directory: Path) -> dict[str, bytes]:
    files = (directory / "catalog.db", directory / "catalog.db-wal")
    return {path.name: path.read_bytes() for path in files}


def test_a_catalog_of_a_newer_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    open_in(tmp_path, newer("CREATE TABLE later (x BIGINT);")).close()
    before = contents(tmp_path)
    with pytest.raises(CatalogTooNew, match="upgrade"):
        open_in(tmp_path)
    assert contents(tmp_path) == before


def test_a_file_that_is_no_database_is_reported_as_damage(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"not a database, but long enough to be one" * 100)
    with pytest.raises(CatalogDamaged):
        open_in(tmp_path)


class FailingDisk:
    """An fdatasync that fails when told to."""

    def __init__(self) -> None:
        self.fails = False

    def __call__(self, fd: int) -> None:
        if self.fails:
            raise OSError(5, "Input/output error")
        os.fdatasync(fd)


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[SqliteCatalog]:
    """A catalog whose last sync has just failed; the disk is well again."""
    (tmp_path / "locks").mkdir()
    disk = FailingDisk()
    catalog = SqliteCatalog(tmp_path, load_library(), pregrow_megabytes=0, fdatasync=disk)
    add_topic(catalog, "a")
    disk.fails = True
    with pytest.raises(CommitOutcomeUnknown):
        add_topic(catalog, "b")
    disk.fails = False
    yield catalog
    catalog.close()


def test_after_a_failed_sync_every_write_is_refused(failing: SqliteCatalog) -> None:
    for name in "cd":
        with pytest.raises(CommitOutcomeUnknown):
            add_topic(failing, name)


def test_after_a_failed_sync_reading_goes_on(failing: SqliteCatalog) -> None:
    assert names_in(failing)[0] == "a"


def test_after_a_failed_sync_reopening_helps(failing: SqliteCatalog, tmp_path: Path) -> None:
    failing.close()
    reopened = open_in(tmp_path)
    add_topic(reopened, "c")
    assert {"a", "c"} <= set(names_in(reopened))
    reopened.close()


def test_a_ledger_can_be_closed_and_reopened_after_a_failed_sync(
    tmp_path: Path, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk()
    with monkeypatch.context() as patch:
        failing = functools.partial(SqliteCatalog, fdatasync=disk)
        patch.setattr("ledgermq.parquet_ledger.ledger.SqliteCatalog", failing)
        ledger = open_ledger()
    session = ledger.sessions.current()
    disk.fails = True
    with pytest.raises(CommitOutcomeUnknown):
        ledger.create_topic("a")
    ledger.close()
    reopened = open_ledger()
    reopened.create_topic("b").append(new([b"x"]))
    assert not reopened.sessions.is_alive(session)


@pytest.mark.parametrize("use", [add_topic, lambda catalog, _: names_in(catalog)])
def test_a_child_of_a_closed_catalog_finds_it_closed(
    catalog: SqliteCatalog, use: Callable[[SqliteCatalog, str], object]
) -> None:
    catalog.close()

    def act() -> None:
        with pytest.raises(Exception, match="closed"):
            use(catalog, "a")

    assert exit_code(fork(act)) == 0
