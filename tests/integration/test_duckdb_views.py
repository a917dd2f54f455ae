"""Topics as DuckDB views: one snapshot, the right types, safe names."""

import threading
from typing import Any

import duckdb
import pytest
from ledger_fixtures import PLACES, OpenLedger, fill_every_place, new, numbered, table

from ledgermq.parquet_ledger import Ledger, LedgerError, Retention, Span, Topic
from ledgermq.parquet_ledger.columns import SEGMENT_SCHEMA


def one(relation: duckdb.DuckDBPyRelation) -> Any:
    ((value,),) = relation.fetchall()
    return value


def count(ledger: Ledger, view: str) -> int:
    return int(one(ledger.sql(f"SELECT count(*) FROM {view}")))


def payloads_of(ledger: Ledger, view: str) -> list[bytes]:
    query = f"SELECT payload FROM {view} ORDER BY topic_offset"
    return [row[0] for row in ledger.sql(query).fetchall()]


@pytest.mark.parametrize("view", ["orders", "ORDERS", '"public/default"."orders"'])
def test_a_topic_is_a_view_under_its_short_and_its_full_name(orders: Topic, view: str) -> None:
    fill_every_place(orders)
    assert payloads_of(orders.ledger, view) == numbered(PLACES)


def test_a_topic_of_another_namespace_is_found_under_its_full_name(ledger: Ledger) -> None:
    ledger.create_topic("shop/eu/orders").append(new(numbered(3)))
    assert count(ledger, '"shop/eu"."orders"') == 3


def test_a_topic_of_another_namespace_has_no_short_name(ledger: Ledger) -> None:
    ledger.create_topic("shop/eu/orders").append(new(numbered(3)))
    with pytest.raises(duckdb.CatalogException):
        count(ledger, "orders")


@pytest.mark.parametrize(
    "name",
    [
        "my topic",
        "a.b",
        "select",
        'the "best" one',
        "it's",
        "größe",
        "x-partition-1",
        "ledgermq_topics",
        "ledgermq_tail_1",
        "a#1",
    ],
)
def test_a_name_that_needs_quotes_is_a_view_too(ledger: Ledger, name: str) -> None:
    topic = ledger.create_topic(name)
    topic.append(new(numbered(3)))
    topic.seal()
    topic.append(new(numbered(2, 3)))
    quoted = '"' + name.replace('"', '""') + '"'
    assert payloads_of(ledger, quoted) == numbered(5)
    assert one(ledger.duckdb().sql(f"SELECT count(*) FROM {quoted}")) == 5


@pytest.mark.parametrize(
    "name",
    [
        '"; DROP VIEW orders; --',
        "'; DROP VIEW orders; --",
        "orders; SELECT 1",
        '") AS SELECT 1; --',
        "x' UNION SELECT 'y",
    ],
)
def test_a_topic_name_can_not_inject_sql(ledger: Ledger, name: str) -> None:
    ledger.create_topic("orders").append(new(numbered(2)))
    topic = ledger.create_topic(name)
    topic.append(new(numbered(3)))
    topic.seal()
    connection = ledger.duckdb()
    quoted = '"' + name.replace('"', '""') + '"'
    assert one(connection.sql(f"SELECT count(*) FROM {quoted}")) == 3
    assert one(connection.sql(f"SELECT DISTINCT topic FROM {quoted}")) == str(topic.name)
    assert one(connection.sql("SELECT count(*) FROM orders")) == 2


@pytest.mark.parametrize("through_sql", [False, True])
def test_topics_that_differ_in_case_only_are_told_apart(ledger: Ledger, through_sql: bool) -> None:
    upper, lower = ledger.create_topic("Orders"), ledger.create_topic("orders")
    clash = ledger.create_topic(f"orders#{lower.topic_id}")
    for size, topic in enumerate((upper, lower, clash), start=1):
        topic.append(new(numbered(size)))
    run = ledger.sql if through_sql else ledger.duckdb().sql
    views = ["orders", f"orders#{lower.topic_id}", f"{clash.name.local}#{clash.topic_id}"]
    assert [one(run(f'SELECT count(*) FROM "{view}"')) for view in views] == [1, 2, 3]


def test_one_connection_gives_the_same_answer_while_others_seal_and_append(
    orders: Topic, open_ledger: OpenLedger
) -> None:
    fill_every_place(orders)
    connection = orders.ledger.duckdb()
    other = open_ledger().topic("orders")
    answers = []
    for i in range(4):
        answers.append(connection.sql("SELECT count(*), sum(topic_offset) FROM orders").fetchall())
        other.append(new(numbered(3)))
        other.append_table(table(numbered(12)))
        if i % 2:
            other.seal()
    assert answers == [[(PLACES, sum(range(PLACES)))]] * 4


def test_queries_see_each_message_once_while_a_thread_seals(orders: Topic) -> None:
    stopping = threading.Event()

    def append_and_seal() -> None:
        while not stopping.is_set():
            orders.append(new(numbered(3)))
            orders.seal()

    thread = threading.Thread(target=append_and_seal)
    thread.start()
    query = "SELECT count(*), count(DISTINCT topic_offset), max(topic_offset) + 1 FROM orders"
    answers = [orders.ledger.sql(query).fetchall()[0] for _ in range(15)]
    stopping.set()
    thread.join()
    assert [row for row in answers if row[0] and not row[0] == row[1] == row[2]] == []


