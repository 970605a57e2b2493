"""ONNX Runtime: a file as a whole, or layer by layer, each layer in a session of its own."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.layers.names import LOADERS
from edgebench.workloads.engines.engine import WHOLE, note_runtime, registered_engine
from edgebench.workloads.engines.file_inputs import WantedInputs, make_inputs
from edgebench.workloads.engines.files import EngineModel, FileEngine, OperatorTime, Unit
from edgebench.workloads.engines.onnxruntime.forms import (
    ORT_FORMAT,
    SAVED_PACKING,
    OnnxForm,
    refused,
)

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

#: How a file of the ORT format is mapped, and its weights are used where they lie in it.
_MAPPED_ORT = (
    ("session.load_model_format", "ORT"),
    ("session.use_memory_mapped_ort_model", "1"),
    ("session.use_ort_model_bytes_for_initializers", "1"),
)
#: Level of graph optimisation → its name in ONNX Runtime.
LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "none": "ORT_DISABLE_ALL",
}


@registered_engine
class OnnxRuntime(FileEngine):
    """ONNX Runtime on the CPU."""

    name = "onnxruntime"
    title = "ONNX Runtime"
    formats = (".onnx",)
    libraries = ("onnxruntime", "onnx")
    schedules = (WHOLE, "bulk", "linear")
    loaders = (*LOADERS, ORT_FORMAT, SAVED_PACKING)
    whole_loaders = (ORT_FORMAT, SAVED_PACKING)
    preparation = "edgebench.workloads.engines.onnxruntime.preparation:prepare_onnx"
    axes = ("arena", "memory_pattern", "optimization", "prepacking")

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import onnxruntime."""
        import onnxruntime

        if settings.get("schedule", WHOLE) != WHOLE and settings.get("threads") != 1:
            # One pool for all sessions: idle pools of many would wait for work in busy loops.
            onnxruntime.set_global_thread_pool_sizes(settings.get("threads") or 0, 1)
        note_runtime(recorder, onnxruntime=onnxruntime.__version__, threads=settings.get("threads"))

    def parts(self, file: Path) -> list[Path]:
        """The file, and those beside it that hold its weights."""
        from edgebench.workloads.engines.onnxruntime.preparation import parsed_model, weights_beside

        return [file, *weights_beside(parsed_model(file), file)]

    def model(self, folder: Path, settings: Mapping[str, Any], profile: Path | None) -> EngineModel:
        """The network that was prepared in a folder."""
        return _OnnxModel(folder, settings, profile)


class _OnnxModel(EngineModel):
    """A prepared ONNX file: a session for each unit that is loaded."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], profile: Path | None) -> None:
        form = OnnxForm.read(folder, settings["schedule"], settings["loader"])
        self._files, self.units, self.outputs = form.files, tuple(form.files), form.outputs
        self._where, self._settings, self._profile = folder.name, settings, profile
        self._described = form.inputs
        self._sessions: dict[Unit, Any] = {}
        self._times: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def inputs(self) -> dict[str, Any]:
        import onnxruntime

        wanted = WantedInputs.of(self._settings)
        made = make_inputs(self._described, wanted, self._settings["seed"], self._where)
        if self._is_whole:
            return made
        # The engine's own values go from layer to layer without a copy.
        return {n: onnxruntime.OrtValue.ortvalue_from_numpy(value) for n, value in made.items()}

    @property
    def _is_whole(self) -> bool:
        """Whether it is run as a plain program runs it: with arrays of NumPy."""
        return self.units[0].order is None

    def load(self, unit: Unit) -> None:
        import onnxruntime

        options = self._options(unit)
        try:
            self._sessions[unit] = onnxruntime.InferenceSession(
                str(self._files[unit]), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise refused(error, unit.name) from error

    def _options(self, unit: Unit) -> Any:
        import onnxruntime

        settings, options = self._settings, onnxruntime.SessionOptions()
        options.enable_cpu_mem_arena = settings.get("arena", True)
        options.enable_mem_pattern = settings.get("memory_pattern", True)
        level = LEVELS[settings.get("optimization", "all")]
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        if not settings.get("prepacking", True):
            options.add_session_config_entry("session.disable_prepacking", "1")
        for key, value in _MAPPED_ORT if settings["loader"] == ORT_FORMAT else ():
            options.add_session_config_entry(key, value)
        threads = settings.get("threads")
        if unit.order is not None and threads != 1:
            options.use_per_session_threads = False
        elif threads:
            options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if self._profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(self._profile / f"onnxruntime-{unit.order}")
        return options

    def run(self, unit: Unit, inputs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            session, names = self._sessions[unit], list(unit.outputs)
            call = session.run if self._is_whole else session.run_with_ort_values
            values = call(names, dict(inputs))
        except Exception as error:
            raise refused(error, unit.name) from error
        return dict(zip(unit.outputs, values, strict=True))

    def unload(self, unit: Unit) -> None:
        session = self._sessions.pop(unit)
        if self._profile is not None:
            self._read_profile(Path(session.end_profiling()))

    def output_bytes(self, outputs: Mapping[str, Any]) -> bytes:
        values = (outputs[name] for name in self.outputs)
        return b"".join(_bytes(value if self._is_whole else value.numpy()) for value in values)

    def operator_times(self) -> list[OperatorTime]:
        return [OperatorTime(*key, *sums) for key, sums in self._times.items()]

    def _read_profile(self, file: Path) -> None:
        """Add up the kernels of a session; what its first execution ran is the phase ``first``."""
        events = sorted(json.loads(file.read_bytes()), key=lambda event: event["ts"])
        runs = [event for event in events if event["name"] == "model_run"]
        begin = runs[1]["ts"] if len(runs) > 1 else float("inf")
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                phase = "execute" if event["ts"] >= begin else "first"
                sums = self._times[phase, event["args"]["op_name"]]
                sums[0] += 1
                sums[1] += event["dur"] * 1000


def _bytes(value: Any) -> bytes:
    """What an output holds: an array, of text too; or a sequence or a map of them."""
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.tobytes()
    if isinstance(value, dict):
        return b"".join(_bytes(one) for pair in value.items() for one in pair)
    if isinstance(value, (list, np.ndarray)):
        return b"".join(_bytes(one) for one in value)
    return repr(value).encode()
