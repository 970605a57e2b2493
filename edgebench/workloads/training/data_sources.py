"""Where a training's data come from: made, read from files, or returned by the user's own function.

Synthetic images cost what training costs without a data set's files. Each class has a pattern of
its own and every image is its class's pattern under noise, so that a network can learn them. The
digits are real images, in a file beside this one (source and licence: ``digits.txt``). MNIST,
Fashion-MNIST and CIFAR-10 are torchvision's, and fetched only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgebench.errors import MachineError, WorkloadError
from edgebench.layers.references import OwnFunction
from edgebench.text import choice_hint
from edgebench.workloads.training.names import (
    DATA_HOW,
    DATA_SETS,
    DATA_SHAPES,
    NETWORK,
    SYNTHETIC,
    VISION_FILES,
    own_data,
    own_reference,
)

#: ``uint8``; of the user's own data any numbers.
Images = npt.NDArray[Any]
#: Numbers of examples.
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """One part of a data set.

    Args:
        images: ``uint8``, examples x channels x height x width; of the user's own data any inputs.
        labels: ``int64``, one an example; of the user's own data any targets.
    """

    images: Images
    labels: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Rows, edge: int | None) -> tuple[Images, npt.NDArray[Any]]:
        """Return the images of these rows, brought to that edge, and their labels."""
        return widened(self.images[rows], edge), self.labels[rows]


@dataclass(frozen=True)
class DataSet:
    """Images to train on and images to test on; both stay bytes until a batch is made of them.

    Args:
        name: as a scenario names it.
        classes: labels are 0 up to this, which is none.
        brightest: the pixel value that becomes 1.0.
        train: what is trained on.
        test: what accuracy is measured on.
    """

    name: str
    classes: int
    brightest: int
    train: Examples
    test: Examples

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of one image; of the user's own data that of one input."""
        return self.train.images.shape[1:]


def steps_of(
    examples: int, batch: int, *, steps: int | None, epochs: int | None, seed: int
) -> Iterator[Rows]:
    """Yield the rows of each step's batch; an epoch's rest, short of a batch, is left out.

    Args:
        examples: how many there are.
        batch: how many a step trains on.
        steps: how many steps; None: as many as the epochs have.
        epochs: how many times all examples are gone through.
        seed: of the order, drawn anew for each epoch.

    Raises:
        WorkloadError: the batch is larger than the data.
    """
    if batch > examples:
        raise WorkloadError(
            f"a batch of {batch} is larger than the data, which has {examples} examples",
            remedy=f"write batch = {examples} or less",
        )
    an_epoch = examples // batch
    count = steps if steps is not None else an_epoch * (epochs or 1)
    random = np.random.default_rng(seed)
    for step in range(count):
        place = step % an_epoch
        if place == 0:
            order = random.permutation(examples)
        yield order[place * batch : (place + 1) * batch]


