"""Twelve networks from outside, by layer, under every schedule and loader.

Each comes from a configuration of timm or transformers, or from PyTorch's own modules, with random
weights, and is loaded and executed layer by layer as a trial does it. Its outputs must be those of
a plain call, bit for bit, in two rounds. It prints a row a network: its layers, its weights,
how many combinations were equal. It measures no times.

    python -m benchmarks.engines.outside_models [NAME …]
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from edgebench.errors import EdgebenchError
from edgebench.layers.examination import sample_of
from edgebench.layers.pipeline import SCHEDULES, build_pipeline
from edgebench.layers.preparation import manifest
from edgebench.layers.references import parse_reference
from edgebench.layers.samples import run_model, tensors_in
from edgebench.layers.sources import network_source
from edgebench.layers.tensor_files import LOADERS
from edgebench.units import format_size
from edgebench.workloads.recorder import Recorder

SEED = 3
_TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 500}
_WIDE = {"intermediate_size": 128, **_TEXT}
#: Name of its folder → the configuration of transformers.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", "architectures": ["BertForMaskedLM"], **_WIDE},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **_WIDE},
    "gpt2": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "vocab_size": 500,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "t5": {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 128,
        "num_layers": 2,
        "num_heads": 4,
        "vocab_size": 500,
    },
    "mamba": {
        "model_type": "mamba",
        "architectures": ["MambaForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "state_size": 8,
        "vocab_size": 500,
    },
    "yolos": {
        "model_type": "yolos",
        "architectures": ["YolosForObjectDetection"],
        "image_size": [128, 128],
        "num_detection_tokens": 20,
        **_WIDE,
    },
}
#: Code that makes a network of PyTorch's own modules.
CODE = '''
import torch
from torch import nn


class Tagger(nn.Module):
    """A bidirectional LSTM over tokens, with its last states in the output."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 64)
        self.lstm = nn.LSTM(64, 64, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, 20)
        self.example_input_array = torch.arange(32)[None]

    def forward(self, tokens):
        states, last = self.lstm(self.embedding(tokens))
        return self.out(states), last
'''


@dataclass(frozen=True)
class OutsideNetwork:
    """A network: what kind it is, and the reference that names it."""

    kind: str
    reference: str


NETWORKS = {
    "vit": OutsideNetwork("vision transformer", "timm:vit_tiny_patch16_224"),
    "convnext": OutsideNetwork("convolutions", "timm:convnext_atto"),
    "mobilevit": OutsideNetwork("convolutions and attention", "timm:mobilevit_xxs"),
    "efficientformer": OutsideNetwork("attention with tables", "timm:efficientformerv2_s0"),
    "mixer": OutsideNetwork("perceptrons", "timm:mixer_s32_224"),
    "yolos": OutsideNetwork("detector, several outputs", "transformers:yolos"),
    "bert": OutsideNetwork("encoder, tied weights", "transformers:bert"),
    "gpt2": OutsideNetwork("decoder, tied weights", "transformers:gpt2"),
    "llama": OutsideNetwork("decoder, rotary positions", "transformers:llama"),
    "t5": OutsideNetwork("encoder and decoder", "transformers:t5"),
    "mamba": OutsideNetwork("state space", "transformers:mamba"),
    "tagger": OutsideNetwork("recurrent", "outside_tagger.py:Tagger"),
}


def plain_outputs(reference: str, folder: Path) -> list[torch.Tensor]:
    """What the network computes without edgebench."""
    source = network_source(parse_reference(reference, folder))
    torch.manual_seed(SEED)
    model = source.construct(weights=True)
    with torch.inference_mode():
        return list(tensors_in(run_model(model, sample_of(source, model, {"seed": SEED}, 1))))


def row_of(name: str, folder: Path) -> list[str]:
    """The table's row of one network; an error is told in it."""
    about = NETWORKS[name]
    try:
        expected = plain_outputs(about.reference, folder)
        equal, count, layers, size = _by_layer(about.reference, folder, expected)
    except EdgebenchError as error:
        return [name, about.kind, "", "", "", str(error.what)]
    return [
        *(name, about.kind, str(layers), format_size(size), str(len(expected))),
        f"{equal} of {count}",
    ]


def _by_layer(text: str, folder: Path, expected: list[torch.Tensor]) -> tuple[int, int, int, int]:
    """Combinations with equal outputs, all combinations, layers, bytes of weights."""
    reference = parse_reference(text, folder)
    own = {"networks": [reference.name], "references": {reference.name: reference.to_json()}}
    made = manifest({**own, "seed": SEED, "cache": str(folder)})["networks"][reference.name]
    settings = {**own, "seed": SEED, "batch": 1, "image": None, "warm": 1, "workers": 2}
    settings["weights"] = {reference.name: made["folder"]}
    ways = [(schedule, loader) for schedule in SCHEDULES for loader in LOADERS]
    equal = 0
    for schedule, loader in ways:
        pipeline = build_pipeline({**settings, "schedule": schedule, "loader": loader}, Recorder())
        rounds = [pipeline.schedule.run(pipeline.inputs, number) for number in range(2)]
        found = [list(tensors_in(outputs)) for outputs in rounds]
        equal += all(
            len(one) == len(expected) and all(map(torch.equal, one, expected)) for one in found
        )
    return equal, len(ways), len(made["table"]), made["parameter_bytes"]


@contextlib.contextmanager
def folder_of_networks() -> Iterator[Path]:
    """The configurations and the code, in a folder of their own."""
    with TemporaryDirectory(prefix="edgebench-outside-") as name:
        folder = Path(name)
        for key, configuration in CONFIGURATIONS.items():
            (folder / key).mkdir()
            (folder / key / "config.json").write_text(json.dumps(configuration))
        (folder / "outside_tagger.py").write_text(CODE)
        yield folder


def main(names: list[str]) -> int:
    """Print the table; 1 if an output differs."""
    print("| network | kind | layers | weights | output tensors | equal |")
    print("| --- | --- | ---: | ---: | ---: | --- |")
    wrong = 0
    with folder_of_networks() as folder:
        for name in names or NETWORKS:
            row = row_of(name, folder)
            wrong += row[-1] != "12 of 12"
            print("|", " | ".join(row), "|", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
