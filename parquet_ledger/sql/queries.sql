-- name: next_id
UPDATE counter SET value = value + 1 WHERE name = ? RETURNING value;

-- name: insert_topic
INSERT INTO topic (topic_id, name, created_ms, tail_offset) VALUES (?, ?, ?, 0);

-- name: topic_by_name
SELECT topic_id, name, created_ms, tail_offset FROM topic WHERE name = ?;

-- name: topics
SELECT topic_id, name, created_ms, tail_offset FROM topic ORDER BY name;

-- name: tail_offset
SELECT tail_offset FROM topic WHERE topic_id = ?;

-- name: set_tail_offset
UPDATE topic SET tail_offset = ? WHERE topic_id = ?;

-- name: delete_topic
DELETE FROM topic WHERE topic_id = ?;

-- name: delete_topic_ledgers
DELETE FROM ledger WHERE topic_id = ?;

-- name: delete_topic_tail
DELETE FROM tail WHERE position >= ?1 << 44 AND position < (?1 + 1) << 44;

-- name: delete_topic_acks
DELETE FROM acked_chunk
WHERE subscription_id IN (SELECT subscription_id FROM subscription WHERE topic_id = ?);

-- name: delete_topic_subscriptions
DELETE FROM subscription WHERE topic_id = ?;

-- name: retire_topic_segments
UPDATE segment SET retired_ms = ? WHERE topic_id = ? AND retired_ms IS NULL;

-- name: newest_ledger
SELECT ledger_id, base_offset, opened_ms, closed_ms, messages, entries, bytes
FROM ledger WHERE topic_id = ? ORDER BY base_offset DESC, ledger_id DESC LIMIT 1;

-- name: ledgers
SELECT ledger_id, base_offset, opened_ms, closed_ms, messages, entries, bytes
FROM ledger WHERE topic_id = ? ORDER BY base_offset, ledger_id;

-- name: open_ledger
INSERT INTO ledger (ledger_id, topic_id, base_offset, opened_ms, messages, entries, bytes)
VALUES (?, ?, ?, ?, 0, 0, 0);

-- name: close_ledger
UPDATE ledger SET closed_ms = ?, messages = ?, entries = ?, bytes = ? WHERE ledger_id = ?;

