"""How long other libraries take to read a million results lines: ``line_readers.py PYTHON``.

PYTHON is that of an environment with ``polars``, ``duckdb`` and ``pyarrow``; edgebench runs in this
one, without its cache. Three rounds, all readers in turn, a process each. With ``--lines`` it reads
so many lines instead, and prints the times without keeping them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report
from million_lines import make

_ROUNDS = 3
_LINES = 1_000_000
_KEYS = "trial,point,outcome,wall_s,peak_bytes,limit_bytes"
_EDGEBENCH = """
from pathlib import Path
from edgebench.results.columns import large_file
large_file.keep_table = lambda *made: None
large_file.kept_table = lambda trials: None
large_file.read_large(Path(file), [])
"""
_DUCKDB = """
import duckdb
lines = duckdb.connect()
lines.execute("set threads=2; set enable_progress_bar=false")
lines.execute(f"create table t as select KEYS from read_ndjson('{file}', ignore_errors=true)")
"""
_POLARS = "import polars\npolars.read_ndjson(file)\n"
_LAZY = (
    f"import polars\npolars.scan_ndjson(file).select(*{_KEYS.split(',')})"
    ".collect(engine='streaming')\n"
)
_PYARROW = "import pyarrow.json\npyarrow.json.read_json(file)\n"
#: Reader → its program.
_PROGRAMS = {
    "edgebench: msgspec, every line checked": _EDGEBENCH,
    "DuckDB `read_ndjson`, all columns": _DUCKDB.replace("KEYS", "*"),
    "DuckDB, six columns": _DUCKDB.replace("KEYS", _KEYS),
    "Polars `read_ndjson`, all columns": _POLARS,
    "Polars `scan_ndjson`, six columns": _LAZY,
    "pyarrow `json.read_json`, all columns": _PYARROW,
}


def timed(python: str, program: str, file: Path) -> tuple[float, int]:
    """Seconds, and the largest resident set in MiB, of a process of its own."""
    code = (
        f"import sys, resource\nfile = {str(file)!r}\n{program}"
        "sys.stderr.write('\\n%d' % resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    began = time.monotonic()
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return time.monotonic() - began, int(done.stderr.split()[-1]) // 1024


def main(python: str, lines: int) -> None:
    """Make the lines, read them with each in turn, write what that took."""
    took: dict[str, list[tuple[float, int]]] = {name: [] for name in _PROGRAMS}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        file = make(Path(folder), lines) / "trials.jsonl"
        size = file.stat().st_size
        for _ in range(_ROUNDS):
            for name, program in _PROGRAMS.items():
                interpreter = sys.executable if program == _EDGEBENCH else python
                took[name].append(timed(interpreter, program, file))
    if lines != _LINES:
        print(took)
        return
    rows = [
        [name, ", ".join(f"{one:.0f}" for one, _ in sorted(runs)), max(mib for _, mib in runs)]
        for name, runs in took.items()
    ]
    says = f"Reading {lines} results lines ({size / 2**20:.0f} MiB), three times each, in turns."
    report.write("line_readers", says, ["reader", "seconds", "peak (MiB)"], rows, took)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="of an environment with polars, duckdb and pyarrow")
    parser.add_argument("--lines", type=int, default=_LINES, help="how many lines to read")
    main(**vars(parser.parse_args()))
