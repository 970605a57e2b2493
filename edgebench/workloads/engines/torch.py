"""PyTorch: networks known by name, or given as code, cut by hooks and loaded layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.layers.names import SCHEDULES
from edgebench.layers.references import ModelReference
from edgebench.workloads.engines.engine import Engine, Rounds, note_runtime
from edgebench.workloads.recorder import Recorder, heap_trimmer


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
            from edgebench.layers.sources import network_source

            for reference in references.values():
                network_source(ModelReference.from_json(reference)).import_code()
        start_accelerator(settings, recorder)
        if networks is not None:
            from edgebench.layers import pipeline  # noqa: F401 - its memory is base too

    def open(self, settings: Mapping[str, Any], recorder: Recorder) -> Rounds:
        """Build the pipeline."""
        from edgebench.layers.pipeline import PipelineRounds

        trim = heap_trimmer(settings)
        return PipelineRounds(settings, recorder, recorder.accelerator, trim)


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


def start_accelerator(settings: Mapping[str, Any], recorder: Recorder) -> None:
    """Start the accelerator of the settings, if they name one; it follows the recorder's spans.

    Settings: ``accelerator``, and the limit of its memory as ``accelerator_bytes``.

    Raises:
        MachineError: there is none.
        WorkloadError: it has less memory than the limit.
    """
    if name := settings.get("accelerator"):
        from edgebench.layers.accelerator import Accelerator

        accelerator = Accelerator(settings.get("accelerator_bytes"))
        recorder.accelerator_event(identity={"name": name, **accelerator.identity._asdict()})
        recorder.accelerator = accelerator
