"""Durable storage: catalog, tail, Parquet segments, cursors and DuckDB views."""

from .append import Appended
from .backlog import Backlog
from .check import CheckReport, Problem
from .compression import Compression
from .errors import (
    CatalogDamaged,
    CatalogError,
    CatalogTooNew,
    CommitConflict,
    CommitOutcomeUnknown,
    DirectoryError,
    DirectoryNotWritable,
    DiskFull,
    InvalidMessage,
    InvalidTopicName,
    LedgerClosed,
    LedgerError,
    MessageTooLarge,
    NetworkFileSystem,
    NotALedger,
    SegmentDamaged,
    SubscriptionNotFound,
    TopicNotFound,
)
from .ledger import Garbage, Ledger
from .new_messages import NewMessages
from .read import Entry, Position, StoredMessage
from .retire import Retention
from .segment import Segment, Span
from .topic import Subscription, Topic
from .topic_name import TopicName

__all__ = [
    "Appended",
    "Backlog",
    "CatalogDamaged",
    "CatalogError",
    "CatalogTooNew",
    "CheckReport",
    "CommitConflict",
    "CommitOutcomeUnknown",
    "Compression",
    "DirectoryError",
    "DirectoryNotWritable",
    "DiskFull",
    "Entry",
    "Garbage",
    "InvalidMessage",
    "InvalidTopicName",
    "Ledger",
    "LedgerClosed",
    "LedgerError",
    "MessageTooLarge",
    "NetworkFileSystem",
    "NewMessages",
    "NotALedger",
    "Position",
    "Problem",
    "Retention",
    "Segment",
    "SegmentDamaged",
    "Span",
    "StoredMessage",
    "Subscription",
    "SubscriptionNotFound",
    "Topic",
    "TopicName",
    "TopicNotFound",
]
