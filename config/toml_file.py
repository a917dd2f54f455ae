"""Parsing of our own settings file: TOML with flat keys."""

from __future__ import annotations

import re
import tomllib

from .entry import Entry

_LINE_OF_ERROR = re.compile(r"at line (\d+)")


class TomlSyntaxError(ValueError):
    """The text is not TOML; `line` is where the parser stopped."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason, line)
        self.reason = reason
        self.line = line


def parse_toml(text: str) -> list[Entry]:
    """Return the top-level entries of a TOML text in order, with the line of each."""
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits.
        found = _LINE_OF_ERROR.search(str(error))
        # An error without a line number is one at the end of the text.
        line = int(found.group(1)) if found else text.rstrip("\n").count("\n") + 1
        raise TomlSyntaxError(f"not valid TOML: {error}", line) from error
    return [
        Entry(name=name, value=value, line=find_line_of_key(text, name=name))
        for name, value in values.items()
    ]


def find_line_of_key(text: str, *, name: str) -> int:
    """Return the line that first assigns a top-level key or opens its table, or 1 if none does.

    The parser of the standard library gives no positions, so this looks at the text alone: a
    line inside a multi-line string that looks like the assignment would be taken for it.
    """
    key = re.escape(name)
    assigns = re.compile(rf"""\s*(?:\[\[?\s*)?(?:{key}|"{key}"|'{key}')\s*[=.\]]""")
    for line, content in enumerate(text.split("\n"), start=1):
        if assigns.match(content):
            return line
    return 1
