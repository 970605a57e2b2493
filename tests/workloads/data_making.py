"""Tiny data sets on disk in the real formats: MNIST's IDX files, CIFAR-10's pickled batches."""

from __future__ import annotations

import hashlib
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np

#: How many images each written part has.
TRAIN, TEST = 12, 4


def write_idx(path: Path, values: np.ndarray[Any, Any]) -> None:
    """One IDX file of unsigned bytes (http://yann.lecun.com/exdb/mnist, "file formats")."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


def write_mnist(folder: Path, name: str = "MNIST", highest_label: int = 9) -> dict[str, Any]:
    random, written = np.random.default_rng(7), {}
    for part, count in (("train", TRAIN), ("t10k", TEST)):
        images = random.integers(0, 256, (count, 28, 28))
        labels = np.arange(count) % 10
        labels[-1] = highest_label
        for what, values in (("images-idx3", images), ("labels-idx1", labels)):
            written[f"{part}-{what}"] = values
            write_idx(folder / name / "raw" / f"{part}-{what}-ubyte", values)
    return written


def write_cifar(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """All files of CIFAR-10, 2 training images a batch; arrays and MD5 sums, by file."""
    target = folder / "cifar-10-batches-py"
    target.mkdir(parents=True)
    random, written, sums = np.random.default_rng(7), {}, {}
    counts = {f"data_batch_{n}": 2 for n in range(1, 6)} | {"test_batch": TEST}
    for name, count in counts.items():
        images = random.integers(0, 256, (count, 3072)).astype(np.uint8)
        written[name] = images
        sums[name] = _pickled(target / name, {"data": images, "labels": list(range(count))})
    names = [f"class{n}" for n in range(10)]
    sums["batches.meta"] = _pickled(target / "batches.meta", {"label_names": names})
    return written, sums


def _pickled(path: Path, value: object) -> str:
    data = pickle.dumps(value, protocol=2)
    path.write_bytes(data)
    return hashlib.md5(data).hexdigest()
