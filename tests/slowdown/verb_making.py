"""Sweeps, constants and words for the verbs that predict, as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_sweep import MIB, Shape

from edgebench.errors import EdgebenchError
from edgebench.slowdown.calibration import SCHEMA, Calibration, Constant

SHAPE = Shape(
    networks={"alexnet": 4, "vgg11": 5, "resnet18": 6, "densenet121": 7},
    schedules=("linear", "bulk"),
    limits=(None, 180, 145, 115, 85),
    repeats=2,
    rounds=1,
    with_files=False,
)
DEVICE = "jetson-nano"


def calibration(device: str = DEVICE, swap_kind: str = "file") -> Calibration:
    values = {
        "swap_in_bytes_per_s": (500e6, "bytes/s"),
        "swap_out_bytes_per_s": (400e6, "bytes/s"),
        "file_read_bytes_per_s": (900e6, "bytes/s"),
        "file_fault_bytes_per_s": (700e6, "bytes/s"),
        "fault_s": (80e-6, "s"),
        "minor_fault_s": (0.5e-6, "s"),
        "pages_per_fault": (8, "pages"),
        "file_pages_per_fault": (32, "pages"),
        "base_bytes": (150 * MIB, "bytes"),
        "hot_base_bytes": (60 * MIB, "bytes"),
    }
    made: dict[str, Any] = {n: Constant(v, v, v, unit, 5) for n, (v, unit) in values.items()}
    return Calibration(device, swap_kind, "2026-01-01T00:00:00+00:00", SCHEMA, {}, **made)


def run(verb: Any, *words: str | Path) -> str:
    done = CliRunner().invoke(verb, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def said(verb: Any, *words: str | Path) -> str:
    with pytest.raises(EdgebenchError) as caught:
        CliRunner().invoke(verb, [str(word) for word in words], catch_exceptions=False)
    return str(caught.value)


def predicted(*words: str | Path) -> list[dict[str, Any]]:
    from edgebench.cli.predict import predict

    made: list[dict[str, Any]] = json.loads(run(predict, *words, "--json"))["predictions"]
    return made
