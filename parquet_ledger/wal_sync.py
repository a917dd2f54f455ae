"""Makes commits durable: one fdatasync of the write-ahead log for all commits that wait for it.

SQLite commits with synchronous=NORMAL, which writes the log without syncing it; the sync happens
here, after the write lock is released, so commits of other processes go on meanwhile. A commit is
confirmed only when a sync that began after it has ended. A checkpoint by anybody syncs the log
before it copies, so a commit that was overtaken by one is durable too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from .errors import CommitOutcomeUnknown

MEGABYTE = 1 << 20


class WalSync:
    """Counts this process' commits and syncs the log for them."""

    def __init__(self, wal: Path, *, fdatasync: Callable[[int], None] = os.fdatasync) -> None:
        self._fd = os.open(wal, os.O_RDWR | os.O_CLOEXEC)
        self._fdatasync = fdatasync
        self._lock = threading.Lock()
        self._synced_more = threading.Condition(self._lock)
        self._waiting = 0
        self._committed = 0
        self._synced = 0
        self._syncing = False
        self._failure: OSError | None = None

    def pregrow(self, size_bytes: int) -> None:
        """Fill the log's file with zeros up to a size; the caller holds the write lock.

        Overwriting allocated blocks syncs twice as fast as extending the file. Zeros are no valid
        frames, so SQLite stops reading where its own frames end.
        """
        size = os.fstat(self._fd).st_size
        while size < size_bytes:
            size += os.pwrite(self._fd, bytes(min(MEGABYTE, size_bytes - size)), size)
        os.fsync(self._fd)

    def committed(self) -> int:
        """Count a commit and return its number; the caller holds the write lock."""
        self.raise_if_failed()
        self._committed += 1
        return self._committed

    def wait(self, commit: int) -> None:
        """Return when the commit of that number is durable."""
        if self._synced >= commit:
            return
        with self._lock:
            while self._syncing and self._synced < commit:
                self._waiting += 1
                self._synced_more.wait()
                self._waiting -= 1
            self.raise_if_failed()
            if self._synced >= commit:
                return
            self._syncing = True
            target = self._committed
        failure: OSError | None = None
        try:
            self._fdatasync(self._fd)
        except OSError as error:
            failure = error
        with self._lock:
            self._syncing = False
            if failure is None:
                self._synced = max(self._synced, target)
            else:
                self._failure = failure
            if self._waiting:
                self._synced_more.notify_all()
        self.raise_if_failed()

    def raise_if_failed(self) -> None:
        """Refuse to go on after a failed sync: the kernel may have dropped the pages for good."""
        if self._failure is not None:
            raise CommitOutcomeUnknown(
                f"syncing the catalog's log failed ({self._failure}): commits of this process may "
                "not survive a power cut. Reopen the directory and read back before sending again"
            ) from self._failure

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
