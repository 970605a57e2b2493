"""What a device's kernel does that the simulation doesn't, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: An environment's key of the multi-generation LRU (:mod:`edgebench.measures.machine.reclaim`).
_GENERATIONS = "lru_gen"


def kernel_warnings(results: Results, device: str) -> list[str]:
    """:func:`unsimulated_words` of the kernels that the device's sweeps ran on."""
    return unsimulated_words(device, (s.environment for s in results.sweeps if s.device == device))


def unsimulated_words(device: str, environments: Iterable[Mapping[str, Any]]) -> list[str]:
    """A warning where a device's kernel used the multi-generation LRU in one of its environments.

    The simulation has the active and inactive lists of kernels without it.
    """
    found = (environment.get(_GENERATIONS) for environment in environments)
    if not any(isinstance(one, Mapping) and one.get("enabled") for one in found):
        return []
    return [
        f"{device} uses the multi-generation LRU (/sys/kernel/mm/lru_gen/enabled), but two page "
        "lists are simulated: an interval holds only as far as the device's own trials below "
        "limits show how wrong that is"
    ]
