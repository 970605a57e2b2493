"""Rounds of networks in files: whole, or layer by layer, under the schedules of these engines."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from edgebench.workloads.engines.engine import EngineModel, Unit
from edgebench.workloads.recorder import Recorder


class FileRounds:
    """Loads and executes each network in turn.

    ``linear``: a unit is loaded, executed and unloaded, then the next. ``bulk``, and ``whole``
    with its one unit: all are loaded, executed once (``first``), and then ``warm`` times more.
    """

    def __init__(
        self, models: Mapping[str, EngineModel], settings: Mapping[str, Any], recorder: Recorder
    ) -> None:
        self._models = [(name, models[name]) for name in settings["networks"]]
        self._inputs = {name: model.inputs() for name, model in models.items()}
        self._linear = settings["schedule"] == "linear"
        self._warm = settings["warm"]
        self._recorder = recorder
        self._round = 0

    def run(self, number: int) -> list[bytes]:
        """One round; the bytes of each network's output."""
        self._round = number
        with self._recorder.span("round", round=number):
            outputs = [self._one(name, model) for name, model in self._models]
        models = (model for _, model in self._models)
        return [model.output_bytes(one) for model, one in zip(models, outputs, strict=True)]

    def close(self) -> None:
        """Report the times of operators, where a strategy wants them."""
        for _, model in self._models:
            for one in model.operator_times():
                self._recorder.operator_time(one.phase, one.operator, one.calls, one.own_ns)

    def _one(self, name: str, model: EngineModel) -> dict[str, Any]:
        if self._linear:
            return self._pass(name, model, "first", each=True)
        for unit in model.units:
            self._load(name, model, unit)
        try:
            output = self._pass(name, model, "first")
            for _ in range(self._warm):
                self._pass(name, model, "execute")
        finally:
            for unit in model.units:
                model.unload(unit)
        return output

    def _load(self, name: str, model: EngineModel, unit: Unit) -> None:
        with self._span("load", name, unit):
            model.load(unit)

    def _pass(
        self, name: str, model: EngineModel, phase: str, each: bool = False
    ) -> dict[str, Any]:
        """All units in order; ``each``: a unit has memory only while it is executed."""
        values, last = dict(self._inputs[name]), _last_uses(model)
        layered = model.units[0].order is not None and not each
        whole = Unit(None, name)
        with self._span(phase, name, whole) if layered else nullcontext():
            for number, unit in enumerate(model.units):
                if each:
                    self._load(name, model, unit)
                given = {key: values[key] for key in unit.inputs}
                for key in [key for key in given if last.get(key) == number]:
                    del values[key]
                with self._span(phase, name, unit):
                    values.update(model.run(unit, given))
                if each:
                    model.unload(unit)
        return {key: values[key] for key in model.outputs}

    def _span(self, phase: str, name: str, unit: Unit) -> AbstractContextManager[None]:
        if unit.order is None:
            return self._recorder.span(phase, round=self._round, network=name)
        return self._recorder.span(
            phase, round=self._round, network=name, layer=unit.order, name=unit.name
        )


def _last_uses(model: EngineModel) -> dict[str, int]:
    """Tensor → the number of the last unit that reads it; the network's outputs are kept."""
    last = {key: n for n, unit in enumerate(model.units) for key in unit.inputs}
    return {key: number for key, number in last.items() if key not in model.outputs}
