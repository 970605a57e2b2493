"""The networks of a scenario, made ready for its trials: weights, prepared files, layer tables."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable
from typing import Any

from edgebench.identity import Identity
from edgebench.run.trial_loop import Progress
from edgebench.scenario.points import Point
from edgebench.scenario.scenario import Scenario
from edgebench.workloads.preparation import (
    cache_folder,
    code_of_trainings,
    prepare_files,
    prepare_networks,
)


def network_manifest(
    scenario: Scenario, points: Iterable[Point], identity: Identity | None, progress: Progress
) -> dict[str, Any]:
    """Each network's folder and layer table, and the versions that made them; empty without any.

    Of trainings the user's own code: ``code``, file → digest, and ``content``, a hash of it all.

    Raises:
        WorkloadError: a network, a checkpoint or a file is missing or not whole.
        MachineError: an engine is not installed; no disk space.
    """
    every = [point.settings for point in points]
    if own := [one for one in every if one["kind"] == "training" and "references" in one]:
        progress.stage("your own code")
        return code_of_trainings(own, identity=identity)
    running = [settings for settings in every if settings.get("networks")]
    networks = sorted({name for settings in running for name in settings["networks"]})
    if not networks:
        return {}
    progress.stage(f"weights and layer tables of {', '.join(networks)}")
    files, cache, image = scenario.network_files(), cache_folder(identity), running[0].get("image")
    made: dict[str, Any] = {"networks": {}, "versions": {}}
    if known := [name for name in networks if name not in files]:
        made = prepare_networks(
            known,
            cache=cache,
            seed=scenario.seed,
            checkpoints=running[0].get("checkpoint") or {},
            image=image,
            references=ChainMap(*(settings.get("references", {}) for settings in running)),
            described=running[0].get("input"),
            prompt=running[0].get("prompt"),
            identity=identity,
        )
    if files:
        also = prepare_files(files, running, cache=cache, image=image, identity=identity)
        made = {key: {**made[key], **also[key]} for key in made}
    return made
