"""Cursors: which messages a durable subscription has acknowledged.

A cursor is a floor, below which everything is acknowledged, and a roaring bitmap for each 65,536
offsets above it. Any number of holes is kept exactly, and an acknowledgment touches only the
bitmaps that it changes. Nothing here does I/O: bitmaps are loaded by a function that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from pyroaring import BitMap

from .segment import Span, merge_spans

CHUNK_OFFSETS = 1 << 16

LoadChunk = Callable[[int], BitMap]


@dataclass(slots=True)
class CursorChange:
    """What an acknowledgment changes: the new floor, and the bitmaps to write."""

    floor: int
    bitmaps: dict[int, BitMap] = field(default_factory=dict)


def acknowledge(floor: int, spans: Sequence[Span], load: LoadChunk) -> CursorChange:
    """Return the cursor's change when the offsets of ``spans`` are acknowledged too.

    Afterwards the floor is the first offset that is not acknowledged. Bitmaps of chunks below the
    floor's are void; the floor's own chunk keeps no bits below the floor.
    """
    change = CursorChange(floor)

    def bitmap(chunk: int) -> BitMap:
        if chunk not in change.bitmaps:
            change.bitmaps[chunk] = load(chunk)
        return change.bitmaps[chunk]

    for span in merge_spans(spans):
        if span.end <= change.floor:
            continue
        if span.start <= change.floor:
            change.floor = span.end
        else:
            for chunk, low, high in _chunks(span):
                bitmap(chunk).add_range(low, high)
    change.floor = _first_missing(change.floor, bitmap)
    first = change.floor // CHUNK_OFFSETS
    change.bitmaps = {chunk: bits for chunk, bits in change.bitmaps.items() if chunk >= first}
    if change.floor != floor:
        bitmap(first).remove_range(0, change.floor % CHUNK_OFFSETS)
    return change


def acked_within(span: Span, floor: int, load: LoadChunk) -> int:
    """Return how many offsets of a span are acknowledged."""
    below = max(0, min(span.end, floor) - span.start)
    above = Span(max(span.start, floor), max(span.end, floor, span.start))
    return below + sum(
        load(chunk).range_cardinality(low, high) for chunk, low, high in _chunks(above)
    )


def acked_mask(span: Span, floor: int, load: LoadChunk) -> np.ndarray:
    """Return, for each offset of a span, whether it is acknowledged."""
    mask = np.zeros(len(span), bool)
    mask[: max(0, min(span.end, floor) - span.start)] = True
    for chunk, low, high in _chunks(Span(max(span.start, floor), max(span.end, floor, span.start))):
        bits = np.asarray(load(chunk).to_array(), np.int64)
        bits = bits[np.searchsorted(bits, low) : np.searchsorted(bits, high)]
        mask[bits + (chunk * CHUNK_OFFSETS - span.start)] = True
    return mask


def _chunks(span: Span) -> Iterator[tuple[int, int, int]]:
    """Yield (chunk, first, end) of the parts of a span, relative to their chunks."""
    at = span.start
    while at < span.end:
        chunk, low = divmod(at, CHUNK_OFFSETS)
        high = min(CHUNK_OFFSETS, low + span.end - at)
        yield chunk, low, high
        at += high - low


def _first_missing(offset: int, bitmap: LoadChunk) -> int:
    """Return the first offset from ``offset`` on whose bit is not set."""
    while True:
        chunk, low = divmod(offset, CHUNK_OFFSETS)
        bits = bitmap(chunk)
        if low not in bits:
            return offset
        if not bits.contains_range(low, CHUNK_OFFSETS):
            return chunk * CHUNK_OFFSETS + int(bits.flip(low, CHUNK_OFFSETS).next_set_bit(low))
        offset = (chunk + 1) * CHUNK_OFFSETS
