"""The only place of this folder that imports pyspark.

Importing the package does not: pyspark is optional, and is imported when ``spark_session`` is
first asked for.
"""

from typing import TYPE_CHECKING

from .java_runtime import JavaNotFound, JavaRuntime, JavaSource, SparkLaunchError, select_java

if TYPE_CHECKING:
    from .session import spark_session

__all__ = [
    "JavaNotFound",
    "JavaRuntime",
    "JavaSource",
    "SparkLaunchError",
    "select_java",
    "spark_session",
]


def __getattr__(name: str) -> object:
    if name == "spark_session":
        from .session import spark_session

        return spark_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
