"""Where settings come from, which source wins, and how mistakes are reported."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ledgermq.config import Settings, SettingsError, SettingsProblem, load_settings
from ledgermq.config.toml_file import find_line_of_key


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledgermq.toml"


def error_of_file(file: Path, text: str) -> SettingsError:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(file=file, environ={})
    return caught.value


def error_of_environment(**environ: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ=environ)
    return caught.value


def test_without_any_source_the_defaults_hold() -> None:
    assert load_settings(environ={}) == Settings()


def test_arguments_win_over_the_environment_and_that_over_the_file(file: Path) -> None:
    file.write_text("seal_rows = 1\nseal_megabytes = 1\nseal_age_ms = 1\n")
    environ = {"LEDGERMQ_SEAL_MEGABYTES": "2", "LEDGERMQ_SEAL_AGE_MS": "2"}
    settings = load_settings(file=file, environ=environ, seal_age_ms=3)
    assert settings == Settings(seal_rows=1, seal_megabytes=2, seal_age_ms=3)


def test_a_later_source_that_repeats_a_default_still_wins(file: Path) -> None:
    file.write_text("seal_rows = 1\n")
    assert load_settings(file=file, environ={"LEDGERMQ_SEAL_ROWS": "50000"}) == Settings()


def test_the_environment_may_name_the_file(file: Path) -> None:
    file.write_text("seal_rows = 1\n")
    assert load_settings(environ={"LEDGERMQ_CONFIG_FILE": str(file)}).seal_rows == 1


def test_a_file_that_is_passed_wins_over_one_that_the_environment_names(file: Path) -> None:
    file.write_text("seal_rows = 1\n")
    environ = {"LEDGERMQ_CONFIG_FILE": "missing.toml"}
    assert load_settings(file=file, environ=environ).seal_rows == 1


def test_the_environment_sets_switches_numbers_and_words() -> None:
    settings = load_settings(
        environ={
            "LEDGERMQ_DEDUPLICATION_ENABLED": "true",
            "LEDGERMQ_RETENTION_MINUTES_DEFAULT": " -1 ",
            "LEDGERMQ_AUTO_TOPIC_CREATION_TYPE": "partitioned",
        }
    )
    assert settings == Settings(
        deduplication_enabled=True,
        retention_minutes_default=-1,
        auto_topic_creation_type="partitioned",
    )


def test_variables_of_others_and_empty_ones_are_ignored() -> None:
    environ = {
        "PATH": "/bin",
        "LEDGERMQ_TEST_POSTGRES": "yes",
        "LEDGERMQ_BENCH_SECONDS": "9",
        "LEDGERMQ_SEAL_ROWS": "",
        "LEDGERMQ_CONFIG_FILE": "",
    }
    assert load_settings(environ=environ) == Settings()


def test_an_unknown_variable_is_an_error_that_names_it() -> None:
    error = error_of_environment(LEDGERMQ_SEAL_ROW="1")
    assert str(error) == (
        "environment: LEDGERMQ_SEAL_ROW: unknown option; did you mean LEDGERMQ_SEAL_ROWS?"
    )
    assert (error.option, error.source, error.line) == ("LEDGERMQ_SEAL_ROW", "environment", None)


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    error = error_of_environment(LEDGERMQ_SEAL_ROWS="0")
    assert str(error) == "environment: LEDGERMQ_SEAL_ROWS: 0 is below the minimum 1"


def test_an_unknown_argument_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"arguments: seal_row: .* did you mean seal_rows"):
        load_settings(environ={}, seal_row=1)


def test_a_wrong_argument_is_an_error() -> None:
    with pytest.raises(SettingsError, match="arguments: seal_rows: expected a whole number"):
        load_settings(environ={}, seal_rows="1")


def test_pulsar_names_are_accepted_in_toml(file: Path) -> None:
    file.write_text("maxMessageSize = 7\nbrokerServicePort = 6650\nauthenticationEnabled = false\n")
    assert load_settings(file=file, environ={}) == Settings(message_bytes_max=7)


def test_a_request_for_protection_is_refused_in_toml_too(file: Path) -> None:
    error = error_of_file(file, "authenticationEnabled = true")
    assert (error.option, error.line) == ("authenticationEnabled", 1)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("message_bytes_max = -5", "-5 is below the minimum 1"),
        ("maxMessageSize = 2_000_000_000", "2000000000 is above the maximum 1073741824"),
        ("seal_rows = '5'", "expected a whole number, not '5'"),
        ("seal_rows = true", "expected a whole number, not True"),
        ("seal_rows = 5.0", "expected a whole number, not 5.0"),
        ("auto_topic_creation = 1", "expected true or false, not 1"),
        (
            'auto_topic_creation_type = "both"',
            "'both' is not one of 'non-partitioned' or 'partitioned'",
        ),
        ("seal_row = 5", "unknown option; did you mean seal_rows?"),
        ("brokerDeduplicationEnable = true", "unknown option; did you mean brokerDedup"),
        ("[zzzz]", "unknown option"),
        ('"zz zz".key = 1', "unknown option"),
    ],
)
def test_a_mistake_in_toml_names_the_option_the_file_and_the_line(
    entry: str, reason: str, file: Path
) -> None:
    error = error_of_file(file, f"# seal_rows = 1\n\n  {entry}\n")
    assert error.option is not None
    assert error.option in entry
    assert (error.source, error.line) == (str(file), 3)
    assert str(error).startswith(f"{file}:3: {error.option}: {reason}")


def test_an_option_under_two_names_in_one_toml_file_is_an_error(file: Path) -> None:
    error = error_of_file(file, "message_bytes_max = 1\nmaxMessageSize = 2\n")
    assert str(error) == f"{file}:2: maxMessageSize: already given on line 1 as message_bytes_max"


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = = 2\n", 2), ("a = 1\nb = [\n", 2), ("a = 1\na = 2\n", 2), ("\n\nb", 3)],
)
def test_a_syntax_error_in_toml_names_the_file_and_the_line(
    text: str, line: int, file: Path
) -> None:
    error = error_of_file(file, text)
    assert (error.option, error.source, error.line) == (None, str(file), line)
    assert str(error).startswith(f"{file}:{line}: not valid TOML: ")


def test_a_file_that_is_not_utf_8_names_the_line(file: Path) -> None:
    file.write_bytes(b"# one\n# \xff\n")
    with pytest.raises(SettingsError, match=r"ledgermq\.toml:2: not valid UTF-8"):
        load_settings(file=file, environ={})


def test_a_missing_file_is_an_error_that_names_it(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"ledgermq\.toml: cannot be read: No such file"):
        load_settings(file=file, environ={})


def test_a_file_of_another_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"ledgermq\.ini: .* \.toml or \.conf"):
        load_settings(file=tmp_path / "ledgermq.ini", environ={})


def test_a_mistake_is_reported_even_where_a_later_source_covers_it(file: Path) -> None:
    file.write_text("seal_rows = 0\n")
    with pytest.raises(SettingsError, match="seal_rows: 0 is below"):
        load_settings(file=file, environ={}, seal_rows=1)


def test_an_error_survives_pickling() -> None:
    error = SettingsError(SettingsProblem("seal_rows", "a.toml", 3, "wrong"))
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.problems) == ("a.toml:3: seal_rows: wrong", error.problems)


def test_the_line_of_a_key_is_not_that_of_a_longer_key() -> None:
    assert find_line_of_key("seal_rows_x = 1\nseal_rows= 2\n", name="seal_rows") == 2
