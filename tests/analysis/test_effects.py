"""Effect sizes: those that were put in come out, and what has none shows none."""

from __future__ import annotations

import pandas as pd
import pytest

from edgebench.analysis.studies.hyperparameters import setting_effects
from edgebench.errors import ResultsError

SETTINGS = {"rate": "log", "batch": "log", "layers": "linear"}


#: Uneven draws: noise grows with the layers, and the batch goes along with them.
UNEVEN = pd.DataFrame(
    {
        "rate": [1e-4, 2e-4, 5e-4, 1e-3, 1e-3, 2e-3, 3e-3, 8e-3, 2e-2, 3e-2, 9e-2, 1e-1],
        "batch": [16, 48, 40, 64, 180, 90, 150, 72, 256, 128, 200, 240],
        "layers": [1, 5, 1, 2, 8, 3, 5, 2, 8, 3, 6, 4],
        "memory": [140, 201, 131, 149, 290, 152, 188, 133, 251, 144, 233, 158],
    }
)


@pytest.mark.parametrize(
    ("settings", "setting", "wanted"),
    [
        (SETTINGS, "rate", [-0.0465676260974, -0.84984232567, 0.756707073475, 0.000384021322312]),
        (SETTINGS, "batch", [-0.240909025803, -1.17218649719, 0.690368445583, 0.00517807184203]),
        (SETTINGS, "layers", [1.14910745578, 0.580867021787, 1.71734788978, 0.3102012777]),
        (
            {"layers": "linear"},
            "layers",
            [0.9536773824, 0.632269697911, 1.27508506689, 0.909500549702],
        ),
    ],
)
def test_intervals_are_those_of_statsmodels(
    settings: dict[str, str], setting: str, wanted: list[float]
):
    """Size, interval and share as statsmodels 0.15 gives them (OLS, HC3, Student's t)."""
    effects = setting_effects(UNEVEN, settings, ["memory"])
    found = next(one for one in effects if one.setting == setting)
    assert [found.size, found.low, found.high, found.share] == pytest.approx(wanted, rel=1e-9)


def test_groups_are_never_mixed():
    other = UNEVEN.assign(memory=-UNEVEN["memory"])
    frame = pd.concat([UNEVEN.assign(data="a"), other.assign(data="b")])
    found = list(setting_effects(frame, SETTINGS, ["memory"], ["data"]))
    assert [e.group["data"] for e in found] == ["a"] * 3 + ["b"] * 3
    assert {e.draws for e in found} == {12}
    assert found[0].size == pytest.approx(-found[3].size)


def test_too_few_draws_are_refused():
    with pytest.raises(ResultsError, match="needed: 6") as refused:
        list(setting_effects(UNEVEN[:5], SETTINGS, ["memory"]))
    assert "[search]" in str(refused.value)
