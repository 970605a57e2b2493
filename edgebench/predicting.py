"""From a path to predictions: results or stored fits, and layer tables of what nobody ran."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.cgroups.identity import caller_identity
from edgebench.describing import with_trainings
from edgebench.results.results import load
from edgebench.searching.bracketing import Guess
from edgebench.slowdown.asking import Wanted, is_known, subjects
from edgebench.slowdown.choosing import choose
from edgebench.slowdown.prediction import Prediction, Predictor
from edgebench.slowdown.stored import StoredFits, is_stored
from edgebench.slowdown.viability import learn, stands
from edgebench.workshop.preparing import describe_networks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.results.results import Results
    from edgebench.searching.minimum import Asked
    from edgebench.slowdown.knowledge import Knowledge


@dataclass(frozen=True)
class Source:
    """What predictions are made from. ``results`` is None if that is stored fits.

    ``warnings`` say what is lacking or damaged.
    """

    known: Knowledge
    predictor: Predictor
    results: Results | None
    warnings: list[str]

    def predict(self, wanted: Wanted, limits: Sequence[str]) -> list[Prediction]:
        """Every workload asked about, at these limits.

        Raises:
            ResultsError: nothing tells of it.
            UsageError: a limit that is none.
        """
        return [self.predictor.predict(one, limits) for one in subjects(self.known, wanted)]


def source_of(
    path: Path,
    wanted: Wanted,
    device: str | None = None,
    swap_kind: str | None = None,
) -> Source:
    """The results at or below a path, or the fits stored there, and what is wanted's layers.

    Raises:
        ResultsError: neither is there, or nothing that a prediction could come from.
        MachineError: the device was not calibrated with that kind of swap; no torch.
        UsageError: several devices, and none was named.
        WorkloadError: no such network.
    """
    if is_stored(path):
        fits = StoredFits(path)
        return Source(fits.knowledge, Predictor(fits.knowledge, learn(()), fits), None, [])
    results, untold = with_trainings(load(path))
    known, lacking = choose(results, device, swap_kind)
    known = _with_layers(known, wanted)
    predictor = Predictor(known, learn(stands(results)))
    return Source(known, predictor, results, [*results.warnings, *lacking, *untold])


def predicted_guess(asked: Asked, device: Path, swap_kind: str, swap_bytes: int | None) -> Guess:
    """Where the least limits should lie, told from all results of a device.

    Raises:
        EdgebenchError: nothing tells: no results, no calibration.
    """
    wanted = Wanted(asked.network, asked.schedule, asked.loader, asked.batch, asked.image)
    source = source_of(device, wanted, swap_kind=swap_kind)
    subject = subjects(source.known, wanted)[0]
    fast = None
    if asked.slowdown is not None:
        fast = source.predictor.least_within(subject, asked.slowdown, asked.phase)
    return Guess(source.predictor.least_viable(subject, swap_bytes) or None, fast)


def _with_layers(known: Knowledge, wanted: Wanted) -> Knowledge:
    """Knowing the layers of the network asked about too, if it is none of those that were run."""
    network = wanted.network
    was_run = any(wanted.fits(curve) for curve in known.curves)
    if network is None or was_run or is_known(known, network):
        return known
    own = ":" in network
    made = describe_networks(
        [] if own else network.split("+"),
        modules=[network] if own else [],
        image=wanted.image,
        identity=caller_identity(),
    )
    return known.with_tables({name: one["table"] for name, one in made["networks"].items()})
