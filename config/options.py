"""The options as data, read from the model: one `Option` for each field of `Settings`."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from .settings import Settings

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,30}")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `low` and `high` bound a number, `choices` lists the words it may be."""

    name: str
    default: bool | int | str
    meaning: str
    low: int | None
    high: int | None
    choices: tuple[str, ...]
    pulsar_name: str | None

    @property
    def environment_variable(self) -> str:
        """Return the environment variable that sets the option."""
        return f"LEDGERMQ_{self.name.upper()}"

    @property
    def allowed(self) -> str:
        """Return the allowed values in words."""
        if isinstance(self.default, bool):
            return "true or false"
        if self.choices:
            return ", ".join(f'"{choice}"' for choice in self.choices)
        return f"{self.low} to {self.high}"

    def from_text(self, text: str) -> bool | int | str:
        """Return the value that a text stands for, or the text itself if it stands for none.

        The model refuses such a text later, so that every wrong value is reported by one path.
        """
        if isinstance(self.default, bool):
            return _TRUTH.get(text.lower(), text)
        if isinstance(self.default, int) and _WHOLE_NUMBER.fullmatch(text):
            return int(text)
        return text


@functools.cache
def options() -> tuple[Option, ...]:
    """Return all options in the order of the model."""
    return tuple(_option(name, field=field) for name, field in Settings.model_fields.items())


@functools.cache
def options_by_name() -> dict[str, Option]:
    """Return all options by our name. The caller does not change the dictionary."""
    return {option.name: option for option in options()}


def _option(name: str, *, field: FieldInfo) -> Option:
    extra = cast(dict[str, str | None], field.json_schema_extra)
    is_choice = get_origin(field.annotation) is Literal
    return Option(
        name=name,
        default=field.default,
        meaning=field.description or "",
        low=_bound(field, "ge"),
        high=_bound(field, "le"),
        choices=get_args(field.annotation) if is_choice else (),
        pulsar_name=extra["pulsar"],
    )


def _bound(field: FieldInfo, constraint: Literal["ge", "le"]) -> int | None:
    bounds = (getattr(item, constraint, None) for item in field.metadata)
    return next((bound for bound in bounds if bound is not None), None)