def test_retired_messages_stay_in_a_snapshot_for_the_grace_period(orders: Topic) -> None:
    fill_every_place(orders)
    orders.seal()
    connection = orders.ledger.duckdb()
    orders.retire(Retention())
    orders.ledger.collect_garbage()
    assert one(connection.sql("SELECT count(*) FROM orders")) == PLACES
    assert count(orders.ledger, "orders") == 0


def test_sql_sees_what_was_appended_since(orders: Topic) -> None:
    answers = []
    for i in range(3):
        orders.append(new(numbered(2, 2 * i)))
        answers.append(count(orders.ledger, "orders"))
    assert answers == [2, 4, 6]


def test_a_view_has_the_topic_and_every_column_with_its_type(orders: Topic) -> None:
    fill_every_place(orders)
    relation = orders.ledger.sql("FROM orders")
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    assert relation.columns == ["topic", *SEGMENT_SCHEMA.names]
    assert types["payload"] == "BLOB"
    assert types["properties"] == "MAP(VARCHAR, VARCHAR)"
    times = [types[name] for name in ("publish_time", "event_time", "deliver_at")]
    assert times == ["TIMESTAMP WITH TIME ZONE"] * 3


def test_a_view_and_a_read_give_the_same_rows(orders: Topic) -> None:
    fill_every_place(orders)
    names = ", ".join(SEGMENT_SCHEMA.names)
    query = f"SELECT {names} FROM orders ORDER BY topic_offset"
    found = orders.ledger.sql(query).to_arrow_table().cast(SEGMENT_SCHEMA)
    read = [row for batch in orders.read_arrow() for row in batch.to_pylist()]
    assert found.to_pylist() == read


def test_a_property_is_found_by_its_name(orders: Topic) -> None:
    fill_every_place(orders)
    query = "SELECT topic_offset FROM orders WHERE properties['color'] = 'red'"
    assert orders.ledger.sql(query).fetchall() == [(20,)]


def test_a_filter_is_done_inside_the_scan_of_the_files(orders: Topic) -> None:
    fill_every_place(orders)
    orders.seal()
    connection = orders.ledger.duckdb()
    plan = connection.execute("EXPLAIN SELECT payload FROM orders WHERE key = 'k3'").fetchall()
    scans = [part for part in plan[0][1].split("READ_PARQUET")[1:]]
    assert scans
    assert all("Filters" in scan and "key='k3'" in scan.replace(" ", "") for scan in scans)


def test_an_empty_topic_is_an_empty_view(orders: Topic) -> None:
    assert orders.ledger.sql("FROM orders").fetchall() == []


def test_a_topic_whose_messages_all_went_is_an_empty_view(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    orders.seal()
    orders.retire(Retention())
    assert count(orders.ledger, "orders") == 0


def test_topics_can_be_joined(ledger: Ledger) -> None:
    for name in ("a", "b"):
        ledger.create_topic(name).append(new(numbered(3), keys=["x", "y", "z"]))
    query = "SELECT count(*) FROM a JOIN b USING (key)"
    assert one(ledger.sql(query)) == 3


def test_a_common_table_may_hide_a_topic(orders: Topic) -> None:
    orders.append(new(numbered(3)))
    assert one(orders.ledger.sql("WITH orders AS (SELECT 7 AS x) SELECT x FROM orders")) == 7


@pytest.mark.parametrize(
    "query",
    [
        "DROP VIEW orders",
        "CREATE TABLE x (y INT)",
        "INSERT INTO orders VALUES (1)",
        "COPY orders TO '/tmp/never-written'",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW orders",
        "ATTACH '/tmp/never-written'",
        "SET threads = 1",
        "",
        "SELEC 1",
    ],
)
def test_only_one_select_can_be_run(orders: Topic, query: str) -> None:
    with pytest.raises(LedgerError):
        orders.ledger.sql(query)


def test_the_topics_are_a_table(orders: Topic) -> None:
    fill_every_place(orders)
    query = """SELECT topic, next_offset, tail_messages, segments, segment_messages
               FROM ledgermq.topics"""
    assert orders.ledger.sql(query).fetchall() == [(str(orders.name), PLACES, 25, 2, 35)]


def test_the_segments_are_a_table(orders: Topic) -> None:
    fill_every_place(orders)
    query = "SELECT path, offset_start, offset_end, messages FROM ledgermq.segments ORDER BY 2"
    known = [(s.path, s.offset_start, s.offset_end, s.messages) for s in orders.segments()]
    assert orders.ledger.sql(query).fetchall() == known


def test_the_subscriptions_are_a_table(orders: Topic) -> None:
    fill_every_place(orders)
    subscription = orders.subscribe("sub", start=0)
    subscription.acknowledge([Span(0, 7), Span(33, 50)])
    backlog = subscription.backlog()
    query = "SELECT * FROM ledgermq.subscriptions"
    assert orders.ledger.sql(query).fetchall() == [
        (str(orders.name), "sub", 6, backlog.messages, backlog.entries, backlog.bytes)
    ]


def test_the_tables_of_an_empty_directory_are_empty(ledger: Ledger) -> None:
    connection = ledger.duckdb()
    for name in ("topics", "segments", "subscriptions"):
        assert connection.execute(f"FROM ledgermq.{name}").fetchall() == []
