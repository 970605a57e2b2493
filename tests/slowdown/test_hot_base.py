"""How large weights and the hot base are together, and where that is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_networks import MIB, TABLES, calibration, context, curve

from edgebench.slowdown.calibration.device import Constant
from edgebench.slowdown.context import Context
from edgebench.slowdown.hot_base import bytes_with_hot_base


def test_it_is_the_weights_and_the_least_hot_base_that_was_found() -> None:
    """As calibrated, of a network whose weights are all held at once."""
    base = Constant(20.0 * MIB, 10.0 * MIB, 30.0 * MIB, "bytes", 5)
    known = context(calibration(hot_base_bytes=base))
    found = bytes_with_hot_base(curve("alexnet"), known)
    assert found == sum(one["file_bytes"] for one in TABLES["alexnet"]) + 10 * MIB


@pytest.mark.parametrize(
    "settings",
    [{"schedule": "linear"}, {"kind": "training"}, {"pipeline": "alexnet+resnet18"}],
)
def test_where_not_all_weights_are_held_there_is_none(settings: dict[str, str]) -> None:
    """A schedule layer by layer, a training, networks one after the other."""
    own = curve("alexnet")
    assert (
        bytes_with_hot_base(replace(own, settings={**own.settings, **settings}), context()) is None
    )


def test_without_a_calibration_or_a_table_there_is_none() -> None:
    """Nothing is guessed."""
    assert bytes_with_hot_base(curve("alexnet"), Context(TABLES)) is None
    own = curve("alexnet")
    unknown = replace(own, settings={**own.settings, "pipeline": "nobody"})
    assert bytes_with_hot_base(unknown, context()) is None
