"""When a ledger is full, when a tail is due, and which frames become one segment."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgermq.parquet_ledger.catalog import Row
from ledgermq.parquet_ledger.head import Head, LedgerLimits, must_roll_over
from ledgermq.parquet_ledger.seal import (
    SealLimits,
    SealPolicy,
    TailExtent,
    choose_run,
    is_due,
)

LEDGER = LedgerLimits(entries_max=10, bytes_max=1_000, age_ms_max=5_000)


def head(*, ledger_id: int = 7, entry: int = 0, ledger_bytes: int = 0) -> Head:
    return Head(3, ledger_id, 0, entry, ledger_bytes, opened_ms=100)


@pytest.mark.parametrize(
    ("at", "now_ms", "rolls"),
    [
        (head(ledger_id=0), 100, True),
        (head(), 100, False),
        (head(entry=9), 100, False),
        (head(entry=10), 100, True),
        (head(ledger_bytes=999), 100, False),
        (head(ledger_bytes=1_000), 100, True),
        (head(), 5_099, False),
        (head(), 5_100, True),
        (head(), 50, False),
    ],
)
def test_a_ledger_ends_when_it_is_full_or_old(at: Head, now_ms: int, rolls: bool) -> None:
    assert must_roll_over(at, LEDGER, now_ms) is rolls


POLICY = SealPolicy(frames_min=10, bytes_min=1_000, age_ms_min=5_000)


@pytest.mark.parametrize(
    ("extent", "now_ms", "due"),
    [
        (TailExtent(0, 0, 0), 1 << 50, False),
        (TailExtent(1, 1, 100), 5_099, False),
        (TailExtent(1, 1, 100), 5_100, True),
        (TailExtent(9, 1, 100), 100, False),
        (TailExtent(10, 1, 100), 100, True),
        (TailExtent(1, 999, 100), 100, False),
        (TailExtent(1, 1_000, 100), 100, True),
    ],
)
def test_a_tail_is_due_when_it_is_large_or_old(extent: TailExtent, now_ms: int, due: bool) -> None:
    assert is_due(extent, POLICY, now_ms) is due


def frame(offset: int, messages: int = 1, size: int = 1, ledger: int = 1, entry: int = 0) -> Row:
    """Return a row of the query tail_spans with one entry for each message."""
    return (offset, messages, messages, size, ledger, entry, 50 + entry, 0, 0)


WIDE = SealLimits(rows_max=1_000, bytes_max=1_000, row_group_rows=10, row_group_bytes_max=10)


def limits(**changes: int) -> SealLimits:
    values = {"rows_max": 1_000, "bytes_max": 1_000, **changes}
    return SealLimits(**values, row_group_rows=10, row_group_bytes_max=10)


def test_an_empty_tail_gives_nothing_to_seal() -> None:
    assert choose_run([], WIDE) is None


def test_consecutive_frames_become_one_segment() -> None:
    run = choose_run([frame(5, 3), frame(8, 2), frame(10)], WIDE)
    assert run is not None
    assert (run.offset_start, run.offset_end, run.frames) == (5, 11, 3)


def test_a_run_ends_at_a_gap() -> None:
    run = choose_run([frame(0, 3), frame(5, 2)], WIDE)
    assert run is not None
    assert (run.offset_start, run.offset_end, run.frames) == (0, 3, 1)


def test_a_run_ends_before_the_frame_that_has_too_many_rows() -> None:
    run = choose_run([frame(0, 3), frame(3, 3), frame(6, 3)], limits(rows_max=7))
    assert run is not None
    assert run.offset_end == 6


def test_a_run_ends_before_the_frame_that_has_too_many_bytes() -> None:
    run = choose_run([frame(0, 1, 400), frame(1, 1, 400), frame(2, 1, 400)], WIDE)
    assert run is not None
    assert run.offset_end == 2


def test_a_frame_over_the_limits_is_sealed_alone() -> None:
    run = choose_run([frame(0, 9, 5_000), frame(9)], limits(rows_max=5))
    assert run is not None
    assert (run.offset_end, run.frames) == (9, 1)


def test_a_run_says_where_its_last_ledger_stands() -> None:
    run = choose_run([frame(0, 3), frame(3, 2, ledger=4, entry=7)], WIDE)
    assert run is not None
    assert (run.ledger_first, run.ledger_last) == (1, 4)
    assert (run.last_entry_end, run.last_ledger_bytes) == (9, 57)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9), st.booleans()), min_size=1))
def test_runs_taken_one_after_another_cover_the_tail_once(
    frames: list[tuple[int, int, bool]],
) -> None:
    spans, at = list[Row](), 0
    for messages, size, after_a_gap in frames:
        at += 3 * after_a_gap
        spans.append(frame(at, messages, size))
        at += messages
    rest, runs = spans, []
    while (run := choose_run(rest, limits(rows_max=8, bytes_max=20))) is not None:
        runs.append(run)
        rest = rest[run.frames :]
    assert sum(run.frames for run in runs) == len(spans)
    assert all(a.offset_end <= b.offset_start for a, b in itertools.pairwise(runs))
    assert sum(run.offset_end - run.offset_start for run in runs) == sum(f[0] for f in frames)
