"""Parquet files of messages: written whole, synced, and never changed.

The layout follows from measurements: rows in the order of their positions; delta encodings for
integers, times and strings; dictionaries only for columns with few values; zstd level 1; row
groups of 131,072 rows or 64 MB; a bloom filter on the key, which finds one key in a tenth of the
time; a page index, which Spark uses; and a checksum a page, which is verified at each read.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .columns import SEGMENT_SCHEMA
from .errors import DiskFull, SegmentDamaged
from .segment import Segment, Span, size_row_groups

_DICTIONARY = [
    "producer_name",
    "compression",
    "chunk_uuid",
    "properties.key_value.key",
    "properties.key_value.value",
]
_DELTA_INTEGERS = [
    "ledger_id",
    "entry_id",
    "batch_index",
    "topic_offset",
    "publish_time",
    "event_time",
    "deliver_at",
    "sequence_id",
    "schema_version",
    "chunk_id",
    "chunk_count",
    "chunk_total_bytes",
    "size_bytes",
]
_ENCODINGS = {
    **dict.fromkeys(_DELTA_INTEGERS, "DELTA_BINARY_PACKED"),
    "sticky_hash": "PLAIN",
    "key": "DELTA_BYTE_ARRAY",
    "ordering_key": "DELTA_BYTE_ARRAY",
    "payload": "DELTA_LENGTH_BYTE_ARRAY",
}
_BLOOM_FALSE_POSITIVES = 0.01
_BLOOM_SAMPLE_ROWS = 16_384
# Stable field ids let table formats that know columns by id take the files as they are.
_FILE_SCHEMA = pa.schema(
    [
        field.with_metadata({b"PARQUET:field_id": str(number).encode()})
        for number, field in enumerate(SEGMENT_SCHEMA, start=1)
    ]
)


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A file that is on disk and not yet in the catalog."""

    path: str
    messages: int
    entries: int
    bytes: int
    file_bytes: int
    publish_ms_min: int
    publish_ms_max: int
    checksum: str


def segment_path(topic_id: int, session_id: int) -> str:
    """Return a new file's path below the directory; its name says whose session wrote it."""
    return f"segments/{topic_id}/s{session_id}-{uuid.uuid4().hex}.parquet"


def write_segment(
    directory: Path,
    path: str,
    table: pa.Table,
    *,
    row_group_rows: int,
    row_group_bytes_max: int,
) -> WrittenSegment:
    """Write a table of SEGMENT_SCHEMA, sync it, and return what the catalog must know of it."""
    assert table.num_rows > 0
    target = directory / path
    sizes = table.column("size_bytes").to_numpy()
    groups = _row_groups(sizes, row_group_rows, row_group_bytes_max)
    table = pa.Table.from_arrays(table.columns, schema=_FILE_SCHEMA)
    try:
        new_topic = not target.parent.exists()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _writer(target, table, row_group_rows) as writer:
            for group in groups:
                writer.write_table(table.slice(group.start, len(group)), len(group))
        checksum = _sync_and_checksum(target)
        sync_directory(target.parent)
        if new_topic:
            sync_directory(target.parent.parent)
    except OSError as error:
        target.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"{target}: no space is left for a segment. Nothing was lost: the messages stay "
                "where they were. Free some space and try again"
            ) from error
        raise
    times = pc.min_max(table.column("publish_time").cast(pa.int64())).as_py()
    return WrittenSegment(
        path=path,
        messages=table.num_rows,
        entries=count_entries(table),
        bytes=int(sizes.sum()),
        file_bytes=target.stat().st_size,
        publish_ms_min=times["min"],
        publish_ms_max=times["max"],
        checksum=checksum,
    )


def count_entries(table: pa.Table) -> int:
    """Return how many entries the rows belong to; rows are in the order of positions."""
    ledgers = table.column("ledger_id").to_numpy()
    entries = table.column("entry_id").to_numpy()
    return 1 + int(np.count_nonzero((np.diff(entries) != 0) | (np.diff(ledgers) != 0)))


