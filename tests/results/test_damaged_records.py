"""Values that no record can have: they are told with their line and key, and stop no verb."""

from __future__ import annotations

import gzip
import json
import shutil
import tracemalloc
from pathlib import Path

import pytest

import edgebench
from edgebench.errors import ResultsError
from edgebench.results import layout
from edgebench.results.layout import NETWORKS, PACKED_TRIALS, TRIALS
from edgebench.results.live_sweep import SweepTail
from edgebench.results.sweep_reader import read_sweep, sweep_folders
from edgebench.safe_files import MOST_BYTES
from tests.results.damaged_records import (
    damaged,
    failures,
    fault_in,
    read_as_whole,
    second_record,
    sweeps,
)

#: Verbs that load little.
_LIGHT = ("show", "export", "study", "reconcile")
#: Of a program the whole trial is the time that is fitted; convolutions are of no network.
_MORE = {"command": ("predict", "fit"), "convolution": ("report",)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return sweeps(tmp_path_factory.mktemp("damaged"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"wall_s": -1.0}, "wall_s: Expected `float` >= 0.0"),
        ({"wall_s": "1"}, "wall_s: Expected `float | null`, got `str`"),
        ({"block": 2**62}, "block: Expected `int` <= 9007199254740992"),
        ({"limit_bytes": 0}, "limit_bytes: Expected `int` >= 1"),
        ({"settings": {"kind": "convolution"}}, "settings: Object missing required field `kernel`"),
        ({"settings": {"kind": "scan", "batch": 0}}, "settings: batch: Expected `int` >= 1"),
        ({"settings": {}}, "settings: Object missing required field `kind`"),
    ],
)
def test_damage_is_told_with_line_and_key(
    made: dict[str, Path], change: dict[str, object], told: str
) -> None:
    folder = made["inference"]
    before = (folder / TRIALS).read_text()
    lines = before.splitlines()
    lines[1] = json.dumps({**second_record(folder), **change})
    try:
        (folder / TRIALS).write_text("\n".join(lines) + "\n")
        found = edgebench.load(folder)
        assert found.warnings == [f"{TRIALS} line 2 is damaged and is left out: {told}"]
        assert len(found.sweeps[0].records) == len(lines) - 1
    finally:
        (folder / TRIALS).write_text(before)


def test_packed_records_are_read_as_they_were(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(made["inference"], tmp_path / "sweep"))
    plain = read_sweep(folder)
    data = gzip.compress((folder / TRIALS).read_bytes())
    (folder / TRIALS).unlink()
    file = folder / PACKED_TRIALS
    file.write_bytes(data)
    packed = read_sweep(folder)
    assert packed.records == plain.records
    assert packed.warnings == plain.warnings
    assert sweep_folders(tmp_path) == [folder]
    for content in (data[: len(data) // 2], data[:20] + b"\0" * 50 + data[70:], b"text"):
        file.write_bytes(content)
        with pytest.raises(ResultsError, match="can't read it"):
            read_sweep(folder)
    file.write_bytes(data)
    monkeypatch.setattr(layout, "MOST_PACKED_BYTES", 1000)
    with pytest.raises(ResultsError, match="holds too much"):
        read_sweep(folder)


@pytest.mark.heavy
@pytest.mark.parametrize("line", [b"\n", b"x\n", b'{"schema": 1}\n'])
def test_lines_of_damage_without_end_take_no_memory(made: dict[str, Path], line: bytes) -> None:
    folder = made["inference"]
    before = (folder / TRIALS).read_bytes()
    count = before.count(b"\n")
    try:
        (folder / TRIALS).write_bytes(before + line * 1_000_000)
        tracemalloc.start()
        sweep, state = read_sweep(folder), SweepTail(folder).poll()
        # A file that is read whole gets room for the largest, of which only its bytes are used.
        most_bytes = tracemalloc.get_traced_memory()[1] - MOST_BYTES
        tracemalloc.stop()
        assert len(sweep.records) == len(state.fresh) == count
        assert sweep.warnings[-1] == f"{TRIALS} is damaged from line {count + 1001} on"
        assert len(state.warnings) <= 20
        assert most_bytes < 64 << 20
    finally:
        (folder / TRIALS).write_bytes(before)


@pytest.mark.parametrize("wrong", ["x", {"table": "x"}, {"table": ["x"]}])
def test_a_damaged_network_is_left_out(made: dict[str, Path], wrong: object) -> None:
    file = made["inference"] / NETWORKS
    before = file.read_text()
    data = json.loads(before)
    name, *others = data["networks"]
    data["networks"][name] = wrong
    try:
        file.write_text(json.dumps(data))
        sweep = read_sweep(made["inference"])
        assert list(sweep.networks["networks"]) == others
        assert sweep.warnings[0].startswith(f"{NETWORKS}: {name} is damaged and is left out: ")
    finally:
        file.write_text(before)


@pytest.mark.heavy
def test_what_records_have_is_no_damage(made: dict[str, Path]) -> None:
    for folder in made.values():
        record = second_record(folder)
        assert fault_in(record) is None
        every = [fault_in(data) for _, data in damaged(record)]
        assert sum(fault is not None for fault in every) > len(every) / 2


@pytest.mark.heavy
@pytest.mark.process
@pytest.mark.parametrize("kind", ["inference", "convolution", "training", "command"])
def test_wrong_values_stop_no_verb(made: dict[str, Path], kind: str) -> None:
    """All that can't be told from a record alone, at once, for the verbs that load little."""
    cases = read_as_whole(made[kind])
    assert len(cases) > 400
    assert failures(made[kind], cases, (*_LIGHT, *_MORE.get(kind, ()))) == []
