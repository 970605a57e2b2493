"""Values that no record can have: they are told with their line and key, and stop no verb."""

from __future__ import annotations

import copy
import gzip
import json
import math
import shutil
import tracemalloc
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec import structs

import edgebench
from edgebench.cli import cli
from edgebench.errors import EdgebenchError, ResultsError
from edgebench.records import (
    LARGEST,
    AcceleratorReport,
    Doubt,
    KillReport,
    StorageReport,
    TrialRecord,
    Watching,
    WorkingSet,
)
from edgebench.results import layout
from edgebench.results.layout import NETWORKS, PACKED_TRIALS, TRIALS, parse_record
from edgebench.results.live_sweep import SweepTail
from edgebench.results.sweep_reader import read_sweep, sweep_folders
from edgebench.safe_files import MOST_BYTES
from tests.analysis import study_results
from tests.made_records import MIB
from tests.made_sweep import Shape, make

#: What a value is replaced by.
WRONG = ("x", "", -1, 0, LARGEST, math.nan, math.inf, True, None, [], {}, [None], {"x": None})
KINDS = ("inference", "convolution", "training", "command", "scan", "unknown")
#: Verbs that read records, with their words; FOLDER is the sweep's. Those that load little:
LIGHT = ("show FOLDER", "export FOLDER -o FOLDER/x.csv", "show FOLDER --study", "reconcile FOLDER")
#: Of a program the whole trial is the time that is fitted; convolutions are of no network.
MORE = {
    "command": ("predict --results FOLDER --memory 80M", "fit FOLDER"),
    "convolution": ("report FOLDER --markdown",),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep of each kind of workload, the second record of which has a value of each key."""
    root, write = tmp_path_factory.mktemp("damaged"), study_results.write_sweep
    trainings = study_results.partial_records()
    trainings += [
        structs.replace(record, trial=f"{number:04d}", point=f"a{number}")
        for number, record in enumerate(study_results.accelerator_records(), start=11)
    ]
    networks = Shape(networks={"lenet": 2}, repeats=2, limits=(None, 100, 60), killed_below=80)
    convolutions = study_results.convolution_records(1)[::5]
    folders = {
        "inference": make(root / "inference", networks),
        "command": make(root / "command", replace(networks, command="true")),
        "convolution": write(root / "convolution", convolutions, {}),
        "training": write(root / "training", trainings, {}),
    }
    for folder in folders.values():
        lines = (folder / TRIALS).read_text().splitlines()
        lines[1] = json.dumps(filled(TrialRecord.from_json(json.loads(lines[1]))).to_json())
        (folder / TRIALS).write_text("\n".join(lines) + "\n")
    return folders


def filled(record: TrialRecord) -> TrialRecord:
    read = {"interval_s": 5.0, "samples": 3, "mean_bytes": 1e9}
    copied = {"round": 0, "network": "lenet", "phase": "load", "to_bytes": 1, "to_s": 0.1}
    return structs.replace(
        record,
        cpu_s=1.0,
        harness_s=0.1,
        base_bytes=60 * MIB,
        swap_peak_bytes=MIB,
        major_faults=3,
        throughput_per_s=4.0,
        exit_code=0,
        gnu_time={"maxrss_bytes": MIB, "elapsed_s": 1.0},
        noise={"load": 0.5, "temperature_c": 50.0},
        notes={"held_bytes": {"gradients": 4}, "loss": 1.0, "system_memory": [read]},
        doubts=[Doubt("drift", {"drift_share": 0.1}, ["warm"])],
        missing={"cpu_s": "not told"},
        watched=Watching(0.001, 0.01, 0.1, ["memory.stat"], False, True),
        kill=KillReport(1.0, MIB, MIB, MIB, MIB),
        storage=StorageReport(MIB, disks=[{"name": "sda"}], proof=[{"read": {"rate": 1.0}}]),
        working_set=WorkingSet(MIB, MIB, 0, 0, MIB),
        accelerator=AcceleratorReport("cuda", total_bytes=MIB, phases=[copied]),
    )


@pytest.fixture
def folder(made: dict[str, Path], tmp_path: Path) -> Path:
    """A sweep of networks to damage."""
    return Path(shutil.copytree(made["inference"], tmp_path / "sweep"))


def second_record(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / TRIALS).read_text().splitlines()[1])
    return record


def places(data: Any, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if here:
        yield here
    inner = data.items() if isinstance(data, dict) else ()
    for key, value in enumerate(data[:1]) if isinstance(data, list) else inner:
        yield from places(value, (*here, key))


def damaged(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The record with each of its values replaced by each wrong one."""
    for place in places(data):
        for wrong in (*WRONG, *(KINDS if place == ("settings", "kind") else ())):
            record = copy.deepcopy(data)
            inside: Any = record
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = wrong
            yield record


def fault_in(data: dict[str, Any]) -> str | None:
    try:
        record = parse_record(json.dumps(data).encode(), Path(TRIALS))
    except ResultsError as error:
        return error.what
    return record if isinstance(record, str) else None


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
    folder: Path, change: dict[str, object], told: str
) -> None:
    lines = (folder / TRIALS).read_text().splitlines()
    lines[1] = json.dumps({**second_record(folder), **change})
    (folder / TRIALS).write_text("\n".join(lines) + "\n")
    loaded = edgebench.load(folder)
    assert loaded.warnings == [f"{TRIALS} line 2 is damaged and is left out: {told}"]
    assert len(loaded.sweeps[0].records) == len(lines) - 1


