"""A language model generates what it would without edgebench, from a cache of the right size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from layers_making import SEED, SpanLog, prepared

from edgebench.errors import UsageError, WorkloadError
from edgebench.layers.names import CONFIGURATIONS
from edgebench.layers.pipeline import build_pipeline
from edgebench.layers.references import parse_reference
from edgebench.layers.schedules import Generate
from edgebench.layers.sources import network_source
from edgebench.run.trial.record import trial_throughput
from edgebench.spans import events_to_phases, finished_spans
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder

pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

PROMPT, NEW = 7, 4
SMALL = {
    "gpt2": "n_layer=2&n_embd=32&n_head=2&vocab_size=90&n_positions=24",
    "smollm2-135m": "num_hidden_layers=2&hidden_size=32&intermediate_size=48&"
    "num_attention_heads=4&num_key_value_heads=2&head_dim=8&vocab_size=90",
}
#: Bytes of keys and values of a token: two, by layers, heads, their width, four bytes each.
TOKEN_BYTES = {"gpt2": 2 * 2 * 2 * 16 * 4, "smollm2-135m": 2 * 2 * 2 * 8 * 4}


def settings_of(text: str, cache: Path) -> dict[str, Any]:
    made, _ = prepared(text, cache, prompt=PROMPT, new_tokens=NEW)
    return {**made, "schedule": "generate", "loader": "copy", "batch": 2}


def plain_tokens(text: str, prompt: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(SEED)
    model = network_source(parse_reference(text, Path())).construct(weights=True)
    tokens = prompt
    with torch.inference_mode():
        for _ in range(NEW):
            scores = model(input_ids=tokens, use_cache=False).logits[:, -1:]
            tokens = torch.cat([tokens, scores.argmax(-1)], dim=1)
    return tokens[:, PROMPT:]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_text_is_what_the_model_makes_without_a_cache(name: str, tmp_path: Path) -> None:
    text = f"transformers:{name}?{SMALL[name]}"
    settings = settings_of(text, tmp_path)
    expected = None
    for loader in ("copy", "mmap"):
        log = SpanLog()
        pipeline = build_pipeline({**settings, "loader": loader}, log)
        (sample,) = pipeline.inputs
        expected = plain_tokens(text, sample.kwargs["input_ids"])  # type: ignore[union-attr]
        for number in range(2):
            (tokens,) = pipeline.schedule.run(pipeline.inputs, number)
            assert torch.equal(tokens, expected), loader
    assert expected is not None
    assert expected.shape == (2, NEW)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_cache_holds_keys_and_values_of_all_tokens_but_the_last(
    name: str, tmp_path: Path
) -> None:
    text = f"transformers:{name}?{SMALL[name]}"
    settings = settings_of(text, tmp_path)
    pipeline = build_pipeline(settings, SpanLog())
    pipeline.schedule.run(pipeline.inputs, 0)
    assert isinstance(pipeline.schedule, Generate)
    most_bytes = 2 * (PROMPT + NEW - 1) * TOKEN_BYTES[name]
    assert pipeline.schedule.notes() == {"key_value_cache_bytes": most_bytes}
    assert pipeline.schedule.cache_bytes() == 0


def test_prefill_and_decoding_are_timed_as_wholes(tmp_path: Path) -> None:
    text = f"transformers:gpt2?{SMALL['gpt2']}"
    settings = settings_of(text, tmp_path)
    with (tmp_path / "events").open("w+b") as file:
        recorder = Recorder({**NO_DESCRIPTORS, "events": file.fileno()})
        pipeline = build_pipeline(settings, recorder)
        pipeline.schedule.run(pipeline.inputs, 0)
        file.seek(0)
        events = [json.loads(line) for line in file]
    phases = {one.phase: one for one in events_to_phases(events)}
    prefill = [span for span in finished_spans(events) if span.phase == "prefill"]
    (whole,) = [span for span in prefill if span.layer is None]
    assert len(prefill) > 10
    assert phases["prefill"].wall_s == whole.wall_s
    decode = phases["decode"]
    assert decode.passes == NEW - 1
    rate = trial_throughput(settings, None, [decode])
    assert rate == pytest.approx(2 * (NEW - 1) / decode.wall_s)


def test_the_layer_table_has_no_cache(tmp_path: Path) -> None:
    """Keys and values have a row of their own in ledgers, so no layer's sum may hold them."""
    text = f"transformers:gpt2?{SMALL['gpt2']}"
    rows = prepared(text, tmp_path, prompt=PROMPT)[1]["table"]
    first, last = (
        next(row for row in rows if row["name"] == f"transformer.h.{layer}.ln_2")
        for layer in (0, 1)
    )
    assert last["live_after_bytes"] <= first["live_after_bytes"]


@pytest.mark.parametrize(
    ("text", "keys", "says"),
    [
        (f"transformers:gpt2?{SMALL['gpt2']}", {"prompt": 22, "new_tokens": 4}, "24 at most"),
        ("lenet", {"prompt": 4, "new_tokens": 4}, "generates no text"),
    ],
)
def test_a_network_that_cant_is_refused(
    text: str, keys: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(WorkloadError, match=says):
        prepared(text, tmp_path, **keys)
    assert not list(tmp_path.iterdir())


def test_a_folder_of_the_same_name_comes_first(tmp_path: Path) -> None:
    (tmp_path / "gpt2").mkdir()
    assert parse_reference("transformers:gpt2", tmp_path).path == str(tmp_path / "gpt2")
    with pytest.raises(UsageError, match="no file"):
        parse_reference("transformers:gpt3", tmp_path)
