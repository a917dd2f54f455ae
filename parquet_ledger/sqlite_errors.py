"""SQLite's errors as ours: what a caller would do differently, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from .errors import (
    CatalogDamaged,
    CatalogError,
    CommitConflict,
    DirectoryNotWritable,
    DiskFull,
)


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """Turn SQLite's errors while opening into ours, chained."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise translate(apsw.FullError(str(error)), path) from error


def translate(error: apsw.Error, path: Path) -> CatalogError | DirectoryNotWritable:
    """Return the error that tells a caller of ours what happened and what to do."""
    if isinstance(error, apsw.FullError):
        return DiskFull(
            f"{path}: no space is left on the disk. Nothing of this write was kept, what was "
            "confirmed before is safe: free some space and try again"
        )
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError)):
        return DirectoryNotWritable(f"{path} can't be written: {error}")
    if isinstance(error, (apsw.NotADBError, apsw.CorruptError)):
        return CatalogDamaged(f"{path} is damaged ({error}): restore it from a backup")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return CommitConflict(f"{path} is locked by a program that is not ledgermq: {error}")
    return CatalogError(f"{path}: {error}")
