"""The import of pandas without that of pyarrow, which pandas imports where it is installed."""

from __future__ import annotations

import sys


def import_pandas() -> None:
    """Import pandas as if pyarrow was not there.

    For verbs that read no Parquet: texts in frames here are Python's own, never pyarrow's.
    """
    if "pandas" not in sys.modules and "pyarrow" not in sys.modules:
        # What is None there can't be imported.
        sys.modules["pyarrow"] = None  # type: ignore[assignment]
        try:
            import pandas  # noqa: F401
        finally:
            del sys.modules["pyarrow"]
