"""``python -m edgebench.layers.described JSON``: layer tables alone, of any network.

What :mod:`edgebench.layers.prepare` tells of a network, without weights on disk. The request:
``networks`` (names), ``modules`` (``package:factory``), ``image`` (null: the network's own). The
answer is one line of JSON with ``networks`` → name → ``table``, ``parameter_bytes``,
``file_bytes``; or ``{"error": {"what": …, "where": …, "remedy": …}}`` and exit 1.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import Any

import torch

from edgebench.errors import EdgebenchError, WorkloadError
from edgebench.layers.networks import input_shape
from edgebench.layers.own import build_own
from edgebench.layers.table import Row, table, table_of


def described(request: dict[str, Any]) -> dict[str, Any]:
    """Each network's layer table and sizes."""
    image = request.get("image")
    tables = {name: table(name, 1, image) for name in request.get("networks", ())}
    tables |= {named: _own_table(named, image) for named in request.get("modules", ())}
    return {"networks": {name: _sizes(rows) for name, rows in tables.items()}}


def _own_table(named: str, image: int | None) -> list[Row]:
    model = build_own(named)
    try:
        return table_of(model, torch.empty(input_shape(named, 1, image), device="meta"))
    except EdgebenchError:
        raise
    except Exception as error:
        words = str(error).strip().splitlines() or ["no message"]
        raise WorkloadError(
            f"{type(error).__name__} in a forward pass: {words[0]}",
            where=named,
            remedy="its forward must take one batch of images and run on torch's meta device",
        ) from error


def _sizes(rows: list[Row]) -> dict[str, Any]:
    # A part's file holds its tensors; its header is less than a page.
    rows = [replace(row, file_bytes=row.parameter_bytes + row.buffer_bytes) for row in rows]
    first = {row.part: row for row in reversed(rows)}.values()
    return {
        "table": [asdict(row) for row in rows],
        "parameter_bytes": sum(row.parameter_bytes for row in first),
        "file_bytes": sum(row.file_bytes for row in first),
    }


def main(words: list[str]) -> int:
    """Answer one request on stdout; the exit code."""
    try:
        answer: dict[str, Any] = described(json.loads(words[0]))
    except EdgebenchError as error:
        answer = {"error": {"what": error.what, "where": error.where, "remedy": error.remedy}}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
