"""How a figure comes about: rounds of ours and of the floor in turn, and the median of ratios.

Machines are noisy, so an absolute rate says little; two things measured within the same second say
much. Every round alternates which side goes first.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """A line of the table."""

    what: str
    ours: str
    floor: str
    ratio: float
    goal: str
    met: bool


def rate(work: Callable[[], int]) -> float:
    """Return units per second of one call of ``work``, which returns how many it did."""
    began = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - began)


def side_by_side(
    ours: Callable[[], int], floor: Callable[[], int], *, rounds: int = 7
) -> tuple[float, float, float]:
    """Return the median rates of both sides and the median of the rounds' ratios."""
    pairs = []
    for number in range(rounds + 1):
        if number % 2:
            a, b = rate(ours), rate(floor)
        else:
            b, a = rate(floor), rate(ours)
        if number:  # The first round warms both sides up.
            pairs.append((a, b))
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def compare(
    what: str,
    ours: Callable[[], int],
    floor: Callable[[], int],
    *,
    at_least: float | None = None,
    rounds: int = 7,
    unit: str = "/s",
) -> Result:
    """Measure both sides and judge the ratio."""
    a, b, ratio = side_by_side(ours, floor, rounds=rounds)
    goal = "" if at_least is None else f">= {at_least}"
    met = at_least is None or ratio >= at_least
    return Result(what, f"{a:,.0f}{unit}", f"{b:,.0f}{unit}", ratio, goal, met)


@contextmanager
def scratch() -> Iterator[Path]:
    """Lend a directory on a real disk: /tmp may be memory, where a sync costs nothing."""
    base = os.environ.get("LEDGERMQ_BENCH_DIR", "/var/tmp")
    path = Path(tempfile.mkdtemp(prefix="ledgermq-bench-", dir=base))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def table(results: list[Result]) -> str:
    """Return the results as a table of plain text."""
    rows = [("what", "ledgermq", "floor", "ratio", "goal", "")]
    for r in results:
        verdict = ("ok" if r.met else "MISSED") if r.goal else ""
        rows.append((r.what, r.ours, r.floor, f"{r.ratio:.2f}", r.goal, verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(line.rstrip() for line in lines)
