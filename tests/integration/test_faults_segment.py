"""A damaged segment never gives wrong messages: it is named, and the rest can be read."""

import os
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgermq.config import Settings
from ledgermq.parquet_ledger import Ledger, NewMessages, Segment, SegmentDamaged, Topic

PROGRAM = Path(__file__).parent / "programs" / "read_damaged.py"
# Without a cache: this process would otherwise not need the segments that it sealed itself.
SETTINGS = Settings(wal_pregrow_megabytes=0, frame_cache_megabytes=0)
SEED = 97
ROWS = 200
PAGE_FLIPS, FOOTER_FLIPS = 40, 60
SOAK_FLIPS_A_ROUND = 20


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    """Return a topic of three segments and a tail."""
    rng = random.Random(SEED)
    with Ledger(tmp_path / "ledger", SETTINGS, background=False) as ledger:
        topic = ledger.create_topic("t")
        for first in range(0, 3 * ROWS, ROWS):
            topic.append(
                NewMessages(
                    [rng.randbytes(60) for _ in range(ROWS)],
                    1_700_000_000_000,
                    producer_name="p",
                    sequence_ids=first,
                    keys=[f"key{i % 9}" for i in range(ROWS)],
                    properties=[{"a": str(i)} for i in range(ROWS)],
                )
            )
            topic.seal()
        topic.append(NewMessages([b"tail"], 1, producer_name="p", sequence_ids=3 * ROWS))
        yield topic


def file_of(topic: Topic, segment: Segment) -> Path:
    return topic.ledger.directory / segment.path


def numbers(topic: Topic, start: int, end: int | None = None) -> list[int]:
    return [m.sequence_id for m in topic.read_messages(start, end)]


def assert_named_and_the_rest_readable(topic: Topic, damaged: Segment) -> None:
    with pytest.raises(SegmentDamaged) as caught:
        numbers(topic, 0)
    assert caught.value.path == damaged.path
    assert caught.value.topic == str(topic.name)
    assert damaged.path in str(caught.value)
    assert "restore the file from a backup" in str(caught.value)
    assert numbers(topic, 0, damaged.offset_start) == list(range(damaged.offset_start))
    assert numbers(topic, damaged.offset_end) == list(range(damaged.offset_end, 3 * ROWS + 1))
    problems = topic.ledger.check().problems
    assert [problem.kind for problem in problems] == ["segment"]
    assert damaged.path in problems[0].where


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.5, 0.9, 0.9999])
def test_a_truncated_segment_is_named_and_the_rest_can_be_read(topic: Topic, kept: float) -> None:
    damaged = topic.segments()[1]
    os.truncate(file_of(topic, damaged), int(damaged.file_bytes * kept))
    assert_named_and_the_rest_readable(topic, damaged)


def test_a_missing_segment_is_named_and_the_rest_can_be_read(topic: Topic) -> None:
    damaged = topic.segments()[1]
    file_of(topic, damaged).unlink()
    assert_named_and_the_rest_readable(topic, damaged)


def test_a_segment_replaced_by_another_one_is_reported(topic: Topic) -> None:
    first, damaged, _ = topic.segments()
    file_of(topic, damaged).write_bytes(file_of(topic, first).read_bytes())
    problems = topic.ledger.check().problems
    assert [problem.kind for problem in problems] == ["segment"]
    assert damaged.path in problems[0].where


def test_a_restored_segment_is_as_good_as_before(topic: Topic) -> None:
    damaged = topic.segments()[1]
    backup = file_of(topic, damaged).read_bytes()
    file_of(topic, damaged).write_bytes(b"nonsense")
    with pytest.raises(SegmentDamaged):
        numbers(topic, 0)
    file_of(topic, damaged).write_bytes(backup)
    assert numbers(topic, 0) == list(range(3 * ROWS + 1))
    assert topic.ledger.check().sound


def test_a_damaged_segment_does_not_stop_appends_or_seals(topic: Topic) -> None:
    damaged = topic.segments()[1]
    file_of(topic, damaged).unlink()
    head = topic.next_offset()
    assert topic.append(NewMessages([b"more"], 1, sequence_ids=head)).offset_start == head
    assert len(topic.seal()) == 1
    assert numbers(topic, damaged.offset_end) == list(range(damaged.offset_end, head + 1))


def flipped_bits(path: Path, *, pages: int, footer: int, seed: int) -> list[int]:
    """Return seeded positions in the pages and in the footer, which no page checksum covers."""
    content = path.read_bytes()
    begins = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    rng = random.Random(seed)
    in_pages = [rng.randrange(begins * 8) for _ in range(pages)]
    return in_pages + [rng.randrange(begins * 8, len(content) * 8) for _ in range(footer)]


def outcomes_of(topic: Topic, segment: Segment, bits: list[int]) -> Counter[str]:
    """Return how often each outcome came, from a process that a crash would not take us with."""
    arguments = [str(topic.ledger.directory), "t", segment.path, *map(str, bits)]
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments], check=False, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"the interpreter ended after {lines[-1:]}: {done.stderr}"
    bad = [line for line in lines if line.split(" ", 1)[1] not in EXPECTED_OUTCOMES]
    assert not bad, bad
    return Counter(line.split(" ", 1)[1] for line in lines)


EXPECTED_OUTCOMES = ("reading", "same", "damaged", "check reported")


def test_a_flipped_bit_gives_the_right_messages_or_an_error_and_is_always_reported(
    topic: Topic,
) -> None:
    segment = topic.segments()[1]
    bits = flipped_bits(file_of(topic, segment), pages=PAGE_FLIPS, footer=FOOTER_FLIPS, seed=SEED)
    outcomes = outcomes_of(topic, segment, bits)
    sys.stdout.write(f"{len(bits)} flipped bits: {dict(outcomes)}\n")
    assert outcomes["check reported"] == len(bits)
    assert outcomes["same"] + outcomes["damaged"] == len(bits)


@pytest.mark.soak
def test_many_flipped_bits(topic: Topic) -> None:
    segment = topic.segments()[1]
    for seed in range(int(os.environ.get("SOAK_ROUNDS", "500")) // 10):
        path = file_of(topic, segment)
        bits = flipped_bits(
            path, pages=5 * SOAK_FLIPS_A_ROUND, footer=5 * SOAK_FLIPS_A_ROUND, seed=seed
        )
        outcomes_of(topic, segment, bits)
