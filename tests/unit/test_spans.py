"""Spans of offsets, the gaps between them, and where row groups are cut."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgermq.parquet_ledger import Span
from ledgermq.parquet_ledger.segment import gaps, merge_spans, size_row_groups

SPANS = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda s: Span(s[0], s[0] + s[1]))


def members(spans: Sequence[Span]) -> set[int]:
    return {offset for span in spans for offset in range(span.start, span.end)}


def test_a_span_is_as_long_as_it_has_offsets() -> None:
    assert len(Span(3, 7)) == 4


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (4, 3)])
def test_a_span_is_never_negative(start: int, end: int) -> None:
    with pytest.raises(AssertionError):
        Span(start, end)


@given(st.lists(SPANS))
def test_merging_keeps_the_same_offsets(spans: list[Span]) -> None:
    assert members(merge_spans(spans)) == members(spans)


@given(st.lists(SPANS))
def test_merged_spans_are_sorted_and_neither_touch_nor_overlap(spans: list[Span]) -> None:
    merged = merge_spans(spans)
    assert all(len(span) for span in merged)
    assert all(a.end < b.start for a, b in itertools.pairwise(merged))


@given(st.lists(SPANS), SPANS)
def test_gaps_are_what_no_span_covers(spans: list[Span], within: Span) -> None:
    missing = gaps(merge_spans(spans), within)
    assert members(missing) == members([within]) - members(spans)


@given(st.lists(SPANS), SPANS)
def test_gaps_are_as_few_as_possible(spans: list[Span], within: Span) -> None:
    missing = gaps(merge_spans(spans), within)
    assert missing == merge_spans(missing)


SIZES = st.lists(st.integers(0, 50), min_size=1, max_size=60)


@given(SIZES, st.integers(1, 9), st.integers(1, 100))
def test_row_groups_hold_every_row_once_and_in_order(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    groups = size_row_groups(sizes, rows_max=rows_max, bytes_max=bytes_max)
    rows = [row for group in groups for row in range(group.start, group.end)]
    assert rows == list(range(len(sizes)))


@given(SIZES, st.integers(1, 9), st.integers(1, 100))
def test_a_row_group_is_over_its_limits_only_where_one_row_is(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    groups = size_row_groups(sizes, rows_max=rows_max, bytes_max=bytes_max)
    for group in groups:
        assert 1 <= len(group) <= rows_max
        assert len(group) == 1 or sum(sizes[group.start : group.end]) <= bytes_max


@given(SIZES, st.integers(1, 9), st.integers(1, 100))
def test_a_row_group_is_cut_only_where_the_next_row_does_not_fit(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    groups = size_row_groups(sizes, rows_max=rows_max, bytes_max=bytes_max)
    for group, following in itertools.pairwise(groups):
        with_next = sum(sizes[group.start : following.start + 1])
        assert len(group) == rows_max or with_next > bytes_max
