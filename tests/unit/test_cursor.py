"""A cursor against the plainest model of it: the set of acknowledged offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from ledgermq.parquet_ledger import Span
from ledgermq.parquet_ledger.cursor import CHUNK_OFFSETS, acked_mask, acked_within, acknowledge


class StoredCursor:
    """A cursor as the catalog keeps it: what it is given are copies."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor
        self.chunks: dict[int, BitMap] = {}

    def load(self, chunk: int) -> BitMap:
        return BitMap(self.chunks.get(chunk, BitMap()))

    def acknowledge(self, *spans: Span) -> None:
        change = acknowledge(self.floor, spans, self.load)
        self.floor = change.floor
        self.chunks.update(change.bitmaps)
        first = self.floor // CHUNK_OFFSETS
        self.chunks = {n: bits for n, bits in self.chunks.items() if n >= first and bits}

    def above_floor(self) -> set[int]:
        return {n * CHUNK_OFFSETS + bit for n, bits in self.chunks.items() for bit in bits}


def first_missing(acked: set[int]) -> int:
    return next(offset for offset in range(len(acked) + 1) if offset not in acked)


# Offsets around 0 and around the border between the first two chunks.
NEAR_BORDERS = st.one_of(
    st.integers(0, 40), st.integers(CHUNK_OFFSETS - 20, CHUNK_OFFSETS + 20), st.just(65_535)
)
SPANS = st.tuples(NEAR_BORDERS, st.integers(0, 15)).map(lambda s: Span(s[0], s[0] + s[1]))
LONG_SPANS = st.tuples(NEAR_BORDERS, NEAR_BORDERS).map(lambda s: Span(min(s), max(s)))
ACKS = st.lists(st.lists(st.one_of(SPANS, LONG_SPANS), max_size=4), max_size=8)


@given(ACKS)
def test_a_cursor_knows_exactly_what_was_acknowledged(acks: list[list[Span]]) -> None:
    cursor, model = StoredCursor(), set[int]()
    for spans in acks:
        cursor.acknowledge(*spans)
        model.update(offset for span in spans for offset in range(span.start, span.end))
        floor = first_missing(model)
        assert cursor.floor == floor
        assert cursor.above_floor() == {offset for offset in model if offset >= floor}


@given(ACKS, st.one_of(SPANS, LONG_SPANS))
def test_acknowledged_offsets_of_a_span_are_counted_and_marked(
    acks: list[list[Span]], asked: Span
) -> None:
    cursor = StoredCursor()
    for spans in acks:
        cursor.acknowledge(*spans)
    model = {o for spans in acks for span in spans for o in range(span.start, span.end)}
    wanted = [offset in model for offset in range(asked.start, asked.end)]
    assert acked_mask(asked, cursor.floor, cursor.load).tolist() == wanted
    assert acked_within(asked, cursor.floor, cursor.load) == sum(wanted)


@pytest.mark.parametrize("first", [65_534, 65_535, 65_536, 65_537])
def test_a_hole_beside_the_border_of_two_chunks_is_kept(first: int) -> None:
    cursor = StoredCursor()
    cursor.acknowledge(Span(0, first), Span(first + 1, 70_000))
    assert cursor.floor == first
    assert len(cursor.above_floor()) == 70_000 - first - 1


@pytest.mark.parametrize("first", [65_534, 65_535, 65_536, 65_537])
def test_filling_the_last_hole_moves_the_floor_over_the_border(first: int) -> None:
    cursor = StoredCursor()
    cursor.acknowledge(Span(0, first), Span(first + 1, 70_000))
    cursor.acknowledge(Span(first, first + 1))
    assert (cursor.floor, cursor.chunks) == (70_000, {})


def test_a_floor_at_the_end_of_a_chunk_leaves_no_bitmap() -> None:
    cursor = StoredCursor()
    cursor.acknowledge(Span(1, CHUNK_OFFSETS))
    cursor.acknowledge(Span(0, 1))
    assert (cursor.floor, cursor.chunks) == (CHUNK_OFFSETS, {})


def test_a_huge_cumulative_acknowledgment_looks_at_one_bitmap_only() -> None:
    cursor, looked_at = StoredCursor(), list[int]()

    def load(chunk: int) -> BitMap:
        looked_at.append(chunk)
        return cursor.load(chunk)

    change = acknowledge(0, [Span(0, 1 << 50)], load)
    assert (change.floor, looked_at) == (1 << 50, [(1 << 50) // CHUNK_OFFSETS])


def test_a_cumulative_acknowledgment_swallows_the_holes_below_it() -> None:
    cursor = StoredCursor()
    cursor.acknowledge(*(Span(i, i + 1) for i in range(1, 200_000, 1_000)))
    cursor.acknowledge(Span(0, 1_000_000))
    assert (cursor.floor, cursor.chunks) == (1_000_000, {})


def test_any_number_of_holes_is_kept_exactly() -> None:
    cursor = StoredCursor()
    odd = range(1, 60_001, 2)
    cursor.acknowledge(*(Span(offset, offset + 1) for offset in odd))
    assert cursor.floor == 0
    assert cursor.above_floor() == set(odd)


def test_an_acknowledgment_changes_only_the_bitmaps_that_it_touches() -> None:
    cursor = StoredCursor()
    cursor.acknowledge(Span(10, 20), Span(200_000, 200_010))
    change = acknowledge(cursor.floor, [Span(70_000, 70_001)], cursor.load)
    assert {n for n, bits in change.bitmaps.items() if bits != cursor.load(n)} == {1}


def test_acknowledging_again_changes_nothing() -> None:
    cursor = StoredCursor()
    cursor.acknowledge(Span(0, 5), Span(10, 20))
    before = (cursor.floor, cursor.above_floor())
    cursor.acknowledge(Span(2, 4), Span(12, 18))
    assert (cursor.floor, cursor.above_floor()) == before
