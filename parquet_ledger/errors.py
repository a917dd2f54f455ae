"""Every error of the ledger, one class per thing a caller would do differently."""

from __future__ import annotations


class LedgerError(Exception):
    """Base of everything that the ledger raises on purpose."""


class InvalidTopicName(LedgerError, ValueError):
    """The name can't be a topic. Nothing was written: choose another name."""


class TopicNotFound(LedgerError, LookupError):
    """No topic of that name is in the directory: create it, or check the spelling."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} does not exist: create it first, or check its spelling")
        self.topic = topic


class SubscriptionNotFound(LedgerError, LookupError):
    """The topic has no subscription of that name."""

    def __init__(self, topic: str, subscription: str) -> None:
        super().__init__(f"topic {topic} has no subscription {subscription!r}: create it first")
        self.topic = topic
        self.subscription = subscription


class InvalidMessage(LedgerError, ValueError):
    """A message or table can't be stored as it is. Nothing was written: mend it and send again."""


class MessageTooLarge(InvalidMessage):
    """A message is over the limit. Nothing was written: raise the limit or split the message."""

    def __init__(self, topic: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"topic {topic}: a message of {size_bytes} bytes is over the limit of {limit_bytes} "
            "bytes (message_bytes_max): send it in chunks, or raise the limit"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class DirectoryError(LedgerError):
    """The directory can't hold a ledger as it is. Nothing in it was changed."""


class NotALedger(DirectoryError):
    """The directory holds other files and no catalog: give an empty or a ledgermq directory."""


class DirectoryNotWritable(DirectoryError):
    """The directory or its file system does not take writes."""


class NetworkFileSystem(DirectoryError):
    """SQLite's write-ahead log can't be shared over a network file system."""


class CatalogError(LedgerError):
    """The catalog could not do what was asked."""


class CatalogTooNew(CatalogError):
    """The directory was written by a newer ledgermq: upgrade this one. Nothing was changed."""


class CatalogDamaged(CatalogError):
    """The catalog's files are not what they should be: restore them from a backup."""


class CommitConflict(CatalogError):
    """Somebody else committed first. Nothing was written: read again and retry."""


class CommitOutcomeUnknown(CatalogError):
    """The commit may or may not survive a power cut. Reopen the directory and read back first."""


class DiskFull(CatalogError):
    """No space is left. Nothing of this write was kept; what was confirmed before is safe."""


class LedgerClosed(CatalogError):
    """The ledger was closed, or belongs to the process that this one was forked from."""


class SegmentDamaged(LedgerError):
    """A segment's file is missing, cut short or changed. The rest of the topic can be read."""

    def __init__(self, topic: str, path: str, reason: str) -> None:
        super().__init__(
            f"topic {topic}: segment {path} {reason}: restore the file from a backup; "
            "nothing else is affected (Ledger.check() lists all damage)"
        )
        self.topic = topic
        self.path = path
        self.reason = reason
