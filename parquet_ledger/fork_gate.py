"""Forks in the middle of use: a fork waits until no thread is inside SQLite.

SQLite remembers in memory which locks this process holds, and a forked child inherits that memory
but none of the locks. If a transaction were under way, the child would read without protection or
find the catalog locked for ever. Transactions take microseconds, so a fork waits for those of other
threads. Where one does not end, or the forking thread itself is inside one, the child can't use the
ledger, and says so.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

FORK_WAIT_S = 2.0


class Forkable(Protocol):
    """Something with connections that a fork must find at rest."""

    def pause(self, timeout_s: float) -> bool:
        """Let nobody begin anything, and return whether everything came to rest in time."""

    def resume(self) -> None:
        """In the parent: go on."""

    def abandon(self, *, at_rest: bool) -> None:
        """In the child: let go of everything inherited."""


class Activity:
    """Counts what is under way, by thread, and holds new comers back while a fork waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads: dict[int, int] = {}
        self._paused = False

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while self._paused and me not in self._threads:
                self._changed.wait()
            self._threads[me] = self._threads.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._changed:
            self._threads[me] -= 1
            if not self._threads[me]:
                del self._threads[me]
                if self._paused:
                    self._changed.notify_all()

    def pause(self, timeout_s: float) -> bool:
        """Let nobody begin, and return whether everything under way ended in time."""
        with self._changed:
            self._paused = True
            if threading.get_ident() in self._threads:
                return False
            return self._changed.wait_for(lambda: not self._threads, timeout_s)

    def resume(self) -> None:
        """Let everybody begin again."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()


_forkables: weakref.WeakSet[Forkable] = weakref.WeakSet()
_paused: list[tuple[Forkable, bool]] = []


def watch_forks(forkable: Forkable) -> None:
    """Have an object paused before each fork from now on."""
    _forkables.add(forkable)


def _before_fork() -> None:
    _paused.extend((forkable, forkable.pause(FORK_WAIT_S)) for forkable in list(_forkables))


def _after_in_parent() -> None:
    for forkable, _ in _paused:
        forkable.resume()
    _paused.clear()


def _after_in_child() -> None:
    for forkable, at_rest in _paused:
        forkable.abandon(at_rest=at_rest)
    _paused.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
