"""Run all benchmarks, or those whose names are given: python -m tests.benchmarks append sql."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from .append_rates import bulk_appends, frame_appends, single_appends
from .fairness import four_processes
from .import_time import import_time
from .measure import Result, scratch, table
from .read_rates import read_memory, sealed_read
from .sql_rates import sql_questions

_BENCHMARKS: dict[str, Callable[[Path], list[Result]]] = {
    "append": single_appends,
    "frames": lambda path: [frame_appends(path)],
    "bulk": lambda path: [bulk_appends(path)],
    "read": lambda path: [sealed_read(path)],
    "memory": lambda path: [read_memory(path)],
    "processes": four_processes,
    "sql": sql_questions,
    "import": lambda _: [import_time()],
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in _BENCHMARKS]
    if unknown:
        print(f"unknown benchmarks {unknown}; there are {list(_BENCHMARKS)}", file=sys.stderr)
        return 2
    results: list[Result] = []
    for name in names or _BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        with scratch() as path:
            results += _BENCHMARKS[name](path)
    print(table(results))
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
