"""Every option of ledgermq: its default, unit, range and meaning.

The names end in their unit, followed at most by `_max`, `_min` or `_default`. A megabyte is
1,048,576 bytes, as in Pulsar. A default that differs from Pulsar's says so in its meaning.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_INT32_MAX = 2**31 - 1  # Pulsar's own upper bound for its `int` options.
_INT64_MAX = 2**63 - 1
_HOUR_MS = 3_600_000
_WEEK_MS = 7 * 24 * _HOUR_MS
_TEN_YEARS_MS = 3_650 * 24 * _HOUR_MS


# Both return Any, like pydantic's Field, because they stand where a default value stands.
def _number(default: int, *, low: int, high: int, meaning: str, pulsar: str | None = None) -> Any:
    return Field(
        default=default,
        ge=low,
        le=high,
        description=meaning,
        json_schema_extra={"pulsar": pulsar},
    )


def _choice(default: bool | str, *, meaning: str, pulsar: str | None = None) -> Any:
    return Field(default=default, description=meaning, json_schema_extra={"pulsar": pulsar})


class Settings(BaseModel):
    """All options, checked and frozen; `Settings()` holds the defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    # --- Messages ---
    message_bytes_max: int = _number(
        5_242_880,
        low=1,
        high=1 << 30,
        meaning="Largest payload of one message; a larger one is refused or chunked.",
        pulsar="maxMessageSize",
    )
    batch_index_ack_enabled: bool = _choice(
        True,
        meaning="Acknowledge the messages of a batch one by one, not only the batch as a whole.",
        pulsar="acknowledgmentAtBatchIndexLevelEnabled",
    )
    acknowledgment_group_ms: int = _number(
        100,
        low=0,
        high=60_000,
        meaning="How long acknowledgments are gathered before they are written; 0 = not at all.",
    )

    # --- Deduplication ---
    deduplication_enabled: bool = _choice(
        False,
        meaning="Drop a message whose producer and sequence id are already stored.",
        pulsar="brokerDeduplicationEnabled",
    )
    deduplication_producer_inactivity_minutes: int = _number(
        360,
        low=1,
        high=_INT32_MAX,
        meaning="How long the last sequence id of a disconnected producer is remembered.",
        pulsar="brokerDeduplicationProducerInactivityTimeoutMinutes",
    )
    deduplication_producers_max: int = _number(
        10_000,
        low=1,
        high=_INT32_MAX,
        meaning="How many producers are remembered for each topic.",
        pulsar="brokerDeduplicationMaxNumberOfProducers",
    )

    # --- Delayed delivery ---
    delayed_delivery_enabled: bool = _choice(
        True,
        meaning="Hold a message back until its delivery time; if off, it is delivered at once.",
        pulsar="delayedDeliveryEnabled",
    )
    delayed_delivery_tick_ms: int = _number(
        1_000,
        low=1,
        high=_HOUR_MS,
        meaning="How often delayed messages are looked at: the accuracy of a delivery time.",
        pulsar="delayedDeliveryTickTimeMillis",
    )
    delayed_delivery_strict: bool = _choice(
        True,
        meaning="Never deliver before the delivery time, not even by one tick (Pulsar: false).",
        pulsar="isDelayedDeliveryDeliverAtTimeStrict",
    )
    delayed_delivery_max_delay_ms: int = _number(
        0,
        low=0,
        high=_TEN_YEARS_MS,
        meaning="Longest delay a producer may ask for; a longer one is refused; 0 = no limit.",
        pulsar="delayedDeliveryMaxDelayInMillis",
    )

    # --- Subscriptions ---
    key_shared_consistent_hashing: bool = _choice(
        True,
        meaning="Key_Shared places consumers on a hash ring; if off, it splits hash ranges.",
        pulsar="subscriptionKeySharedUseConsistentHashing",
    )
    key_shared_ring_points: int = _number(
        100,
        low=1,
        high=100_000,
        meaning="Points of each consumer on the hash ring; more points share keys more evenly.",
        pulsar="subscriptionKeySharedConsistentHashingReplicaPoints",
    )
    failover_delay_ms: int = _number(
        0,
        low=0,
        high=_HOUR_MS,
        meaning="Pause before a new active Failover consumer receives messages (Pulsar: 1000).",
        pulsar="activeConsumerFailoverDelayTimeMillis",
    )
    unacked_messages_per_consumer_max: int = _number(
        50_000,
        low=0,
        high=_INT32_MAX,
        meaning="Unacknowledged messages at which a shared consumer gets no more; 0 = no limit.",
        pulsar="maxUnackedMessagesPerConsumer",
    )
    unacked_messages_per_subscription_max: int = _number(
        200_000,
        low=0,
        high=_INT32_MAX,
        meaning="Unacknowledged messages at which a shared subscription pauses; 0 = no limit.",
        pulsar="maxUnackedMessagesPerSubscription",
    )
    auto_subscription_creation: bool = _choice(
        True,
        meaning="Create a subscription when the first consumer asks for it.",
        pulsar="allowAutoSubscriptionCreation",
    )

    # --- Topics ---
    auto_topic_creation: bool = _choice(
        True,
        meaning="Create a topic when the first producer or consumer asks for it.",
        pulsar="allowAutoTopicCreation",
    )
    auto_topic_creation_type: Literal["non-partitioned", "partitioned"] = _choice(
        "non-partitioned",
        meaning="What kind of topic is created automatically.",
        pulsar="allowAutoTopicCreationType",
    )
    default_partitions: int = _number(
        1,
        low=1,
        high=10_000,
        meaning="Partitions of a partitioned topic that is created automatically.",
        pulsar="defaultNumPartitions",
    )
    persistent_topics_enabled: bool = _choice(
        True,
        meaning="Allow persistent:// topics.",
        pulsar="enablePersistentTopics",
    )
    non_persistent_topics_enabled: bool = _choice(
        True,
        meaning="Allow non-persistent:// topics.",
        pulsar="enableNonPersistentTopics",
    )
    system_topics_enabled: bool = _choice(
        True,
        meaning="Keep the broker's own topics, such as the one of policy changes.",
        pulsar="systemTopicEnabled",
    )
    topic_policies_enabled: bool = _choice(
        True,
        meaning="Allow policies of a single topic to override those of its namespace.",
        pulsar="topicLevelPoliciesEnabled",
    )
    inactive_topic_deletion_enabled: bool = _choice(
        False,
        meaning="Delete topics that have no subscription and no producer (Pulsar: true).",
        pulsar="brokerDeleteInactiveTopicsEnabled",
    )
    inactive_topic_seconds_max: int = _number(
        60,
        low=1,
        high=_INT32_MAX,
        meaning="How long a topic may be inactive before it is deleted, where that is enabled.",
        pulsar="brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
    )

    # --- Expiry, retention and quotas ---
    ttl_seconds_default: int = _number(
        0,
        low=0,
        high=_INT32_MAX,
        meaning="Age at which an unacknowledged message counts as acknowledged; 0 = never.",
        pulsar="ttlDurationDefaultInSeconds",
    )
    ttl_counts_from_delivery: bool = _choice(
        True,
        meaning="The age of a delayed message counts from its delivery time (Pulsar: publishing).",
    )
    retention_minutes_default: int = _number(
        0,
        low=-1,
        high=_INT32_MAX,
        meaning="How long acknowledged messages are kept; 0 = not at all, -1 = for ever.",
        pulsar="defaultRetentionTimeInMinutes",
    )
    retention_megabytes_default: int = _number(
        0,
        low=-1,
        high=_INT32_MAX,
        meaning="How much of a topic's acknowledged messages is kept; 0 = nothing, -1 = all.",
        pulsar="defaultRetentionSizeInMB",
    )
    backlog_quota_bytes_default: int = _number(
        -1,
        low=-1,
        high=_INT64_MAX,
        meaning="Backlog size at which the quota policy of a topic acts; -1 = no limit.",
        pulsar="backlogQuotaDefaultLimitBytes",
    )
    backlog_quota_seconds_default: int = _number(
        -1,
        low=-1,
        high=_INT32_MAX,
        meaning="Age of the backlog at which the quota policy acts; -1 or 0 = no limit.",
        pulsar="backlogQuotaDefaultLimitSecond",
    )
    backlog_quota_policy_default: Literal[
        "producer_request_hold", "producer_exception", "consumer_backlog_eviction"
    ] = _choice(
        "producer_request_hold",
        meaning="At the quota: let producers wait, refuse their messages, or drop the oldest.",
        pulsar="backlogQuotaDefaultRetentionPolicy",
    )

    # --- Compaction ---
    compaction_threshold_bytes: int = _number(
        0,
        low=0,
        high=_INT64_MAX,
        meaning="Uncompacted size at which a topic is compacted by itself; 0 = never.",
        pulsar="brokerServiceCompactionThresholdInBytes",
    )
    compaction_retain_null_key: bool = _choice(
        False,
        meaning="Compaction keeps messages that have no key.",
        pulsar="topicCompactionRetainNullKey",
    )

    # --- Ledgers ---
    ledger_entries_max: int = _number(
        50_000,
        low=1,
        high=_INT32_MAX,
        meaning="Entries after which a topic starts a new ledger.",
        pulsar="managedLedgerMaxEntriesPerLedger",
    )
    ledger_megabytes_max: int = _number(
        2_048,
        low=1,
        high=_INT32_MAX,
        meaning="Size at which a topic starts a new ledger.",
        pulsar="managedLedgerMaxSizePerLedgerMbytes",
    )
    ledger_minutes_max: int = _number(
        240,
        low=1,
        high=_INT32_MAX,
        meaning="Age at which a topic starts a new ledger.",
        pulsar="managedLedgerMaxLedgerRolloverTimeMinutes",
    )

    # --- Tail ---
    frame_bytes_max: int = _number(
        1_048_576,
        low=1_024,
        high=1 << 28,
        meaning="Size at which a frame of the tail is full; one larger message has its own.",
    )
    frame_cache_megabytes: int = _number(
        64,
        low=0,
        high=65_536,
        meaning="Memory of a process for decoded frames; 0 = no cache.",
    )
    seal_megabytes: int = _number(
        32,
        low=1,
        high=4_096,
        meaning="Size at which a topic's tail is moved into a Parquet segment.",
    )
    seal_age_ms: int = _number(
        60_000,
        low=0,
        high=_WEEK_MS,
        meaning="Age of its oldest frame at which a topic's tail is moved into a segment.",
    )
    seal_rows: int = _number(
        50_000,
        low=1,
        high=100_000_000,
        meaning="Frames (rows of the tail table) at which a topic's tail is moved into a segment.",
    )

    # --- Segments ---
    segment_rows_max: int = _number(
        1_000_000,
        low=1,
        high=1_000_000_000,
        meaning="Messages in one Parquet segment at most.",
    )
    segment_megabytes_max: int = _number(
        256,
        low=1,
        high=65_536,
        meaning="Message bytes in one Parquet segment at most, before compression.",
    )
    row_group_rows: int = _number(
        131_072,
        low=1,
        high=100_000_000,
        meaning="Messages in one Parquet row group at most.",
    )
    row_group_megabytes_max: int = _number(
        64,
        low=1,
        high=4_096,
        meaning="Message bytes in one Parquet row group at most, before compression.",
    )
    bulk_rows_min: int = _number(
        20_000,
        low=1,
        high=_INT32_MAX,
        meaning="An Arrow table with at least so many rows goes straight to a segment.",
    )
    bulk_megabytes_min: int = _number(
        8,
        low=1,
        high=65_536,
        meaning="An Arrow table of at least this size goes straight to a segment.",
    )
    read_batch_rows: int = _number(
        65_536,
        low=1,
        high=10_000_000,
        meaning="Messages read from a segment at a time.",
    )
    retired_file_grace_ms: int = _number(
        600_000,
        low=0,
        high=_WEEK_MS,
        meaning="How long the file of a retired segment stays for readers that may hold it.",
    )

    # --- Catalog ---
    wal_checkpoint_pages: int = _number(
        2_000,
        low=1,
        high=10_000_000,
        meaning="Pages in SQLite's write-ahead log at which a checkpoint is made.",
    )
    wal_pregrow_megabytes: int = _number(
        16,
        low=0,
        high=4_096,
        meaning="Size to which the write-ahead log is grown in advance; 0 = not at all.",
    )
    lock_wait_warning_ms: int = _number(
        5_000,
        low=1,
        high=_HOUR_MS,
        meaning="A wait for the catalog's write lock that is longer than this is logged.",
    )

    @staticmethod
    def from_env() -> Settings:
        """Return the settings of this process: defaults, its file and its environment."""
        from .sources import load_settings  # Here, because `sources` imports this module.

        return load_settings()
