"""What all tests of measures share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensor that answers is not given up because the machine is busy."""
    sensors = "edgebench.measures.machine.sensors"
    monkeypatch.setattr(f"{sensors}.search._PATIENCE_S", 200.0)
    monkeypatch.setattr(f"{sensors}.sensor._COMMAND_PATIENCE_S", 200.0)
