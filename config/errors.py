"""What is wrong with a settings source, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One mistake in a settings source.

    `option` is the name as the user wrote it (None where the source as a whole cannot be read);
    `source` is a file, "environment" or "arguments"; `line` is given for files only.
    """

    option: str | None
    source: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return ": ".join(part for part in (place, self.option, self.reason) if part is not None)


class SettingsError(ValueError):
    """A settings source has mistakes: correct them and load again.

    All mistakes of one source are reported together, in the order of the source;
    `option`, `source`, `line` and `reason` are those of the first.
    """

    def __init__(self, first: SettingsProblem, *others: SettingsProblem) -> None:
        # The arguments are handed on as they came, so that the error survives pickling.
        super().__init__(first, *others)
        self.problems = (first, *others)
        self.option = first.option
        self.source = first.source
        self.line = first.line
        self.reason = first.reason

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
