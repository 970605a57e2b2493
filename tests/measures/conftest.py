"""What all tests of measures share."""

from __future__ import annotations

import pytest
from sensor_trees import be_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sensor is given up because the machine is busy."""
    be_patient(monkeypatch)
