"""What several tests of engines start from."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def onnx_folder(tmp_path: Path) -> Path:
    from engine_models import made_onnx
    from engine_runs import prepared

    return Path(prepared(made_onnx(tmp_path), tmp_path / "cache")["folder"])