class SegmentReader:
    """Reads one file by row groups, with positions as the catalog places them."""

    def __init__(self, directory: Path, topic: str, segment: Segment) -> None:
        self.segment = segment
        self._topic = topic
        self._path = directory / segment.path
        self._file = self._open()
        metadata = self._file.metadata
        if metadata.num_rows != segment.messages:
            raise SegmentDamaged(
                topic, segment.path, f"has {metadata.num_rows} rows, not {segment.messages}"
            )
        if not self._has_our_columns():
            raise SegmentDamaged(topic, segment.path, "has other columns than a segment")
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._ends = np.cumsum(rows)

    def _has_our_columns(self) -> bool:
        """Return whether names and types are as written: no checksum covers a file's footer."""
        try:
            schema = self._file.schema_arrow
            return bool(
                schema.names == SEGMENT_SCHEMA.names and schema.types == SEGMENT_SCHEMA.types
            )
        except (UnicodeDecodeError, pa.ArrowException):
            return False

    def row_groups_from(self, offset: int) -> range:
        """Return the row groups that may hold ``offset`` and later ones."""
        row = max(0, offset - self.segment.offset_start)
        return range(int(np.searchsorted(self._ends, row, side="right")), len(self._ends))

    def read(self, row_group: int, columns: list[str] | None = None) -> pa.Table:
        """Return one row group."""
        return self._read(self._file, row_group, columns)

    def read_all(self, groups: range, columns: list[str]) -> Iterator[pa.Table]:
        """Yield row groups in order, reading one ahead in a second thread."""
        if len(groups) < 2:
            yield from (self.read(group, columns) for group in groups)
            return
        second = self._open(self._file.metadata)
        pending: deque[Future[pa.Table]] = deque()
        with ThreadPoolExecutor(2, "ledgermq-read") as pool, closing(second):
            for group in groups:
                # A handle serves one read at a time: its last one was taken before this.
                handle = self._file if group % 2 else second
                pending.append(pool.submit(self._read, handle, group, columns))
                if len(pending) == 2:
                    yield pending.popleft().result()
            yield pending.popleft().result()

    def _open(self, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(
                self._path, metadata=metadata, memory_map=True, page_checksum_verification=True
            )
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "segment is gone", self.segment.path) from error
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            reason = f"can't be opened ({error})"
            raise SegmentDamaged(self._topic, self.segment.path, reason) from error

    def _read(self, file: pq.ParquetFile, group: int, columns: list[str] | None) -> pa.Table:
        try:
            table = file.read_row_group(group, columns=columns)
        except (OSError, pa.ArrowException) as error:
            reason = f"can't be read ({error})"
            raise SegmentDamaged(self._topic, self.segment.path, reason) from error
        return place(table, self.segment)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def place(table: pa.Table, segment: Segment) -> pa.Table:
    """Return rows of a file with their positions in the topic."""
    if segment.shifted:
        for name, shift in (
            ("ledger_id", segment.ledger_shift),
            ("topic_offset", segment.offset_shift),
        ):
            index = table.schema.get_field_index(name)
            if index >= 0:
                moved = pc.add(table.column(index), pa.scalar(shift, pa.int64()))
                table = table.set_column(index, SEGMENT_SCHEMA.field(name), moved)
    return table


def file_checksum(path: Path) -> str:
    """Return the checksum that the catalog keeps of a whole file."""
    with path.open("rb") as file:
        return _checksum(file.fileno())


def _row_groups(sizes: np.ndarray, rows_max: int, bytes_max: int) -> list[Span]:
    if int(sizes.max()) * rows_max <= bytes_max:
        starts = range(0, len(sizes), rows_max)
        return [Span(start, min(start + rows_max, len(sizes))) for start in starts]
    return size_row_groups(sizes.tolist(), rows_max=rows_max, bytes_max=bytes_max)


def _writer(target: Path, table: pa.Table, row_group_rows: int) -> pq.ParquetWriter:
    options: dict[str, object] = {}
    keys = table.column("key")
    if keys.null_count < len(keys):
        # A filter is for one row group; too many distinct keys only make it a little larger.
        sample = keys.slice(0, _BLOOM_SAMPLE_ROWS)
        share = pc.count_distinct(sample).as_py() / len(sample)
        bloom = {"ndv": max(64, int(share * row_group_rows)), "fpp": _BLOOM_FALSE_POSITIVES}
        options["bloom_filter_options"] = {"key": bloom}
    return pq.ParquetWriter(
        target,
        table.schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=_DICTIONARY,
        column_encoding=_ENCODINGS,
        write_page_index=True,
        write_page_checksum=True,
        **options,
    )


def _sync_and_checksum(target: Path) -> str:
    fd = os.open(target, os.O_RDONLY)
    try:
        os.fsync(fd)
        return _checksum(fd)
    finally:
        os.close(fd)


def _checksum(fd: int) -> str:
    with pa.memory_map(f"/proc/self/fd/{fd}") as mapped:
        buffer = mapped.read_buffer()
        return "murmur3:" + mmh3.mmh3_x64_128_digest(buffer).hex() if buffer.size else "empty"


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def files_below(directory: Path) -> Iterator[str]:
    """Return the paths of all segment files on disk, live or not."""
    for path in sorted((directory / "segments").glob("*/*.parquet")):
        yield str(path.relative_to(directory))
