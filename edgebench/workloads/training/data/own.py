"""Data of the user's own: what their function returned, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgebench.errors import WorkloadError
from edgebench.layers.own_function import OwnFunction
from edgebench.workloads.training.data.dataset import DataSet, Examples
from edgebench.workloads.training.own_code import DATA_HOW

#: The pixel value of bytes that becomes 1.0.
_BRIGHTEST = 255
_PARTS = ("inputs", "targets", "test inputs", "test targets")


def load_own(function: OwnFunction) -> DataSet:
    """The data set of the arrays that the user's function returns.

    Without a test part, that part is empty. ``classes`` is how many there are where targets are
    whole numbers from 0, else 0.

    Raises:
        WorkloadError: it fails, or returns something else.
    """
    given = function.call()
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 4):
        count = f" of {len(given)}" if isinstance(given, (tuple, list)) else ""
        what = f"it returned a {type(given).__name__}{count}"
        raise _refused(function, what)
    arrays = [_array(function, name, one) for name, one in zip(_PARTS, given, strict=False)]
    train = _examples(function, "", *arrays[:2])
    empty = Examples(train.images[:0], train.labels[:0])
    test = _examples(function, "test ", *arrays[2:]) if len(arrays) > 2 else empty
    if train.images.shape[1:] != test.images.shape[1:]:
        raise _refused(function, "its inputs and test inputs differ in shape")
    brightest = _BRIGHTEST if train.images.dtype == np.uint8 else 1
    return DataSet(function.name, _classes(train, test), brightest, train, test)


def _array(function: OwnFunction, name: str, given: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(given)
    except Exception as error:
        raise _refused(function, f"its {name} are no NumPy array ({error})") from error
    if array.dtype.kind not in "fiub":
        raise _refused(function, f"its {name} are of type {array.dtype}, which are no numbers")
    # Labels as torch and NumPy index with them.
    whole = array.ndim == 1 and array.dtype.kind in "iu" and "targets" in name
    return array.astype(np.int64) if whole else array


def _examples(
    function: OwnFunction, part: str, inputs: npt.NDArray[Any], targets: npt.NDArray[Any]
) -> Examples:
    counts = [len(one) if one.ndim else 0 for one in (inputs, targets)]
    if not counts[0] or counts[0] != counts[1]:
        raise _refused(
            function, f"it returned {counts[0]} {part}inputs with {counts[1]} {part}targets"
        )
    return Examples(inputs, targets)


def _classes(train: Examples, test: Examples) -> int:
    labels = np.concatenate([train.labels, test.labels])
    if labels.ndim != 1 or labels.dtype.kind != "i" or labels.min() < 0:
        return 0
    return int(labels.max()) + 1


def check_for_known_network(name: str, data: DataSet) -> None:
    """A network that edgebench knows reads images and learns classes.

    Raises:
        WorkloadError: the data are something else.
    """
    images = data.train.images
    if images.ndim == 4 and images.dtype.kind in "fu" and data.classes > 1:
        return
    raise WorkloadError(
        f"{name} learns classes of images, and the inputs are {images.dtype} of "
        f"{' x '.join(map(str, images.shape))}, the targets {data.train.labels.dtype}",
        where=data.name,
        remedy="return images (examples x channels x height x width, uint8 or float32) with whole "
        "numbers from 0 as targets, or name a network of your own",
    )


def _refused(function: OwnFunction, what: str) -> WorkloadError:
    return WorkloadError(f"data of your own: {what}", where=function.name, remedy=DATA_HOW)
