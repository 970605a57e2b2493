"""Networks from outside: small ones of each kind that people bring."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from edgebench.layers.known_networks import import_torchvision


class Recurrent(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, 50)
        self.example_input_array = torch.arange(12)[None]

    def forward(self, tokens: torch.Tensor) -> Any:
        states, last = self.lstm(self.embedding(tokens))
        return self.out(states), last


class Detector(nn.Module):
    """DETR in small: queries whose weights are used without a call, tables, two heads, a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Conv2d(3, 32, 16, 16)
        self.transformer = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
        self.queries = nn.Embedding(10, 32)
        self.rows = nn.Parameter(torch.rand(50, 32))
        self.classes = nn.Linear(32, 5)
        self.boxes = nn.Linear(32, 4)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        seen = self.backbone(image).flatten(2).transpose(1, 2)
        seen = seen + self.rows.repeat(4, 1)[: seen.shape[1]]
        found = self.transformer(seen, self.queries.weight.unsqueeze(0))
        return {"classes": self.classes(found), "boxes": self.boxes(found).sigmoid()}


class TiedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2
        )
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.example_input_array = torch.arange(12)[None]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.encoder(self.embedding(tokens)))
        return scores


class Deciding(nn.Module):
    """A path that depends on values, and a tensor that is no buffer: nothing for ``meta``."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.table = torch.randn(8)
        self.example_input_array = torch.ones(1, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x) + self.table + torch.arange(8)
        y: torch.Tensor = self.second(x) if x.sum() > 0 else x
        return y


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        return [self.out(self.embedding(ids)) * mask.unsqueeze(-1)]


def vision_transformer() -> nn.Module:
    sides = {"image_size": 32, "patch_size": 16, "num_layers": 1, "num_heads": 2}
    made: nn.Module = import_torchvision().VisionTransformer(
        **sides, hidden_dim=16, mlp_dim=32, num_classes=5
    )
    return made


def swin() -> nn.Module:
    kinds = import_torchvision().swin_transformer
    made: nn.Module = kinds.SwinTransformer(
        patch_size=[4, 4],
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 2],
        window_size=[4, 4],
        num_classes=5,
        block=kinds.SwinTransformerBlockV2,
        downsample_layer=kinds.PatchMergingV2,
    )
    return made


def convnext() -> nn.Module:
    kinds = import_torchvision().convnext
    made: nn.Module = kinds.ConvNeXt([kinds.CNBlockConfig(8, None, 2)], num_classes=5)
    return made


def maxvit() -> nn.Module:
    made: nn.Module = import_torchvision().MaxVit(
        input_size=(32, 32),
        stem_channels=8,
        partition_size=4,
        block_channels=[8],
        block_layers=[1],
        head_dim=4,
        stochastic_depth_prob=0.0,
        num_classes=5,
    )
    return made


#: Configurations of transformers, small; each file's folder has the name.
_SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 200}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "intermediate_size": 64,
        **_SMALL,
    },
    "gpt2": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": 32,
        "n_layer": 1,
        "n_head": 2,
        "vocab_size": 200,
        "n_positions": 64,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "llama": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "intermediate_size": 64,
        **_SMALL,
    },
    "t5": {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 32,
        "d_kv": 16,
        "d_ff": 64,
        "num_layers": 1,
        "num_heads": 2,
        "vocab_size": 200,
    },
}
