"""What a writer hands to the ledger: a run of messages of one producer, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from .compression import Compression
from .errors import InvalidMessage


@dataclass(slots=True)
class NewMessages:
    """Messages that are appended together; a column is None where no message has a value.

    ``batch_sizes`` says how many messages each entry holds, in order. None means that every message
    is an entry of its own and was not batched. ``sequence_ids`` and ``publish_time_ms`` may be one
    number: the first sequence id of a consecutive run, and the time of all messages.
    """

    payloads: Sequence[bytes | None]
    publish_time_ms: int | Sequence[int]
    producer_name: str | None = None
    sequence_ids: int | Sequence[int] | None = None
    keys: Sequence[str | None] | None = None
    keys_are_base64: bool = False
    ordering_keys: Sequence[bytes | None] | None = None
    sticky_hashes: Sequence[int] | None = None
    properties: Sequence[Mapping[str, str] | None] | None = None
    event_times_ms: Sequence[int | None] | None = None
    deliver_at_ms: Sequence[int | None] | None = None
    schema_version: int | None = None
    chunk_uuids: Sequence[str | None] | None = None
    chunk_ids: Sequence[int | None] | None = None
    chunk_counts: Sequence[int | None] | None = None
    chunk_total_bytes: Sequence[int | None] | None = None
    batch_sizes: Sequence[int] | None = None
    compression: Compression = Compression.NONE

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        rows = len(self.payloads)
        if rows == 0:
            raise InvalidMessage("there is nothing to append: give at least one message")
        for i, column in enumerate(_columns_of(self)):
            if column is not None and not isinstance(column, int) and len(column) != rows:
                raise InvalidMessage(f"{_COLUMNS[i]} has {len(column)} values for {rows} messages")
        if self.producer_name == "":
            raise InvalidMessage("producer_name is empty: give a name, or None")
        sizes = self.batch_sizes
        if sizes is not None and (sum(sizes) != rows or min(sizes) < 1):
            raise InvalidMessage(
                f"batch_sizes must be positive and add up to {rows} messages, not {sum(sizes)}"
            )

    def halves(self) -> tuple[NewMessages, NewMessages]:
        """Return the messages in two parts, cut between entries near the middle."""
        if self.batch_sizes is None:
            cut = len(self.payloads) // 2
            return self._part(0, cut, None), self._part(cut, len(self.payloads), None)
        entries = len(self.batch_sizes) // 2
        cut = sum(self.batch_sizes[:entries])
        return (
            self._part(0, cut, self.batch_sizes[:entries]),
            self._part(cut, len(self.payloads), self.batch_sizes[entries:]),
        )

    def _part(self, start: int, end: int, batch_sizes: Sequence[int] | None) -> NewMessages:
        columns = {name: getattr(self, name) for name in _COLUMNS}
        for name, column in columns.items():
            if name == "sequence_ids" and isinstance(column, int):
                columns[name] = column + start
            elif column is not None and not isinstance(column, int):
                columns[name] = column[start:end]
        payloads = self.payloads[start:end]
        return replace(self, payloads=payloads, batch_sizes=batch_sizes, **columns)


_COLUMNS = (
    "publish_time_ms",
    "sequence_ids",
    "keys",
    "ordering_keys",
    "sticky_hashes",
    "properties",
    "event_times_ms",
    "deliver_at_ms",
    "chunk_uuids",
    "chunk_ids",
    "chunk_counts",
    "chunk_total_bytes",
)
_columns_of = attrgetter(*_COLUMNS)
