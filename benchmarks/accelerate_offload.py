"""A network whose weights Hugging Face's accelerate reads from disk in each pass.

``python benchmarks/accelerate_offload.py NETWORK FOLDER [--prepare]``: with ``--prepare`` it writes
random weights to the folder; without, it executes the network and prints passes per second. Other
words are ignored. :mod:`stream_bound` runs it under limits.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
from accelerate import disk_offload, init_empty_weights
from accelerate.utils import offload_state_dict

from edgebench.layers.known_networks import construct

#: The first passes are its start.
STARTS, PASSES = 1, 4


def main(network: str, folder: str, *words: str) -> None:
    """Prepare, or execute."""
    if "--prepare" in words:
        torch.manual_seed(1)
        offload_state_dict(folder, construct(network).state_dict())
        return
    with init_empty_weights(include_buffers=True):
        model = construct(network)
    model = disk_offload(model, folder, torch.device("cpu"), offload_buffers=True)
    image, seconds = torch.zeros(1, 3, 224, 224), []
    for _ in range(STARTS + PASSES):
        began = time.perf_counter()
        with torch.inference_mode():
            model(image)
        seconds.append(time.perf_counter() - began)
    print(f"{1 / statistics.median(seconds[STARTS:]):.6f} passes/s")


if __name__ == "__main__":
    main(*sys.argv[1:])
