"""What every catalog keeps, whatever database is behind it; see ``catalog.Catalog``.

An implementation is one more line in ``IMPLEMENTATIONS``: a function that opens the catalog of a
directory, and opens the same one when it is called again.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgermq.parquet_ledger import CatalogError, LedgerClosed
from ledgermq.parquet_ledger.catalog import Catalog, Transaction, WriteTransaction
from ledgermq.parquet_ledger.named_sql import load_library
from ledgermq.parquet_ledger.sqlite_catalog import SqliteCatalog


def open_sqlite(directory: Path) -> Catalog:
    (directory / "locks").mkdir(exist_ok=True)
    return SqliteCatalog(directory, load_library(), pregrow_megabytes=0)


IMPLEMENTATIONS: dict[str, Callable[[Path], Catalog]] = {
    "sqlite": open_sqlite,
}
OpenCatalog = Callable[[], Catalog]


@pytest.fixture(params=IMPLEMENTATIONS)
def open_catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenCatalog]:
    opened: list[Catalog] = []

    def open_another() -> Catalog:
        opened.append(IMPLEMENTATIONS[request.param](tmp_path))
        return opened[-1]

    yield open_another
    for catalog in opened:
        catalog.close()


@pytest.fixture
def catalog(open_catalog: OpenCatalog) -> Catalog:
    return open_catalog()


@pytest.fixture
def other(open_catalog: OpenCatalog, catalog: Catalog) -> Catalog:
    """Another object over the same catalog, as another process would have it."""
    return open_catalog()


def add(tx: WriteTransaction, name: str) -> int:
    topic_id = tx.next_id("topic")
    tx.run("insert_topic", topic_id, name, 0)
    return topic_id


def add_topic(catalog: Catalog, name: str, *, durable: bool = True) -> int:
    with catalog.write(durable=durable) as tx:
        return add(tx, name)


def add_and_fail(catalog: Catalog, *names: str) -> None:
    """Add topics and then raise KeyError inside the block."""
    with catalog.write() as tx:
        for name in names:
            add(tx, name)
        raise KeyError


def names(tx: Transaction) -> list[str]:
    return [row[1] for row in tx.rows("topics")]


def names_in(catalog: Catalog) -> list[str]:
    with catalog.read() as tx:
        return names(tx)


def test_a_new_catalog_is_empty(catalog: Catalog) -> None:
    assert names_in(catalog) == []


def test_what_is_committed_is_seen_by_others(catalog: Catalog, other: Catalog) -> None:
    add_topic(catalog, "a")
    assert names_in(other) == ["a"]


def test_what_is_committed_is_there_after_reopening(
    catalog: Catalog, open_catalog: OpenCatalog
) -> None:
    add_topic(catalog, "a")
    catalog.close()
    assert names_in(open_catalog()) == ["a"]


def test_an_error_in_the_block_rolls_everything_back(catalog: Catalog) -> None:
    with pytest.raises(KeyError):
        add_and_fail(catalog, "a")
    assert names_in(catalog) == []


def test_a_statement_that_fails_rolls_everything_back(catalog: Catalog) -> None:
    with pytest.raises(CatalogError):
        add_and_fail(catalog, "a", "a")
    assert names_in(catalog) == []


def test_the_catalog_goes_on_after_a_rollback(catalog: Catalog) -> None:
    with pytest.raises(KeyError):
        add_and_fail(catalog, "a")
    add_topic(catalog, "b")
    assert names_in(catalog) == ["b"]


def test_a_write_transaction_sees_its_own_changes(catalog: Catalog) -> None:
    with catalog.write() as tx:
        add(tx, "a")
        assert names(tx) == ["a"]


def test_nobody_sees_changes_before_the_commit(catalog: Catalog, other: Catalog) -> None:
    with catalog.write() as tx:
        add(tx, "a")
        assert (names_in(catalog), names_in(other)) == ([], [])


def test_a_reader_sees_one_state_while_others_commit(catalog: Catalog, other: Catalog) -> None:
    add_topic(catalog, "a")
    with catalog.read() as tx:
        before = names(tx)
        add_topic(other, "b")
        add_topic(catalog, "c")
        assert (before, names(tx)) == (["a"], ["a"])
    assert names_in(catalog) == ["a", "b", "c"]


def test_readers_of_one_object_each_keep_their_own_state(catalog: Catalog) -> None:
    with catalog.read() as early:
        assert names(early) == []
        add_topic(catalog, "a")
        with catalog.read() as late:
            assert (names(early), names(late)) == ([], ["a"])


def test_the_only_row_is_returned_or_none(catalog: Catalog) -> None:
    add_topic(catalog, "a")
    with catalog.read() as tx:
        assert tx.row("topic_by_name", "a") == (1, "a", 0, 0)
        assert tx.row("topic_by_name", "b") is None


def test_a_statement_says_how_many_rows_it_changed(catalog: Catalog) -> None:
    topic_id = add_topic(catalog, "a")
    with catalog.write() as tx:
        assert tx.run("set_tail_offset", 5, topic_id) == 1
        assert tx.run("set_tail_offset", 5, topic_id + 1) == 0


def test_text_and_bytes_of_every_kind_come_back_as_they_were(catalog: Catalog) -> None:
    blob = bytes(range(256)) * 5_000
    with catalog.write() as tx:
        add(tx, "größe'\";--\N{GRINNING FACE}")
        tx.run("put_acked_chunk", 1, 2, (1 << 62), blob)
    with catalog.read() as tx:
        assert names(tx) == ["größe'\";--\N{GRINNING FACE}"]
        assert tx.rows("acked_chunks", 1, 0, 9) == [(2, blob)]


def test_committed_ids_are_never_given_out_twice(catalog: Catalog, other: Catalog) -> None:
    ids = [add_topic(which, f"t{i}") for i, which in enumerate([catalog, other] * 5)]
    assert len(set(ids)) == 10


def test_ids_are_not_given_out_twice_around_a_rollback(catalog: Catalog, other: Catalog) -> None:
    first = add_topic(catalog, "a")
    with pytest.raises(KeyError):
        add_and_fail(catalog, "b")
    assert add_topic(other, "c") > first


def test_ids_go_on_after_reopening(catalog: Catalog, open_catalog: OpenCatalog) -> None:
    first = add_topic(catalog, "a")
    catalog.close()
    assert add_topic(open_catalog(), "b") > first


def test_ids_increase_within_a_transaction(catalog: Catalog) -> None:
    with catalog.write() as tx:
        first, second = tx.next_id("ledger"), tx.next_id("ledger")
    assert second > first


def test_changes_differ_after_another_object_committed(catalog: Catalog, other: Catalog) -> None:
    before = catalog.changes()
    add_topic(other, "a")
    assert catalog.changes() != before


def test_changes_stay_while_nobody_commits(catalog: Catalog, other: Catalog) -> None:
    before = catalog.changes()
    names_in(other)
    with pytest.raises(KeyError):
        add_and_fail(other, "a")
    assert catalog.changes() == before


def commits_of_others(catalog: Catalog) -> int:
    with catalog.write() as tx:
        return tx.commits_of_others


def test_own_commits_are_told_from_those_of_others(catalog: Catalog) -> None:
    before = commits_of_others(catalog)
    add_topic(catalog, "a")
    assert commits_of_others(catalog) == before


def test_commits_of_others_are_noticed_in_the_next_write(catalog: Catalog, other: Catalog) -> None:
    before = commits_of_others(catalog)
    add_topic(other, "a")
    assert commits_of_others(catalog) != before


def test_a_commit_that_was_not_durable_can_be_synced(catalog: Catalog, other: Catalog) -> None:
    with catalog.write(durable=False) as tx:
        add(tx, "a")
    catalog.sync(tx.commit)
    assert names_in(other) == ["a"]


def test_commit_numbers_increase(catalog: Catalog) -> None:
    numbers = []
    for name in "abc":
        with catalog.write(durable=False) as tx:
            add(tx, name)
        numbers.append(tx.commit)
    assert numbers == sorted(set(numbers))


def test_a_sound_catalog_has_no_damage(catalog: Catalog) -> None:
    add_topic(catalog, "a")
    assert catalog.damage() == []


def test_closing_twice_is_allowed(catalog: Catalog) -> None:
    catalog.close()
    catalog.close()


@pytest.mark.parametrize(
    "use",
    [
        names_in,
        lambda catalog: add_topic(catalog, "a"),
        lambda catalog: catalog.changes(),
        lambda catalog: catalog.sync(1),
        lambda catalog: catalog.damage(),
    ],
    ids=["read", "write", "changes", "sync", "damage"],
)
def test_a_closed_catalog_says_that_it_is_closed(
    catalog: Catalog, use: Callable[[Catalog], object]
) -> None:
    catalog.close()
    with pytest.raises(LedgerClosed):
        use(catalog)


def test_closing_one_object_leaves_the_other_open(catalog: Catalog, other: Catalog) -> None:
    catalog.close()
    add_topic(other, "a")
    assert names_in(other) == ["a"]


def test_no_update_of_many_threads_is_lost(catalog: Catalog, other: Catalog) -> None:
    topic_id = add_topic(catalog, "a")

    def count(which: Catalog) -> None:
        for _ in range(100):
            with which.write(durable=False) as tx:
                found = tx.row("tail_offset", topic_id)
                assert found is not None
                tx.run("set_tail_offset", found[0] + 1, topic_id)

    threads = [threading.Thread(target=count, args=(which,)) for which in [catalog, other] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with catalog.read() as tx:
        assert tx.row("tail_offset", topic_id) == (800,)


def test_threads_read_whole_transactions_while_others_write(catalog: Catalog) -> None:
    first, second = add_topic(catalog, "a"), add_topic(catalog, "b")
    stopping = threading.Event()
    torn: list[tuple[object, object]] = []

    def read() -> None:
        while not stopping.is_set():
            with catalog.read() as tx:
                pair = tx.row("tail_offset", first), tx.row("tail_offset", second)
            if pair[0] != pair[1]:
                torn.append(pair)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for value in range(200):
        with catalog.write(durable=False) as tx:
            tx.run("set_tail_offset", value, first)
            tx.run("set_tail_offset", value, second)
    stopping.set()
    for reader in readers:
        reader.join()
    assert torn == []


def test_a_last_statement_that_is_the_only_one_is_committed(
    catalog: Catalog, other: Catalog
) -> None:
    with catalog.write() as tx:
        tx.run_last("insert_topic", 7, "alone", 0)
    with other.read() as reader:
        assert names(reader) == ["alone"]


def test_a_last_statement_commits_together_with_those_before_it(catalog: Catalog) -> None:
    with catalog.write() as tx:
        add(tx, "first")
        tx.run_last("insert_topic", 7, "last", 0)
        with catalog.read() as reader:
            assert names(reader) == []
    with catalog.read() as reader:
        assert names(reader) == ["first", "last"]


def test_a_last_statement_that_fails_changes_nothing(catalog: Catalog) -> None:
    add_topic(catalog, "taken")
    with pytest.raises(CatalogError), catalog.write() as tx:
        tx.run_last("insert_topic", 7, "taken", 0)
    with catalog.read() as reader:
        assert names(reader) == ["taken"]


def test_a_commit_by_a_last_statement_is_noticed_by_others(
    catalog: Catalog, other: Catalog
) -> None:
    with other.write() as tx:
        before = tx.commits_of_others
    with catalog.write() as tx:
        tx.run_last("insert_topic", 7, "alone", 0)
    with other.write() as tx:
        assert tx.commits_of_others != before


def test_what_was_concluded_before_a_rollback_counts_as_old(catalog: Catalog) -> None:
    with catalog.write() as tx:
        before = tx.commits_of_others
    with pytest.raises(KeyError):
        add_and_fail(catalog, "gone")
    with catalog.write() as tx:
        assert tx.commits_of_others != before
