"""The studies' scenarios: each is valid and describes itself."""

from __future__ import annotations

from edgebench.scenario.scenario import load_scenario
from edgebench.scenario.shipped import SHIPPED

STUDIES = [*sorted((SHIPPED / "lowpower").glob("*.toml")), SHIPPED / "hyperparameters.toml"]


def test_each_is_valid_and_called_as_its_file():
    """It loads, and says what it is about."""
    for file in STUDIES:
        scenario = load_scenario(file)
        assert scenario.name == file.stem
        assert scenario.description
