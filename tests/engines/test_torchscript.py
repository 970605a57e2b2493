"""TorchScript files: loaded and executed as a whole, called as their own schema says."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import pytest
import torch
from engine_runs import prepared, run

from edgebench.errors import WorkloadError

pytestmark = pytest.mark.torch


class Voice(torch.nn.Module):
    """A tensor and a plain number; dropout would differ from round to round in training."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(64, 32)
        self.drop = torch.nn.Dropout()

    def forward(self, x: torch.Tensor, sr: int, scale: float = 1.0) -> dict[str, torch.Tensor]:
        if sr != 16000:
            raise ValueError("Supported sampling rates: 16000")
        return {"y": self.drop(self.dense(x)) * scale}


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    file = tmp_path_factory.mktemp("voice") / "voice.pt"
    with warnings.catch_warnings():
        # Programs that people have were made by it.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Voice()).save(str(file))
    return file


GIVEN = {"x": "float32 2x64 =0.5", "sr": "16000"}


def test_a_program_gives_what_a_plain_call_gives(voice: Path, tmp_path: Path):
    made = prepared(voice, tmp_path, input=GIVEN)
    assert made["file_bytes"] == voice.stat().st_size
    notes = run(voice.name, "torchscript", Path(made["folder"]), input=GIVEN, rounds=2)
    phases = [name for name, _ in notes.phases if name not in ("import", "init", "round")]
    assert phases == ["load", "first", "execute"] * 2
    torch.manual_seed(1)
    with torch.no_grad():
        plain = Voice().eval()(torch.full((2, 64), 0.5), 16000)["y"]
    digest = hashlib.sha256(plain.numpy().tobytes()).hexdigest()
    assert notes.notes["output_sha256"] == {voice.name: digest}


@pytest.mark.parametrize(
    ("told", "what", "remedy"),
    [
        (
            None,
            "the file does not say what its inputs are: 'x' is a tensor of any shape",
            'describe them, with sizes that fit: --input "x=float32 1x3x224x224" --input sr=1',
        ),
        ({**GIVEN, "sr": "1.5"}, "1.5 is no value of int64", "--input sr=1"),
        ({**GIVEN, "rate": "1"}, "the file has no input 'rate'", "x, sr"),
        (
            {**GIVEN, "sr": "8000"},
            "TorchScript can't execute it with x float32 2x64, sr = 8000: ValueError: Supported "
            "sampling rates: 16000",
            "try another --input",
        ),
        (
            {**GIVEN, "x": "float32 1x3"},
            "mat1 and mat2 shapes cannot be multiplied (1x3 and 64x32)",
            "try another --input",
        ),
    ],
)
def test_inputs_that_it_does_not_take(
    voice: Path, tmp_path: Path, told: dict[str, str] | None, what: str, remedy: str
):
    """Refused before any trial: all that is not known at once, or PyTorch's own reason."""
    with pytest.raises(WorkloadError) as refused:
        prepared(voice, tmp_path, input=told)
    assert what in refused.value.what
    assert "\n" not in refused.value.what
    assert remedy in str(refused.value.remedy)


def test_a_file_that_is_cut_short_is_one_message(voice: Path, tmp_path: Path):
    file = tmp_path / "cut.jit"
    file.write_bytes(voice.read_bytes()[:2000])
    with pytest.raises(WorkloadError, match="TorchScript can't load it: ") as refused:
        prepared(file, tmp_path / "cache")
    assert "\n" not in refused.value.what
