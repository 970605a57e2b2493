"""docs/studies/cnn-batch.md, both frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claims.kept import MIB, folder, study, sweep
from claims.pages.cnn_batch import LARGE, NETWORKS, SMALL
from claims.texts import Claim, says, table

PAGE = "docs/studies/cnn-batch.md"
FRAMEWORKS = ("PyTorch", "TensorFlow", "TensorFlow compiled")
BATCHES = (1, 16, 256)
PHASES = ("forward", "backward", "update")


def claims() -> Iterator[Claim]:
    """In the page's order."""
    sweeps = ("cnn-frameworks", "cnn-frameworks-inside")
    yield says("of {} and {} trials on", *map(_trials, sweeps))
    yield table("### Memory by framework", _rows(_memory))
    yield from _lost()
    yield table("### Time by framework", _rows(_times))
    yield from _factors()
    yield table("### Phases by framework", _phases())
    yield table("### From inside", _inside())


def _trials(scenario: str) -> int:
    """How many there were, those for strategies too."""
    return len((folder(scenario) / "trials.jsonl").read_text().splitlines())


def _row(scenario: str, title: str, **wanted: object) -> dict[str, Any]:
    """The one row of a study's table with these settings."""
    rows = study(scenario)[title]
    (row,) = (row for row in rows if all(row[key] == value for key, value in wanted.items()))
    return row


def _unlimited(title: str, network: str, shape: str, batch: int, **more: object) -> dict[str, Any]:
    wanted = {"network": network, "shape": shape, "batch": batch, "limit_label": "max"}
    return _row("cnn-frameworks", title, **wanted, **more)


def _memory(network: str, shape: str, batch: int) -> list[str]:
    row = _unlimited("Memory by framework: the kernel's peak, MiB", network, shape, batch)
    return [f"{row[name] / MIB:.0f}" for name in FRAMEWORKS]


def _ms(network: str, shape: str, batch: int, phase: str = "whole step") -> dict[str, float]:
    title = "Time by framework, ms per image"
    row = _unlimited(title, network, shape, batch, phase=phase)
    return {name: 1e3 * row[name] for name in FRAMEWORKS if row.get(name) is not None}


def _times(network: str, shape: str, batch: int) -> list[str]:
    return [f"{_ms(network, shape, batch)[name]:.1f}" for name in FRAMEWORKS]


def _rows(cells: Any) -> Iterator[list[str]]:
    for network, title in NETWORKS.items():
        for shape in (SMALL, LARGE):
            for batch in BATCHES:
                yield [title, shape.replace("x", " × "), str(batch), *cells(network, shape, batch)]


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


def _factors() -> Iterator[Claim]:
    large = {name: _ms("basic_cnn", LARGE, 256)[name] for name in FRAMEWORKS}
    yield says(
        "{} ms an image in PyTorch, {} in TensorFlow and {} compiled",
        *(f"{large[name]:.1f}" for name in FRAMEWORKS),
    )


def _phases() -> Iterator[list[str]]:
    for network, title in NETWORKS.items():
        for batch in BATCHES:
            found = {phase: _ms(network, LARGE, batch, phase) for phase in PHASES}
            cells = [
                ", ".join(f"{found[phase][name]:.1f}" for phase in PHASES)
                for name in FRAMEWORKS[:2]
            ]
            yield [title, str(batch), *cells]


def _inside() -> Iterator[list[str]]:
    for network, title in NETWORKS.items():
        for batch in BATCHES:
            here = {"network": network, "batch": batch}
            view = _row(
                "cnn-frameworks-inside",
                "Memory by framework: the peak of its own allocator, MiB",
                **here,
            )
            own = [f"{view[name] / MIB:.0f}" for name in FRAMEWORKS]
            busy = [
                _row("cnn-frameworks-inside", "Cores busy by framework", phase=phase, **here)
                for phase in ("forward", "backward")
            ]
            cores = [", ".join(f"{row[name]:.2f}" for row in busy) for name in FRAMEWORKS[:2]]
            yield [title, str(batch), *own, *cores]
