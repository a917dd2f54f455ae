"""DuckDB over topics: one view per topic, its segments and its tail as one snapshot.

One read transaction says which files are live and where the tail begins and ends. DuckDB reads the
files natively, with projection and filters pushed down. The tail's part is a stream that, when it
is scanned, reads that range of offsets wherever it is by then: a seal in between moves it into a
file, and the answer stays the same. DuckDB never opens the catalog's own files.

The topic ``orders`` of public/default is the view ``orders``; any topic is also the view
``"tenant/namespace"."topic"``. The schema ``ledgermq`` has the tables ``topics``, ``segments`` and
``subscriptions``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .backlog import BacklogCounter
from .catalog import Catalog, Row
from .columns import SEGMENT_SCHEMA
from .errors import LedgerError, SubscriptionNotFound
from .head import load_head
from .read import Reader
from .segment import Segment
from .subscriptions import list_subscriptions
from .topic_name import DEFAULT_NAMESPACE, DEFAULT_TENANT, TopicName

if TYPE_CHECKING:
    import duckdb

_DEFAULT = f"{DEFAULT_TENANT}/{DEFAULT_NAMESPACE}"
_NAME_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
_CATALOG_SCHEMA = "ledgermq"
_SUBSCRIPTIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("subscription", pa.string()),
        ("mark_delete_offset", pa.int64()),
        ("backlog_messages", pa.int64()),
        ("backlog_entries", pa.int64()),
        ("backlog_bytes", pa.int64()),
    ]
)
_TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("created", pa.timestamp("ms", tz="UTC")),
        ("next_offset", pa.int64()),
        ("tail_messages", pa.int64()),
        ("tail_bytes", pa.int64()),
        ("segments", pa.int64()),
        ("segment_messages", pa.int64()),
        ("segment_file_bytes", pa.int64()),
    ]
)
_SEGMENTS = pa.schema(
    [
        ("topic", pa.string()),
        ("path", pa.string()),
        ("offset_start", pa.int64()),
        ("offset_end", pa.int64()),
        ("messages", pa.int64()),
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("file_bytes", pa.int64()),
        ("publish_time_min", pa.timestamp("ms", tz="UTC")),
        ("publish_time_max", pa.timestamp("ms", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """One topic as of one moment: which files are live, and which offsets are not in them."""

    topic_id: int
    name: TopicName
    segments: tuple[Segment, ...]
    tail_start: int
    head: int


class Stream:
    """An Arrow stream that is produced anew each time DuckDB scans it."""

    def __init__(self, schema: pa.Schema, produce: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        self._schema = schema
        self._produce = produce

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._produce())
        return reader.__arrow_c_stream__(requested_schema)


class TopicViews:
    """Makes DuckDB connections over one ledger."""

    def __init__(self, directory: Path, catalog: Catalog, reader: Reader) -> None:
        self._directory = directory.absolute()
        self._catalog = catalog
        self._reader = reader
        self._backlogs = BacklogCounter(directory, catalog)

    def connect(self, topics: Sequence[TopicName] | None = None) -> duckdb.DuckDBPyConnection:
        """Return a connection with views of the topics, or of all, as of now."""
        import duckdb

        connection = duckdb.connect(":memory:")
        try:
            connection.execute("SET TimeZone = 'UTC'")
            # Segments never change, so their footers are worth keeping.
            connection.execute("SET parquet_metadata_cache = true")
            taken: set[tuple[str, ...]] = set()
            for snapshot in self._snapshots(topics):
                self._create_view(connection, snapshot, taken)
            self._create_catalog_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Return the answer to one SELECT over the topics it names, as of now."""
        import duckdb

        with duckdb.connect(":memory:") as parser:
            try:
                statements = parser.extract_statements(query)
            except duckdb.Error as error:
                raise LedgerError(f"the query can't be parsed: {error}") from error
            try:
                names = parser.get_table_names(query, qualified=True)
            except duckdb.Error:
                names = None  # JOIN … USING needs the tables to be there: make all views.
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise LedgerError("only one SELECT at a time can be run: topics are read-only here")
        topics = None if names is None else self._topics_named(names)
        relation = self.connect(topics).sql(query)
        assert relation is not None, "a SELECT gives a relation"
        return relation

    def _topics_named(self, names: Iterable[str]) -> list[TopicName]:
        """Return the topics that a query may mean by the names of its tables."""
        wanted = {name_parts(name) for name in names}
        # A view's name may end in its topic's number where another topic has the name without.
        for parts in list(wanted):
            pieces = parts[-1].split("#")
            wanted |= {(*parts[:-1], "#".join(pieces[:end])) for end in range(1, len(pieces))}
        with self._catalog.read() as tx:
            known = [TopicName.parse(row[1]) for row in tx.rows("topics")]
        return [name for name in known if wanted & set(view_names(name))]

    def _snapshots(self, topics: Sequence[TopicName] | None) -> list[TopicSnapshot]:
        """Return all topics as of one and the same moment."""
        wanted = None if topics is None else {str(name) for name in topics}
        snapshots = []
        with self._catalog.read() as tx:
            for topic_id, name, _, tail_offset in tx.rows("topics"):
                if wanted is None or name in wanted:
                    rows = tx.rows("live_segments", topic_id)
                    head = load_head(tx, topic_id, name).offset
                    segments = tuple(Segment.from_row(row) for row in rows)
                    parsed = TopicName.parse(name)
                    snapshots.append(TopicSnapshot(topic_id, parsed, segments, tail_offset, head))
        return snapshots

    def _create_view(
        self,
        connection: duckdb.DuckDBPyConnection,
        snapshot: TopicSnapshot,
        taken: set[tuple[str, ...]],
    ) -> None:
        tail = f"tail/{snapshot.topic_id}"  # A slash: no topic's own view has such a name.
        in_tail = tail_ranges(snapshot)
        if in_tail or not snapshot.segments:
            connection.register(tail, self._tail_stream(snapshot, in_tail))
        select = view_select(snapshot, self._directory, quote(tail) if in_tail else None)
        schema, local = quote(snapshot.name.namespace_name), snapshot.name.local
        # DuckDB does not tell Orders from orders: the later one gets its number in the name.
        if (snapshot.name.namespace_name.lower(), local.lower()) in taken:
            local = f"{local}#{snapshot.topic_id}"
        taken.add((snapshot.name.namespace_name.lower(), local.lower()))
        view = quote(local)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        connection.execute(f"CREATE VIEW {schema}.{view} AS {select}")
        if snapshot.name.namespace_name == _DEFAULT:
            connection.execute(f"CREATE VIEW {view} AS FROM {schema}.{view}")

    def _tail_stream(self, snapshot: TopicSnapshot, ranges: list[tuple[int, int]]) -> Stream:
        def produce() -> Iterable[pa.RecordBatch]:
            for start, end in ranges:
                yield from self._reader.batches(snapshot.topic_id, str(snapshot.name), start, end)

        return Stream(SEGMENT_SCHEMA, produce)

    def _create_catalog_tables(self, connection: duckdb.DuckDBPyConnection) -> None:
        tables: dict[str, tuple[pa.Schema, Callable[[], list[Row]]]] = {
            "topics": (_TOPICS, self._topic_rows),
            "segments": (_SEGMENTS, self._segment_rows),
            "subscriptions": (_SUBSCRIPTIONS, self._subscription_rows),
        }
        connection.execute(f"CREATE SCHEMA {_CATALOG_SCHEMA}")
        for name, (schema, rows) in tables.items():
            registered = f"catalog/{name}"
            connection.register(registered, Stream(schema, _producer(schema, rows)))
            connection.execute(f"CREATE VIEW {_CATALOG_SCHEMA}.{name} AS FROM {quote(registered)}")

    def _topic_rows(self) -> list[Row]:
        rows: list[Row] = []
        with self._catalog.read() as tx:
            for topic_id, name, created_ms, tail_offset in tx.rows("topics"):
                head = load_head(tx, topic_id, name).offset
                tail = tx.row("tail_totals", topic_id, tail_offset)
                segments = [Segment.from_row(row) for row in tx.rows("live_segments", topic_id)]
                assert tail is not None
                messages = sum(segment.messages for segment in segments)
                size = sum(segment.file_bytes for segment in segments)
                rows.append(
                    (name, created_ms, head, tail[1], tail[3], len(segments), messages, size)
                )
        return rows

    def _segment_rows(self) -> list[Row]:
        with self._catalog.read() as tx:
            return [
                (
                    *(name, s.path, s.offset_start, s.offset_end, s.messages, s.entries),
                    *(s.bytes, s.file_bytes, s.publish_ms_min, s.publish_ms_max),
                )
                for topic_id, name, _, _ in tx.rows("topics")
                for s in map(Segment.from_row, tx.rows("live_segments", topic_id))
            ]

    def _subscription_rows(self) -> list[Row]:
        with self._catalog.read() as tx:
            found = [
                (name, subscription)
                for topic_id, name, _, _ in tx.rows("topics")
                for subscription in list_subscriptions(tx, topic_id)
            ]
        rows: list[Row] = []
        for topic, subscription in found:
            try:
                backlog = self._backlogs.count(topic, subscription)
            except SubscriptionNotFound:
                continue  # It was deleted since it was listed.
            mark_delete = subscription.ack_floor - 1
            counts = (backlog.messages, backlog.entries, backlog.bytes)
            rows.append((topic, subscription.name, mark_delete, *counts))
        return rows


