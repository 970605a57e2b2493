"""A calibrated device as a board's file, for others to predict with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from edgebench.boards.board import SCHEMA
from edgebench.slowdown.calibration.device import Calibration, Constant
from edgebench.units import MIB

#: The address of a source that is the device itself.
MEASURED = "edgebench calibrate"


def board_text(calibration: Calibration) -> str:
    """The TOML file of a board with the device's constants; what it can't tell is left to fill in.

    ``ram`` is what Linux has, for nothing tells what the board is sold with.
    """
    made = dict(_keys(calibration))
    lines = ["# Correct title and ram to what the board is sold as; add storage: docs/boards.md."]
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in made.items()]
    constants = {k: v.value for k, v in vars(calibration).items() if isinstance(v, Constant)}
    lines += ["", "[constants]", *(f"{name} = {value!r}" for name, value in constants.items())]
    source = {
        "of": [*(key for key in made if key not in ("schema", "title")), "constants"],
        "title": f"edgebench {calibration.environment.get('edgebench')}, on the device itself",
        "address": MEASURED,
        "seen": calibration.created_utc[:10],
    }
    lines += ["", "[[sources]]"]
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in source.items()]
    return "\n".join(lines) + "\n"


def _keys(calibration: Calibration) -> Iterator[tuple[str, Any]]:
    at = calibration.environment
    yield "schema", SCHEMA
    yield "title", at.get("board") or calibration.device
    yield "ram", f"{int(at.get('ram_bytes') or 0) // MIB}MiB"
    yield "cores", at.get("cpu_cores") or 1
    texts = {"core": at.get("cpu_model"), "system": at.get("os"), "kernel": at.get("kernel")}
    yield from ((key, str(text)) for key, text in texts.items() if text)
    version = (at.get("cgroup") or {}).get("version")
    if isinstance(version, int):
        yield "cgroup", version
