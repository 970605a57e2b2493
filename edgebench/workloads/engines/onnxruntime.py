"""ONNX Runtime: a file as a whole."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import WorkloadError, error_words
from edgebench.layers.input_specs import FileInput
from edgebench.workloads.engines.engine import (
    COPY,
    EngineModel,
    FileEngine,
    TimedNode,
    note_runtime,
)

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

#: Level of graph optimisation → its name in ONNX Runtime.
LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "none": "ORT_DISABLE_ALL",
}
#: ONNX Runtime's names of types → NumPy's, where they differ.
_TYPES = {"float": "float32", "double": "float64"}
#: The end of a node's event in a profile.
_KERNEL = "_kernel_time"
#: Folder of a copy of the file whose weights lie beside it, to be mapped.
_MAPPED = "mapped"
#: ONNX Runtime's words for a file of an opset that it does not have; and before other reasons.
_OPSET = re.compile(r"Opset (\d+) is under development.* is till opset (\d+)")
_LOAD = re.compile(r"^Load model from .*? failed:")


class _OnnxModel(EngineModel):
    """An ONNX file in a session."""

    def __init__(
        self, file: Path, settings: Mapping[str, Any], profile: Path | None = None
    ) -> None:
        mapped = Path(str(file).replace(f"/{COPY}/", f"/{_MAPPED}/"))
        is_mapped = settings["loader"] == "mmap" and mapped.exists()
        super().__init__(mapped if is_mapped else file, settings, profile)
        self._session: Any = None
        #: When executions of the session began; its profile, once it is unloaded.
        self._began_ns: list[int] = []
        self._written: Path | None = None

    def load(self) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(
            str(self.file), self.options(), providers=["CPUExecutionProvider"]
        )

    def options(self) -> Any:
        import onnxruntime

        settings, options = self.settings, onnxruntime.SessionOptions()
        options.enable_cpu_mem_arena = settings.get("arena", True)
        options.enable_mem_pattern = settings.get("memory_pattern", True)
        level = LEVELS[settings.get("optimization", "all")]
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        if not settings.get("prepacking", True):
            options.add_session_config_entry("session.disable_prepacking", "1")
        if threads := settings.get("threads"):
            options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if self.profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(self.profile / "onnxruntime")
        return options

    def inputs(self) -> list[FileInput]:
        inputs = []
        for place in self._session.get_inputs():
            # Such as "tensor(float)"; others are no arrays, and their names say so.
            kind = place.type.removeprefix("tensor(").removesuffix(")")
            # Some exporters write -1 or "?" for a dynamic size.
            sizes = (
                size if isinstance(size, str) or (size or -1) >= 0 else None for size in place.shape
            )
            inputs.append(FileInput(place.name, _TYPES.get(kind, kind), tuple(sizes)))
        return inputs

    def run(self, inputs: Mapping[str, Any]) -> Any:
        self._began_ns.append(time.monotonic_ns())
        return self._session.run(None, dict(inputs))

    def unload(self) -> None:
        session, self._session = self._session, None
        if self.profile is not None:
            self._written = Path(session.end_profiling())

    def output_bytes(self, output: Any) -> bytes:
        return b"".join(map(_bytes, output))

    def timed_nodes(self) -> list[TimedNode]:
        """Read the profile of the session that was unloaded.

        Nodes within a node, as of a loop, are part of its time.
        """
        if self._written is None:
            return []
        from edgebench.safe_files import remove_file

        events = sorted(
            json.loads(self._written.read_bytes()), key=lambda event: (event["ts"], -event["dur"])
        )
        remove_file(self._written)
        began_ns, self._began_ns, self._written = iter(self._began_ns), [], None
        nodes: list[TimedNode] = []
        execution, order, run_us, run_ns, until_us = -1, 0, 0, 0, 0
        for event in events:
            if event["name"] == "model_run":
                run_us, run_ns, until_us = event["ts"], next(began_ns), 0
                execution, order = execution + 1, 0
            elif str(event["name"]).endswith(_KERNEL) and event["ts"] >= until_us:
                until_us, order, about = event["ts"] + event["dur"], order + 1, event["args"]
                start_ns = run_ns + 1000 * (event["ts"] - run_us)
                nodes.append(
                    TimedNode(
                        execution,
                        order,
                        event["name"].removesuffix(_KERNEL),
                        about["op_name"],
                        start_ns,
                        start_ns + 1000 * event["dur"],
                        int(about["parameter_size"]),
                        int(about["output_size"]),
                    )
                )
        return nodes


class OnnxRuntime(FileEngine):
    """ONNX Runtime on the CPU.

    ``copy``: the file as it is; weights inside it are read, those in files beside it are mapped.
    """

    name = "onnxruntime"
    title = "ONNX Runtime"
    formats = (".onnx",)
    libraries = ("onnxruntime", "onnx")
    axes = ("arena", "memory_pattern", "optimization", "prepacking", "node_times")
    layer_option = "node_times"
    model = _OnnxModel
    remedy = (
        "export it again, or see which version of ONNX Runtime it is: "
        "python3 -m pip show onnxruntime"
    )

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import onnxruntime."""
        import onnxruntime

        note_runtime(recorder, onnxruntime=onnxruntime.__version__, threads=settings.get("threads"))

    def parts(self, file: Path) -> list[Path]:
        """List the file, and those beside it that hold its weights."""
        import onnx

        model = onnx.load(str(file), load_external_data=False)
        folder, beside = file.parent.resolve(), []
        for name in sorted(set(_external_names(model))):
            path = Path(os.path.normpath(folder / name))
            if not path.is_relative_to(folder):
                raise WorkloadError(
                    f"it names weights outside its own folder: {name!r}",
                    where=str(file),
                    remedy="save it with its weights inside the file, or in one file beside it",
                )
            if not path.is_file():
                raise WorkloadError(
                    f"a file with its weights is missing: {name!r}",
                    where=str(file),
                    remedy=f"copy it to {folder}, under that name",
                )
            beside.append(path)
        return [folder / file.name, *beside]

    def keep_forms(self, file: Path, folder: Path, loaders: Iterable[str]) -> None:
        """Of a file with its weights inside one with the weights beside it, to be mapped."""
        import onnx

        from edgebench.layers.disk import settle
        from edgebench.safe_files import make_folder, rename

        place = folder / _MAPPED
        if "mmap" not in loaders or place.exists():
            return
        model = onnx.load(str(file), load_external_data=False)
        if any(_external_names(model)):
            return
        half_made = folder / f".{_MAPPED}-{os.getpid()}.part"
        make_folder(half_made)
        onnx.save(model, half_made / file.name, save_as_external_data=True, location="weights.data")
        for part in half_made.iterdir():
            with part.open("rb") as opened:
                settle(opened)
        rename(half_made, place.name)

    def words(self, error: Exception) -> str:
        """Return ONNX Runtime's own words, without the codes before them."""
        words = error_words(error).removeprefix("[ONNXRuntimeError] : ")
        parts = words.split(" : ", 2)
        if opset := _OPSET.search(words):
            return f"it is of opset {opset[1]}, and this version reads up to {opset[2]}"
        return _LOAD.sub("", parts[-1] if parts[0].isdigit() else words)


def _external_names(message: Any) -> Iterator[str]:
    """Names of other files in all tensors of a model, those in its nodes and subgraphs too."""
    import onnx

    if isinstance(message, onnx.TensorProto):
        if message.data_location == onnx.TensorProto.EXTERNAL:
            names = [item.value for item in message.external_data if item.key == "location"]
            yield names[-1] if names else ""
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if isinstance(value, Iterable) else (value,):
                yield from _external_names(item)


def _bytes(value: Any) -> bytes:
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.tobytes()
    if isinstance(value, dict):
        return b"".join(_bytes(item) for pair in value.items() for item in pair)
    if isinstance(value, (list, np.ndarray)):
        return b"".join(_bytes(item) for item in value)
    return repr(value).encode()
