"""The codecs that a producer may choose; they compress an entry while it is in the tail."""

from __future__ import annotations

import zlib
from enum import IntEnum

import pyarrow as pa


class Compression(IntEnum):
    """Pulsar's compression types, with Pulsar's numbers."""

    NONE = 0
    LZ4 = 1
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4


_ARROW_CODECS = {
    Compression.LZ4: "lz4_raw",
    Compression.ZSTD: "zstd",
    Compression.SNAPPY: "snappy",
}


def compress(codec: Compression, data: bytes) -> bytes:
    """Return ``data`` compressed."""
    if codec is Compression.NONE:
        return data
    if codec is Compression.ZLIB:
        return zlib.compress(data)
    compressed: bytes = pa.Codec(_ARROW_CODECS[codec]).compress(data, asbytes=True)
    return compressed


def decompress(codec: Compression, data: pa.Buffer, size_bytes: int) -> pa.Buffer:
    """Return ``data`` as it was before; ``size_bytes`` is its length then."""
    if codec is Compression.NONE:
        return data
    if codec is Compression.ZLIB:
        return pa.py_buffer(zlib.decompress(data))
    return pa.Codec(_ARROW_CODECS[codec]).decompress(data, decompressed_size=size_bytes)
