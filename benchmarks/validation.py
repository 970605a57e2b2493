"""How right the models are about what was held out, kept for README and docs.

``python benchmarks/validation.py`` asks of each kept sweep in :data:`SWEEPS` what ``edgebench
validate`` asks (minutes) and writes ``results/validation.json``: for each sweep the rows of that
verb's table, of all phases, of steady rounds and of starts.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from claims.kept import folder
from report import RESULTS

from edgebench.results.results import load
from edgebench.slowdown.context import with_trainings
from edgebench.slowdown.evaluation.evaluation import evaluate
from edgebench.slowdown.evaluation.use_scores import use_scores

#: Scenarios, and the families that their sweeps keep out of all fitting.
SWEEPS = {
    "validation": ("convnext", "densenet"),
    "quickstart": (),
    "edgecaffe": (),
    "training-limits": (),
}
_PHASES = ("all", "total", "start")


def main() -> None:
    """Ask, and write."""
    made = {scenario: asked(scenario, held_out) for scenario, held_out in SWEEPS.items()}
    text = json.dumps({"data": made}, separators=(",", ":"), allow_nan=False)
    (RESULTS / "validation.json").write_text(text + "\n")


def asked(scenario: str, held_out: tuple[str, ...]) -> dict[str, Any]:
    """A sweep's scores, by phase."""
    path = folder(scenario)
    results, _ = with_trainings(load(path))
    proof = evaluate(results, held_out, lambda text: print(text, file=sys.stderr))
    return {
        "sweep": path.name,
        "held_out": held_out,
        "uses": {
            phase: [rounded(asdict(s)) for s in use_scores(proof.answers, phase)]
            for phase in _PHASES
        },
    }


def rounded(score: dict[str, Any]) -> dict[str, Any]:
    """To six digits, which keeps the file small."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in score.items()}


if __name__ == "__main__":
    main()