def tail_ranges(snapshot: TopicSnapshot) -> list[tuple[int, int]]:
    """Return the offsets from the tail's start on that no segment of the snapshot holds."""
    ranges = []
    at = snapshot.tail_start
    for segment in snapshot.segments:
        if segment.offset_end <= at:
            continue
        if segment.offset_start > at:
            ranges.append((at, segment.offset_start))
        at = segment.offset_end
    if at < snapshot.head:
        ranges.append((at, snapshot.head))
    return ranges


def view_select(snapshot: TopicSnapshot, directory: Path, tail: str | None) -> str:
    """Return the SELECT of a topic's view.

    The constant comes first: over a union DuckDB counts rows by the first column. Files that count
    from 0 find their shifts by their number in the list, and only where somebody asks for them.
    """
    topic = f"{literal(str(snapshot.name))} AS topic"
    plain = [segment for segment in snapshot.segments if not segment.shifted]
    shifted = [segment for segment in snapshot.segments if segment.shifted]
    branches = []
    if plain:
        columns = ", ".join(SEGMENT_SCHEMA.names)
        branches.append(f"SELECT {topic}, {columns} FROM {_files(plain, directory)}")
    if shifted:
        shifts = {
            "ledger_id": [segment.ledger_shift for segment in shifted],
            "topic_offset": [segment.offset_shift for segment in shifted],
        }
        columns = ", ".join(
            f"{name} + CAST({shifts[name]} AS BIGINT[])[file_index::BIGINT + 1] AS {name}"
            if name in shifts
            else name
            for name in SEGMENT_SCHEMA.names
        )
        branches.append(f"SELECT {topic}, {columns} FROM {_files(shifted, directory)}")
    if tail is not None:
        branches.append(f"SELECT {topic}, {', '.join(SEGMENT_SCHEMA.names)} FROM {tail}")
    if not branches:
        empty = quote(f"tail/{snapshot.topic_id}")
        branches.append(f"SELECT {topic}, * FROM {empty}")
    return " UNION ALL ".join(branches)


def view_names(name: TopicName) -> list[tuple[str, ...]]:
    """Return the names under which a query may mean a topic, in lower case as DuckDB compares."""
    namespace, local = name.namespace_name.lower(), name.local.lower()
    return [(namespace, local), (local,)] if namespace == _DEFAULT else [(namespace, local)]


def name_parts(reported: str) -> tuple[str, ...]:
    """Return the parts of a table's name as DuckDB reports it, unquoted and in lower case."""
    return tuple(
        (quoted.replace('""', '"') if quoted or not bare else bare).lower()
        for quoted, bare in _NAME_PART.findall(reported)
    )


def quote(identifier: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _files(segments: Sequence[Segment], directory: Path) -> str:
    paths = ", ".join(literal(str(directory / segment.path)) for segment in segments)
    return f"read_parquet([{paths}])"


def _producer(
    schema: pa.Schema, rows: Callable[[], list[Row]]
) -> Callable[[], Iterable[pa.RecordBatch]]:
    def produce() -> Iterable[pa.RecordBatch]:
        columns = list(zip(*rows(), strict=True)) or [()] * len(schema)
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)

    return produce
