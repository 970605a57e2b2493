"""The evaluation of the models, which is a benchmark and no part of the product."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.process
def test_it_compares_the_product_s_models_with_baselines():
    """The script and all that it imports agree with the product's names."""
    asked = (
        "import validation; from evaluation.baselines import compared_models;"
        " print(*(model.name for model in compared_models()))"
    )
    told = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    baselines = ["unslowed", "hinge", "pooled", "brouwer"]
    assert told == [*baselines, "interpolated", "simulated", "combined"]
