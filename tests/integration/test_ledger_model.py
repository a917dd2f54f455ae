"""The real ledger against the simplest model of it: a list of messages and sets of offsets."""

import tempfile
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ledger_fixtures import Clock, counted_backlog, small_settings, table

from ledgermq.parquet_ledger import Ledger, NewMessages, Retention, Span, StoredMessage

PAYLOADS = st.lists(st.none() | st.binary(max_size=4), min_size=1, max_size=6)
NAMES = st.sampled_from(["a", "b", "c"])
GRACE_MS = 1_000


@dataclass
class Model:
    """What was appended, which of it is still stored, and what each subscription acknowledged."""

    appended: list[bytes | None] = field(default_factory=list)
    stored: set[int] = field(default_factory=set)
    acked: dict[str, set[int]] = field(default_factory=dict)

    def append(self, payloads: list[bytes | None]) -> None:
        start = len(self.appended)
        self.appended += payloads
        self.stored |= set(range(start, len(self.appended)))

    def unneeded(self) -> set[int]:
        return {o for o in self.stored if all(o in acked for acked in self.acked.values())}


class LedgerMachine(RuleBasedStateMachine):
    """Runs one topic through everything that moves its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.model = Model()

    @initialize()
    def open(self) -> None:
        options: dict[str, Any] = {
            "bulk_rows_min": 8,
            "segment_rows_max": 10,
            "row_group_rows": 4,
            "ledger_entries_max": 9,
            "frame_bytes_max": 1_024,
            "read_batch_rows": 7,
            "retired_file_grace_ms": GRACE_MS,
            # What the cache does with retired messages has a test of its own.
            "frame_cache_megabytes": 0,
        }
        self.ledger = Ledger(
            self.directory.name, small_settings(**options), clock_ms=self.clock, background=False
        )
        self.topic = self.ledger.create_topic("orders")

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
        self.directory.cleanup()

    @rule(payload=st.none() | st.binary(max_size=4), batched=st.booleans())
    def append_one(self, payload: bytes | None, batched: bool) -> None:
        sizes = [1] if batched else None
        self.topic.append(NewMessages([payload], self.clock(), batch_sizes=sizes))
        self.model.append([payload])

    @rule(payloads=PAYLOADS, data=st.data())
    def append_batches(self, payloads: list[bytes | None], data: st.DataObject) -> None:
        first = data.draw(st.integers(1, len(payloads)))
        rest = len(payloads) - first
        sizes = [first, rest] if rest else [first]
        self.topic.append(NewMessages(payloads, self.clock(), batch_sizes=sizes))
        self.model.append(payloads)

    @rule(payloads=PAYLOADS)
    def append_run(self, payloads: list[bytes | None]) -> None:
        keys = [f"k{i}" for i in range(len(payloads))]
        self.topic.append(NewMessages(payloads, self.clock(), keys=keys))
        self.model.append(payloads)

    @rule(payloads=PAYLOADS, repeats=st.sampled_from([1, 1, 8, 12]))
    def append_table(self, payloads: list[bytes | None], repeats: int) -> None:
        self.topic.append_table(table(payloads * repeats))
        self.model.append(payloads * repeats)

    @rule()
    def seal(self) -> None:
        self.topic.seal()

    @rule(name=NAMES, data=st.data())
    def subscribe(self, name: str, data: st.DataObject) -> None:
        head = len(self.model.appended)
        start = data.draw(st.none() | st.integers(0, head))
        self.topic.subscribe(name, start=start)
        if name not in self.model.acked:
            first = head if start is None else start
            gone = set(range(head)) - self.model.stored
            self.model.acked[name] = set(range(first)) | gone

    @precondition(lambda self: self.model.acked and self.model.appended)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.acked)))
        head = len(self.model.appended)
        bounds = st.tuples(st.integers(0, head), st.integers(0, head))
        pairs = data.draw(st.lists(bounds, min_size=1, max_size=3))
        spans = [Span(min(pair), max(pair)) for pair in pairs]
        self.topic.subscription(name).acknowledge(spans)
        self.model.acked[name] |= {o for span in spans for o in range(span.start, span.end)}

    @precondition(lambda self: self.model.acked)
    @rule(data=st.data())
    def delete_subscription(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.acked)))
        self.topic.subscription(name).delete()
        del self.model.acked[name]

    @rule(minutes=st.sampled_from([-1, 0, 1]), size=st.sampled_from([-1, 0, 10_000]))
    def retire(self, minutes: int, size: int) -> None:
        retired = self.topic.retire(Retention(minutes=minutes, bytes=size))
        gone = {o for segment in retired for o in range(segment.offset_start, segment.offset_end)}
        assert gone <= self.model.unneeded()
        self.model.stored -= gone

    @rule(ms=st.sampled_from([1, GRACE_MS, 60_000]))
    def advance_the_clock(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def collect_garbage(self) -> None:
        assert self.ledger.collect_garbage().orphans == []

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.open()

    @invariant()
    def the_ledger_agrees_with_the_model(self) -> None:
        if not hasattr(self, "ledger"):
            return
        messages = list(self.topic.read_messages())
        found = [(message.topic_offset, message.payload) for message in messages]
        assert found == [(o, self.model.appended[o]) for o in sorted(self.model.stored)]
        positions = [message.position for message in messages]
        assert positions == sorted(set(positions))
        assert self.topic.next_offset() == len(self.model.appended)
        self.check_subscriptions(messages)
        assert self.ledger.check().problems == ()

    def check_subscriptions(self, messages: list[StoredMessage]) -> None:
        subscriptions = self.topic.subscriptions()
        assert {s.name for s in subscriptions} == self.model.acked.keys()
        for subscription in subscriptions:
            acked = self.model.acked[subscription.name]
            assert subscription.backlog() == counted_backlog(messages, acked)
            first = next(o for o in range(len(self.model.appended) + 1) if o not in acked)
            assert subscription.ack_floor() == first


LedgerMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
TestLedgerModel = LedgerMachine.TestCase
