"""The inference workload: load and execute networks, layer by layer, under a schedule."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgebench.workloads.recorder import Recorder

#: glibc's and the thread libraries' switches that move memory or time.
_VARIABLES = ("MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def run_inference(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime, build the pipeline, and load and execute it for each round.

    Settings: ``networks``, ``weights`` (network → folder), ``schedule``, ``loader``, ``batch``,
    ``image``, ``rounds``, ``warm``, ``threads``, ``workers``, ``seed``, ``page_cache``.

    Raises:
        WorkloadError: a network or its weights can't be had.
    """
    with recorder.span("import"):
        import_runtime(recorder, settings["networks"], settings.get("threads"))
        from edgebench.layers.pipeline import build_pipeline

    with recorder.span("init"):
        pipeline = build_pipeline(settings, recorder)
    digests: set[str] = set()
    for number in range(settings["rounds"]):
        if settings["page_cache"] == "cold":
            evict(settings["weights"].values())
        outputs = pipeline.schedule.run(pipeline.inputs, number)
        digests.add(_digest(outputs))
    recorder.note(output_sha256=sorted(digests))


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
        environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
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


def _digest(outputs: Any) -> str:
    digest = hashlib.sha256()
    for output in outputs:
        digest.update(output.contiguous().numpy().tobytes())
    return digest.hexdigest()
