"""The model itself: what every option must have."""

from __future__ import annotations

import pydantic
import pytest

from ledgermq.config import Settings
from ledgermq.config.default_file import DEFAULT_FILE, SECTIONS, render_default_file
from ledgermq.config.options import Option, options
from ledgermq.config.sources import load_settings

UNITS = {
    *("bytes", "megabytes", "ms", "seconds", "minutes", "rows", "entries", "pages"),
    *("messages", "partitions", "producers", "points"),
}
QUALIFIERS = ("_max", "_min", "_default", "_per_consumer", "_per_subscription")

NUMBERS = [option for option in options() if type(option.default) is int]

each_option = pytest.mark.parametrize("option", options(), ids=lambda option: option.name)
each_number = pytest.mark.parametrize("option", NUMBERS, ids=lambda option: option.name)


def unit_of(name: str) -> str:
    while name.endswith(QUALIFIERS):
        name = next(name.removesuffix(end) for end in QUALIFIERS if name.endswith(end))
    return name.rsplit("_", 1)[-1]


@each_option
def test_every_option_has_a_default_that_is_allowed(option: Option) -> None:
    assert Settings.model_validate({option.name: option.default}) == Settings()


@each_option
def test_every_option_has_a_meaning_of_one_line(option: Option) -> None:
    assert option.meaning.endswith(".")
    assert len(option.meaning) <= 90
    assert "\n" not in option.meaning


@each_option
def test_every_option_is_a_switch_a_number_or_a_choice_of_words(option: Option) -> None:
    is_switch = isinstance(option.default, bool)
    assert is_switch or option in NUMBERS or option.default in option.choices


@each_number
def test_every_number_has_a_unit_in_its_name(option: Option) -> None:
    assert unit_of(option.name) in UNITS


@each_number
def test_every_number_has_a_range_and_is_refused_just_outside_it(option: Option) -> None:
    assert option.low is not None
    assert option.high is not None
    for value in (option.low, option.high):
        Settings.model_validate({option.name: value})
    for value in (option.low - 1, option.high + 1):
        with pytest.raises(pydantic.ValidationError, match=option.name):
            Settings.model_validate({option.name: value})


def test_settings_are_frozen() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        Settings().seal_rows = 1  # type: ignore[misc]


def test_settings_can_be_compared_and_hashed() -> None:
    assert len({Settings(), Settings(), Settings(seal_rows=1)}) == 2


def test_an_unknown_option_is_refused_by_the_model() -> None:
    with pytest.raises(pydantic.ValidationError, match="seal_row"):
        Settings.model_validate({"seal_row": 1})


@pytest.mark.parametrize("value", [True, "5", 5.0, None])
def test_the_model_converts_nothing_to_a_number(value: object) -> None:
    with pytest.raises(pydantic.ValidationError, match="seal_rows"):
        Settings.model_validate({"seal_rows": value})


def test_no_two_options_have_the_same_pulsar_name() -> None:
    names = [option.pulsar_name for option in options() if option.pulsar_name]
    assert len(names) == len(set(names))


def test_the_default_file_is_in_step_with_the_model() -> None:
    assert DEFAULT_FILE.read_text("utf-8") == render_default_file(), (
        "run: python -m ledgermq.config.default_file"
    )


def test_the_default_file_sets_every_option_to_its_default() -> None:
    assert load_settings(file=DEFAULT_FILE, environ={}) == Settings()
    assert all(f"\n{option.name} = " in render_default_file() for option in options())


def test_every_section_of_the_default_file_begins_at_an_option() -> None:
    assert set(SECTIONS) <= set(Settings.model_fields)


def test_from_env_reads_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERMQ_SEAL_ROWS", "7")
    assert Settings.from_env().seal_rows == 7
