"""The tail as Arrow: frames of the catalog turned into rows with their positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from .catalog import Row, Transaction
from .columns import SEGMENT_SCHEMA
from .frame import Frame, decode_singles, is_single
from .frame_cache import TailRow

# As the limit of a query: no limit.
ALL_ROWS = 1 << 62


def tail_row(row: Row) -> TailRow:
    """Return a frame as the queries ``frames_from`` and ``frame_at_or_before`` give it."""
    return TailRow(*row)


def load_frames(
    tx: Transaction, topic_id: int, start: int, *, end: int, rows_max: int, bytes_max: int
) -> list[TailRow]:
    """Return the frames from the one that holds or follows ``start``, within the budget.

    At least one frame is returned where there is one; none begins at or after ``end``.
    """
    found = tx.row("frame_at_or_before", topic_id, start)
    rows = []
    if found is not None and found[0] + found[1] > start:
        rows.append(tail_row(found))
    after = rows[-1].offset_start if rows else start - 1
    budget = bytes_max - sum(len(row.data) for row in rows)
    spans = tx.rows("tail_spans", topic_id, after + 1, rows_max - len(rows))
    take = 0
    for span in spans:
        budget -= span[3]
        if span[0] >= end or (budget < 0 and (rows or take)):
            break
        take += 1
    if take:
        rows += [tail_row(row) for row in tx.rows("frames_from", topic_id, after + 1, take)]
    return rows


def tail_batches(rows: Sequence[TailRow]) -> Iterator[pa.RecordBatch]:
    """Yield the frames as record batches of SEGMENT_SCHEMA, lone messages gathered into one."""
    for single, group in groupby(rows, key=lambda row: is_single(row.data)):
        if not single:
            for row in group:
                yield _batch(row.frame(), [row])
        else:
            run = list(group)
            yield _batch(decode_singles([row.data for row in run]), run)


def _batch(frame: Frame, rows: Sequence[TailRow]) -> pa.RecordBatch:
    """Return one decoded frame, made of one row of the tail or of several lone messages."""
    if len(rows) == 1:
        row = rows[0]
        ledgers = np.full(frame.messages, row.ledger_id, np.int64)
        entries = frame.entry_ordinals() + row.entry_start
        offsets = np.arange(row.offset_start, row.offset_end, dtype=np.int64)
    else:
        ledgers = np.array([row.ledger_id for row in rows], np.int64)
        entries = np.array([row.entry_start for row in rows], np.int64)
        offsets = np.array([row.offset_start for row in rows], np.int64)
    positions = [ledgers, entries, frame.batch_indexes(), offsets]
    arrays = [pa.array(column) for column in positions] + frame.message_arrays()
    return pa.record_batch(arrays, schema=SEGMENT_SCHEMA)
