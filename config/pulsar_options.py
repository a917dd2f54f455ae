"""What each of Pulsar's own option names means here.

A name of Pulsar's is one of four: it sets an option of ours, it has no effect (there is no
network, no BookKeeper and no load balancer), it asks for protection that ledgermq cannot give
and is refused, or it is unknown and therefore taken for a mistake.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files

from .options import Option, options, options_by_name

# Deprecated in Pulsar, and still last in its file: a positive value wins over the limit in bytes.
BACKLOG_QUOTA_GIGABYTES = "backlogQuotaDefaultLimitGB"
_GIGABYTE_BYTES = 1 << 30
_DECIMAL = re.compile(r"[+-]?[0-9]{1,12}(\.[0-9]{1,12})?")

_NO_NETWORK = (
    "ledgermq has no network service and checks no identities: whoever can open its "
    "directory can read and write. Remove the option and protect the directory instead"
)
_NO_ENCRYPTION_RULE = (
    "ledgermq cannot compel producers to encrypt. Remove the option and encrypt in the producers"
)
# Ignoring one of these would leave unprotected what its owner believes to be protected.
_REFUSED_UNLESS_FALSE = {
    "authenticationEnabled": _NO_NETWORK,
    "authorizationEnabled": _NO_NETWORK,
    "tlsEnabled": _NO_NETWORK,
    "tlsEnabledWithKeyStore": _NO_NETWORK,
    "tlsRequireTrustedClientCertOnConnect": _NO_NETWORK,
    "encryptionRequireOnProducer": _NO_ENCRYPTION_RULE,
}
_REFUSED_UNLESS_BLANK = {
    "brokerServicePortTls": _NO_NETWORK,
    "webServicePortTls": _NO_NETWORK,
}


def reason_for_refusal(name: str, *, value: object) -> str | None:
    """Return why an option that asks for protection is refused, or None if it is not.

    The value is never part of the reason. Only a plain "false" switches protection off: any
    other text is refused, because its owner may have meant "on".
    """
    text = str(value).strip().lower()
    if name in _REFUSED_UNLESS_FALSE and text not in ("", "false"):
        return _REFUSED_UNLESS_FALSE[name]
    if name in _REFUSED_UNLESS_BLANK and text != "":
        return _REFUSED_UNLESS_BLANK[name]
    return None


def has_no_effect(name: str) -> bool:
    """Return whether Pulsar knows the name and ledgermq has no use for it."""
    if name in _REFUSED_UNLESS_FALSE or name in _REFUSED_UNLESS_BLANK:
        return True  # Where the value is harmless.
    names, prefixes = names_without_effect()
    return name in names or name.startswith(prefixes)


def find_option(name: str) -> Option | None:
    """Return the option that a name of ours or of Pulsar's sets, or None."""
    if name == BACKLOG_QUOTA_GIGABYTES:
        return options_by_name()["backlog_quota_bytes_default"]
    return options_by_name().get(name) or _options_by_pulsar_name().get(name)


def bytes_from_gigabytes(value: object) -> object:
    """Return the bytes of a number of gigabytes, or None if it is blank or not positive.

    As in Pulsar, such a number sets no limit and does not undo one that is given in bytes, and
    fractions are allowed. What is no number is returned as it came, for the model to refuse.
    """
    text = str(value)
    if text == "":
        return None
    if not _DECIMAL.fullmatch(text):
        return value
    gigabytes = Decimal(text)
    return int(gigabytes * _GIGABYTE_BYTES) if gigabytes > 0 else None


def suggest_name(name: str, *, among: Iterable[str] | None = None) -> str | None:
    """Return the known name that is most like a mistyped one, or None if none is like it."""
    known = {candidate.lower(): candidate for candidate in among or _known_names()}
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
    return known[close[0]] if close else None


@functools.cache
def names_without_effect() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return Pulsar's names that have no effect here, and the prefixes of further such names."""
    text = files(__package__).joinpath("pulsar_options_without_effect.txt").read_text("utf-8")
    names = [line for line in text.splitlines() if line and not line.startswith("#")]
    prefixes = tuple(name.removesuffix("*") for name in names if name.endswith("*"))
    return frozenset(name for name in names if not name.endswith("*")), prefixes


@functools.cache
def _options_by_pulsar_name() -> dict[str, Option]:
    return {option.pulsar_name: option for option in options() if option.pulsar_name}


def _known_names() -> list[str]:
    # Ours last: where two names differ in capitals only, ours is suggested.
    names, _ = names_without_effect()
    return [*sorted(names), *_options_by_pulsar_name(), *options_by_name()]