-- name: insert_closed_ledger
INSERT INTO ledger
    (ledger_id, topic_id, base_offset, opened_ms, closed_ms, messages, entries, bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: settle_open_ledger
UPDATE ledger SET messages = ? - base_offset, entries = ?, bytes = ?
WHERE ledger_id = ? AND closed_ms IS NULL;

-- name: ledger_totals_between
SELECT coalesce(sum(entries), 0), coalesce(sum(bytes), 0) FROM ledger
WHERE topic_id = ? AND ledger_id >= ? AND ledger_id < ?;

-- name: append_frame
INSERT INTO tail (position, messages, entries, bytes, ledger_id, entry_start,
                  ledger_bytes, publish_ms_max, appended_ms, frame)
VALUES ((?1 << 44) + ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: newest_frame_of_open_ledger
SELECT newest.offset_end, newest.ledger_id, ledger.base_offset, newest.entry_end,
       newest.ledger_bytes, ledger.opened_ms
FROM (SELECT (position & 17592186044415) + messages AS offset_end, ledger_id,
             entry_start + entries AS entry_end, ledger_bytes
      FROM tail WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44
      ORDER BY position DESC LIMIT 1) AS newest
JOIN ledger ON ledger.ledger_id = newest.ledger_id AND ledger.closed_ms IS NULL;

-- name: newest_frame
SELECT position & 17592186044415, messages, entries, ledger_id, entry_start, ledger_bytes
FROM tail WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44
ORDER BY position DESC LIMIT 1;

-- name: tail_end
SELECT bytes, ledger_id, entry_start, ledger_bytes, appended_ms
FROM tail WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44
ORDER BY position LIMIT 1;

-- name: frame_of_entry
SELECT position & 17592186044415, messages, entries, ledger_id, entry_start, frame
FROM tail WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44
    AND ledger_id = ?3 AND entry_start <= ?4
ORDER BY position DESC LIMIT 1;

-- name: frame_at_or_before
SELECT position & 17592186044415, messages, entries, ledger_id, entry_start, frame
FROM tail WHERE position >= ?1 << 44 AND position <= (?1 << 44) + ?2
ORDER BY position DESC LIMIT 1;

-- name: frames_from
SELECT position & 17592186044415, messages, entries, ledger_id, entry_start, frame
FROM tail WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44
ORDER BY position LIMIT ?3;

-- name: tail_spans
SELECT position & 17592186044415, messages, entries, bytes, ledger_id, entry_start,
       ledger_bytes, publish_ms_max, appended_ms
FROM tail WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44
ORDER BY position LIMIT ?3;

-- name: tail_totals
SELECT count(*), coalesce(sum(messages), 0), coalesce(sum(entries), 0), coalesce(sum(bytes), 0),
       coalesce(min(appended_ms), 0)
FROM tail WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44;

-- name: first_frame_published_since
SELECT position & 17592186044415 FROM tail
WHERE position >= (?1 << 44) + ?2 AND position < (?1 + 1) << 44 AND publish_ms_max >= ?3
ORDER BY position LIMIT 1;

-- name: delete_sealed_frames
DELETE FROM tail WHERE position IN
    (SELECT position FROM tail WHERE position >= ?1 << 44 AND position < (?1 << 44) + ?2
     ORDER BY position LIMIT ?3);

-- name: insert_segment
INSERT INTO segment (segment_id, topic_id, offset_start, offset_end, messages, entries, bytes,
                     file_bytes, ledger_first, ledger_last, publish_ms_min, publish_ms_max,
                     ledger_shift, offset_shift, path, checksum, created_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: live_segments
SELECT segment_id, topic_id, offset_start, offset_end, messages, entries, bytes, file_bytes,
       ledger_first, ledger_last, publish_ms_min, publish_ms_max, ledger_shift, offset_shift,
       path, checksum, created_ms, retired_ms
FROM segment WHERE topic_id = ? AND retired_ms IS NULL ORDER BY offset_start;

-- name: live_segment_ending_after
SELECT segment_id, topic_id, offset_start, offset_end, messages, entries, bytes, file_bytes,
       ledger_first, ledger_last, publish_ms_min, publish_ms_max, ledger_shift, offset_shift,
       path, checksum, created_ms, retired_ms
FROM segment WHERE topic_id = ? AND retired_ms IS NULL AND offset_start >= coalesce(
    (SELECT max(offset_start) FROM segment
     WHERE topic_id = ? AND retired_ms IS NULL AND offset_start <= ?), 0)
    AND offset_end > ?
ORDER BY offset_start LIMIT 1;

-- name: live_segment_published_since
SELECT segment_id, topic_id, offset_start, offset_end, messages, entries, bytes, file_bytes,
       ledger_first, ledger_last, publish_ms_min, publish_ms_max, ledger_shift, offset_shift,
       path, checksum, created_ms, retired_ms
FROM segment WHERE topic_id = ? AND retired_ms IS NULL AND publish_ms_max >= ?
ORDER BY offset_start LIMIT 1;

-- name: retire_segment
UPDATE segment SET retired_ms = ? WHERE segment_id = ? AND retired_ms IS NULL;

-- name: segments_retired_before
SELECT segment_id, path FROM segment WHERE retired_ms IS NOT NULL AND retired_ms <= ?;

-- name: forget_segment
DELETE FROM segment WHERE segment_id = ? AND retired_ms IS NOT NULL;

-- name: segment_paths
SELECT path FROM segment;

-- name: insert_subscription
INSERT INTO subscription (subscription_id, topic_id, name, created_ms, ack_floor)
VALUES (?, ?, ?, ?, ?);

-- name: subscription_by_name
SELECT subscription_id, topic_id, name, created_ms, ack_floor
FROM subscription WHERE topic_id = ? AND name = ?;

-- name: subscriptions
SELECT subscription_id, topic_id, name, created_ms, ack_floor
FROM subscription WHERE topic_id = ? ORDER BY name;

-- name: delete_subscription
DELETE FROM subscription WHERE subscription_id = ?;

-- name: delete_acks
DELETE FROM acked_chunk WHERE subscription_id = ?;

-- name: set_ack_floor
UPDATE subscription SET ack_floor = ? WHERE subscription_id = ?;

-- name: ack_floor
SELECT ack_floor FROM subscription WHERE subscription_id = ?;

-- name: acked_chunks
SELECT chunk, bitmap FROM acked_chunk
WHERE subscription_id = ? AND chunk >= ? AND chunk <= ? ORDER BY chunk;

-- name: put_acked_chunk
INSERT INTO acked_chunk (subscription_id, chunk, acked, bitmap) VALUES (?, ?, ?, ?)
ON CONFLICT (subscription_id, chunk) DO UPDATE SET acked = excluded.acked, bitmap = excluded.bitmap;

-- name: delete_acked_chunks_below
DELETE FROM acked_chunk WHERE subscription_id = ? AND chunk < ?;

-- name: delete_acked_chunk
DELETE FROM acked_chunk WHERE subscription_id = ? AND chunk = ?;

-- name: insert_session
INSERT INTO session (session_id, host, pid, opened_ms) VALUES (?, ?, ?, ?);

-- name: sessions
SELECT session_id, host, pid, opened_ms FROM session ORDER BY session_id;

-- name: delete_session
DELETE FROM session WHERE session_id = ?;
