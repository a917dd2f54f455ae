"""Parsing of Pulsar's `broker.conf`, a Java properties file.

The rules are those of `java.util.Properties`: `#` and `!` begin a comment line, `=`, `:` or a
blank ends the name, a backslash at the end of a line continues it, and other backslashes
escape. Values are stripped, because Pulsar strips them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .entry import Entry

_NAME = re.compile(r"(?:\\.|[^\\=:\s])*", re.DOTALL)
_SEPARATOR = re.compile(r"\s*[=:]?\s*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")


def parse_broker_conf(text: str) -> list[Entry]:
    """Return the entries of a properties file in order; duplicates and blank values stay in."""
    return [_parse_entry(logical, line=line) for line, logical in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each entry with its continuation lines joined, and the number of its first line."""
    lines = enumerate(_LINE_END.split(text), start=1)
    for line, natural in lines:
        logical = natural.lstrip()
        if not logical or logical[0] in "#!":
            continue
        while _is_continued(logical):
            # A comment sign or a blank line has no meaning inside a continued entry.
            _, following = next(lines, (0, ""))
            logical = logical[:-1] + following.lstrip()
        yield line, logical


def _is_continued(line: str) -> bool:
    """Return whether the line ends in a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _parse_entry(logical: str, *, line: int) -> Entry:
    name = _NAME.match(logical)
    assert name is not None, "the pattern matches the empty string"
    separator = _SEPARATOR.match(logical, name.end())
    assert separator is not None, "the pattern matches the empty string"
    value = logical[separator.end() :]
    return Entry(name=_unescape(name.group()), value=_unescape(value).strip(), line=line)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _CONTROL_CHARACTERS.get(code, code)
