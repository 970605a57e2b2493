"""Sweeps, constants and words for the verbs that predict, as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_sweep import Shape

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


def constant(value: float, unit: str) -> Constant:
    return Constant(value, 0.9 * value, 1.1 * value, unit, 5)


def calibration(**changes: Any) -> Calibration:
    rates = {"swap_in": 500e6, "swap_out": 400e6, "file_read": 900e6, "file_fault": 700e6}
    constants = {f"{name}_bytes_per_s": constant(rate, "bytes/s") for name, rate in rates.items()}
    constants |= {"fault_s": constant(80e-6, "s"), "minor_fault_s": constant(0.5e-6, "s")}
    constants |= {"pages_per_fault": constant(8, "pages")}
    constants |= {"file_pages_per_fault": constant(32, "pages")}
    constants |= {"base_bytes": constant(150 << 20, "bytes")}
    constants |= {"hot_base_bytes": constant(90 << 20, "bytes")}
    about = {"created_utc": "2025-01-01T00:00:00+00:00", "schema": SCHEMA, "environment": {}}
    made: dict[str, Any] = {"device": "board", "swap_kind": "file", **about, **constants}
    return Calibration(**{**made, **changes})


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
