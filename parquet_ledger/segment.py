"""Segments: what the catalog says of a Parquet file, and the pure questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .catalog import Row


@dataclass(frozen=True, slots=True)
class Segment:
    """A row of the catalog's segment table, in the order of its columns."""

    segment_id: int
    topic_id: int
    offset_start: int
    offset_end: int
    messages: int
    entries: int
    bytes: int
    file_bytes: int
    ledger_first: int
    ledger_last: int
    publish_ms_min: int
    publish_ms_max: int
    ledger_shift: int
    offset_shift: int
    path: str
    checksum: str
    created_ms: int
    retired_ms: int | None = None

    @classmethod
    def from_row(cls, row: Row) -> Segment:
        """Return the segment of a catalog row."""
        return cls(*row)

    @property
    def shifted(self) -> bool:
        """Return whether the file counts its positions from 0."""
        return self.ledger_shift != 0 or self.offset_shift != 0

    def insert_parameters(self) -> tuple[object, ...]:
        """Return the parameters of the query ``insert_segment``."""
        return (
            self.segment_id, self.topic_id, self.offset_start, self.offset_end, self.messages,
            self.entries, self.bytes, self.file_bytes, self.ledger_first, self.ledger_last,
            self.publish_ms_min, self.publish_ms_max, self.ledger_shift, self.offset_shift,
            self.path, self.checksum, self.created_ms,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets from ``start`` up to but without ``end``."""

    start: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.end, (self.start, self.end)

    def __len__(self) -> int:
        return self.end - self.start


def gaps(spans: Sequence[Span], within: Span) -> list[Span]:
    """Return the parts of ``within`` that no span covers; the spans are sorted and disjoint."""
    missing: list[Span] = []
    at = within.start
    for span in spans:
        if span.end <= at:
            continue
        if span.start >= within.end:
            break
        if span.start > at:
            missing.append(Span(at, span.start))
        at = span.end
    if at < within.end:
        missing.append(Span(at, within.end))
    return missing


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """Return the same offsets as sorted spans that neither touch nor overlap."""
    merged: list[Span] = []
    for span in sorted((s for s in spans if len(s)), key=lambda s: s.start):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def size_row_groups(sizes: Sequence[int], *, rows_max: int, bytes_max: int) -> list[Span]:
    """Return where to cut messages into row groups: by rows, and by bytes where they are large."""
    groups: list[Span] = []
    start, size = 0, 0
    for i, message in enumerate(sizes):
        if i > start and (i - start >= rows_max or size + message > bytes_max):
            groups.append(Span(start, i))
            start, size = i, 0
        size += message
    groups.append(Span(start, len(sizes)))
    return groups
