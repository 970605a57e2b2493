"""A board's `/sys` served from a copy of its tree, whose files can be changed; its numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

from edgebench.measures.machine.sensors.sensor import SensorReader, Sensors
from edgebench.measures.machine.system_files import SystemFiles

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


def numbers_of(found: Sensors) -> dict[str, int]:
    """Each column's number now."""
    told = {}
    for sensor in found.sensors:
        reader = SensorReader(sensor)
        told[sensor.column] = reader.read()
        reader.close()
    return told


def power_of(found: Sensors) -> dict[str, int]:
    """Those of power and energy."""
    return {k: v for k, v in numbers_of(found).items() if k.endswith(("_uw", "_uj"))}
