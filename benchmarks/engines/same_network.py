"""The same network with the same random weights as a file of each engine, and one input for all.

``resnet18.safetensors`` for torch, ``resnet18.onnx``, ``resnet18.tflite``, ``resnet18.keras``; the
input is ``resnet18.npy``, NCHW.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

#: Engine → the ending of its file.
ENGINES = {
    "torch": ".safetensors",
    "onnxruntime": ".onnx",
    "litert": ".tflite",
    "tensorflow": ".keras",
}
NETWORKS = ("resnet18", "mobilenet_v2")
#: The most that two engines' outputs may differ by, of the largest number in them.
TOLERANCE = 1e-3
_BARE = Path(__file__).with_name("bare.py")
_MAKE = """
import sys
from pathlib import Path
import numpy as np, onnx, torch
from safetensors.torch import save_file
from edgebench.layers.known_networks import construct
from benchmarks.engines.keras_maker import keras_of
from benchmarks.engines.tflite_maker import tflite_of
base = Path(sys.argv[1]) / sys.argv[2]
torch.manual_seed(0)
network = construct(sys.argv[2]).eval()
picture = torch.rand(1, 3, 224, 224)
np.save(base.with_suffix(".npy"), picture.numpy())
save_file(network.state_dict(), base.with_suffix(".safetensors"))
torch.onnx.export(network, (picture,), base.with_suffix(".onnx"), dynamo=True, external_data=False)
graph = onnx.load(base.with_suffix(".onnx"))
base.with_suffix(".tflite").write_bytes(tflite_of(graph))
base.with_suffix(".keras").write_bytes(keras_of(graph))
"""


def make_files(folder: Path, networks: Sequence[str]) -> None:
    """Write what is not there yet, in a process of its own."""
    for name in networks:
        if not all((folder / f"{name}{suffix}").exists() for suffix in ENGINES.values()):
            command = [sys.executable, "-c", _MAKE, str(folder), name]
            done = subprocess.run(command, cwd=_BARE.parents[2], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{name} can't be written for all engines:\n{done.stderr}")


def bare(engine: str, folder: Path, network: str, warm: int) -> dict[str, float]:
    """A bare loop in a fresh process: seconds to ``import``, ``load``, ``first`` and ``execute``.

    The output is left in ``NETWORK-ENGINE.npy``.
    """
    command = [sys.executable, str(_BARE), engine, str(folder), network, str(warm)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{network} in {engine}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def differences(folder: Path, networks: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
    """Network → engine → how far its output is from torch's, of the largest number there.

    Exits where one is farther than ``TOLERANCE``.
    """
    found: dict[str, dict[str, float]] = {}
    for name in networks:
        for engine in ENGINES:
            bare(engine, folder, name, 0)
        wanted = np.load(folder / f"{name}-torch.npy").ravel()
        for engine in ENGINES:
            own = np.load(folder / f"{name}-{engine}.npy").ravel()
            apart = float(np.abs(own - wanted).max() / np.abs(wanted).max())
            found.setdefault(name, {})[engine] = apart
            print(f"{name} in {engine}: output differs from torch's by {apart:.1e}", flush=True)
            if apart > TOLERANCE:
                raise SystemExit(f"that is more than {TOLERANCE}: it is not the same network")
    return found
