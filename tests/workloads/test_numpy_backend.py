"""The NumPy backend."""

from __future__ import annotations

import subprocess
import sys

import pytest
from training_making import settings

#: Finds what this process finds.
CODE = """
import sys
sys.path[:] = {path!r}
from training_making import Told
from edgebench.workloads.training.loop import run_training
told = Told()
run_training({settings!r}, told)
assert told.losses[-1] < told.losses[0] / 2
assert told.said("test_accuracy") > 0.7
assert "torch" not in sys.modules
"""


@pytest.mark.process
def test_a_trial_of_it_knows_no_torch():
    """Trained on real data until it tells most test images right, without any code of torch."""
    rate = {"optimizer": "adam", "learning_rate": 0.01, "batch": 64, "epochs": 3}
    asked = settings(network="mlp", framework="numpy", evaluate=True, **rate)
    code = CODE.format(path=sys.path, settings=asked)
    subprocess.run([sys.executable, "-c", code], check=True)
