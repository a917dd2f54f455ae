"""Topic names: ``{persistent|non-persistent}://tenant/namespace/topic`` and their short forms.

A name that could leave the directory, hide in a log or break a file name is refused here, before
anything is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .errors import InvalidTopicName

PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"
DEFAULT_TENANT = "public"
DEFAULT_NAMESPACE = "default"
NAME_BYTES_MAX = 255

_NAMED_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A validated topic name; ``str()`` is its full form."""

    domain: str
    tenant: str
    namespace: str
    local: str

    def __str__(self) -> str:
        """Return the full name."""
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local}"

    @property
    def namespace_name(self) -> str:
        """Return ``tenant/namespace``."""
        return f"{self.tenant}/{self.namespace}"

    @property
    def partition(self) -> int:
        """Return the partition's index, or -1 for a topic that is no partition."""
        match = _PARTITION.fullmatch(self.local)
        return int(match[2]) if match else -1

    @classmethod
    def parse(cls, name: str) -> TopicName:
        """Return the topic that ``name`` means, or raise InvalidTopicName saying what is wrong."""
        return _parse(name)


@lru_cache(maxsize=4096)
def _parse(name: str) -> TopicName:
    if not isinstance(name, str) or not name.strip():
        raise InvalidTopicName(f"topic name {name!r} is empty")
    domain, separator, path = name.partition("://")
    if not separator:
        domain, path = PERSISTENT, name
        if path.count("/") == 0:
            path = f"{DEFAULT_TENANT}/{DEFAULT_NAMESPACE}/{path}"
    if domain not in (PERSISTENT, NON_PERSISTENT):
        raise InvalidTopicName(
            f"topic name {name!r} starts with {domain!r}: use persistent:// or non-persistent://"
        )
    parts = path.split("/")
    if len(parts) != 3:
        raise InvalidTopicName(
            f"topic name {name!r} has {len(parts)} parts: use 'topic' or 'tenant/namespace/topic'"
        )
    tenant, namespace, local = parts
    for kind, part in (("tenant", tenant), ("namespace", namespace)):
        if not _NAMED_ENTITY.fullmatch(part) or part in (".", ".."):
            raise InvalidTopicName(
                f"topic name {name!r}: {kind} {part!r} may hold letters, digits and -=:._ only"
            )
    _check_local(name, local)
    return TopicName(domain, tenant, namespace, local)


def _check_local(name: str, local: str) -> None:
    if not local.strip() or local in (".", ".."):
        raise InvalidTopicName(f"topic name {name!r}: the topic part {local!r} is not a name")
    if _FORBIDDEN.search(local) or "\\" in local:
        raise InvalidTopicName(f"topic name {name!r}: control characters and \\ are not allowed")
    if len(name.encode("utf-8")) > NAME_BYTES_MAX:
        raise InvalidTopicName(
            f"topic name {name[:40]!r}… has {len(name.encode('utf-8'))} bytes, "
            f"at most {NAME_BYTES_MAX} are allowed"
        )
