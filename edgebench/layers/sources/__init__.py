"""From a model reference to its network: one source for each kind of reference."""

from __future__ import annotations

from importlib import import_module

from edgebench.errors import WorkloadError
from edgebench.layers.references import (
    CODE,
    EXPORTED,
    KNOWN,
    TIMM,
    TRANSFORMERS,
    ModelReference,
)
from edgebench.layers.sources.base import NetworkSource

#: Kind of reference → the class that builds it, imported when it is needed.
_SOURCES = {
    KNOWN: "edgebench.layers.sources.known:KnownNetwork",
    CODE: "edgebench.layers.sources.code:OwnCode",
    TIMM: "edgebench.layers.sources.timm:TimmNetwork",
    TRANSFORMERS: "edgebench.layers.sources.transformers:TransformersNetwork",
    EXPORTED: "edgebench.layers.sources.exported:ExportedNetwork",
}


def network_source(reference: ModelReference) -> NetworkSource:
    """What builds the network.

    Raises:
        WorkloadError: torch doesn't run such a file.
    """
    if reference.kind not in _SOURCES:
        raise WorkloadError(
            f"{reference.name} is a file that torch does not run",
            remedy="name a .pt2 file, or the code that makes the network: package.module:function",
        )
    module, _, name = _SOURCES[reference.kind].partition(":")
    source: type[NetworkSource] = getattr(import_module(module), name)
    return source(reference)


def known(name: str) -> ModelReference:
    """The reference of a network that is known by name."""
    return ModelReference(KNOWN, name, name)
