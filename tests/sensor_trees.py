"""A board's `/sys` served from a copy of its tree, whose files can be changed; its numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgebench.measures.machine.sensors import places, sensor
from edgebench.measures.machine.sensors.sensor import SensorReader, Sensors
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.run import sensor_watch

TREES = Path(__file__).parent / "trees"
BOARDS = sorted(path.name for path in TREES.iterdir() if path.is_dir())


class Tree:
    """One board's files below a folder of the test's own."""

    def __init__(self, board: str, folder: Path) -> None:
        self.root = folder / board
        shutil.copytree(TREES / board, self.root)
        self.machine = SystemFiles(self.root)

    def path(self, file: str) -> Path:
        """A file below its /sys."""
        return self.root / "sys" / file

    def set(self, file: str, text: object) -> None:
        """Change a file in place, as a driver's number changes: whoever has it open sees it."""
        path = self.path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        with path.open("r+") as opened:
            opened.write(f"{text}\n")
            opened.truncate()


def be_patient(patch: pytest.MonkeyPatch) -> None:
    """A sensor that answers is not given up because the machine is busy."""
    patch.setattr(places, "_PATIENCE_S", 200.0)
    patch.setattr(sensor, "_COMMAND_PATIENCE_S", 200.0)
    patch.setattr(sensor_watch, "_FIRST_PATIENCE_S", 200.0)
    patch.setattr(sensor_watch, "_LAST_PATIENCE_S", 200.0)


def numbers_of(found: Sensors) -> dict[str, int]:
    """Each column's number now."""
    told = {}
    for one in found.sensors:
        reader = SensorReader(one)
        told[one.column] = reader.read()
        reader.close()
    return told


def power_of(found: Sensors) -> dict[str, int]:
    """Those of power and energy."""
    return {k: v for k, v in numbers_of(found).items() if k.endswith(("_uw", "_uj"))}
