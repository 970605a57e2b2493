"""What the verbs of the slowdown model say when they are asked nonsense, or given damaged files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench.cli import main

Told = tuple[int, str, str]
Say = Callable[..., Told]

NETS = """
import torch

def fails():
    raise RuntimeError("no weights today")

def greedy():
    return torch.nn.ReLU()
"""


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    def program(*words: str | Path) -> Told:
        monkeypatch.setattr(sys, "argv", ["edgebench", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return program


def refused(told: Told, code: int, *fragments: str) -> None:
    assert told[0] == code, told[2]
    assert told[1] == ""
    assert "Traceback" not in told[2]
    assert told[2].count("edgebench: ") + told[2].count("Error: ") == 1
    for fragment in fragments:
        assert fragment in told[2]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (("--memory", "max"), ("'max' is not a limit", "write the limit as a size")),
        (("--from", "120%", "--to", "40M"), ("both be sizes or both be shares", "--from 120%")),
        (("--steps", "1"), ("--steps", "2<=x<=100")),
        (("--batch", "0"), ("--batch", "x>=1")),
        (("--schedule", "zigzag"), ("'zigzag' is not one of", "linear")),
        (("--loader", "carrier-pigeon"), ("is not one of", "mmap")),
        (("--swap-kind", "floppy"), ("'floppy' is not one of", "zram")),
    ],
)
def test_words_that_make_no_sense_to_predict(
    say: Say, root: Path, words: tuple[str, ...], fragments: tuple[str, ...]
):
    """Limits that are none and choices that aren't there end with 2, before anything is read."""
    refused(say("predict", "vgg11", "--results", root, *words), 2, *fragments)


@pytest.mark.torch
@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (("resnet19",), ("no network 'resnet19'", "did you mean 'resnet1")),
        (("nets:fails",), ("no weights today", "in your own code", "fix your code")),
        (("nets:greed",), ("module nets has no 'greed'", "nets:greedy")),
        (("torn:make",), ("SyntaxError in your own code",)),
        (("--device", "orin"), ("no results of device 'orin'", "jetson-nano")),
    ],
)
def test_networks_and_devices_that_are_not_there(
    say: Say,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    fragments: tuple[str, ...],
):
    """A name, a factory or a device that can't be had ends with 1, in one sentence."""
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "torn.py").write_text("def make(:\n")
    monkeypatch.chdir(tmp_path)
    refused(say("predict", "--results", root, "--memory", "90M", *words), 1, *fragments)


def test_swap_that_was_never_calibrated(say: Say, root: Path):
    told = say("predict", "vgg11", "--results", root, "--swap-kind", "zram")
    refused(told, 1, "no calibration of device jetson-nano with swap of kind zram", "zram:1G")
