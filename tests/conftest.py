"""Fixtures of all tests; the functions and classes that they share are in ledger_fixtures.py."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from ledger_fixtures import Clock, OpenLedger

from ledgermq.parquet_ledger import Ledger, Topic

# The same examples in every run, and no failure because the machine is busy.
settings.register_profile("ledgermq", derandomize=True, deadline=None)
settings.load_profile("ledgermq")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_ledger(tmp_path: Path, clock: Clock) -> Iterator[OpenLedger]:
    """Opens the test's directory, as often as wanted, and closes everything at the end."""
    opened = OpenLedger(tmp_path / "ledger", clock)
    yield opened
    opened.close_all()


@pytest.fixture
def ledger(open_ledger: OpenLedger) -> Ledger:
    return open_ledger()


@pytest.fixture
def orders(ledger: Ledger) -> Topic:
    return ledger.create_topic("orders")
