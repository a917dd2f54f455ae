"""Which acknowledged segments retention lets go of."""

import pytest
from ledger_fixtures import MINUTE_MS, T0_MS, segment

from ledgermq.parquet_ledger import LedgerError, Retention
from ledgermq.parquet_ledger.retire import released_by_retention

NOW_MS = T0_MS + 10 * MINUTE_MS
# Three segments of 100 bytes, published 10, 5 and 1 minutes ago.
SEGMENTS = [
    segment(0, 10, publish_ms_max=NOW_MS - 10 * MINUTE_MS),
    segment(10, 20, publish_ms_max=NOW_MS - 5 * MINUTE_MS),
    segment(20, 30, publish_ms_max=NOW_MS - 1 * MINUTE_MS),
]


@pytest.mark.parametrize(
    ("retention", "released"),
    [
        (Retention(), [0, 10, 20]),
        (Retention(minutes=0, bytes=0), [0, 10, 20]),
        (Retention(minutes=-1, bytes=-1), []),
        (Retention(minutes=0, bytes=-1), [0, 10, 20]),
        (Retention(minutes=-1, bytes=0), [0, 10, 20]),
        (Retention(minutes=11, bytes=-1), []),
        (Retention(minutes=10, bytes=-1), [0]),
        (Retention(minutes=5, bytes=-1), [0, 10]),
        (Retention(minutes=-1, bytes=99), [0, 10, 20]),
        (Retention(minutes=-1, bytes=100), [0, 10]),
        (Retention(minutes=-1, bytes=250), [0]),
        (Retention(minutes=-1, bytes=300), []),
        (Retention(minutes=10, bytes=200), [0]),
        (Retention(minutes=5, bytes=200), [0, 10]),
        (Retention(minutes=60, bytes=100), [0, 10]),
    ],
)
def test_a_segment_goes_when_one_axis_lets_go_of_it(
    retention: Retention, released: list[int]
) -> None:
    gone = released_by_retention(SEGMENTS, retention, NOW_MS)
    assert [segment.offset_start for segment in gone] == released


def test_the_oldest_is_named_first_in_whatever_order_they_come() -> None:
    gone = released_by_retention(SEGMENTS[::-1], Retention(), NOW_MS)
    assert [segment.offset_start for segment in gone] == [0, 10, 20]


def test_a_segment_published_in_the_future_is_not_too_old() -> None:
    ahead = segment(0, 10, publish_ms_max=NOW_MS + MINUTE_MS)
    assert released_by_retention([ahead], Retention(minutes=0, bytes=-1), NOW_MS) == []


@pytest.mark.parametrize(("minutes", "size"), [(-2, 0), (0, -2)])
def test_a_retention_that_means_nothing_is_refused(minutes: int, size: int) -> None:
    with pytest.raises(LedgerError):
        Retention(minutes=minutes, bytes=size)
