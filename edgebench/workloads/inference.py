"""The inference workload: load and execute networks, layer by layer, under a schedule."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.workloads.recorder import Recorder

#: Variables that move memory or time: the allocator's, the thread libraries', preloaded code.
_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "OMP_", "MKL_", "KMP_", "ATEN_")


def run_inference(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime, build the pipeline, and load and execute it for each round.

    Settings: ``networks``, ``weights`` (network → folder), ``schedule``, ``loader``, ``batch``,
    ``image``, ``rounds``, ``warm``, ``threads``, ``workers``, ``seed``, ``page_cache``.

    Raises:
        WorkloadError: a network or its weights can't be had, or rounds differ in their outputs.
    """
    with recorder.span("import"):
        import_runtime(recorder, settings["networks"], settings.get("threads"))
        from edgebench.layers.loaders import mapped_bytes
        from edgebench.layers.pipeline import build_pipeline

    recorder.gauge("weights_bytes", mapped_bytes)
    with recorder.span("init"):
        pipeline = build_pipeline(settings, recorder)
    digests: list[str] = []
    for number in range(settings["rounds"]):
        if settings["page_cache"] == "cold":
            evict(settings["weights"].values())
        outputs = pipeline.schedule.run(pipeline.inputs, number)
        digests = _same(digests, [_digest(output) for output in outputs], number)
    # Of the same network twice in a pipeline, both outputs are the same too.
    recorder.note(output_sha256=dict(zip(settings["networks"], digests, strict=True)))


def import_runtime(
    recorder: Recorder, networks: Sequence[str] | None = None, threads: int | None = None
) -> None:
    """Import all the code the networks need, so that it counts as base; None is any network's."""
    import torch

    from edgebench.layers.networks import import_for

    if threads:
        torch.set_num_threads(threads)
    import_for(networks)
    recorder.note(
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        environment={k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)},
    )


def evict(folders: Any) -> None:
    """Have the kernel drop the weights' pages, file by file: each round reads the disk."""
    for folder in sorted(set(folders)):
        for path in sorted(Path(folder).glob("*.safetensors")):
            fd = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def _digest(output: Any) -> str:
    return hashlib.sha256(output.contiguous().numpy().tobytes()).hexdigest()


def _same(before: list[str], now: list[str], number: int) -> list[str]:
    if before and before != now:
        raise WorkloadError(f"round {number} gave other outputs than the round before it")
    return now
