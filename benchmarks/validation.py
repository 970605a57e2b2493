"""How right simulated bytes, and limits that kill, are: kept for the docs.

``python benchmarks/validation.py`` (minutes) writes ``results/validation.json``: of each walked
sweep the bytes of steady rounds, where ``steady_bytes.py`` read their counts; and of the sweep
:data:`EDGES` which limits kill. Words name some sweeps.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from claims.kept import FRESH_QUICKSTART, folder
from counts import bytes_scores, edges_score
from report import RESULTS

from edgebench.results.results import load

#: Scenarios whose bytes were counted, and the one where limits kill.
SWEEPS = ("validation-one-thread", "validation-two-threads", FRESH_QUICKSTART)
EDGES = "validation-edge"
_FILE = RESULTS / "validation.json"


def main() -> None:
    """Ask, and write."""
    for scenario in sys.argv[1:] or (*SWEEPS, EDGES):
        path = folder(scenario)
        results = load(path)
        if scenario == EDGES:
            keep(EDGES, {"sweep": path.name, "edges": rounded(edges_score(results))})
        else:
            scores = {loader: rounded(score) for loader, score in bytes_scores(results).items()}
            keep(scenario, {"sweep": path.name, "bytes": scores})


def keep(scenario: str, found: dict[str, Any]) -> None:
    """Write a sweep's scores beside those of the others."""
    made = json.loads(_FILE.read_text())["data"] if _FILE.exists() else {}
    text = json.dumps({"data": {**made, scenario: found}}, separators=(",", ":"), allow_nan=False)
    _FILE.write_text(text + "\n")


def rounded(score: dict[str, Any]) -> dict[str, Any]:
    """To six digits, which keeps the file small."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in score.items()}


if __name__ == "__main__":
    main()
