"""pandas as verbs that read import it: without pyarrow, which is there afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.process
def test_pandas_comes_without_pyarrow_and_still_writes_parquet(tmp_path: Path):
    """Only pandas is imported; what asks for pyarrow later gets it, pandas too."""
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    code = (
        "import sys\n"
        "from edgebench.cli.pandas_import import import_pandas\n"
        "import_pandas()\n"
        "print('pandas' in sys.modules, 'pyarrow' in sys.modules)\n"
        "import pandas\n"
        "frame = pandas.DataFrame({'name': ['a', None], 'size': [1.0, 2.0]}, dtype='object')\n"
        "frame.to_parquet(sys.argv[1], index=False)\n"
        "print(pandas.read_parquet(sys.argv[1])['name'].tolist()[0])\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "made.parquet")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "False", "a"]), done.stderr
