"""Makes ``scenarios/lowpower/lenet-digits-0-4.safetensors``: LeNet that knows five of ten digits.

``.venv/bin/python scripts/pretrain.py``. Plain torch, seconds, the same weights from the same seed.
What ``partial-checkpoint.toml`` starts from: a network that was trained for a neighbouring task.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from edgebench.layers.known_networks import LeNet
from edgebench.workloads.training.data_sources import Examples, load_data, steps_of, widened

TARGET = Path(__file__).parents[1] / "scenarios" / "lowpower" / "lenet-digits-0-4.safetensors"
KNOWN, EDGE, BATCH, EPOCHS, RATE, SEED = 5, 28, 32, 20, 0.1, 1


def batch(
    examples: Examples, rows: np.ndarray, brightest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """These examples as the network's numbers, and their labels."""
    images = torch.from_numpy(widened(examples.images[rows], EDGE)).float() / brightest
    return images, torch.from_numpy(examples.labels[rows])


def of_known(examples: Examples) -> np.ndarray:
    """The rows whose digit is among the known ones."""
    return np.flatnonzero(examples.labels < KNOWN)


def main() -> None:
    """Train, tell the accuracy, write."""
    torch.manual_seed(SEED)
    data, network = load_data("digits", Path()), LeNet(KNOWN)
    rows = of_known(data.train)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for chosen in steps_of(len(rows), BATCH, steps=None, epochs=EPOCHS, seed=SEED):
        images, labels = batch(data.train, rows[chosen], data.brightest)
        cross_entropy(network(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    images, labels = batch(data.test, of_known(data.test), data.brightest)
    # As bfloat16 has them: the wheel compresses them to half.
    network.bfloat16().float()
    with torch.inference_mode():
        right = (network.eval()(images).argmax(1) == labels).float().mean()
    save_file(network.state_dict(), TARGET)
    sys.stderr.write(
        f"{TARGET.name}: {right:.1%} of {len(labels)} test images of digits 0 to {KNOWN - 1}\n"
    )


if __name__ == "__main__":
    main()
