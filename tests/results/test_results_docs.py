"""docs/reference/results.md is the contract: every key and column stands in it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from edgebench.accelerator_report import AcceleratorReport
from edgebench.records import (
    KillReport,
    LimitSetting,
    PhaseSum,
    SamplerReport,
    TrialRecord,
    Watching,
)
from edgebench.results.frames import PHASE_COLUMNS, TRIAL_COLUMNS
from edgebench.results.layer_frames import LAYER_COLUMNS, NETWORK_COLUMNS
from edgebench.sensor_report import EnergyReport, SensorReport
from edgebench.storage_speed import StorageReport
from edgebench.walk_report import WalkReport
from edgebench.working_set import WorkingSet

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text()


@pytest.mark.parametrize(
    "kind",
    [
        *(TrialRecord, LimitSetting, SamplerReport, Watching, PhaseSum, KillReport),
        *(EnergyReport, SensorReport, AcceleratorReport, WorkingSet),
    ],
)
def test_every_key_of_a_record_has_a_row(kind: type):
    """A key has type, meaning and when it is missing, in a row of its own."""
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| \w+ \| [^|]+ \| ([^|]+) \|$", TEXT, re.MULTILINE))
    assert {f.name for f in fields(kind)} <= set(rows)


@pytest.mark.parametrize("columns", [TRIAL_COLUMNS, PHASE_COLUMNS, LAYER_COLUMNS, NETWORK_COLUMNS])
def test_every_column_is_explained(columns: tuple[str, ...]):
    """No frame has a column that the page doesn't name."""
    assert {name for name in columns if f"`{name}`" not in TEXT} == set()


def test_every_key_in_the_tables_exists():
    """The page names no key that no record has."""
    start, end = TEXT.index("## A record"), TEXT.index("## Frames")
    named = set(re.findall(r"^\| `([a-z_]+)` \|", TEXT[start:end], re.MULTILINE))
    kinds = (
        TrialRecord,
        LimitSetting,
        SamplerReport,
        Watching,
        PhaseSum,
        KillReport,
        StorageReport,
        WalkReport,
        EnergyReport,
        SensorReport,
        AcceleratorReport,
        WorkingSet,
    )
    assert named == {f.name for kind in kinds for f in fields(kind)}
