"""How long ``import ledgermq`` takes over a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from .measure import Result


def import_time() -> Result:
    codes = ("pass", "import ledgermq; ledgermq.Ledger")
    times: dict[str, list[float]] = {code: [] for code in codes}
    for _ in range(5):
        for code, taken in times.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            taken.append(time.perf_counter() - began)
    bare, ours = (statistics.median(taken) for taken in times.values())
    what = "import ledgermq and its Ledger (ratio: seconds)"
    return Result(
        what,
        f"{ours * 1e3:.0f} ms",
        f"{bare * 1e3:.0f} ms",
        ours - bare,
        "<= 0.4",
        ours - bare <= 0.4,
    )
