"""PyTorch: networks known by name, or given as code, cut by hooks and loaded layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.layers.references import ADMISSION, SCHEDULES
from edgebench.workloads.accelerator_phases import start_accelerator
from edgebench.workloads.engines.engine import Engine, Rounds, note_runtime
from edgebench.workloads.memory_settings import heap_trimmer

if TYPE_CHECKING:
    from edgebench.layers.pipeline import Pipeline
    from edgebench.workloads.recorder import Recorder

#: Numbers of the outputs that a trial keeps.
_VALUES = 16


class Torch(Engine):
    """PyTorch. Its schedules follow a forward pass: :mod:`edgebench.layers.schedules`.

    A layer is loaded and executed from within the pass, by hooks, so that any module's own
    ``forward`` is what runs; the interface of files' units would need each network as a list.
    """

    name = "torch"
    title = "PyTorch"
    libraries = ("torch", "safetensors")
    schedules = SCHEDULES

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import all the code the networks need; settings without networks need any network's."""
        references = settings.get("references") or {}
        networks = settings.get("networks")
        known = networks and [name for name in networks if name not in references]
        import_torch(recorder, known, settings.get("threads"), settings.get("interop_threads"))
        if references:
            from edgebench.layers.references import ModelReference
            from edgebench.layers.sources import network_source

            for reference in references.values():
                network_source(ModelReference.from_json(reference)).import_code()
        start_accelerator(settings, recorder)
        if networks is not None:
            from edgebench.layers import pipeline  # noqa: F401 - its memory is base too

    def open(self, settings: Mapping[str, Any], recorder: Recorder) -> Rounds:
        """Build the pipeline."""
        from edgebench.layers.pipeline import build_pipeline
        from edgebench.layers.schedules import Generate
        from edgebench.layers.stream import MemoryRoom, Stream, can_swap
        from edgebench.layers.tensor_files import loaded_bytes

        recorder.gauge("weights_bytes", loaded_bytes)
        limit = settings.get("limit_bytes")
        if settings["schedule"] == ADMISSION:
            free = recorder.free_bytes(limit)
            recorder.note(free_bytes=free)
            settings = {**settings, "free_bytes": free}
        follows = recorder.accelerator
        pipeline = build_pipeline(settings, recorder, follows.accelerator if follows else None)
        schedule = pipeline.schedule
        schedule.after_round = heap_trimmer(settings)
        if isinstance(schedule, Stream):
            swaps = bool(settings.get("swaps")) and can_swap()
            schedule.room = MemoryRoom(limit, swaps, lambda: recorder.free_bytes(limit))
        if isinstance(schedule, Generate):
            recorder.gauge("key_value_cache_bytes", schedule.cache_bytes)
        return _PipelineRounds(pipeline, recorder)


class _PipelineRounds:
    """Rounds of a pipeline of layered networks."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder) -> None:
        self._pipeline = pipeline
        self._recorder = recorder
        self._values: list[float | None] = []

    def run(self, number: int) -> list[bytes]:
        outputs = self._pipeline.schedule.run(self._pipeline.inputs, number)
        from edgebench.layers.network import some_values, tensor_bytes

        self._values = some_values(outputs, _VALUES)
        return [b"".join(tensor_bytes(output)) for output in outputs]

    def close(self) -> None:
        self._recorder.note(output_values=self._values, **self._pipeline.schedule.notes())


def import_torch(
    recorder: Recorder,
    networks: Sequence[str] | None = None,
    threads: int | None = None,
    interop_threads: int | None = None,
) -> None:
    """Import all the code the networks need, so that it counts as base; None is any network's."""
    import torch

    from edgebench.layers.known_networks import import_for

    if threads:
        torch.set_num_threads(threads)
    import_for(networks)
    if interop_threads:
        torch.set_num_interop_threads(interop_threads)
    threads, interop_threads = torch.get_num_threads(), torch.get_num_interop_threads()
    counts = {"threads": threads, "interop_threads": interop_threads}
    note_runtime(recorder, torch=torch.__version__, **counts)
