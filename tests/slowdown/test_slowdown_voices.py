"""Which rung speaks for which workload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_networks import TABLES, context, curve

from edgebench.errors import ResultsError
from edgebench.slowdown.data import Curve
from edgebench.slowdown.knowledge import Knowledge
from edgebench.slowdown.model import Context
from edgebench.slowdown.splits import unseen
from edgebench.slowdown.voices import Voices

NETWORKS = ("alexnet", "resnet18", "mobilenet_v2", "vgg11")


def voices(curves: list[Curve], known: Context) -> Voices:
    """All that is known of these curves."""
    return Voices(Knowledge("made-up", "file", tuple(curves), known))


def curves(**about: float) -> list[Curve]:
    """Of some networks the warm executions."""
    return [curve(name, "execute", noise=0.02, **about) for name in NETWORKS]


def hinges() -> list[Curve]:
    """The same networks, slowed down in a way that has nothing to do with their layers."""
    made = []
    for one in curves():
        depth = np.maximum(np.log(1.1 * one.demand_bytes / one.limit_bytes), 0)
        made.append(replace(one, seconds=one.unlimited_s * (1 + 2 * depth**1.2)))
    return made


def test_of_what_was_run_the_nearest_speaks():
    """Where the physics holds it speaks, corrected; elsewhere a model of the curves does."""
    right, wrong = curves(), hinges()
    assert voices(right, context()).of(right[:1], "alexnet").rung in ("physics", "corrected")
    for one in wrong:
        voice = voices(wrong, context()).of([one], one.network)
        assert voice.rung in ("hinge", "pooled")
        told = voice.tell(one, one.limits)
        assert told.slowdown * told.unlimited_s == pytest.approx(one.seconds[::2], rel=0.05)


def test_of_what_was_not_run_the_highest_speaks():
    """Corrected if there is a calibration; without one a regression on layers, else the mean."""
    made = curves()
    new = unseen(curve("resnet50", "execute"))
    assert voices(made, context()).of([new], "resnet50").rung == "corrected"
    assert voices([], context()).of([new], "resnet50").rung == "physics"
    assert voices(made, Context(TABLES)).of([new], "resnet50").rung == "brouwer"
    assert voices(made, Context({})).of([new], "resnet50").rung == "pooled"


def test_where_nothing_tells_it_is_said_why():
    """Every rung that was asked says what it lacks, and what to type mends it."""
    new = unseen(curve("resnet50", "execute"), with_unlimited=False)
    with pytest.raises(ResultsError, match="nothing tells of resnet50") as caught:
        voices([], Context({})).of([new], "resnet50")
    for rung in ("corrected", "physics", "brouwer", "pooled"):
        assert f"{rung}: " in str(caught.value)
    assert "edgebench calibrate" in str(caught.value.remedy)
