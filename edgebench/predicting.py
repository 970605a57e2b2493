"""Predictions that need more than results: layer tables of networks that nobody ran."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.bracketing import Guess
from edgebench.cgroups.identity import caller_identity
from edgebench.preparing import describe_networks
from edgebench.results import load
from edgebench.slowdown.asking import Wanted, is_known, subjects
from edgebench.slowdown.choosing import choose
from edgebench.slowdown.prediction import Predictor
from edgebench.slowdown.viability import learn, stands

if TYPE_CHECKING:
    from edgebench.minimum import Asked
    from edgebench.slowdown.knowledge import Knowledge


def with_layers(known: Knowledge, network: str, image: int | None) -> Knowledge:
    """Knowing the layers of a network too: a name, names joined by ``+``, or ``package:factory``.

    Raises:
        WorkloadError: no such network or function, or it can't be described.
        MachineError: no torch.
    """
    if is_known(known, network):
        return known
    own = ":" in network
    made = describe_networks(
        [] if own else network.split("+"),
        modules=[network] if own else [],
        image=image,
        identity=caller_identity(),
    )
    return known.with_tables({name: one["table"] for name, one in made["networks"].items()})


def predicted_guess(asked: Asked, device: Path, swap_kind: str, swap_bytes: int | None) -> Guess:
    """Where the least limits should lie, told from all results of a device.

    Raises:
        EdgebenchError: nothing tells: no results, no calibration.
    """
    results = load(device)
    known, _ = choose(results, swap_kind=swap_kind)
    known = with_layers(known, asked.network, asked.image)
    how = asked.schedule, asked.loader, asked.batch, asked.image
    subject = subjects(known, Wanted(asked.network, *how))[0]
    predictor = Predictor(known, learn(stands(results)))
    fast = None
    if asked.slowdown is not None:
        fast = predictor.least_within(subject, asked.slowdown, asked.phase)
    return Guess(predictor.least_viable(subject, swap_bytes) or None, fast)
