"""The study of phases on an accelerator, from a results folder with made-up trials."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_results import accelerator_records, record, write_sweep

import edgebench
from edgebench.analysis.studies.phases import accelerator_frame, accelerator_tables
from edgebench.errors import ResultsError

MIB = 1 << 20


def test_copies_stand_beside_their_phase_s_time(tmp_path: Path):
    results = edgebench.load(write_sweep(tmp_path, accelerator_records(), {}))
    frame = accelerator_frame(results).set_index("phase")
    assert set(frame.index) == {"data", "forward"}
    assert frame.loc["data", "wall_s"] == pytest.approx(0.002)
    assert frame.loc["data", "copy_share"] == pytest.approx(0.5)
    assert frame.loc["data", "to_bytes"] == MIB
    assert frame.loc["forward", "copy_share"] == 0
    assert frame.loc["forward", "peak_allocated_bytes"] == 32 * MIB
    (table,) = accelerator_tables(results)
    shown = [[column.shown(row[column.key]) for column in table.columns] for row in table.rows]
    assert shown[0] == [
        *("lenet", "16", "max", "", "data", "2.000", "1.00", "1.000", "0.00", "0.000", "50%", "0.0")
    ]


def test_a_sweep_on_the_processor_has_no_such_table(tmp_path: Path):
    made = [record(1, {"kind": "training", "network": "lenet", "batch": 1})]
    results = edgebench.load(write_sweep(tmp_path, made, {}))
    with pytest.raises(ResultsError, match='accelerator = "cuda"'):
        accelerator_frame(results)
