"""results/README.md."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

from claims.kept import DEVICE, FRESH_QUICKSTART, folder, sweep
from claims.texts import Claim, says

PAGE = "results/README.md"
#: Words of a sweep's row before the number of its trials.
ROWS = {
    FRESH_QUICKSTART: "three networks, five limits, {} fresh trials, of which {} were killed, with all files",
    "quickstart": "what `scripts/demo` makes, {} records, of which {} were killed",
    "edgecaffe": "six schedules, eight limits, {} trials, of which {} were killed",
    "validation": "and the machine's own threads, {} records, of which {} were killed",
    "validation-one-thread": "with one thread and reads held to 100 MB/s, {} records, of which {} were killed",
    "validation-storage": "and 5,000 requests a second, {} records, of which {} were killed",
    "validation-zram": "with one thread and swap in zram, {} records, of which {} were killed",
    "validation-two-threads": "twelve networks with two threads, {} records, of which {} were killed",
    "validation-test": "walked in the same way, {} records, of which {} were killed",
    "operators": "spend their time in, {} trials",
    "training": "LeNet trained at four limits, {} trials, of which {} were killed",
    "training-limits": "held to 100 MB/s, {} trials, of which {} were killed",
    "conv-batch": "by kernel and batch, {} trials",
    "cnn-batch": "below 2 GiB, {} trials, of which {} were killed",
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
    names = (FRESH_QUICKSTART, "validation", "edgecaffe")
    shares = [100 * sweep(name).trials["noise_foreign_cpu_share"] for name in names]
    yield says(
        "more than 10 % of the CPU in {} of {} trials of quickstart-grid, {} of {} of validation and {}"
        " of {} of edgecaffe",
        *(count for share in shares for count in ((share > 10).sum(), len(share))),
    )


def _outcomes(scenario: str) -> list[str]:
    """Of all trials, those for strategies too."""
    with gzip.open(folder(scenario) / "trials.jsonl.gz", "rt") as lines:
        return [json.loads(line)["outcome"] for line in lines]
