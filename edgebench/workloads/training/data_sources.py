"""Where a training's data come from: made, read from files, or returned by the user's own function.

Synthetic images cost what training costs without a data set's files. Each class has a pattern of
its own and every image is its class's pattern under noise, so that a network can learn them. The
digits are real images, in a file beside this one (source and licence: ``digits.txt``). MNIST,
Fashion-MNIST and CIFAR-10 are torchvision's, and fetched only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgebench.errors import MachineError, WorkloadError
from edgebench.layers.own_function import OwnFunction
from edgebench.text import choice_hint
from edgebench.workloads.training.dataset import DataSet, Examples, checked
from edgebench.workloads.training.names import DATA_SETS, DATA_SHAPES, SYNTHETIC, VISION_FILES
from edgebench.workloads.training.own_code import DATA_HOW


def describe_data(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the data set ``name`` in ``folder`` holds, read whole.

    Raises:
        WorkloadError: no such data set, or its files are missing or corrupt.
    """
    found = load_data(request["name"], Path(request["folder"]), shape=(3, 32, 32))
    sizes = {"train": len(found.train), "test": len(found.test), "classes": found.classes}
    return {"shape": list(found.shape), **sizes}


def load_data(
    name: str,
    folder: Path | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    classes: int = 10,
    examples: int = 1024,
    seed: int = 1,
) -> DataSet:
    """The data set of that name, and never another one.

    Args:
        name: one of :data:`~edgebench.workloads.training.names.DATA_SETS`.
        folder: where torchvision's files are; None: nowhere.
        shape: channels, height, width of ``synthetic``; others have their own.
        classes: of synthetic ones.
        examples: how many synthetic images to train on.
        seed: of synthetic ones.

    Raises:
        WorkloadError: no such data set; its files are missing or corrupt; ``synthetic`` without a
            shape.
    """
    if name not in DATA_SETS:
        raise WorkloadError(f"no data set {name!r}", remedy=choice_hint(name, DATA_SETS))
    if name == "digits":
        return load_digits()
    if name.startswith(SYNTHETIC):
        return make_synthetic(name, DATA_SHAPES.get(name) or shape, classes, examples, seed)
    if folder is None:
        raise WorkloadError(
            f"no folder to find the data set {name!r} in", remedy="name one: data_folder = …"
        )
    return load_vision(name, folder)


#: Of these the patterns are made, before they are widened to the image's size.
_COARSE = 4
#: How much of an image is its class's pattern; the rest is noise.
_PATTERN_SHARE = 0.5
#: One test image to so many training images.
TRAIN_TO_TEST = 4
_Bytes = npt.NDArray[np.uint8]


