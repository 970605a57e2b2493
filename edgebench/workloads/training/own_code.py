"""Networks, losses and data of the user's own: which settings name one, and what their code is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.layers.disk import digest
from edgebench.layers.references import ModelReference, OwnFunction, own_files

if TYPE_CHECKING:
    from edgebench.layers.sources import NetworkSource

NETWORK, LOSS, DATA = "network", "loss", "data"
#: What a loss is called with, by position.
LOSS_ARGUMENTS = ("outputs", "targets")
LOSS_HOW = (
    "name a function of outputs and targets that returns the mean loss of the batch: "
    'loss = "file.py:function"'
)
DATA_HOW = (
    "name a function that returns NumPy arrays, (inputs, targets) or "
    '(inputs, targets, test inputs, test targets): data = "file.py:function"'
)


def own_reference(settings: Mapping[str, Any], key: str) -> ModelReference | None:
    """Return what the user named as network, loss or data, if it is code of their own."""
    reference = settings.get("references", {}).get(settings.get(key))
    return ModelReference.from_json(reference) if reference else None


def own_loss(settings: Mapping[str, Any]) -> OwnFunction | None:
    """Return the user's loss, if there is one."""
    reference = own_reference(settings, LOSS)
    return OwnFunction(reference, LOSS_HOW, LOSS_ARGUMENTS) if reference else None


def own_data(settings: Mapping[str, Any]) -> OwnFunction | None:
    """Return the user's function that returns the data, if there is one."""
    reference = own_reference(settings, DATA)
    return OwnFunction(reference, DATA_HOW) if reference else None


def own_network(settings: Mapping[str, Any]) -> NetworkSource | None:
    """Return what builds the user's network, if it is one."""
    if reference := own_reference(settings, NETWORK):
        from edgebench.layers.sources import network_source

        return network_source(reference)
    return None


def describe_code(request: Mapping[str, Any]) -> dict[str, Any]:
    """Describe trainings' own code: ``code``, file → digest, and ``content``, a hash of it all.

    The request: ``workloads``, settings of trainings. Each network is built once, on ``meta`` if
    its constructor allows it; a loss or data is found, and not called.

    Raises:
        WorkloadError: something can't be imported, found or built.
    """
    # Lazy: the worker imports this module, and OpenSSL would count among its base.
    import hashlib

    about: set[str] = set()
    files: set[Path] = set()
    for settings in request["workloads"]:
        for reference in settings["references"].values():
            about.add(json.dumps([reference["kind"], reference["target"], reference["arguments"]]))
        for function in filter(None, (own_loss(settings), own_data(settings))):
            function.function()
        if source := own_network(settings):
            from edgebench.layers.sources import empty_network

            empty_network(source, settings["seed"])
            files.update(source.files())
            about.add(source.version())
    files.update(own_files())
    code = {str(file): digest(file) for file in sorted(files)}
    everything = json.dumps([sorted(about), sorted(code.values())])
    return {"code": code, "content": hashlib.sha256(everything.encode()).hexdigest()}