def widened(images: Images, edge: int | None) -> Images:
    """Bring images to that edge by repeating (or leaving out) pixels; None leaves them."""
    if edge is None or images.shape[2:] == (edge, edge):
        return images
    height, width = images.shape[2:]
    rows, columns = (np.arange(edge) * side // edge for side in (height, width))
    return images[:, :, rows[:, None], columns]


def data_for(settings: dict[str, Any]) -> DataSet:
    """Load the data of a training.

    Raises:
        WorkloadError: they can't be had, or don't fit the network or what is asked of it.
    """
    if function := own_data(settings):
        data = load_own(function)
        if own_reference(settings, NETWORK) is None:
            check_for_known_network(settings["network"], data)
    else:
        data = load_data(
            settings["data"],
            Path(settings["data_folder"] or ""),
            shape=tuple(map(int, settings["shape"].split("x"))),
            classes=settings["classes"],
            examples=settings["examples"],
            seed=settings["seed"],
        )
    if settings["evaluate"] and not len(data.test):
        raise WorkloadError(
            "accuracy is measured on a test part, and the data have none",
            where=settings["data"],
            remedy="return (inputs, targets, test inputs, test targets), or leave evaluate out",
        )
    return data


def describe_data(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read the data set ``name`` in ``folder`` whole, and say what it holds.

    Raises:
        WorkloadError: no such data set, or its files are missing or corrupt.
    """
    data = load_data(request["name"], Path(request["folder"]))
    sizes = {"train": len(data.train), "test": len(data.test), "classes": data.classes}
    return {"shape": list(data.shape), **sizes}


def load_data(
    name: str,
    folder: Path,
    *,
    shape: tuple[int, ...] = (3, 32, 32),
    classes: int = 10,
    examples: int = 1024,
    seed: int = 1,
) -> DataSet:
    """Load the data set of that name, and never another one.

    Args:
        name: one of :data:`~edgebench.workloads.training.names.DATA_SETS`.
        folder: where torchvision's files are.
        shape: channels, height, width of ``synthetic``; others have their own.
        classes: of synthetic ones.
        examples: how many synthetic images to train on.
        seed: of synthetic ones.

    Raises:
        WorkloadError: no such data set; its files are missing or corrupt.
    """
    if name not in DATA_SETS:
        raise WorkloadError(f"no data set {name!r}", remedy=choice_hint(name, DATA_SETS))
    if name == "digits":
        return _load_digits()
    if name.startswith(SYNTHETIC):
        return _make_synthetic(name, DATA_SHAPES.get(name, shape), classes, examples, seed)
    return _load_vision(name, folder)


#: Of these the patterns are made, before they are widened to the image's size.
_COARSE = 4
#: How much of an image is its class's pattern; the rest is noise.
_PATTERN_SHARE = 0.5
#: One test image to so many training images.
TRAIN_TO_TEST = 4


def _make_synthetic(
    name: str, shape: tuple[int, ...], classes: int, examples: int, seed: int
) -> DataSet:
    # Equal for equal seeds, bit for bit.
    random = np.random.default_rng(seed)
    channels, height, width = shape
    coarse = random.integers(0, 256, (classes, channels, _COARSE, _COARSE), dtype=np.uint8)
    rows, columns = (np.arange(side) * _COARSE // side for side in (height, width))
    patterns = coarse[:, :, rows[:, None], columns]
    parts = []
    for count in (examples, max(1, examples // TRAIN_TO_TEST)):
        labels = random.integers(0, classes, count)
        images = np.empty((count, *shape), np.uint8)
        # One by one: all of them as floats would take four times the memory that stays.
        for row, label in enumerate(labels):
            noise = random.integers(0, 256, shape, dtype=np.uint8)
            images[row] = patterns[label] * _PATTERN_SHARE + noise * (1 - _PATTERN_SHARE)
        parts.append(Examples(images, labels))
    return DataSet(name, classes, 255, *parts)


_CLASSES, _DIGITS_BRIGHTEST, _DIGITS_SIDE = 10, 16, 8
#: How many of the 1797 are kept for testing, always the same ones.
_DIGITS_TEST, _SPLIT_SEED = 297, 0
_DIGITS_FILE = Path(__file__).with_name("digits.csv.gz")


def _load_digits() -> DataSet:
    import gzip

    with gzip.open(_DIGITS_FILE, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(table))
    parts = []
    for rows in (order[_DIGITS_TEST:], order[:_DIGITS_TEST]):
        part = table[rows]
        images = part[:, :-1].astype(np.uint8).reshape(-1, 1, _DIGITS_SIDE, _DIGITS_SIDE)
        parts.append(Examples(images, part[:, -1].copy()))
    return DataSet("digits", _CLASSES, _DIGITS_BRIGHTEST, *parts)


#: Name → what torchvision calls it.
_VISION_NAMES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR10"}


def _load_vision(name: str, folder: Path) -> DataSet:
    missing = [file for file in VISION_FILES[name] if not (folder / file).is_file()]
    if missing:
        raise WorkloadError(
            f"the data set {name!r} is not there: no {missing[0]}",
            where=str(folder),
            remedy=f"edgebench data {name} --download --folder {folder}; or put its files there",
        )
    parts = [_read_vision(name, folder, train=train) for train in (True, False)]
    return DataSet(name, _CLASSES, 255, *parts)


def download_vision(name: str, folder: Path) -> None:
    """Fetch the data set into that folder, as torchvision does it.

    Raises:
        MachineError: no network, no such server any more, or no room.
    """
    import shutil
    from tempfile import TemporaryDirectory

    from edgebench.safe_files import make_folder, replaced

    maker = _vision_maker(name)
    try:
        # torchvision writes by name and follows links, so it gets a folder of its own.
        with TemporaryDirectory(prefix="edgebench-data-") as fetched:
            maker(root=fetched, train=True, download=True)
            make_folder(folder, parents=True)
            for path in sorted(Path(fetched).rglob("*")):
                target = folder / path.relative_to(fetched)
                if path.is_dir():
                    make_folder(target)
                    continue
                with path.open("rb") as source, replaced(target) as kept:
                    shutil.copyfileobj(source, kept)
    except (OSError, RuntimeError) as error:
        raise MachineError(
            f"the data set {name!r} could not be fetched: {error}",
            where=str(folder),
            remedy="fix the network connection, or copy its files there: "
            + ", ".join(VISION_FILES[name][:2])
            + ", …",
        ) from error


def _read_vision(name: str, folder: Path, *, train: bool) -> Examples:
    try:
        read = _vision_maker(name)(root=str(folder), train=train, download=False)
        images = np.asarray(read.data)
        labels = np.asarray(read.targets, dtype=np.int64)
        if len(images) != len(labels) or labels.min() < 0 or labels.max() >= _CLASSES:
            raise ValueError(f"{len(images)} images, labels up to {labels.max()}")
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
    """Make a data set of the arrays that the user's function returns.

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
    arrays = [_array(function, name, part) for name, part in zip(_PARTS, given, strict=False)]
    train = _own_examples(function, "", *arrays[:2])
    empty = Examples(train.images[:0], train.labels[:0])
    test = _own_examples(function, "test ", *arrays[2:]) if len(arrays) > 2 else empty
    if train.images.shape[1:] != test.images.shape[1:]:
        raise _refused(function, "its inputs and test inputs differ in shape")
    brightest = _BYTES_BRIGHTEST if train.images.dtype == np.uint8 else 1
    labels = np.concatenate([train.labels, test.labels])
    are_labels = labels.ndim == 1 and labels.dtype.kind == "i" and labels.min() >= 0
    classes = int(labels.max()) + 1 if are_labels else 0
    return DataSet(function.name, classes, brightest, train, test)


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
    counts = [len(array) if array.ndim else 0 for array in (inputs, targets)]
    if not counts[0] or counts[0] != counts[1]:
        raise _refused(
            function, f"it returned {counts[0]} {part}inputs with {counts[1]} {part}targets"
        )
    return Examples(inputs, targets)


def check_for_known_network(name: str, data: DataSet) -> None:
    """Check that a network that edgebench knows can read these images and learn these classes.

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
