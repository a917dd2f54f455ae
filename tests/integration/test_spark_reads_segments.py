"""Spark reads a topic's segments natively: every column, whoever wrote the file."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages
from ledgermq.parquet_ledger.columns import SEGMENT_SCHEMA

pytestmark = pytest.mark.spark

READ = """
import json, sys
from ledgermq.parquet_ledger.spark import spark_session
spark = spark_session("read segments", master="local[1]")
frame = spark.read.parquet(*sys.argv[1:])
rows = frame.selectExpr(
    "sequence_id", "key", "cast(payload as string) as payload", "properties['kind'] as kind",
    "unix_millis(publish_time) as published", "null_value",
).orderBy("sequence_id").collect()
print(json.dumps({"columns": frame.columns, "rows": [list(row) for row in rows]}))
spark.stop()
"""


def test_sealed_and_bulk_segments_are_plain_parquet_to_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
    settings = Settings(bulk_rows_min=2)
    with Ledger(tmp_path / "ledger", settings, background=False) as ledger:
        topic = ledger.create_topic("orders")
        topic.append(
            NewMessages([b"a", None], 5, "p", 0, keys=["k", None], properties=[{"kind": "x"}, None])
        )
        topic.append_table(
            pa.table({"payload": [b"b", b""], "sequence_id": [2, 3], "publish_time": [6, 7]})
        )
        topic.seal()
        files = [str(ledger.directory / segment.path) for segment in topic.segments()]
    command = [sys.executable, "-c", READ, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["columns"] == SEGMENT_SCHEMA.names
    assert answer["rows"] == [
        [0, "k", "a", "x", 5, False],
        [1, None, None, None, 5, True],
        [2, None, "b", None, 6, False],
        [3, None, "", None, 7, False],
    ]
