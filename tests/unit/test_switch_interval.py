"""Threads switch quickly during a commit, and as before afterwards."""

import sys
from collections.abc import Iterator

import pytest

from ledgermq.parquet_ledger.switch_interval import COMMIT_INTERVAL_S, ShortSwitchInterval


@pytest.fixture(autouse=True)
def usual_s() -> Iterator[float]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


def test_the_interval_is_short_inside() -> None:
    with ShortSwitchInterval():
        assert sys.getswitchinterval() == pytest.approx(COMMIT_INTERVAL_S)


def test_the_usual_interval_comes_back(usual_s: float) -> None:
    with ShortSwitchInterval():
        pass
    assert sys.getswitchinterval() == usual_s


def test_the_usual_interval_comes_back_after_an_error(usual_s: float) -> None:
    with pytest.raises(KeyError), ShortSwitchInterval():
        raise KeyError
    assert sys.getswitchinterval() == usual_s


def test_the_interval_stays_short_until_the_last_of_several_leaves(usual_s: float) -> None:
    short = ShortSwitchInterval()
    with short:
        with short:
            pass
        assert sys.getswitchinterval() == pytest.approx(COMMIT_INTERVAL_S)
    assert sys.getswitchinterval() == usual_s
