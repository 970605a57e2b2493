"""``python -m edgebench.layers.prepare JSON``: weights and layer tables, outside any limit.

The harness calls it, so that torch never lives in the harness. The request: ``networks``,
``cache``, and if they differ from these, ``seed`` (0), ``checkpoints`` (network → path; none),
``batch`` (1), ``image`` (each network's own). The answer is one line of JSON, the manifest, or
``{"error": {"what": …, "where": …, "remedy": …}}`` and exit 1.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from edgebench.errors import EdgebenchError
from edgebench.layers.table import Row, table
from edgebench.layers.weights import prepare_weights

_CHUNK_BYTES = 8 << 20


def manifest(request: dict[str, Any]) -> dict[str, Any]:
    """Each network's folder, layer table and sizes."""
    return {
        "networks": {name: _network(name, request) for name in request["networks"]},
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    found = {"torch": str(torch.__version__)}
    with suppress(PackageNotFoundError):
        found["torchvision"] = version("torchvision")
    return found


def _network(name: str, request: dict[str, Any]) -> dict[str, Any]:
    checkpoint = request.get("checkpoints", {}).get(name)
    # The table first: it is the one that finds an image too small, and quickly.
    rows = table(name, request.get("batch", 1), request.get("image"))
    folder, files = prepare_weights(
        name,
        Path(request["cache"]),
        request.get("seed", 0),
        Path(checkpoint) if checkpoint else None,
    )
    _read_through(folder)
    rows = [_with_file(row, files) for row in rows]
    first = {row.part: row for row in reversed(rows)}.values()
    return {
        "folder": str(folder),
        "table": [asdict(row) for row in rows],
        "parameter_bytes": sum(row.parameter_bytes for row in first),
        "file_bytes": sum(size for _, size in files.values()),
    }


def _read_through(folder: Path) -> None:
    """Read every weights file once: below our page cache a disk or a host may cache too.

    Without it the sweep's first trial alone would find them cold there.
    """
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb", buffering=0) as file:
            while file.read(_CHUNK_BYTES):
                pass
            # These pages would be charged to us, not to the trial that uses them.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _with_file(row: Row, files: dict[str, tuple[str, int]]) -> Row:
    file, size = files.get(row.part, (None, 0))
    return replace(row, file=file, file_bytes=size)


def main(words: list[str]) -> int:
    """Answer one request on stdout; the exit code."""
    try:
        answer: dict[str, Any] = manifest(json.loads(words[0]))
    except EdgebenchError as error:
        answer = {"error": {"what": error.what, "where": error.where, "remedy": error.remedy}}
    except OSError as error:
        what = f"weights can't be written: {error.strerror}"
        answer = {"error": {"what": what, "where": error.filename, "remedy": "free some space"}}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
