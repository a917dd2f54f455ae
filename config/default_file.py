"""The commented default file, rendered from the model.

`ledgermq.default.toml` beside this module holds what `render_default_file` returns; to renew
it after a change of the model, run `python -m ledgermq.config.default_file`.
"""

from __future__ import annotations

from pathlib import Path

from .options import Option, options

DEFAULT_FILE = Path(__file__).with_name("ledgermq.default.toml")

_HEADER = """\
# The settings of ledgermq: every option with its meaning, range and default.
#
# Sources, the later wins: these defaults, a file, the environment, arguments.
# Name the file with LEDGERMQ_CONFIG_FILE. An option in the environment has the prefix
# LEDGERMQ_ and capitals: LEDGERMQ_MESSAGE_BYTES_MAX=1048576. Pulsar's own names are accepted
# too, here and in a Pulsar broker.conf, which may be given in place of this file.
# A megabyte is 1048576 bytes.
"""

# The option that begins each section, in the order of the model.
SECTIONS = {
    "message_bytes_max": "Messages",
    "deduplication_enabled": "Deduplication",
    "delayed_delivery_enabled": "Delayed delivery",
    "key_shared_consistent_hashing": "Subscriptions",
    "auto_topic_creation": "Topics",
    "ttl_seconds_default": "Expiry, retention and quotas",
    "compaction_threshold_bytes": "Compaction",
    "ledger_entries_max": "Ledgers",
    "frame_bytes_max": "Tail: the newest messages, not yet in Parquet",
    "segment_rows_max": "Segments: Parquet files",
    "wal_checkpoint_pages": "Catalog",
}


def render_default_file() -> str:
    """Return the text of the default file: TOML that sets every option to its default."""
    return _HEADER + "".join(_render_option(option) for option in options())


def _render_option(option: Option) -> str:
    lines = [""]
    if option.name in SECTIONS:
        lines += [f"# --- {SECTIONS[option.name]} ---", ""]
    lines.append(f"# {option.meaning}")
    lines.append(f"# Allowed: {option.allowed}. Default: {_toml_value(option.default)}.")
    if option.pulsar_name is not None:
        lines.append(f"# Pulsar's name: {option.pulsar_name}.")
    lines.append(f"{option.name} = {_toml_value(option.default)}")
    return "\n".join(lines) + "\n"


def _toml_value(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else f'"{value}"'


if __name__ == "__main__":
    DEFAULT_FILE.write_text(render_default_file(), encoding="utf-8")
