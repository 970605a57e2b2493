"""docs/studies/cnn-batch.md, both frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claims.kept import MIB, study, sweep
from claims.pages.cnn_batch import LARGE, NETWORKS, SMALL
from claims.texts import Claim, says, table

PAGE = "docs/studies/cnn-batch.md"
FRAMEWORKS = ("PyTorch", "TensorFlow", "TensorFlow compiled")
BATCHES = (1, 256)


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("The kernel's peak in MiB, and a step's", _rows())
    yield from _lost()


def _row(scenario: str, title: str, **wanted: object) -> dict[str, Any]:
    """The one row of a study's table with these settings."""
    rows = study(scenario)[title]
    (row,) = (row for row in rows if all(row[key] == value for key, value in wanted.items()))
    return row


def _unlimited(title: str, network: str, shape: str, batch: int, **more: object) -> dict[str, Any]:
    wanted = {"network": network, "shape": shape, "batch": batch, "limit_label": "max"}
    return _row("cnn-frameworks", title, **wanted, **more)


def _mib(network: str, shape: str, batch: int) -> dict[str, float]:
    row = _unlimited("Memory by framework: the kernel's peak, MiB", network, shape, batch)
    return {name: row[name] / MIB for name in FRAMEWORKS}


def _ms(network: str, shape: str, batch: int) -> dict[str, float]:
    title = "Time by framework, ms per image"
    row = _unlimited(title, network, shape, batch, phase="whole step")
    return {name: 1e3 * row[name] for name in FRAMEWORKS}


def _rows() -> Iterator[list[str]]:
    for network, title in NETWORKS.items():
        for shape in (SMALL, LARGE):
            for batch in BATCHES:
                mib, ms = (of(network, shape, batch) for of in (_mib, _ms))
                cells = [c for name in FRAMEWORKS for c in (f"{mib[name]:.0f}", f"{ms[name]:.1f}")]
                assert mib["PyTorch"] < mib["TensorFlow"]
                yield [title, shape.replace("x", " × "), str(batch), *cells]


def _lost() -> Iterator[Claim]:
    trials = sweep("cnn-frameworks").trials
    killed = trials[trials["outcome"] != "ok"]
    assert set(killed["outcome"]) == {"oom-killed"}
    assert set(killed["limit_label"] + killed["shape"]) == {f"2G{LARGE}"}
    assert set(killed["batch"]) == {256}
    by_network = killed.groupby("network")["framework"].agg(sorted)
    assert by_network["basic_cnn"] == ["pytorch", "tensorflow", "tensorflow"]
    assert by_network["alexnet"] == ["tensorflow", "tensorflow"]
    yield says("{} of {} trials were killed", len(killed), len(trials))
