-- Every id comes from here, inside the transaction that uses it, and is never given out twice.
CREATE TABLE counter (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counter (name, value) VALUES
    ('topic', 0), ('ledger', 0), ('segment', 0), ('subscription', 0), ('session', 0);

CREATE TABLE topic (
    topic_id    INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    created_ms  BIGINT NOT NULL,
    -- Frames before this offset are in a segment already, and wait to be deleted.
    tail_offset BIGINT NOT NULL
);

-- A run of entries of one topic. The totals of a closed ledger are final; those of the open one
-- count what has left the tail: its newest frame in the tail knows the rest.
CREATE TABLE ledger (
    ledger_id   INTEGER PRIMARY KEY,
    topic_id    BIGINT NOT NULL,
    base_offset BIGINT NOT NULL,
    opened_ms   BIGINT NOT NULL,
    closed_ms   BIGINT,
    messages    BIGINT NOT NULL,
    entries     BIGINT NOT NULL,
    bytes       BIGINT NOT NULL
);
CREATE INDEX ledger_by_topic ON ledger (topic_id, base_offset, ledger_id);

-- The newest messages of every topic, a row per frame. The position is the topic's id and, in the
-- lower 44 bits, the offset of the first message: one number, so that the tree stays shallow
-- however large the frames are.
CREATE TABLE tail (
    position       INTEGER PRIMARY KEY,
    messages       BIGINT NOT NULL,
    entries        BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    ledger_id      BIGINT NOT NULL,
    entry_start    BIGINT NOT NULL,
    -- Bytes of the ledger up to and with this frame.
    ledger_bytes   BIGINT NOT NULL,
    publish_ms_max BIGINT NOT NULL,
    appended_ms    BIGINT NOT NULL,
    frame          BLOB NOT NULL
);

CREATE TABLE segment (
    segment_id     INTEGER PRIMARY KEY,
    topic_id       BIGINT NOT NULL,
    offset_start   BIGINT NOT NULL,
    offset_end     BIGINT NOT NULL,
    messages       BIGINT NOT NULL,
    entries        BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    file_bytes     BIGINT NOT NULL,
    ledger_first   BIGINT NOT NULL,
    ledger_last    BIGINT NOT NULL,
    publish_ms_min BIGINT NOT NULL,
    publish_ms_max BIGINT NOT NULL,
    -- A file written before its place was known counts from 0: add these to its columns.
    ledger_shift   BIGINT NOT NULL,
    offset_shift   BIGINT NOT NULL,
    path           TEXT NOT NULL UNIQUE,
    checksum       TEXT NOT NULL,
    created_ms     BIGINT NOT NULL,
    retired_ms     BIGINT
);
CREATE INDEX segment_live ON segment (topic_id, offset_start) WHERE retired_ms IS NULL;
CREATE INDEX segment_retired ON segment (retired_ms) WHERE retired_ms IS NOT NULL;

CREATE TABLE subscription (
    subscription_id INTEGER PRIMARY KEY,
    topic_id        BIGINT NOT NULL,
    name            TEXT NOT NULL,
    created_ms      BIGINT NOT NULL,
    -- Every offset below is acknowledged: the mark-delete position is the message before it.
    ack_floor       BIGINT NOT NULL,
    UNIQUE (topic_id, name)
);

-- Acknowledged offsets at and above the floor: a roaring bitmap per 65,536 offsets.
CREATE TABLE acked_chunk (
    subscription_id BIGINT NOT NULL,
    chunk           BIGINT NOT NULL,
    acked           BIGINT NOT NULL,
    bitmap          BLOB NOT NULL,
    PRIMARY KEY (subscription_id, chunk)
) WITHOUT ROWID;

-- A process that has the directory open. It is alive while it holds its byte of locks/sessions.
CREATE TABLE session (
    session_id INTEGER PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        BIGINT NOT NULL,
    opened_ms  BIGINT NOT NULL
);
