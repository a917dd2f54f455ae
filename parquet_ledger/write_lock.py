"""The queue in front of the catalog's write lock: every process gets its turn.

SQLite's own busy handler lets one process in a tight loop take nearly everything. Here a writer
first queues on NEXT (a queue of one, kept by the kernel) and then waits for WRITE, so whoever
waits is next. A process keeps the right to barge in for a short slice after its turn began: that
saves a context switch a commit and bounds nobody's wait. The kernel releases both locks at the
holder's death.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
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
        # The holder's process id, in memory that all processes map: a write to the file would put
        # work into the file system's journal with every turn.
        os.posix_fallocate(self._write_fd, 0, 8)
        self._mapped = mmap.mmap(self._write_fd, 8)
        self._holder = memoryview(self._mapped).cast("Q")
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
        asked, last_holder = time.perf_counter(), self._holder[0]
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
                last_holder,
                extra={"action": "write_lock_wait"},
            )
        self._holder[0] = os.getpid()

    def release(self) -> None:
        """Let the next writer in."""
        fcntl.flock(self._write_fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files. In a forked child this leaves the parent's lock alone."""
        os.close(self._next_fd)
        os.close(self._write_fd)
        self._holder.release()
        self._mapped.close()


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
