"""A message broker that you import: Apache Pulsar's messaging model on a directory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgermq.config import Settings, load_settings
    from ledgermq.parquet_ledger import Ledger, NewMessages

__all__ = ["Ledger", "NewMessages", "Settings", "load_settings"]
__version__ = "0.1.0"

_HOMES = {
    "Ledger": "ledgermq.parquet_ledger",
    "NewMessages": "ledgermq.parquet_ledger",
    "Settings": "ledgermq.config",
    "load_settings": "ledgermq.config",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import ledgermq`` is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ledgermq' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
