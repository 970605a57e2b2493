"""``generate``: a language model reads a prompt, then makes one token after the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.samples import CallArguments, Sample, run_model, tensors_in
from edgebench.layers.schedules.base import Outputs, Schedule, Spans, unloading


class Generate(Schedule):
    """Loads all of a network, prefills its key-value cache with the prompt, and decodes.

    Each next token is the likeliest. ``prefill`` makes the first, by layer; each pass of ``decode``
    makes one more, without hooks, which would take longer than a small layer.

    Args:
        networks: the pipeline, in order.
        spans: told of every layer's load, the prefill by layer, and each pass of the decoding.
        new_tokens: how many tokens are made.
    """

    def __init__(self, networks: Sequence[LayeredNetwork], spans: Spans, new_tokens: int) -> None:
        super().__init__(networks, spans)
        self._new_tokens = new_tokens
        self._cache: Any = None
        #: The most that key-value caches held, bytes.
        self.most_cache_bytes = 0

    def cache_bytes(self) -> int:
        """Bytes of the tensors in the key-value cache now, each once."""
        seen = {tensor.data_ptr(): tensor.nbytes for tensor in tensors_in(self._cache)}
        return sum(seen.values())

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        return [self._one(net, x) for net, x in zip(self.networks, inputs, strict=True)]

    def _one(self, network: LayeredNetwork, sample: Sample) -> torch.Tensor:
        calls = network.first_calls()
        for call in calls:
            self.load(network, call)
        with unloading(network, calls):
            tokens = [self._prefill(network, sample)]
            for _ in range(self._new_tokens - 1):
                tokens.append(self._decode(network, tokens[-1]))
            self.most_cache_bytes = max(self.most_cache_bytes, self.cache_bytes())
            self._cache = None
        return torch.cat(tokens, dim=1)

    def _prefill(self, network: LayeredNetwork, sample: Sample) -> torch.Tensor:
        self._cache = _empty_cache(network.model)
        prompt = _with_cache(sample, self._cache)
        with self._whole("prefill", network):
            output = self.forward(network, prompt, "prefill")
            return self._next(network, output)

    def _decode(self, network: LayeredNetwork, token: torch.Tensor) -> torch.Tensor:
        sample = _with_cache(CallArguments(kwargs={"input_ids": token}), self._cache)
        with self._whole("decode", network), torch.inference_mode():
            return self._next(network, run_model(network.model, sample))

    def _next(self, network: LayeredNetwork, output: Any) -> torch.Tensor:
        """The likeliest token, batch × 1; the cache is kept for the next pass."""
        scores = getattr(output, "logits", None)
        self._cache = getattr(output, "past_key_values", None)
        if scores is None or self._cache is None:
            raise WorkloadError(
                "this network generates no text: its output lacks logits or past_key_values",
                where=network.name,
                remedy="leave prompt and new_tokens out, or name a causal language model: "
                "transformers:gpt2",
            )
        likeliest: torch.Tensor = scores[:, -1:].argmax(-1)
        return likeliest


def _empty_cache(model: nn.Module) -> Any:
    """One of our own where the network takes it, so that it can be looked into while it fills."""
    library = sys.modules.get("transformers")
    if library is None or not isinstance(model, library.PreTrainedModel):
        return None
    return library.DynamicCache(config=model.config)


def _with_cache(sample: Sample, cache: Any) -> CallArguments:
    given = sample if isinstance(sample, CallArguments) else CallArguments(args=(sample,))
    return CallArguments(given.args, {**given.kwargs, "past_key_values": cache, "use_cache": True})
