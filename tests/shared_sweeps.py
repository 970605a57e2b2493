"""Real sweeps that many tests read, each run once a session, by whichever worker asks first.

A test takes the fixture ``shared_sweep`` and names the sweep::

    @pytest.mark.own_cgroup
    @pytest.mark.torch
    def test_a_layer_has_times(shared_sweep: SharedSweep):
        results = load(shared_sweep("inference"))

It gets the sweep's folder, ``<results>/<device>/<sweep>``. Tests only read it: what writes into
it, or removes it, does so with a copy. A test carries the marks that the sweep needs (``MARKS``).
A fixture of a module or a session may use ``shared_sweep`` too.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from needs import GUARD

from tests.own_path import python_path

#: Name → the sweep's folder.
SharedSweep = Callable[[str], Path]

_HEAD = """
schema = 1
name = "{name}"
seed = 3
repeats = {repeats}
timeout = "2m"
"""
_PROGRAM = f"""
[workload]
kind = "command"
command = [
  "{sys.executable}", "-I", "-S", "-c", "b = bytearray(40 << 20); b[::4096] = b'x' * 10240",
]
"""
_LENET = """
[workload]
kind = "{kind}"
network = "lenet"
threads = 1
"""
_FILE = """
[workload]
kind = "inference"
network = "{file}"
threads = 1
"""
_TWO_LIMITS = """
[limits]
memory = ["max", "130%"]
swap = "none"
"""


@dataclass(frozen=True)
class _Recipe:
    tables: str
    #: What a test that reads it is marked with.
    marks: tuple[str, ...] = ("own_cgroup", "torch")
    repeats: int = 1
    #: Of ``tests/engines/engine_models.py``: makes the network's file in a folder.
    maker: str | None = None


def _file(maker: str, name: str, more: str = _TWO_LIMITS) -> _Recipe:
    return _Recipe(_FILE.format(file=name) + more, maker=maker)


_RECIPES = {
    "command": _Recipe(_PROGRAM + _TWO_LIMITS, ("own_cgroup",), repeats=2),
    "kills": _Recipe(
        _PROGRAM + '\n[limits]\nmemory = ["75%", "32M"]\nswap = "none"\n', ("own_cgroup",)
    ),
    "inference": _Recipe(
        _LENET.format(kind="inference")
        + 'schedule = "linear"\nloader = "copy"\nrounds = 2\n'
        + '[limits]\nmemory = ["max", "130%", "95%"]\nswap = "none"\n'
    ),
    "training": _Recipe(
        _LENET.format(kind="training")
        + 'data = "digits"\nimage = 28\nbatch = 32\nsteps = 2\noptimizer = "adam"\n'
        + '[limits]\nmemory = ["max"]\nswap = "none"\n'
        + '[memory]\nstrategies = ["operators", "process", "torch"]\n'
    ),
    "pressed": _Recipe(
        _LENET.format(kind="training").replace("lenet", "mlp")
        + 'width = 512\nsteps = 4\noptimizer = "adam"\n'
        + '[limits]\nmemory = ["max", "80%"]\nswap = "256M"\n'
        + '[sampler]\nstat_interval = "5ms"\n',
        ("own_cgroup", "torch", "root", "swap"),
    ),
    "walk": _Recipe(
        '[workload]\nkind = "training"\nnetwork = "mlp"\nwidth = 256\n'
        + "learning_rate = 0.001\nsteps = 5\n"
        + '[limits]\nmemory = ["150%", "85%"]\nswap = "128M"\nplan = "walk"\ntarget = 0.5\n'
        + 'starts = ["150%"]\n',
        ("own_cgroup", "torch", "root", "swap"),
    ),
    "onnx": _file("made_onnx", "small.onnx", "node_times = true\n" + _TWO_LIMITS),
    "litert": _file("made_tflite", "small.tflite"),
    "tensorflow": _file("made_keras", "small.keras", '[limits]\nmemory = ["max"]\nswap = "none"\n'),
}
#: Name → the marks of a test that reads it.
MARKS = {name: recipe.marks for name, recipe in _RECIPES.items()}


@pytest.fixture(scope="session")
def shared_sweep(tmp_path_factory: pytest.TempPathFactory) -> SharedSweep:
    base = tmp_path_factory.getbasetemp()
    home = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def get(name: str) -> Path:
        GUARD.require(MARKS[name])
        return sweep_once(name, home)

    return get


def sweep_once(name: str, home: Path) -> Path:
    """The folder of that sweep; runs it below ``home`` unless another worker has.

    A sweep that failed fails each test that wants it, and isn't run again.
    """
    folder = home / "sweeps" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = folder / "said"
        if not said.exists():
            said.write_text(_run(name, folder))
        if fault := said.read_text():
            pytest.fail(f"the shared sweep {name!r} failed: {fault}", pytrace=False)
    (sweep,) = folder.glob("results/*/*/")
    return sweep


def _run(name: str, folder: Path) -> str:
    """Why it failed; empty: it is done."""
    recipe = _RECIPES[name]
    file = folder / f"{name}.toml"
    file.write_text(_HEAD.format(name=name, repeats=recipe.repeats) + recipe.tables)
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(),
        "EDGEBENCH_CACHE": str(folder / "cache"),
    }
    if recipe.maker:
        _make_file(recipe.maker, folder, environment)
    words = [sys.executable, "-m", "edgebench", "run", file.name]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stderr}"


def _make_file(maker: str, folder: Path, environment: dict[str, str]) -> None:
    """In a process of its own: a maker loads its engine."""
    tests = Path(__file__).parent
    code = "import pathlib, sys, engine_models\n"
    code += f"engine_models.{maker}(pathlib.Path(sys.argv[1]))"
    path = os.pathsep.join([str(tests / "engines"), str(tests.parent), environment["PYTHONPATH"]])
    subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
