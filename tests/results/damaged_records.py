"""Sweeps of each kind of workload, one of whose records has a value replaced by a wrong one."""

from __future__ import annotations

import copy
import json
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from msgspec import structs

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
from edgebench.results.layout import TRIALS, parse_record
from tests.analysis import study_results
from tests.made_sweep import Shape, make

#: What a value is replaced by.
WRONG = ("x", "", -1, 0, LARGEST, math.nan, math.inf, True, None, [], {}, [None], {"x": None})
KINDS = ("inference", "convolution", "training", "command", "scan", "unknown")
#: Every verb that reads records, with its words; FOLDER is the sweep's.
VERBS = {
    "show": "show FOLDER",
    "compare": "compare FOLDER FOLDER",
    "export": "export FOLDER -o FOLDER/trials.csv",
    "layers": "layers --from FOLDER",
    "reconcile": "reconcile FOLDER",
    "study": "show FOLDER --study",
    "predict": "predict --results FOLDER --memory 80M",
    "fit": "fit FOLDER",
    "plot": "plot FOLDER",
    "report": "report FOLDER --markdown",
}

Place = tuple[str | int, ...]


def sweeps(root: Path) -> dict[str, Path]:
    write = study_results.write_sweep
    convolutions = study_results.convolution_records(1)[::5]
    trainings = study_results.partial_records()
    trainings += [
        structs.replace(one, trial=f"{number:04d}", point=f"a{number}")
        for number, one in enumerate(study_results.accelerator_records(), start=11)
    ]
    networks = Shape(networks={"lenet": 2}, repeats=2, limits=(None, 100, 60), killed_below=80)
    made = {
        "inference": make(root / "inference", networks),
        "command": make(root / "command", replace(networks, command="true")),
        "convolution": write(root / "convolution", convolutions, {}),
        "training": write(root / "training", trainings, {}),
    }
    for folder in made.values():
        lines = (folder / TRIALS).read_text().splitlines()
        lines[1] = json.dumps(_filled(TrialRecord.from_json(json.loads(lines[1]))).to_json())
        (folder / TRIALS).write_text("\n".join(lines) + "\n")
    return made


def _filled(record: TrialRecord) -> TrialRecord:
    mib = study_results.MIB
    read = {"interval_s": 5.0, "samples": 3, "mean_bytes": 1e9}
    copied = {"round": 0, "network": "lenet", "phase": "load", "to_bytes": 1, "to_s": 0.1}
    return structs.replace(
        record,
        cpu_s=1.0,
        harness_s=0.1,
        base_bytes=60 * mib,
        swap_peak_bytes=mib,
        major_faults=3,
        throughput_per_s=4.0,
        exit_code=0,
        gnu_time={"maxrss_bytes": mib, "elapsed_s": 1.0},
        noise={"load": 0.5, "temperature_c": 50.0},
        notes={"held_bytes": {"gradients": 4}, "loss": 1.0, "system_memory": [read]},
        doubts=[Doubt("drift", {"drift_share": 0.1}, ["warm"])],
        missing={"cpu_s": "not told"},
        watched=Watching(0.001, 0.01, 0.1, ["memory.stat"], False, True),
        kill=KillReport(1.0, mib, mib, mib, mib),
        storage=StorageReport(mib, disks=[{"name": "sda"}], proof=[{"read": {"rate": 1.0}}]),
        working_set=WorkingSet(mib, mib, 0, 0, mib),
        accelerator=AcceleratorReport("cuda", total_bytes=mib, phases=[copied]),
    )


def places(data: Any, here: Place = ()) -> Iterator[Place]:
    if here:
        yield here
    inner = data.items() if isinstance(data, dict) else ()
    for key, value in enumerate(data[:1]) if isinstance(data, list) else inner:
        yield from places(value, (*here, key))


def damaged(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The record with each of its values replaced by each wrong one, and what was done."""
    for place in places(data):
        for wrong in (*WRONG, *(KINDS if place == ("settings", "kind") else ())):
            made = copy.deepcopy(data)
            inside: Any = made
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = wrong
            yield f"{'.'.join(map(str, place))} = {wrong!r}", made


def second_record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / TRIALS).read_text().splitlines()[1])
    return found


def read_as_whole(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    return [one for one in damaged(second_record(folder)) if fault_in(one[1]) is None]


def fault_in(data: dict[str, Any]) -> str | None:
    try:
        found = parse_record(json.dumps(data).encode(), Path(TRIALS))
    except ResultsError as error:
        return error.what
    return found if isinstance(found, str) else None


def failures(
    folder: Path, cases: list[tuple[str, dict[str, Any]]], verbs: Iterable[str]
) -> list[str]:
    before = (folder / TRIALS).read_text()
    lines = [
        json.dumps({**data, "trial": f"x{number:04d}"} if "trial =" not in what else data)
        for number, (what, data) in enumerate(cases)
    ]
    (folder / TRIALS).write_text(before + "\n".join(lines) + "\n")
    found = []
    try:
        for verb in verbs:
            words = VERBS[verb].replace("FOLDER", str(folder)).split()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                error = CliRunner().invoke(cli, words, standalone_mode=False).exception
            if not (error is None or isinstance(error, EdgebenchError | click.ClickException)):
                found.append(f"{verb}: {error!r}")
        return found
    finally:
        (folder / TRIALS).write_text(before)
