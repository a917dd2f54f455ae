"""Sessions: which processes have the directory open, with no heartbeats and no time-outs.

A process is alive while it holds a lock on its byte of ``locks/sessions``. The kernel releases it
at the process' death, and a paused process keeps it. Process ids prove nothing: containers that
share a volume have their own.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

from .catalog import Catalog
from .errors import CatalogError

# struct flock: type, whence, start, length, pid (always 0 for locks of an open file).
_FLOCK = struct.Struct("hhqqi4x")


class Sessions:
    """This process' session, begun when first asked for, and a view of the others'."""

    def __init__(self, directory: Path, catalog: Catalog) -> None:
        self._path = directory / "locks" / "sessions"
        self._catalog = catalog
        self._mutex = threading.Lock()
        self._fd = -1
        self._id = 0
        _open_sessions.add(self)

    def current(self) -> int:
        """Return this process' session id, beginning the session if needed."""
        with self._mutex:
            if self._id == 0:
                self._begin()
            return self._id

    def is_alive(self, session_id: int) -> bool:
        """Return whether the process of a session still lives."""
        if session_id == self._id:
            return True
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, session_id, 1, 0)
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
            return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
        finally:
            os.close(fd)

    def forget_dead(self) -> list[int]:
        """Remove the rows of sessions whose processes are gone, and return their ids."""
        with self._catalog.read() as tx:
            known = [int(row[0]) for row in tx.rows("sessions")]
        dead = [session_id for session_id in known if not self.is_alive(session_id)]
        if dead:
            with self._catalog.write() as tx:
                for session_id in dead:
                    tx.run("delete_session", session_id)
        return dead

    def close(self) -> None:
        """End this process' session."""
        with self._mutex:
            if self._id == 0:
                return
            # The lock tells who is alive: a row that can't be deleted is forgotten by others.
            with suppress(CatalogError), self._catalog.write(durable=False) as tx:
                tx.run("delete_session", self._id)
            os.close(self._fd)
            self._id, self._fd = 0, -1

    def _begin(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with self._catalog.write() as tx:
            session_id = tx.next_id("session")
            # The lock comes before the commit: a session that others can see is already alive.
            lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, session_id, 1, 0)
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
            now_ms = int(time.time() * 1000)
            tx.run("insert_session", session_id, socket.gethostname(), os.getpid(), now_ms)
        self._fd, self._id = fd, session_id

    def _after_fork(self) -> None:
        if self._fd >= 0:
            # Close and never unlock: the lock belongs to the open file, which the parent shares.
            os.close(self._fd)
        self._fd, self._id = -1, 0
        self._mutex = threading.Lock()


_open_sessions: weakref.WeakSet[Sessions] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for sessions in list(_open_sessions):
        sessions._after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)
