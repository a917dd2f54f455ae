"""What a parser of a settings file returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and its value as a settings file gives them, and the line of the name."""

    name: str
    value: object
    line: int
