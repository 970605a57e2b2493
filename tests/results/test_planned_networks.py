"""Which networks a folder's sweeps were planned with is known without reading any trial."""

from __future__ import annotations

import json
from pathlib import Path

from made_sweep import Shape, make

from edgebench.results.sweep_reader import may_have


def test_a_network_is_found_by_its_whole_name(tmp_path: Path) -> None:
    """Of any sweep below the folder; where a plan is gone, it may have been any network."""
    make(tmp_path, Shape(with_files=False))
    other = make(tmp_path, Shape(with_files=False), device="orin")
    plan = {"schema": 1, "points": [{"settings": {"networks": ["nets.py:Größe"]}}]}
    (other / "resolved.json").write_text(json.dumps(plan))
    assert may_have(tmp_path, "nets.py:Größe")
    assert not may_have(tmp_path, "nets.py:Gr")
    assert not may_have(tmp_path / "jetson-nano", "nets.py:Größe")
    (other / "resolved.json").unlink()
    assert may_have(tmp_path, "nets.py:Gr")
