"""A calibration on disk: whole and the same again, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calibration_making import calibration

from edgebench.errors import MachineError, ResultsError
from edgebench.slowdown.calibration.device import (
    SCHEMA,
    Calibration,
    calibration_path,
    load_calibration,
    save_calibration,
)
from edgebench.slowdown.calibration.scans import Scan

SCAN = Scan("0001", 0, "anon", 1.5, "read", 1, 150, 100, 150, 0.5, 120, 0, 30)


def test_it_comes_back_as_it_was(tmp_path: Path):
    """Saved and loaded, every constant, scan and warning is the same."""
    made = calibration(scans=(SCAN,), warnings=("noisy",), environment={"kernel": "6.1"})
    path = save_calibration(made, tmp_path)
    assert path == tmp_path / "board" / "calibration-file.json"
    assert load_calibration(tmp_path, "board", "file") == made


def test_no_swap_is_none_and_not_zero(tmp_path: Path):
    """Without swap its rates are None, on disk too."""
    made = calibration(swap_kind="none", swap_in_bytes_per_s=None, swap_out_bytes_per_s=None)
    path = save_calibration(made, tmp_path)
    assert json.loads(path.read_bytes())["swap_in_bytes_per_s"] is None
    assert load_calibration(tmp_path, "board", "none") == made


def test_a_device_never_calibrated_is_told_how(tmp_path: Path):
    """The error names device, kind, file and the command to type."""
    with pytest.raises(MachineError, match="no calibration of device board with swap of kind zram"):
        load_calibration(tmp_path, "board", "zram")
    with pytest.raises(MachineError) as told:
        load_calibration(tmp_path, "board", "zram")
    assert "edgebench calibrate --swap zram:1G --device board" in str(told.value.remedy)
    assert "calibration-zram.json" in str(told.value.where)


@pytest.mark.parametrize("changes", [{"device": "other"}, {"swap_kind": "zram"}])
def test_another_devices_file_is_refused(tmp_path: Path, changes: dict[str, Any]):
    """A file copied from another device, or renamed from another kind of swap, is not used."""
    path = save_calibration(calibration(), tmp_path)
    path.write_text(json.dumps(calibration(**changes).to_json()))
    with pytest.raises(MachineError, match="this is the calibration of device"):
        load_calibration(tmp_path, "board", "file")


def test_a_newer_file_is_refused():
    """What a newer version wrote isn't guessed at."""
    data = calibration().to_json() | {"schema": SCHEMA + 1}
    with pytest.raises(ResultsError, match=f"schema {SCHEMA + 1}; this edgebench reads"):
        Calibration.from_json(data)


def test_keys_added_later_are_left_out():
    """A key that this version doesn't know does no harm."""
    assert Calibration.from_json(calibration().to_json() | {"new": 1}) == calibration()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": None}, "no schema version"),
        ({"fault_s": None}, "fault_s is no constant"),
        ({"fault_s": {"value": 1.0}}, "damaged: no low"),
        ({"fault_s": {**calibration().to_json()["fault_s"], "value": "x"}}, "is no number"),
        ({"scans": [{"trial": "1"}]}, "damaged: no block"),
        ({"scans": 3}, "damaged"),
    ],
)
def test_damage_is_named(change: dict[str, Any], says: str):
    """Each damaged part is named, with what to do about it."""
    with pytest.raises(ResultsError, match=says) as told:
        Calibration.from_json({**calibration().to_json(), **change})
    assert "edgebench calibrate" in str(told.value.remedy)


def test_no_json_is_told(tmp_path: Path):
    """A torn file is damage, not a traceback."""
    path = calibration_path(tmp_path, "board", "file")
    path.parent.mkdir()
    path.write_text('{"schema": 1, "dev')
    with pytest.raises(ResultsError, match="no JSON"):
        load_calibration(tmp_path, "board", "file")
