"""Plants what should not be read at each file of a results folder, then reads the folder as root.

``python -m tests.trust.unreadable VERB [AT_MOST]``: for each file name and each plant the verb runs
in a process of its own; what was found is printed as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from edgebench.results import layout
from edgebench.slowdown.calibration.device import Calibration, save_calibration
from tests.made_sweep import Shape, make
from tests.trust.noted_process import start
from tests.trust.planting import cases, load
from tests.trust.stranger import STRANGER, World
from tests.trust.tried_verbs import READERS, SCENARIO, WRITERS, verb

SWEEP = Path("results/board/20260102T030405Z-made-000000")
_SECRET = "of root alone"
_MEMORY_BYTES = 16 << 30
#: One of each kind is planted at.
_TRIAL = "0003"


def _page() -> None:
    """What the page asks for, but for its sockets."""
    from edgebench.results.live.sweep import SweepTail
    from edgebench.serve import history, limit_predictions, sweep_answer

    root = Path("results")
    name = f"{SWEEP.parent.name}/{SWEEP.name}"
    asked: list[Callable[[], object]] = [
        lambda: history.sweep_rows(root),
        lambda: history.trials_csv(root, [name]),
        lambda: history.trial_detail(root, name, _TRIAL),
        lambda: SweepTail(SWEEP).poll(),
        lambda: sweep_answer.sweep_answer(SWEEP),
        lambda: limit_predictions.predict_limits(SWEEP),
    ]
    for one in asked:
        try:
            sys.stdout.write(f"{one()}\n")
        except OSError as error:
            raise RuntimeError("an error of the system reached the page") from error
        except layout.ResultsError as error:
            sys.stdout.write(f"{error}\n")


def _running() -> None:
    """While a sweep writes there."""
    fd = layout.open_locked(SWEEP / layout.TRIALS)
    try:
        verb("show", "results")()
    finally:
        os.close(fd)


#: Every verb that reads results or a scenario.
BODIES: dict[str, Callable[[], None]] = {
    **{name: WRITERS[name] for name in ("fit", "plot", "report", "layers", "export")},
    **{name: WRITERS[name] for name in ("predict",)},
    **{name: READERS[name] for name in ("show", "compare", "check", "study")},
    "reconcile": READERS["reconcile"],
    "page": _page,
    "running": _running,
    "run": verb("run", "s.toml", "--device", "board", "--results", "results"),
}


def _fifo(path: Path, world: World) -> None:
    os.mkfifo(path, 0o666)


def _device(path: Path, world: World) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


def _socket(path: Path, world: World) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _sparse(path: Path, world: World) -> None:
    with path.open("wb") as file:
        file.truncate(40 << 30)


PLANTS: dict[str, Callable[[Path, World], None]] = {
    "fifo": _fifo,
    "device": _device,
    "socket": _socket,
    "folder": lambda path, world: path.mkdir(),
    "sparse": _sparse,
    "link to root's": lambda path, world: path.symlink_to(world.outside / "file"),
    "link to a fifo": lambda path, world: path.symlink_to(world.outside / "fifo"),
    "link to zeros": lambda path, world: path.symlink_to("/dev/zero"),
}


#: The names in a results folder that are planted at, a trial's files once each.
NAMES = (
    *(layout.TRIALS, layout.SCENARIO, layout.RESOLVED, layout.ENVIRONMENT, layout.NETWORKS),
    *(layout.COMPLETE, layout.LIVE, layout.ADVICE),
    *(f"{layout.SAMPLES}/{_TRIAL}.npz", f"{layout.EVENTS}/{_TRIAL}.jsonl.gz"),
    *(f"{layout.READINGS}/{_TRIAL}.json.gz", f"{layout.LOGS}/{_TRIAL}.log"),
    *(layout.SAMPLES, layout.EVENTS),
)


def build(world: World) -> list[Path]:
    """A sweep of the stranger's, fitted and with constants; each path to plant at."""
    (world.outside / "file").write_text(f'name = "{_SECRET}"\n')
    (world.outside / "file").chmod(0o600)
    os.mkfifo(world.outside / "fifo", 0o666)
    make(world.own / "results", Shape(networks={"lenet": 3}, repeats=2, rounds=1), "board")
    (folder,) = (world.own / "results" / "board").iterdir()
    folder.rename(sweep := world.own / SWEEP)
    (world.own / "s.toml").write_text(SCENARIO)
    sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "slowdown")]
    constants = save_calibration(calibration(), world.own / "results")
    world.keep()
    if start(world, BODIES["fit"]) != 0:
        raise RuntimeError(world.said.read_text())
    world.keep()
    return [constants, world.own / "s.toml", *(sweep / name for name in NAMES)]


def calibration() -> Calibration:
    """Constants, made up."""
    from verb_making import calibration as made

    found: Calibration = made("board")
    return found


def one(world: World, body: Callable[[], None], path: Path, kind: str) -> list[str]:
    """What goes wrong with this plant at this path."""
    world.reset()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    PLANTS[kind](path, world)
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    secret = world.outside / "file"
    # Read again, it gets the time of day, also where times are kept rarely.
    os.utime(secret, (0, secret.stat().st_mtime))
    code = start(world, body)
    said = world.said.read_text(errors="replace")
    wrong = []
    if code is None:
        wrong.append("it hung")
    elif code not in (0, 1, 2, 3) or "Traceback" in said:
        wrong.append(f"it ended with {code}: {said[-900:]}")
    if secret.stat().st_atime != 0:
        wrong.append("it followed the link")
    written = [file for file in world.own.rglob("*") if file.is_file() and file != path]
    told = [said.encode(), *(file.read_bytes() for file in written if file.lstat().st_size < 1e8)]
    if any(_SECRET.encode() in text for text in told):
        wrong.append("it told what root alone may read")
    return [f"{kind} at {path.relative_to(world.own)}: {what}" for what in wrong]


def main(words: list[str]) -> None:
    """Print what was found of one verb: ``NAME [AT_MOST [STEP]]``."""
    name, at_most, step, *_ = (*words, *(str(10**9), "1")[len(words) - 1 :])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as top:
        world = World(Path(top))
        paths = build(world)
        body = BODIES[name]
        code = start(world, body, note=True)
        if code not in (0, 1) or "Traceback" in world.said.read_text():
            raise RuntimeError(f"{code}: {world.said.read_text()}")
        load(world)
        tried = cases(paths, tuple(PLANTS), int(at_most), int(step))
        wrong = [words for path, kind in tried for words in one(world, body, path, kind)]
    sys.stdout.write(json.dumps({"code": code, "tried": len(tried), "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1:])
