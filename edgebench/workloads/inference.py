"""The inference workload: load and execute networks under a schedule, in an engine."""

from __future__ import annotations

import hashlib
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import evict, weights_in
from edgebench.workloads.engines.engine import engine_of
from edgebench.workloads.recorder import Recorder, collected_rounds


def run_import(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime and nothing more: its memory is the base. Setting: ``engine`` (torch)."""
    with recorder.span("import"):
        engine_of(settings.get("engine")).import_library({}, recorder)


def run_inference(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime, build the networks, and load and execute them for each round.

    Settings: ``networks``, ``engine`` (torch), ``weights`` (network → folder), ``schedule``,
    ``loader``, ``batch``, ``image``, ``rounds``, ``warm``, ``threads``, ``workers``, ``seed``,
    ``page_cache``, ``gc``, and the options of the engine.

    Raises:
        WorkloadError: a network or its weights can't be had, or rounds differ in their outputs.
    """
    engine = engine_of(settings.get("engine"))
    with recorder.span("import"):
        engine.import_library(settings, recorder)
    with recorder.span("init"):
        work = engine.open(settings, recorder)
    digests: list[str] = []
    with collected_rounds(settings) as before_round:
        for number in recorder.round_numbers(settings["rounds"]):
            before_round()
            if settings["page_cache"] == "cold":
                for file in weights_in(settings["weights"].values()):
                    evict(file)
            outputs = work.run(number)
            before, digests = digests, [hashlib.sha256(output).hexdigest() for output in outputs]
            # An accelerator's sums may be of another order each time.
            if before and before != digests and recorder.accelerator is None:
                raise WorkloadError(f"the outputs of round {number} differ from the round before")
    work.close()
    # Of the same network twice in a pipeline, both outputs are the same too.
    recorder.note(output_sha256=dict(zip(settings["networks"], digests, strict=True)))
