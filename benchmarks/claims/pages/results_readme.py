"""results/README.md."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

from claims.edgecaffe import AS_IS
from claims.kept import DEVICE, FRESH_QUICKSTART, folder, sweep
from claims.texts import Claim, says

PAGE = "results/README.md"
#: Words of a sweep's row before the number of its trials.
ROWS = {
    FRESH_QUICKSTART: "three networks, five limits, {} trials, with all files",
    "quickstart": "what `scripts/demo` makes, {} records, of which {} were killed",
    "edgecaffe": "six schedules, eight limits, {} trials, of which {} were killed",
    AS_IS: "four schedules, on the disk as it is, {} trials",
    "validation": "both loaders, eight limits, {} trials",
    "validation-one-thread": "with one thread and reads held to 100 MB/s, {} records, of which {} were killed",
    "validation-storage": "and 5,000 requests a second, {} records, of which {} were killed",
    "validation-zram": "with one thread and swap in zram, {} records, of which {} were killed",
    "validation-two-threads": "twelve networks with two threads, {} records, of which {} were killed",
    "validation-test": "walked in the same way, {} records, of which {} were killed",
    "validation-edge": "with 64 MiB of it, {} trials, of which {} were killed",
    "operators": "spend their time in, {} trials",
    "training": "LeNet trained at four limits, {} trials",
    "training-limits": "held to 100 MB/s, {} trials, of which {} were killed",
    "conv-batch": "by kernel and batch, {} trials",
    "cnn-batch": "below 2 GiB, {} trials, of which {} were killed",
    "cnn-cores": "measured by core, {} trials",
    "conv": "batches of 1, 4 and 16, {} trials",
    "cnn-frameworks": "in PyTorch and TensorFlow, {} trials, of which {} were killed",
    "cnn-frameworks-inside": "the frameworks' own view and busy cores, {} trials",
    "language-model": "with copied and mapped weights, {} trials",
    "partial-resnet18": "parts of ResNet-18 trained, {} trials",
}


def claims() -> Iterator[Claim]:
    """How many trials each sweep has, and what ran beside them."""
    assert len(list(DEVICE.glob("*Z-*"))) == len(ROWS)
    for scenario, words in ROWS.items():
        outcomes = _outcomes(scenario)
        killed = outcomes.count("oom-killed")
        yield says(words, len(outcomes), *([killed] if "killed" in words else []))
        assert "killed" in words or set(outcomes) == {"ok"}
    quick, whole, edge, pipeline = (
        100 * sweep(name).trials["noise_foreign_cpu_share"]
        for name in (FRESH_QUICKSTART, "validation", "validation-edge", "edgecaffe")
    )
    yield says(
        "other programs took no more than {} % of the CPU in any trial", f"{quick.max():.0f}"
    )
    yield says(
        "other programs took {} % of the CPU in the median trial and more than 10 % in {} of {}; in the"
        " sweep validation-edge, in {} of {}, and in EdgeCaffe's, in {} of {}",
        *(f"{whole.median():.0f}", (whole > 10).sum(), len(whole), (edge > 10).sum(), len(edge)),
        *((pipeline > 10).sum(), len(pipeline)),
    )


def _outcomes(scenario: str) -> list[str]:
    """Of all trials, those for strategies too."""
    with gzip.open(folder(scenario) / "trials.jsonl.gz", "rt") as lines:
        return [json.loads(line)["outcome"] for line in lines]
