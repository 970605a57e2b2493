"""scikit-learn's handwritten digits: 1797 real images of 8 x 8, part of every installation of it.

From the UCI machine learning repository (Alpaydin and Kaynak, "Optical Recognition of Handwritten
Digits", 1998), as scikit-learn ships them.
"""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgebench.errors import MachineError
from edgebench.extras import install
from edgebench.workloads.training.data.dataset import DataSet, Examples, checked

CLASSES, _BRIGHTEST, _SIDE = 10, 16, 8
#: How many of the 1797 are kept for testing; which ones never changes.
_TEST, _SPLIT_SEED = 297, 0
_FILE = "datasets/data/digits.csv.gz"


def load_digits() -> DataSet:
    """The digits: 1500 to train on, 297 to test on, always the same ones.

    Raises:
        MachineError: scikit-learn is not installed.
        WorkloadError: its file is corrupt.
    """
    file = _file()
    with gzip.open(file, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(table))
    train, test = table[order[_TEST:]], table[order[:_TEST]]
    data = DataSet("digits", CLASSES, _BRIGHTEST, _examples(train), _examples(test))
    return checked(data, str(file))


def _file() -> Path:
    # Found, not imported: scikit-learn's code would count as the workload's memory.
    found = importlib.util.find_spec("sklearn")
    places = (found.submodule_search_locations if found else None) or ()
    for place in places:
        if (file := Path(place, _FILE)).is_file():
            return file
    raise MachineError(
        "the data set 'digits' comes with scikit-learn, which is not installed",
        remedy=install("sklearn"),
    )


def _examples(table: npt.NDArray[np.int64]) -> Examples:
    images = table[:, :-1].astype(np.uint8).reshape(-1, 1, _SIDE, _SIDE)
    return Examples(images, table[:, -1].copy())
