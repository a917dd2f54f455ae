"""Start Spark with the settings that the ledger's Parquet files need."""

import os
import sys
from collections.abc import Mapping

from .java_runtime import SparkLaunchError, select_java


class SparkNotInstalled(SparkLaunchError, ImportError):
    """The optional dependency pyspark is missing."""


try:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
except ModuleNotFoundError as error:
    raise SparkNotInstalled(
        f"Spark jobs need pyspark ({error}): pip install 'ledgermq[spark]'"
    ) from error

DEFAULT_CONFIG: Mapping[str, str] = {
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark's default, INT96, carries no minimum and maximum, so readers could skip nothing.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# On one machine Spark's default of 200 shuffle partitions costs more than it spreads.
LOCAL_CONFIG: Mapping[str, str] = {"spark.sql.shuffle.partitions": "4"}


def session_config(master: str, *, config: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return all settings of a session on ``master``; those in ``config`` win."""
    local = LOCAL_CONFIG if master.startswith("local") else {}
    return {**DEFAULT_CONFIG, **local, **(config or {})}


def spark_session(
    app_name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the Spark session of this process, started if there is none.

    Starting it changes ``JAVA_HOME`` and, where they are not set already, ``PYSPARK_PYTHON`` and
    ``SPARK_LOCAL_IP`` in the environment of this process, because Spark and its workers take
    them from there. Raises `SparkLaunchError` if there is no Java to start it with.
    """
    if _starts_a_jvm():
        select_java(os.environ)
        # Workers would otherwise run whichever python3 is first on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            # Nothing outside this machine takes part, so nothing outside may connect.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in session_config(master, config=config).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _starts_a_jvm() -> bool:
    """Return whether no JVM serves this process; under spark-submit one does from the start."""
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
