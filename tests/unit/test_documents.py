"""The documents tell the truth: examples run, and tables are complete."""

import re
import subprocess
import sys
from pathlib import Path

from ledgermq.parquet_ledger.columns import COLUMN_MEANINGS, SEGMENT_SCHEMA

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_first_example_of_the_readme_runs_as_it_stands(tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 us b'{\"amount\": 35}'" in done.stdout
    assert "Backlog(messages=2, entries=2, bytes=31)" in done.stdout


def test_the_readme_lists_every_column_of_a_message_with_its_type_and_meaning() -> None:
    rows = [
        f"| `{field.name}` | {field.type} | {COLUMN_MEANINGS[field.name]} |"
        for field in SEGMENT_SCHEMA
    ]
    listed = [line for line in README.splitlines() if line.startswith("| `")]
    assert listed == rows


def test_importing_ledgermq_is_quick_and_leaves_airflow_spark_and_pandas_alone() -> None:
    program = (
        "import sys, time; began = time.process_time(); import ledgermq; ledgermq.Ledger;"
        "took = time.process_time() - began;"
        "print([m for m in ('airflow', 'pyspark', 'pandas', 'duckdb') if m in sys.modules], took)"
    )
    run = [sys.executable, "-c", program]
    answers = [subprocess.run(run, capture_output=True, text=True, check=True) for _ in range(3)]
    heavy, seconds = min((a.stdout.rsplit(" ", 1) for a in answers), key=lambda a: float(a[1]))
    assert heavy == "[]"
    assert float(seconds) < 0.4
