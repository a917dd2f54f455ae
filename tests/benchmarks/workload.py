"""Messages to measure with: JSON of 100 bytes, a third of it random, so compression is honest."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

_START_MS = 1_760_000_000_000


def payloads(count: int, *, size: int = 100, seed: int = 7) -> list[bytes]:
    """Return distinct JSON messages of exactly ``size`` bytes."""
    noise = random.Random(seed).randbytes(size * count // 4 + size).hex().encode()
    made = []
    for i in range(count):
        amount = 100_000 + i * 31 % 100_000
        head = b'{"id":"%010d","type":"t%d","amount":%d,"user":"' % (i, i % 7, amount)
        at = i * (size // 2) % (len(noise) - size)
        made.append(head + noise[at : at + size - len(head) - 2] + b'"}')
    return made


def message_table(count: int, *, first: int = 0, keys: int = 100_000) -> pa.Table:
    """Return messages with keys, publish times and properties, a millisecond for ten of them."""
    numbers = np.arange(first, first + count)
    texts = payloads(count, seed=first + 1)
    key_numbers = numbers * 2_654_435_761 % keys
    return pa.table(
        {
            "payload": pa.array(texts, pa.binary()),
            "key": pa.array([f"key-{k:07d}" for k in key_numbers.tolist()]),
            "publish_time": pa.array(_START_MS + numbers // 10).cast(pa.timestamp("ms", "UTC")),
            "sequence_id": pa.array(numbers),
            "producer_name": pa.repeat(pa.scalar("bench"), count),
        }
    )
