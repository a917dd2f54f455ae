"""What a writer may hand to the ledger, and how too much of it is cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgermq.parquet_ledger import InvalidMessage, MessageTooLarge, NewMessages
from ledgermq.parquet_ledger.append import AppendLimits, encode_within_limits
from ledgermq.parquet_ledger.frame import decode
from ledgermq.parquet_ledger.head import LedgerLimits

COLUMNS: dict[str, list[Any]] = {
    "publish_time_ms": [1, 2, 3],
    "sequence_ids": [1, 2, 3],
    "keys": ["a", "b", "c"],
    "ordering_keys": [b"a", b"b", b"c"],
    "sticky_hashes": [1, 2, 3],
    "properties": [{}, {}, {}],
    "event_times_ms": [1, 2, 3],
    "deliver_at_ms": [1, 2, 3],
    "chunk_uuids": ["a", "b", "c"],
    "chunk_ids": [0, 1, 2],
    "chunk_counts": [3, 3, 3],
    "chunk_total_bytes": [9, 9, 9],
}


def three(**columns: Any) -> NewMessages:
    return NewMessages([b"a", b"b", b"c"], **{"publish_time_ms": 1, **columns})


def test_nothing_can_not_be_appended() -> None:
    with pytest.raises(InvalidMessage, match="nothing"):
        NewMessages([], 1)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_another_length_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidMessage, match=name):
        three(**{name: COLUMNS[name][:2]})


@pytest.mark.parametrize("sizes", [[], [2], [2, 2], [3, 0], [4, -1]])
def test_batch_sizes_must_be_positive_and_add_up(sizes: list[int]) -> None:
    with pytest.raises(InvalidMessage, match="batch_sizes"):
        three(batch_sizes=sizes)


@pytest.mark.parametrize("name", COLUMNS)
def test_halves_share_out_every_column(name: str) -> None:
    first, second = three(**{name: COLUMNS[name]}).halves()
    assert [*getattr(first, name), *getattr(second, name)] == COLUMNS[name]


def test_halves_go_on_counting_sequence_ids() -> None:
    first, second = three(sequence_ids=40).halves()
    assert (first.sequence_ids, second.sequence_ids) == (40, 41)


def test_halves_keep_what_all_messages_share() -> None:
    _, second = three(producer_name="p", schema_version=3, keys_are_base64=True).halves()
    assert (second.producer_name, second.schema_version, second.keys_are_base64) == ("p", 3, True)


def test_halves_are_cut_between_batches() -> None:
    first, second = three(batch_sizes=[2, 1]).halves()
    assert (first.payloads, second.payloads) == ([b"a", b"b"], [b"c"])
    assert (first.batch_sizes, second.batch_sizes) == ([2], [1])


def limits(*, message: int = 1 << 20, frame: int = 1 << 20) -> AppendLimits:
    return AppendLimits(message, frame, LedgerLimits(10, 10, 10))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.integers(1, 100))
def test_messages_are_cut_into_frames_that_fit(payloads: list[bytes], frame_max: int) -> None:
    frames = encode_within_limits(NewMessages(payloads, 1), limits(frame=frame_max), "t")
    assert all(frame.size_bytes <= frame_max or frame.entries == 1 for frame in frames)
    columns = [decode(frame.data).columns["payload"].to_pylist() for frame in frames]
    assert [payload for column in columns for payload in column] == payloads


def test_messages_that_fit_stay_in_one_frame() -> None:
    assert len(encode_within_limits(three(), limits(frame=3), "t")) == 1


def test_a_batch_is_never_cut() -> None:
    frames = encode_within_limits(three(batch_sizes=[2, 1]), limits(frame=1), "t")
    assert [frame.messages for frame in frames] == [2, 1]


def test_a_message_over_the_limit_is_refused_with_its_size() -> None:
    big = NewMessages([b"a", b"x" * 11], 1)
    with pytest.raises(MessageTooLarge) as refused:
        encode_within_limits(big, limits(message=10), "t")
    assert (refused.value.size_bytes, refused.value.limit_bytes) == (11, 10)


def test_a_message_of_exactly_the_limit_is_taken() -> None:
    assert len(encode_within_limits(NewMessages([b"x" * 10], 1), limits(message=10), "t")) == 1


def test_keys_and_properties_count_towards_the_limit() -> None:
    big = NewMessages([b"x" * 8], 1, keys=["k"], properties=[{"p": "v"}])
    with pytest.raises(MessageTooLarge):
        encode_within_limits(big, limits(message=10), "t")
