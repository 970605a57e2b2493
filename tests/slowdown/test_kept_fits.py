"""Fits to many curves are kept on disk, and are those of a call that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_networks import TABLES, calibration, context, curve

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.kept_fits import kept_fit
from edgebench.slowdown.models.base import Fit, Model, Parameter

CURVES = tuple(curve(name) for name in TABLES)


class Counting(Model):
    """Counts how often it is fitted; can be told to refuse."""

    name, formula, rank = "counting", "", 0

    def __init__(self, reason: str | None = None) -> None:
        self.reason, self.fitted = reason, 0

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Two parameters, whatever the curves."""
        self.fitted += 1
        if self.reason:
            raise CannotPredictError(self.reason)
        return Fit(self.name, (Parameter("a", 0.1, "s"), Parameter("b", 1 / 3, fixed=True)), aic=2)

    def predict(self, *about: Any) -> Any:
        """Never called."""
        raise NotImplementedError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("EDGEBENCH_CACHE", str(tmp_path))
    return tmp_path / "answers"


def test_the_same_curves_are_fitted_once():
    """The second fit equals the first."""
    model, known = Counting(), context()
    assert kept_fit(model, CURVES, known) == kept_fit(model, CURVES, known)
    assert model.fitted == 1


def test_other_seconds_tables_or_constants_are_fitted_anew():
    """A table of a network without curves changes nothing."""
    model, known = Counting(), context()
    kept_fit(model, CURVES, known)
    more = replace(known, tables={**known.tables, "another": known.tables[CURVES[0].network]})
    kept_fit(model, CURVES, more)
    assert model.fitted == 1
    other = replace(CURVES[0], seconds=CURVES[0].seconds * 2)
    kept_fit(model, (other, *CURVES[1:]), known)
    kept_fit(model, CURVES[1:], known)
    kept_fit(model, CURVES, replace(known, calibration=calibration(device="other")))
    tables = {**known.tables, CURVES[0].network: known.tables[CURVES[-1].network]}
    kept_fit(model, CURVES, replace(known, tables=tables))
    assert model.fitted == 5


def test_why_nothing_can_be_fitted_is_kept_too():
    """It costs as much to find out."""
    model = Counting("too few")
    for _ in range(2):
        with pytest.raises(CannotPredictError, match="too few"):
            kept_fit(model, CURVES, context())
    assert model.fitted == 1


def test_a_damaged_fit_is_made_again(folder: Path):
    """Nothing is said."""
    model = Counting()
    kept_fit(model, CURVES, context())
    (file,) = [path for path in folder.rglob("*") if path.is_file()]
    file.write_bytes(file.read_bytes()[:-3])
    assert kept_fit(model, CURVES, context())["b"] == 1 / 3
    assert model.fitted == 2
