"""Frames that this process wrote or read lately, so that readers that keep up find them in memory.

A frame at (topic, offset) never changes once it is committed, and topic ids are never used again,
so nothing in the cache is ever wrong. A process that seals forgets what it sealed; another one may
still read for a while what was retired meanwhile.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from .frame import Frame, decode


@dataclass(slots=True)
class TailRow:
    """A frame of the tail and its place in the topic."""

    offset_start: int
    messages: int
    entries: int
    ledger_id: int
    entry_start: int
    data: bytes = field(repr=False)
    _frame: Frame | None = field(default=None, repr=False, compare=False)

    @property
    def offset_end(self) -> int:
        """Return the offset after the last message."""
        return self.offset_start + self.messages

    def frame(self) -> Frame:
        """Return the decoded frame, decoding it once."""
        if self._frame is None:
            self._frame = decode(self.data)
        return self._frame


class FrameCache:
    """A bounded, least-recently-used map from (topic id, first offset) to frames."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rows: OrderedDict[tuple[int, int], TailRow] = OrderedDict()
        self._bytes = 0
        self._mutex = threading.Lock()

    def put(self, topic_id: int, row: TailRow) -> None:
        """Remember a committed frame."""
        key = (topic_id, row.offset_start)
        with self._mutex:
            if key in self._rows:
                return
            self._rows[key] = row
            self._bytes += len(row.data)
            while self._bytes > self._bytes_max:
                _, oldest = self._rows.popitem(last=False)
                self._bytes -= len(oldest.data)

    def get(self, topic_id: int, offset_start: int) -> TailRow | None:
        """Return the frame that begins at an offset, or None."""
        with self._mutex:
            row = self._rows.get((topic_id, offset_start))
            if row is not None:
                self._rows.move_to_end((topic_id, offset_start))
            return row

    def forget_below(self, topic_id: int, offset: int) -> None:
        """Forget a topic's frames that were sealed: from now on the segments speak for them."""
        with self._mutex:
            sealed = [key for key in self._rows if key[0] == topic_id and key[1] < offset]
            for key in sealed:
                self._bytes -= len(self._rows.pop(key).data)

    def __len__(self) -> int:
        return len(self._rows)
