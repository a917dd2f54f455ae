"""The queue in front of the catalog's write lock: every process gets its turn.

SQLite's own busy handler lets one process in a tight loop take nearly everything. Here a writer
first queues on NEXT (a queue of one, kept by the kernel) and then waits for WRITE, so whoever
waits is next. A process keeps the right to barge in for a short slice after its turn began: that
saves a context switch a commit and bounds nobody's wait. The kernel releases both locks at the
holder's death.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from pathlib import Path

logger = logging.getLogger(__name__)

SLICE_S = 0.002


class FairWriteLock:
    """One process' end of the lock; an in-process mutex must stand in front of it."""

    def __init__(self, directory: Path, *, warn_after_ms: int) -> None:
        self._next_fd = _open_lock(directory / "next")
        self._write_fd = _open_lock(directory / "write")
        self._warn_after_s = warn_after_ms / 1000
        self._turn_began = -SLICE_S

    def acquire(self) -> None:
        """Return when this process alone holds the lock."""
        if time.perf_counter() - self._turn_began < SLICE_S:
            try:
                fcntl.flock(self._write_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                pass
        asked = time.perf_counter()
        fcntl.flock(self._next_fd, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._write_fd, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._next_fd, fcntl.LOCK_UN)
        self._turn_began = time.perf_counter()
        # Who held it is worth a word: a stopped process holds up all writers until it goes on.
        if self._turn_began - asked > self._warn_after_s:
            logger.warning(
                "waited %.1f s for the write lock, last held by process %s",
                self._turn_began - asked,
                self._last_holder(),
                extra={"action": "write_lock_wait"},
            )
        # A full disk may refuse the note; the lock is held all the same.
        with contextlib.suppress(OSError):
            os.pwrite(self._write_fd, b"%-20d" % os.getpid(), 0)

    def release(self) -> None:
        """Let the next writer in."""
        fcntl.flock(self._write_fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files. In a forked child this leaves the parent's lock alone."""
        os.close(self._next_fd)
        os.close(self._write_fd)

    def _last_holder(self) -> str:
        return os.pread(self._write_fd, 20, 0).decode("ascii", "replace").strip() or "unknown"


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
