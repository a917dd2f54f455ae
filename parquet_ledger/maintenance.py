"""Background maintenance: seal what is due, in one process at a time.

Every process with the directory open runs this thread; the kernel's lock on ``locks/maintenance``
picks one of them, and another takes over when it is gone. The thread sleeps until an append says
that a tail grew large, or until the oldest tail comes of age.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from .catalog import Catalog
from .errors import CommitConflict, LedgerError, TopicNotFound
from .frame_cache import TailRow
from .seal import Sealer, SealPolicy, is_due, tail_extent
from .segment import Segment
from .sessions import Sessions

logger = logging.getLogger(__name__)

TICK_S = 1.0


class Maintenance:
    """Seals the topics of one directory when they are due."""

    def __init__(
        self,
        directory: Path,
        catalog: Catalog,
        sealer: Sealer,
        sessions: Sessions,
        policy: SealPolicy,
        *,
        clock_ms: Callable[[], int],
        background: bool,
    ) -> None:
        self._lock_path = directory / "locks" / "maintenance"
        self._catalog = catalog
        self._sealer = sealer
        self._sessions = sessions
        self._policy = policy
        self._clock_ms = clock_ms
        self._background = background
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._unsealed_bytes = 0

    def appended(self, frames: Sequence[TailRow]) -> None:
        """Note that this process appended; start the thread if needed, and wake it if it is time."""
        if not self._background:
            return
        if self._pid != os.getpid():
            self._start()
        for frame in frames:
            self._unsealed_bytes += len(frame.data)
        if self._unsealed_bytes >= self._policy.bytes_min:
            self._unsealed_bytes = 0
            self._wake.set()

    def run_once(self) -> list[Segment]:
        """Seal every topic that is due now; nothing where another process is at it."""
        fd = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._seal_due()
        except BlockingIOError:
            return []
        finally:
            os.close(fd)

    def stop(self) -> None:
        """End the thread; a seal under way is finished first."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join()
        self._thread = None

    def _start(self) -> None:
        """Start the thread of this process: a forked child has none of its parent's."""
        self._pid = os.getpid()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledgermq-maintenance", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(TICK_S)
            self._wake.clear()
            if self._stopping:
                return
            try:
                self.run_once()
            except (LedgerError, OSError) as error:
                # The messages stay in the tail; the next round tries again.
                logger.warning("sealing failed: %s", error, extra={"action": "seal_failed"})

    def _seal_due(self) -> list[Segment]:
        sealed: list[Segment] = []
        with self._catalog.read() as tx:
            due = [
                (topic_id, name)
                for topic_id, name, _, _ in tx.rows("topics")
                if is_due(tail_extent(tx, topic_id), self._policy, self._clock_ms())
            ]
        for topic_id, name in due:
            try:
                session = self._sessions.current()
                segments = self._sealer.seal(topic_id, name, session, self._clock_ms())
            except (CommitConflict, TopicNotFound):
                continue  # Somebody sealed by hand, or the topic was deleted.
            for segment in segments:
                logger.info(
                    "sealed %d messages of %s",
                    segment.messages,
                    name,
                    extra={"action": "sealed", "topic": name},
                )
            sealed += segments
        return sealed
