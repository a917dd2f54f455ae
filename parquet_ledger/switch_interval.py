"""Keeps a CPU-bound Python thread from holding up a commit, and with it every other process.

Each SQLite call gives up the interpreter lock and must get it back; beside a busy thread that
takes 5 ms a call, with the write lock held. A short switch interval bounds it. The interval is
process-wide, so it is lowered only while a commit is under way and always restored.
"""

from __future__ import annotations

import sys
import threading

COMMIT_INTERVAL_S = 1e-5


class ShortSwitchInterval:
    """A context in which threads switch quickly; contexts of several threads may overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._usual_s = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(COMMIT_INTERVAL_S)
            self._depth += 1

    def abandon(self) -> None:
        """In a forked child: restore the interval, whatever threads were inside."""
        if self._depth:
            sys.setswitchinterval(self._usual_s)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                sys.setswitchinterval(self._usual_s)
