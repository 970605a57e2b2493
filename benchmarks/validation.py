"""How right the models are about what was held out, kept for README and docs.

``python benchmarks/validation.py`` predicts what is held out of each kept sweep in :data:`SWEEPS`
(minutes) and writes ``results/validation.json``: for each sweep the scores of
each use and model, of all phases, steady rounds and starts; the bytes of steady rounds,
where ``steady_bytes.py`` read their counts; and of the sweep :data:`EDGES` which limits kill.
Words name some sweeps.

``python benchmarks/validation.py --open-test`` predicts the test part: the networks of
:data:`TEST`, by what :data:`LEARNT_FROM` shows. No choice may follow from it, so this is done once
for a model; the model's commit is kept beside the scores.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from claims.kept import FRESH_QUICKSTART, ROOT, folder
from counts import bytes_scores, edges_score
from evaluation.cross_validation import cross_validate, family
from evaluation.scores import use_scores
from report import RESULTS

from edgebench.results.results import Results, load
from edgebench.slowdown.context import device_data
from edgebench.slowdown.training_tables import with_trainings

if TYPE_CHECKING:
    from collections.abc import Collection

    from evaluation.scores import HeldOutPrediction

#: Scenarios, and the families that their sweeps keep out of all fitting.
SWEEPS = {
    "validation": (),
    "validation-one-thread": (),
    "validation-walk": (),
    FRESH_QUICKSTART: (),
    "edgecaffe": (),
    "training-limits": (),
}
#: The test part, and the sweep that it is predicted by: with as many threads and the same storage.
TEST, LEARNT_FROM = "validation-test", "validation-one-thread"
#: Where limits kill.
EDGES = "validation-edge"
#: Splits whose scores are in no use.
_UNUSED = ("family", "schedule")
_LIMITS = ("limit-inside", "limit-outside")
_PHASES = ("all", "total", "start")
_FILE = RESULTS / "validation.json"


def main() -> None:
    """Ask, and write."""
    words = sys.argv[1:]
    if words == ["--open-test"]:
        keep(TEST, tested())
        return
    for scenario in words or (*SWEEPS, EDGES):
        if scenario == EDGES:
            keep(EDGES, killing())
        else:
            keep(scenario, asked(scenario, SWEEPS[scenario]))


def keep(scenario: str, found: dict[str, Any]) -> None:
    """Write a sweep's scores beside those of the others."""
    made = json.loads(_FILE.read_text())["data"] if _FILE.exists() else {}
    text = json.dumps({"data": {**made, scenario: found}}, separators=(",", ":"), allow_nan=False)
    _FILE.write_text(text + "\n")


def asked(scenario: str, held_out: Collection[str]) -> dict[str, Any]:
    """A sweep's scores, by phase."""
    path = folder(scenario)
    results, _ = with_trainings(load(path))
    answers = predictions(results, held_out, _UNUSED)
    about = {"sweep": path.name, "held_out": held_out, "uses": scored(answers)}
    return {**about, "bytes": counts_of(results)}


def counts_of(results: Results) -> dict[str, dict[str, Any]]:
    """The scores of bytes, by loader."""
    return {loader: rounded(score) for loader, score in bytes_scores(results).items()}


def killing() -> dict[str, Any]:
    """Which limits kill networks that never ran."""
    path = folder(EDGES)
    return {"sweep": path.name, "edges": rounded(edges_score(load(path)))}


def tested() -> dict[str, Any]:
    """The test part's scores, and the commit of the model that predicted it.

    Raises:
        SystemExit: the model is not what is committed.
    """
    changed = git("status", "--porcelain", "edgebench")
    if changed:
        raise SystemExit(f"commit the model before the test part is opened:\n{changed}")
    test = load(folder(TEST))
    both = Results([*load(folder(LEARNT_FROM)).sweeps, *test.sweeps])
    (data,), _ = device_data(test)
    held_out = sorted({part for curve in data.curves for part in family(curve).split("+")})
    answers = predictions(both, held_out, (*_UNUSED, *_LIMITS, "network"))
    answers += predictions(test, (), (*_UNUSED, "network"))
    return {
        "sweep": folder(TEST).name,
        "held_out": held_out,
        "commit": git("rev-parse", "HEAD"),
        "uses": scored(answers),
        "bytes": counts_of(test),
    }


def predictions(
    results: Results, held_out: Collection[str], without: Collection[str]
) -> list[HeldOutPrediction]:
    """All that is held out, of all devices and storages."""
    known, _ = device_data(results)
    return [one for data in known for one in cross_validate(data, held_out, _say, without)]


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def git(*words: str) -> str:
    """What git answers."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def scored(answers: list[HeldOutPrediction]) -> dict[str, list[dict[str, Any]]]:
    """The scores of each use, by phase."""
    return {phase: [rounded(asdict(s)) for s in use_scores(answers, phase)] for phase in _PHASES}


def rounded(score: dict[str, Any]) -> dict[str, Any]:
    """To six digits, which keeps the file small."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in score.items()}


if __name__ == "__main__":
    main()
