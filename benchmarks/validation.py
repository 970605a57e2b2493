"""What every model said of what it was not shown, kept for the figures in the docs.

``python benchmarks/validation.py SWEEP`` asks as ``edgebench validate --hold-out
densenet,convnext`` does (minutes) and writes ``results/validation.json``: ``points``, one for each
phase and limit, with what its trials took, and ``answers`` by split and model, which name points
by their place.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from report import RESULTS

from edgebench.results.results import load
from edgebench.slowdown.evaluation.evaluation import evaluate
from edgebench.slowdown.evaluation.scores import HeldOutPrediction

FAMILIES = ("convnext", "densenet")


def main() -> None:
    """Ask, and write."""
    sweep = Path(sys.argv[1])
    proof = evaluate(load(sweep), FAMILIES, lambda text: print(text, file=sys.stderr))
    points: dict[tuple[Any, ...], int] = {}
    described: list[dict[str, Any]] = []
    answers: dict[str, dict[str, list[list[Any]]]] = {}
    for answer in proof.answers:
        about = point(answer)
        key = tuple(about[name] for name in ("network", "schedule", "loader", "phase", "limit"))
        if key not in points:
            points[key] = len(described)
            described.append(about)
        said = [rounded(x) for x in (answer.predicted_s, answer.low_s, answer.high_s)]
        answers.setdefault(answer.split, {}).setdefault(answer.model, []).append(
            [points[key], *said]
        )
    made = {
        "sweep": sweep.name,
        "held_out": FAMILIES,
        "says": "answers: point, predicted seconds, and the 90 % interval's ends",
        "points": described,
        "answers": answers,
    }
    (RESULTS / "validation.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")


def point(answer: HeldOutPrediction) -> dict[str, Any]:
    """The phase and limit that were asked about, and what was measured there."""
    curve = answer.curve
    return {
        "network": curve.network,
        "schedule": curve.settings["schedule"],
        "loader": curve.settings["loader"],
        "phase": curve.phase,
        "limit": answer.limit_bytes,
        "share": answer.share,
        "unlimited_s": rounded(curve.unlimited_s),
        "repeats_s": [rounded(seconds) for seconds in answer.repeats_s],
    }


def rounded(seconds: float | None) -> float | None:
    """To six digits, which keeps the file small."""
    return None if seconds is None else float(f"{seconds:.6g}")


if __name__ == "__main__":
    main()
