"""Print the Java that Spark would use: ``python -m ledgermq.parquet_ledger.spark``."""

import os
import sys

from .java_runtime import SparkLaunchError, select_java


def main() -> int:
    """Print the Java and what was passed over for it; return the exit status."""
    environ = dict(os.environ)
    try:
        java = select_java(environ)
    except SparkLaunchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{java}\n")
    sys.stdout.writelines(f"  passed over: {reason}\n" for reason in java.passed_over)
    sys.stdout.write(f"  JAVA_HOME for Spark: {environ.get('JAVA_HOME', 'not needed')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
