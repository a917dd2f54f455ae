"""Makes commits durable: one fdatasync of the write-ahead log for all commits that wait for it,
of all threads and all processes.

SQLite commits with synchronous=NORMAL, which writes the log without syncing it; the sync happens
here, after the write lock is released, so commits of other processes go on meanwhile. A commit is
confirmed only when a sync that began after it has ended. A checkpoint by anybody syncs the log
before it copies, so a commit that was overtaken by one is durable too.

Three counters that all processes map into memory say how many commits began, how many were made and
how many of those are synced. The first two are changed only under the write lock, and the third may
safely be too low, so none needs more than a plain store. A process that dies
between a commit and its count leaves the number made too low, which costs a sync and risks nothing;
the number begun is never too low, so whoever remembers it knows whether others may have committed.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path

from .errors import CommitOutcomeUnknown

MEGABYTE = 1 << 20
_BEGUN, _COMMITTED, _SYNCED = 0, 1, 2
_COUNTERS_BYTES = 24


class WalSync:
    """Counts this process' commits and syncs the log for them."""

    def __init__(
        self, wal: Path, counters: Path, *, fdatasync: Callable[[int], None] = os.fdatasync
    ) -> None:
        self._fd = os.open(wal, os.O_RDWR | os.O_CLOEXEC)
        self._counters_fd = os.open(counters, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Allocated and not just long enough: a store into a hole on a full disk is a SIGBUS.
        os.posix_fallocate(self._counters_fd, 0, _COUNTERS_BYTES)
        self._mapped = mmap.mmap(self._counters_fd, _COUNTERS_BYTES)
        self._counters = memoryview(self._mapped).cast("Q")
        self._fdatasync = fdatasync
        self._lock = threading.Lock()
        self._synced_more = threading.Condition(self._lock)
        self._waiting = 0
        self._syncing = False
        self._failure: OSError | None = None

    def pregrow(self, size_bytes: int) -> None:
        """Fill the log's file with zeros up to a size; the caller holds the write lock.

        Overwriting allocated blocks syncs twice as fast as extending the file. Zeros are no valid
        frames, so SQLite stops reading where its own frames end. It only saves time, so a full disk
        ends it and keeps nobody out.
        """
        size = os.fstat(self._fd).st_size
        try:
            while size < size_bytes:
                size += os.pwrite(self._fd, bytes(min(MEGABYTE, size_bytes - size)), size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        os.fsync(self._fd)

    def commits_begun(self) -> int:
        """Return how many commits all processes began; the caller holds the write lock."""
        return self._counters[_BEGUN]

    def begin_commit(self) -> int:
        """Count a commit that is about to begin and return its number, under the write lock."""
        begun = self._counters[_BEGUN] + 1
        self._counters[_BEGUN] = begun
        return begun

    def committed(self) -> int:
        """Count a commit and return its number; the caller holds the write lock."""
        if self._failure is not None:
            self.raise_if_failed()
        commit = self._counters[_COMMITTED] + 1
        self._counters[_COMMITTED] = commit
        return commit

    def wait(self, commit: int) -> None:
        """Return when the commit of that number is durable."""
        counters = self._counters
        with self._lock:
            while self._syncing and counters[_SYNCED] < commit:
                self._waiting += 1
                self._synced_more.wait()
                self._waiting -= 1
            if self._failure is not None:
                self.raise_if_failed()
            if counters[_SYNCED] >= commit:
                return
            self._syncing = True
        try:
            self._sync_for_all(commit)
        except OSError as error:
            self._failure = error
        finally:
            with self._lock:
                self._syncing = False
                if self._waiting:
                    self._synced_more.notify_all()
        if self._failure is not None:
            self.raise_if_failed()

    def _sync_for_all(self, commit: int) -> None:
        """Sync everything committed so far, unless another process did while this one waited."""
        counters = self._counters
        if counters[_COMMITTED] == commit and counters[_SYNCED] == commit - 1:
            # Nobody else waits for a sync, so there is nobody to share one with. Should two
            # processes store at once, the lower number may stay: it costs one sync more.
            self._fdatasync(self._fd)
            counters[_SYNCED] = commit
            return
        fcntl.flock(self._counters_fd, fcntl.LOCK_EX)
        try:
            if counters[_SYNCED] < commit:
                target = counters[_COMMITTED]
                self._fdatasync(self._fd)
                counters[_SYNCED] = target
        finally:
            fcntl.flock(self._counters_fd, fcntl.LOCK_UN)

    def raise_if_failed(self) -> None:
        """Refuse to go on after a failed sync: the kernel may have dropped the pages for good."""
        if self._failure is not None:
            raise CommitOutcomeUnknown(
                f"syncing the catalog's log failed ({self._failure}): commits of this process may "
                "not survive a power cut. Reopen the directory and read back before sending again"
            ) from self._failure

    def close(self) -> None:
        """Close the files."""
        os.close(self._fd)
        os.close(self._counters_fd)
        self._counters.release()
        self._mapped.close()
