"""A calibration on disk: whole and the same again, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from verb_making import calibration, constant

from edgebench.boards import StorageSpeed, parse_storage
from edgebench.errors import MachineError, ResultsError
from edgebench.slowdown.calibration import (
    SCHEMA,
    Calibration,
    HeldRates,
    load_calibration,
    save_calibration,
)

SCAN = {"block": 0, "of": "anon", "planned_share": 2.0, "what": "read", "seconds": 0.5}


def test_it_comes_back_as_it_was(tmp_path: Path):
    made = calibration(scans=(SCAN,), warnings=("noisy",), environment={"kernel": "6.1"})
    path = save_calibration(made, tmp_path)
    assert path == tmp_path / "board" / "calibration-file.json"
    assert load_calibration(tmp_path, "board", "file") == made


def test_no_swap_is_none_and_not_zero(tmp_path: Path):
    made = calibration(swap_kind="none", swap_in_bytes_per_s=None, swap_out_bytes_per_s=None)
    path = save_calibration(made, tmp_path)
    assert json.loads(path.read_bytes())["swap_in_bytes_per_s"] is None
    assert load_calibration(tmp_path, "board", "none") == made


def test_a_device_never_calibrated_is_told_how(tmp_path: Path):
    with pytest.raises(MachineError, match="no calibration of device board with swap of kind zram"):
        load_calibration(tmp_path, "board", "zram")
    with pytest.raises(MachineError) as told:
        load_calibration(tmp_path, "board", "zram")
    assert "edgebench calibrate --swap zram:1G --device board" in str(told.value.remedy)
    assert "calibration-zram.json" in str(told.value.where)


@pytest.mark.parametrize("changes", [{"device": "other"}, {"swap_kind": "zram"}])
def test_another_devices_file_is_refused(tmp_path: Path, changes: dict[str, Any]):
    path = save_calibration(calibration(), tmp_path)
    path.write_text(json.dumps(calibration(**changes).to_json()))
    with pytest.raises(MachineError, match="this is the calibration of device"):
        load_calibration(tmp_path, "board", "file")


def load_changed(folder: Path, change: dict[str, Any]) -> Calibration:
    path = save_calibration(calibration(), folder)
    path.write_text(json.dumps({**calibration().to_json(), **change}))
    return load_calibration(folder, "board", "file")


def test_keys_added_later_are_left_out(tmp_path: Path):
    assert load_changed(tmp_path, {"new": 1}) == calibration()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": SCHEMA + 1}, f"schema {SCHEMA + 1}; this edgebench reads"),
        ({"fault_s": None}, "damaged: .*fault_s"),
        ({"fault_s": {"value": 1.0}}, "damaged: .*low"),
        ({"fault_s": {**calibration().to_json()["fault_s"], "value": "x"}}, "fault_s.value"),
        ({"scans": 3}, "damaged"),
    ],
)
def test_damage_is_named(tmp_path: Path, change: dict[str, Any], says: str):
    with pytest.raises(ResultsError, match=says) as told:
        load_changed(tmp_path, change)
    assert "calibrate" in str(told.value.remedy)


def test_no_json_is_told(tmp_path: Path):
    path = save_calibration(calibration(), tmp_path)
    path.write_text('{"schema": 1, "dev')
    with pytest.raises(ResultsError, match="the calibration is damaged"):
        load_calibration(tmp_path, "board", "file")


def counted(**changes: Any) -> Calibration:
    """Return a calibration that counted requests: a page from swap, 128 KiB of a file."""
    sizes = {"swap_request_bytes": 4096, "file_request_bytes": 131072}
    return calibration(**{k: constant(v, "bytes") for k, v in sizes.items()}, **changes)


@pytest.mark.parametrize(
    ("storage", "swap", "files"),
    [
        ("read=100MB/s", 100e6, 100e6),
        # A page that is swapped in is a request, so requests hold swap long before files.
        ("read=100MB/s,read_iops=2000", 2000 * 4096, 100e6),
    ],
)
def test_the_slower_of_bytes_and_requests_holds(storage: str, swap: float, files: float) -> None:
    found = counted().held_to(parse_storage(storage))
    assert found.held == HeldRates(storage, swap, files)
    assert found.held_to(StorageSpeed()) == counted()


def test_nothing_else_is_held() -> None:
    assert counted().held_to(parse_storage("write=30MB/s")).held is None
    held = counted(swap_kind="zram").held_to(parse_storage("read=50MB/s")).held
    assert held == HeldRates("read=50MB/s", None, 50e6)


def test_files_of_schema_1_are_read(tmp_path: Path) -> None:
    """They have no bytes a request, which a speed in requests needs."""
    path = save_calibration(calibration(), tmp_path)
    new = ("swap_request_bytes", "file_request_bytes", "seen_share")
    old = {key: value for key, value in calibration().to_json().items() if key not in new}
    path.write_text(json.dumps({**old, "schema": 1}))
    found = load_calibration(tmp_path, "board", "file")
    assert (found.schema, found.swap_request_bytes, found.seen_share) == (1, None, None)
    with pytest.raises(MachineError, match="how many bytes one request has") as refused:
        found.held_to(parse_storage("read_iops=2000"))
    assert refused.value.remedy == "edgebench calibrate"
