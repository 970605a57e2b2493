"""Plants something at each path that a verb writes, runs the verb as root, and looks outside.

``python -m tests.trust.planting VERB [AT_MOST [STEP]]``: the verb runs once undisturbed in a folder
of another user, while every path it makes is noted, temporary names too. Then, for each path and
each plant, it runs again; what was found is printed as JSON. With ``readers`` in place of a verb
all that write nothing run once.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from math import gcd
from pathlib import Path

from tests.made_sweep import Shape, make
from tests.trust.noted_process import start
from tests.trust.stranger import PLANTS, STRANGER, World
from tests.trust.tried_verbs import READERS, SCENARIO, WRITERS

SWEEP = Path("results/board/20260102T030405Z-made-000000")


def build(world: World, name: str) -> None:
    """What the verb finds."""
    make(world.own / "results", Shape(networks={"lenet": 3}, repeats=2, rounds=1), "board")
    (folder,) = (world.own / "results" / "board").iterdir()
    folder.rename(world.own / SWEEP)
    (world.own / "s.toml").write_text(SCENARIO)
    world.keep()
    if name == "resume":
        if start(world, WRITERS["run"]) != 0:
            raise RuntimeError(world.said.read_text())
        (begun,) = (world.own / "results" / "fresh").iterdir()
        (begun / "complete.json").unlink()
        (begun / "trials.jsonl").write_bytes(b"")
        for file in [*begun.glob("*/0*")]:
            file.unlink()
        world.keep()


def paths_of(world: World, body: Callable[[], None], fine: tuple[int, ...] = (0,)) -> list[Path]:
    """Every path in the stranger's folder that it makes or writes to, in order.

    Raises:
        RuntimeError: it did not work, or left something there that is not the stranger's.
    """
    world.reset()
    code = start(world, body, note=True)
    if code not in fine or "Traceback" in world.said.read_text():
        raise RuntimeError(f"{code}: {world.said.read_text()}")
    strange = [path for path in world.own.rglob("*") if path.lstat().st_uid != STRANGER]
    if strange:
        raise RuntimeError(f"not the stranger's: {strange}")
    noted = dict.fromkeys(map(Path, world.log.read_text().splitlines()))
    return [path for path in noted if path.is_relative_to(world.own) and path != world.own]


def one(world: World, body: Callable[[], None], path: Path, kind: str) -> list[str]:
    """What goes wrong with this plant at this path."""
    world.reset()
    world.plant(kind, path)
    before = world.seen_outside()
    code = start(world, body)
    wrong = []
    if world.seen_outside() != before:
        wrong.append("something outside changed")
    if code is None:
        wrong.append("it hung")
    elif code not in (0, 1, 2, 3) or "Traceback" in world.said.read_text():
        wrong.append(f"it ended with {code}: {world.said.read_text()[-700:]}")
    return [f"{kind} at {path.relative_to(world.own)}: {what}" for what in wrong]


def cases(
    paths: list[Path], kinds: Sequence[str], at_most: int, step: int
) -> list[tuple[Path, str]]:
    """Every path with every plant; each ``step``-th of them, or fewer, spread over both."""
    every = [(path, kind) for path in paths for kind in kinds]
    step = max(step, -(-len(every) // at_most))
    # Prime to the number of plants, or some would be of no path.
    while step > 1 and gcd(step, len(kinds)) > 1:
        step += 1
    return every[::step]


def load(world: World) -> None:
    """What the verb imported in its first run, once for all others."""
    for name in world.imported.read_text().splitlines():
        # Of what was imported from elsewhere, or by another name.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def read_all(world: World) -> dict[str, object]:
    """What those that only read make."""
    build(world, "readers")
    made: list[str] = []
    for name, body in READERS.items():
        # One may have nothing to say of this sweep; a doctor finds a machine unfit.
        made += [f"{name}: {path}" for path in paths_of(world, body, (0, 1, 5))]
        load(world)
    return {"paths": made, "tried": len(READERS), "wrong": []}


def plant_all(world: World, name: str, at_most: int, step: int) -> dict[str, object]:
    """What plants do to one that writes."""
    build(world, name)
    body = WRITERS[name]
    paths = paths_of(world, body)
    tried = cases(paths, PLANTS, at_most, step)
    if tried:
        load(world)
    wrong = [words for path, kind in tried for words in one(world, body, path, kind)]
    told = [str(path.relative_to(world.own)) for path in paths]
    return {"paths": told, "tried": len(tried), "wrong": wrong}


def main(words: list[str]) -> None:
    """Print what was found of one verb, or of all that only read: ``NAME [AT_MOST [STEP]]``."""
    name, at_most, step, *_ = (*words, *(str(10**9), "1")[len(words) - 1 :])
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as top:
        world = World(Path(top))
        if name == "readers":
            found = read_all(world)
        else:
            found = plant_all(world, name, int(at_most), int(step))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
