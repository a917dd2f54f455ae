"""The columns of a message: documented, sized, and named safely in SQL."""

import pyarrow as pa
import pytest

from ledgermq.parquet_ledger.columns import (
    COLUMN_MEANINGS,
    PROPERTIES,
    SEGMENT_SCHEMA,
    message_sizes,
)
from ledgermq.parquet_ledger.duckdb_views import literal, name_parts, quote


def test_every_column_and_nothing_else_has_a_meaning() -> None:
    assert list(COLUMN_MEANINGS) == SEGMENT_SCHEMA.names


def test_every_meaning_is_a_sentence() -> None:
    assert [text for text in COLUMN_MEANINGS.values() if not text.endswith(".")] == []


def test_the_size_of_a_message_is_that_of_payload_keys_and_properties() -> None:
    columns = {
        "payload": pa.array([b"abc", None, b""]),
        "key": pa.array(["ä", None, "k"]),
        "ordering_key": pa.array([b"o", b"oo", None]),
        "properties": pa.array([[("a", "bc")], None, []], PROPERTIES),
    }
    assert message_sizes(columns).tolist() == [9, 2, 1]


def test_a_slice_of_properties_counts_its_own_rows_only() -> None:
    properties = pa.array([[("a", "b")], [("cc", "dd"), ("e", "f")], None, [("g", "")]], PROPERTIES)
    columns = {"payload": pa.nulls(3, pa.binary()), "properties": properties.slice(1)}
    assert message_sizes(columns).tolist() == [6, 0, 1]


@pytest.mark.parametrize(
    ("reported", "parts"),
    [
        ("orders", ("orders",)),
        ("Orders", ("orders",)),
        ('"public/default".orders', ("public/default", "orders")),
        ('"public/default"."My ""Topic"""', ("public/default", 'my "topic"')),
        ('"a.b"', ("a.b",)),
        ('"t/n"."a.b"', ("t/n", "a.b")),
    ],
)
def test_a_table_name_is_taken_apart_as_duckdb_reports_it(
    reported: str, parts: tuple[str, ...]
) -> None:
    assert name_parts(reported) == parts


@pytest.mark.parametrize("name", ["orders", 'a"b', '"; DROP TABLE x; --', "a.b", 'x""y'])
def test_a_quoted_name_is_read_back_as_one_name(name: str) -> None:
    assert name_parts(quote(name)) == (name.lower(),)


def test_a_literal_keeps_its_quotes_inside() -> None:
    assert literal("it's") == "'it''s'"
