"""docs/reference/results.md is the contract: every key and column stands in it."""

from __future__ import annotations

import re
from pathlib import Path

from edgebench.records import (
    AcceleratorReport,
    EnergyReport,
    FilesReport,
    GrowthReport,
    KillReport,
    LeftFile,
    LimitSetting,
    OutsideReport,
    PhaseSum,
    RoundCounts,
    SamplerReport,
    SensorReport,
    StorageReport,
    SwapRamReport,
    TrialRecord,
    WalkReport,
    Watching,
    WorkingSet,
)
from edgebench.results.frames import PHASE_COLUMNS, TRIAL_COLUMNS
from edgebench.results.layer_frames import LAYER_COLUMNS, NETWORK_COLUMNS

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text()


#: What a record is made of; what has a table of its own on the page.
KINDS = (
    *(TrialRecord, LimitSetting, SamplerReport, Watching, PhaseSum, KillReport, RoundCounts),
    *(EnergyReport, SensorReport, AcceleratorReport, WorkingSet),
    *(OutsideReport, LeftFile, GrowthReport),
)
OTHERS = (StorageReport, WalkReport, FilesReport, SwapRamReport)


def test_every_key_has_a_row_and_every_row_is_of_a_key():
    """A key has type, meaning and when it is missing; the page names no key that no record has."""
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| \w+ \| [^|]+ \| ([^|]+) \|$", TEXT, re.MULTILINE))
    assert {name for kind in KINDS for name in kind.__struct_fields__} - set(rows) == set()
    start, end = TEXT.index("## A record"), TEXT.index("## Frames")
    named = set(re.findall(r"^\| `([a-z_]+)` \|", TEXT[start:end], re.MULTILINE))
    assert named == {name for kind in (*KINDS, *OTHERS) for name in kind.__struct_fields__}


def test_every_column_is_explained():
    """No frame has a column that the page doesn't name."""
    columns = {*TRIAL_COLUMNS, *PHASE_COLUMNS, *LAYER_COLUMNS, *NETWORK_COLUMNS}
    assert {name for name in columns if f"`{name}`" not in TEXT} == set()
