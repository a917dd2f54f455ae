"""Where settings come from: defaults, a file, the environment, arguments; the later wins.

Every source is checked as a whole before it is merged, so a mistake is reported even where a
later source would have covered it. This is the only module that reads `os.environ`.
"""

from __future__ import annotations

import logging
import os
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .broker_conf import parse_broker_conf
from .entry import Entry
from .errors import SettingsError, SettingsProblem
from .options import Option, options, options_by_name
from .pulsar_options import (
    BACKLOG_QUOTA_GIGABYTES,
    bytes_from_gigabytes,
    find_option,
    has_no_effect,
    reason_for_refusal,
    suggest_name,
)
from .settings import Settings
from .toml_file import TomlSyntaxError, parse_toml

logger = logging.getLogger(__name__)

PREFIX = "LEDGERMQ_"
FILE_VARIABLE = "LEDGERMQ_CONFIG_FILE"
# Variables of the test and benchmark suites share our prefix and are no settings.
_FOREIGN_PREFIXES = ("LEDGERMQ_TEST_", "LEDGERMQ_BENCH_")

_REASONS = {
    "int_type": "expected a whole number, not {value}",
    "bool_type": "expected true or false, not {value}",
    "greater_than_equal": "{value} is below the minimum {ge}",
    "less_than_equal": "{value} is above the maximum {le}",
    "literal_error": "{value} is not one of {expected}",
}


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A value for an option of ours, under the name and at the line where it was written."""

    option: str
    value: object
    written_as: str
    line: int | None = None


def load_settings(
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **arguments: object,
) -> Settings:
    """Return the settings of all sources; raise `SettingsError` if one has a mistake.

    Without `file`, the variable LEDGERMQ_CONFIG_FILE may name one. A file that ends in `.toml`
    has our format, one that ends in `.conf` is Pulsar's `broker.conf`; both accept our names and
    Pulsar's. Without `environ`, the environment of the process is read. Arguments have our names.
    """
    environment = os.environ if environ is None else environ
    if file is None and environment.get(FILE_VARIABLE):
        file = Path(environment[FILE_VARIABLE])
    values: dict[str, object] = {}
    if file is not None:
        values |= _values_of_file(file)
    values |= _values_of_environment(environment)
    values |= _values_of_arguments(arguments)
    return Settings.model_validate(values)


def _values_of_file(file: Path) -> dict[str, object]:
    source = str(file)
    is_toml = file.suffix == ".toml"
    if not is_toml and file.suffix != ".conf":
        raise SettingsError(_whole(source, "the name of a settings file ends in .toml or .conf"))
    try:
        # Java reads properties as Latin-1, which also lets any comment pass.
        text = file.read_text("utf-8" if is_toml else "latin-1")
        entries = parse_toml(text) if is_toml else parse_broker_conf(text)
    except OSError as error:
        raise SettingsError(_whole(source, f"cannot be read: {error.strerror}")) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SettingsError(_whole(source, "not valid UTF-8", line=line)) from error
    except TomlSyntaxError as error:
        raise SettingsError(_whole(source, error.reason, line=error.line)) from error
    assignments, problems, without_effect = _read_entries(entries, source=source, typed=is_toml)
    if is_toml:
        problems += _problems_of_double_naming(assignments, source=source)
    values = _checked(assignments, source=source, problems=problems)
    if without_effect:
        logger.info(
            "%s: %d Pulsar options have no effect in ledgermq",
            source,
            len(without_effect),
            extra={"action": "settings_loaded", "options_without_effect": without_effect},
        )
    return values


def _whole(source: str, reason: str, *, line: int | None = None) -> SettingsProblem:
    return SettingsProblem(option=None, source=source, line=line, reason=reason)


def _read_entries(
    entries: Iterable[Entry], *, source: str, typed: bool
) -> tuple[list[_Assignment], list[SettingsProblem], list[str]]:
    """Return what the entries assign, what is wrong with them, and the names without effect."""
    assignments: list[_Assignment] = []
    problems: list[SettingsProblem] = []
    without_effect: dict[str, None] = {}
    for entry in entries:
        option = find_option(entry.name)
        refusal = reason_for_refusal(entry.name, value=entry.value)
        if option is not None:
            value = _value_of_entry(entry, option=option, typed=typed)
            if value is not None:
                assignments.append(_Assignment(option.name, value, entry.name, entry.line))
        elif refusal is not None:
            problems.append(SettingsProblem(entry.name, source, entry.line, refusal))
        elif has_no_effect(entry.name):
            if entry.value != "":
                without_effect[entry.name] = None
        else:
            reason = _unknown(suggestion=suggest_name(entry.name))
            problems.append(SettingsProblem(entry.name, source, entry.line, reason))
    # A stable sort: the limit in gigabytes wins wherever it stands, as in Pulsar.
    assignments.sort(key=lambda assignment: assignment.written_as == BACKLOG_QUOTA_GIGABYTES)
    return assignments, problems, list(without_effect)


def _value_of_entry(entry: Entry, *, option: Option, typed: bool) -> object:
    """Return the value for an option of ours, or None if the entry sets nothing.

    The values of a TOML file are typed; those of `broker.conf` are texts, and a blank one
    stands for the default.
    """
    if entry.name == BACKLOG_QUOTA_GIGABYTES:
        return bytes_from_gigabytes(entry.value)
    if typed:
        return entry.value
    return option.default if entry.value == "" else option.from_text(str(entry.value))


def _problems_of_double_naming(
    assignments: Iterable[_Assignment], *, source: str
) -> list[SettingsProblem]:
    """Return a problem for each option that is given under our name and under Pulsar's.

    TOML allows no key twice, and two names of one option are no better.
    """
    first: dict[str, _Assignment] = {}
    problems = []
    for this in assignments:
        other = first.setdefault(this.option, this)
        if other is not this:
            reason = f"already given on line {other.line} as {other.written_as}"
            problems.append(SettingsProblem(this.written_as, source, this.line, reason))
    return problems


def _values_of_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """Return what the environment sets; an empty variable counts as unset."""
    by_variable = {option.environment_variable: option for option in options()}
    assignments = []
    problems = []
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE:
            continue
        if variable.startswith(_FOREIGN_PREFIXES):
            continue
        option = by_variable.get(variable)
        if option is None:
            reason = _unknown(suggestion=suggest_name(variable, among=by_variable))
            problems.append(SettingsProblem(variable, "environment", None, reason))
        elif text.strip():
            value = option.from_text(text.strip())
            assignments.append(_Assignment(option.name, value, variable))
    return _checked(assignments, source="environment", problems=problems)


def _values_of_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    known = options_by_name()
    assignments = []
    problems = []
    for name, value in arguments.items():
        if name in known:
            assignments.append(_Assignment(name, value, name))
        else:
            reason = _unknown(suggestion=suggest_name(name, among=known))
            problems.append(SettingsProblem(name, "arguments", None, reason))
    return _checked(assignments, source="arguments", problems=problems)


def _unknown(*, suggestion: str | None) -> str:
    return "unknown option" if suggestion is None else f"unknown option; did you mean {suggestion}?"


def _checked(
    assignments: Iterable[_Assignment], *, source: str, problems: Iterable[SettingsProblem]
) -> dict[str, object]:
    """Return the values of one source by option, or raise all of its problems together."""
    problems = list(problems)
    winners = {assignment.option: assignment for assignment in assignments}
    values = {option: winner.value for option, winner in winners.items()}
    try:
        Settings.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            winner = winners[str(detail["loc"][0])]
            reason = _reason(detail["type"], value=winner.value, details=dict(detail))
            problems.append(SettingsProblem(winner.written_as, source, winner.line, reason))
    if problems:
        raise SettingsError(*sorted(problems, key=lambda problem: problem.line or 0))
    return values


def _reason(kind: str, *, value: object, details: Mapping[str, Any]) -> str:
    """Return in our words why the model refused a value."""
    pattern = _REASONS.get(kind)
    if pattern is None:
        return str(details["msg"])
    return pattern.format(value=reprlib.repr(value), **details.get("ctx", {}))
