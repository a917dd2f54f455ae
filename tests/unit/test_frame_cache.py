"""The cache of frames keeps the latest used ones, within its bound."""

from hypothesis import given
from hypothesis import strategies as st

from ledgermq.parquet_ledger.frame_cache import FrameCache, TailRow


def row(offset: int, size: int = 10) -> TailRow:
    return TailRow(offset, 1, 1, 1, offset, bytes(size))


def test_a_frame_is_found_by_topic_and_first_offset() -> None:
    cache = FrameCache(100)
    cache.put(1, row(5))
    assert cache.get(1, 5) == row(5)
    assert (cache.get(2, 5), cache.get(1, 6)) == (None, None)


def test_the_least_recently_used_frame_goes_first() -> None:
    cache = FrameCache(20)
    cache.put(1, row(0))
    cache.put(1, row(1))
    cache.get(1, 0)
    cache.put(1, row(2))
    assert [offset for offset in range(3) if cache.get(1, offset)] == [0, 2]


def test_a_frame_over_the_bound_is_not_kept() -> None:
    cache = FrameCache(20)
    cache.put(1, row(0, 21))
    assert len(cache) == 0


def test_a_cache_of_no_size_keeps_nothing() -> None:
    cache = FrameCache(0)
    cache.put(1, row(0))
    assert cache.get(1, 0) is None


def test_a_frame_that_is_put_again_counts_once() -> None:
    cache = FrameCache(20)
    for _ in range(5):
        cache.put(1, row(0))
    cache.put(1, row(1))
    assert len(cache) == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30), st.booleans())))
def test_the_bound_holds_whatever_happens(steps: list[tuple[int, int, bool]]) -> None:
    cache, sizes = FrameCache(50), dict[int, int]()
    for offset, size, reads in steps:
        if reads:
            cache.get(1, offset)
        else:
            sizes.setdefault(offset, size)
            cache.put(1, row(offset, sizes[offset]))
        kept = [found for at in range(10) if (found := cache.get(1, at)) is not None]
        assert sum(len(found.data) for found in kept) <= 50
