"""SQL over ten million messages through a topic's view, against DuckDB on the bare files."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import pyarrow as pa

from ledgermq.parquet_ledger import Ledger, NewMessages, Topic

from .measure import Result
from .workload import message_table

_QUESTIONS = {
    "count(*)": "SELECT count(*) FROM {t}",
    "a time range": (
        "SELECT count(*), sum(sequence_id) FROM {t} WHERE publish_time >= "
        "to_timestamp(1760000500) AND publish_time < to_timestamp(1760000501)"
    ),
    "one key": "SELECT count(*), max(sequence_id) FROM {t} WHERE key = 'key-0004242'",
    "a JSON field": (
        "SELECT decode(payload)->>'$.type' AS kind, sum((decode(payload)->>'$.amount')::BIGINT) "
        "FROM {t} GROUP BY kind"
    ),
}


def sql_questions(path: Path, *, messages: int = 10_000_000) -> list[Result]:
    """Ask four questions; half of the topic was sealed from the tail, half appended in bulk."""
    million = 1_000_000
    with Ledger(path / "sql", background=False) as ledger:
        topic = ledger.create_topic("big")
        for part in range(max(1, messages // million)):
            table = message_table(min(messages, million), first=part * million)
            if part % 2:
                _append_in_batches(topic, table)
            else:
                topic.append_table(table)
        topic.seal()
        files = [str(ledger.directory / segment.path) for segment in topic.segments()]
        bare = duckdb.connect()
        bare.execute("SET TimeZone = 'UTC'")
        with ledger.duckdb() as connection:
            results = [
                _ask(f"SQL {name}, {messages:,} messages (time)", connection, bare, files, query)
                for name, query in _QUESTIONS.items()
            ]
        bare.close()
    return results


def _append_in_batches(topic: Topic, table: pa.Table) -> None:
    """Append as a batching producer does, so that the messages are sealed from the tail."""
    for batch in table.to_batches(max_chunksize=1_000):
        topic.append(
            NewMessages(
                payloads=batch.column("payload"),
                publish_time_ms=batch.column("publish_time").cast(pa.int64()).to_pylist(),
                producer_name="bench",
                sequence_ids=batch.column("sequence_id").to_pylist(),
                keys=batch.column("key"),
                batch_sizes=[batch.num_rows],
            )
        )


def _ask(
    what: str,
    connection: duckdb.DuckDBPyConnection,
    bare: duckdb.DuckDBPyConnection,
    files: list[str],
    query: str,
) -> Result:
    times: list[tuple[float, float]] = []
    for _ in range(8):
        ours, answer = _timed(connection, query.format(t="big"))
        floor, expected = _timed(bare, query.format(t=f"read_parquet({files})"))
        assert sorted(answer) == sorted(expected), what
        times.append((ours, floor))
    ours, floor = (min(side) for side in zip(*times[1:], strict=True))
    ratio = ours / floor
    return Result(
        what, f"{ours * 1e3:.1f} ms", f"{floor * 1e3:.1f} ms", ratio, "<= 1.3", ratio <= 1.3
    )


def _timed(
    connection: duckdb.DuckDBPyConnection, query: str
) -> tuple[float, list[tuple[object, ...]]]:
    began = time.perf_counter()
    rows = connection.sql(query).fetchall()
    return time.perf_counter() - began, rows