def test_packed_records_are_read_as_they_were(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = read_sweep(folder)
    data = gzip.compress((folder / TRIALS).read_bytes())
    (folder / TRIALS).unlink()
    file = folder / PACKED_TRIALS
    file.write_bytes(data)
    packed = read_sweep(folder)
    assert (packed.records, packed.warnings) == (plain.records, plain.warnings)
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
def test_lines_of_damage_without_end_take_no_memory(folder: Path, line: bytes) -> None:
    before = (folder / TRIALS).read_bytes()
    count = before.count(b"\n")
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


@pytest.mark.parametrize("wrong", ["x", {"table": "x"}, {"table": ["x"]}])
def test_a_damaged_network_is_left_out(folder: Path, wrong: object) -> None:
    data = json.loads((folder / NETWORKS).read_text())
    name, *others = data["networks"]
    data["networks"][name] = wrong
    (folder / NETWORKS).write_text(json.dumps(data))
    sweep = read_sweep(folder)
    assert list(sweep.networks["networks"]) == others
    assert sweep.warnings[0].startswith(f"{NETWORKS}: {name} is damaged and is left out: ")


@pytest.mark.heavy
@pytest.mark.process
@pytest.mark.parametrize("kind", ["inference", "convolution", "training", "command"])
def test_wrong_values_stop_no_verb(made: dict[str, Path], kind: str, tmp_path: Path) -> None:
    """All that can't be told from a record alone, at once; most can."""
    folder = Path(shutil.copytree(made[kind], tmp_path / "sweep"))
    record = second_record(folder)
    assert fault_in(record) is None
    every = list(damaged(record))
    whole = [data for data in every if fault_in(data) is None]
    assert 400 < len(whole) < len(every) / 2
    with (folder / TRIALS).open("a") as file:
        for number, data in enumerate(whole):
            trial = f"x{number:04d}" if data["trial"] == record["trial"] else data["trial"]
            file.write(json.dumps({**data, "trial": trial}) + "\n")
    for words in (*LIGHT, *MORE.get(kind, ())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            called = words.replace("FOLDER", str(folder)).split()
            error = CliRunner().invoke(cli, called, standalone_mode=False).exception
        assert error is None or isinstance(error, EdgebenchError | click.ClickException), words