def make_synthetic(
    name: str, shape: tuple[int, ...] | None, classes: int, examples: int, seed: int
) -> DataSet:
    """A data set of so many training examples, the same from the same seed, bit for bit.

    Args:
        name: as the scenario names it.
        shape: channels, height, width.
        classes: how many labels there are.
        examples: how many images to train on; a quarter as many are made to test on.
        seed: of the patterns, the labels and the noise.

    Raises:
        WorkloadError: nothing to make: no shape, or a side, a class or a number below one.
    """
    if shape is None:
        raise WorkloadError(
            f"the data set {name!r} has no shape",
            remedy="give channels, height and width: shape = [3, 224, 224]",
        )
    if min(*shape, classes, examples) < 1:
        raise WorkloadError(
            f"no data set of shape {'x'.join(map(str, shape))} with {classes} classes "
            f"and {examples} examples",
            remedy="give each a number of at least 1",
        )
    random = np.random.default_rng(seed)
    patterns = _patterns(shape, classes, random)
    train = _synthetic_examples(patterns, examples, random)
    test = _synthetic_examples(patterns, max(1, examples // TRAIN_TO_TEST), random)
    return DataSet(name, classes, 255, train, test)


def _patterns(shape: tuple[int, ...], classes: int, random: np.random.Generator) -> _Bytes:
    channels, height, width = shape
    coarse = random.integers(0, 256, (classes, channels, _COARSE, _COARSE), dtype=np.uint8)
    rows, columns = (np.arange(side) * _COARSE // side for side in (height, width))
    return coarse[:, :, rows[:, None], columns]


def _synthetic_examples(patterns: _Bytes, count: int, random: np.random.Generator) -> Examples:
    labels = random.integers(0, len(patterns), count)
    images = np.empty((count, *patterns.shape[1:]), np.uint8)
    # One by one: all of them as floats would take four times the memory that stays.
    for row, label in enumerate(labels):
        noise = random.integers(0, 256, patterns.shape[1:], dtype=np.uint8)
        images[row] = patterns[label] * _PATTERN_SHARE + noise * (1 - _PATTERN_SHARE)
    return Examples(images, labels)


_CLASSES, _DIGITS_BRIGHTEST, _DIGITS_SIDE = 10, 16, 8
#: How many of the 1797 are kept for testing; which ones never changes.
_DIGITS_TEST, _SPLIT_SEED = 297, 0
_DIGITS_FILE = Path(__file__).with_name("digits.csv.gz")


def load_digits() -> DataSet:
    """The digits: 1500 to train on, 297 to test on, always the same ones.

    Raises:
        WorkloadError: its file is corrupt.
    """
    import gzip

    with gzip.open(_DIGITS_FILE, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(table))
    train, test = table[order[_DIGITS_TEST:]], table[order[:_DIGITS_TEST]]
    data = DataSet(
        "digits", _CLASSES, _DIGITS_BRIGHTEST, _digits_examples(train), _digits_examples(test)
    )
    return checked(data, str(_DIGITS_FILE))


def _digits_examples(table: npt.NDArray[np.int64]) -> Examples:
    images = table[:, :-1].astype(np.uint8).reshape(-1, 1, _DIGITS_SIDE, _DIGITS_SIDE)
    return Examples(images, table[:, -1].copy())


#: Name → what torchvision calls it.
_VISION_NAMES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR10"}


def missing_files(name: str, folder: Path) -> list[Path]:
    """The files that the data set lacks in that folder."""
    return [path for file in VISION_FILES[name] if not (path := folder / file).is_file()]


def load_vision(name: str, folder: Path) -> DataSet:
    """The data set from its files in that folder.

    Raises:
        WorkloadError: a file is missing or corrupt; says how to get it.
    """
    missing = missing_files(name, folder)
    if missing:
        raise WorkloadError(
            f"the data set {name!r} is not there: no {missing[0].relative_to(folder)}",
            where=str(folder),
            remedy=f"edgebench data {name} --download --folder {folder}; or put its files there",
        )
    parts = [_read_vision(name, folder, train=train) for train in (True, False)]
    return checked(DataSet(name, _CLASSES, 255, *parts), str(folder))


def download_vision(name: str, folder: Path) -> None:
    """Fetch the data set into that folder, as torchvision does it.

    Raises:
        MachineError: no network, no such server any more, or no room.
    """
    from tempfile import TemporaryDirectory

    maker = _vision_maker(name)
    try:
        # torchvision writes by name and follows links, so it gets a folder of its own.
        with TemporaryDirectory(prefix="edgebench-data-") as fetched:
            maker(root=fetched, train=True, download=True)
            _keep_files(Path(fetched), folder)
    except (OSError, RuntimeError) as error:
        raise MachineError(
            f"the data set {name!r} could not be fetched: {error}",
            where=str(folder),
            remedy="fix the network connection, or copy its files there: "
            + ", ".join(VISION_FILES[name][:2])
            + ", …",
        ) from error


def _keep_files(fetched: Path, folder: Path) -> None:
    """Copy all that was fetched to where it is kept."""
    import shutil

    from edgebench.safe_files import make_folder, replaced

    make_folder(folder, parents=True)
    for path in sorted(fetched.rglob("*")):
        target = folder / path.relative_to(fetched)
        if path.is_dir():
            make_folder(target)
            continue
        with path.open("rb") as source, replaced(target) as kept:
            shutil.copyfileobj(source, kept)


def _read_vision(name: str, folder: Path, *, train: bool) -> Examples:
    try:
        read = _vision_maker(name)(root=str(folder), train=train, download=False)
        images = np.asarray(read.data)
        labels = np.asarray(read.targets, dtype=np.int64)
    except Exception as error:
        # Whatever a damaged file makes torchvision's parsers and pickle raise.
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise WorkloadError(
            f"the data set {name!r} is corrupt ({what})",
            where=str(folder),
            remedy=f"take its files away, then: edgebench data {name} --download --folder {folder}",
        ) from error
    # MNIST has no axis for channels; CIFAR-10's is the last.
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return Examples(np.ascontiguousarray(images), labels)


def _vision_maker(name: str) -> Callable[..., Any]:
    from edgebench.layers.known_networks import import_torchvision

    import_torchvision()
    from torchvision import datasets

    maker: Callable[..., Any] = getattr(datasets, _VISION_NAMES[name])
    return maker


#: The pixel value of bytes that becomes 1.0.
_BYTES_BRIGHTEST = 255
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
    train = _own_examples(function, "", *arrays[:2])
    empty = Examples(train.images[:0], train.labels[:0])
    test = _own_examples(function, "test ", *arrays[2:]) if len(arrays) > 2 else empty
    if train.images.shape[1:] != test.images.shape[1:]:
        raise _refused(function, "its inputs and test inputs differ in shape")
    brightest = _BYTES_BRIGHTEST if train.images.dtype == np.uint8 else 1
    return DataSet(function.name, _own_classes(train, test), brightest, train, test)


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


def _own_examples(
    function: OwnFunction, part: str, inputs: npt.NDArray[Any], targets: npt.NDArray[Any]
) -> Examples:
    counts = [len(one) if one.ndim else 0 for one in (inputs, targets)]
    if not counts[0] or counts[0] != counts[1]:
        raise _refused(
            function, f"it returned {counts[0]} {part}inputs with {counts[1]} {part}targets"
        )
    return Examples(inputs, targets)


def _own_classes(train: Examples, test: Examples) -> int:
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
