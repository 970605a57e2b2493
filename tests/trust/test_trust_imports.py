"""Which code processes of ours import: never what lies in the current folder."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench.fleet.session import HostKeys
from edgebench.run.trial.launch import launch
from edgebench.serve.app import HelperProcess
from edgebench.serve.live import PageSweep
from edgebench.workloads.preparation import code_of_trainings

#: Modules that processes of ours import, early or late.
PLANTED = ("click", "edgebench", "json", "msgspec", "numpy", "queue", "runpy", "signal", "torch")
PLANT = """\
import os
with open({log!r}, "a") as log:
    log.write(__file__ + os.linesep)
raise SystemExit("planted code ran")
"""


def helper(folder: Path) -> None:
    asyncio.run(HelperProcess().ask("form", files=None))


def preparation(folder: Path) -> None:
    assert code_of_trainings([], identity=None)["code"] == {}


def page(folder: Path) -> None:
    """A sweep that the page starts; its scenario has faults, so it ends at once."""
    page_sweep = PageSweep(folder / "results", folder / "page")
    page_sweep.start("made", "schema = 1")
    assert page_sweep._process
    assert page_sweep._process.wait() == 1
    page_sweep.poll()
    assert page_sweep.started
    assert "fault" in (page_sweep.started.error or "")


def worker(folder: Path) -> None:
    start = launch({"kind": "scan"}, {})  # type: ignore[typeddict-item]
    done = subprocess.run(start.argv, capture_output=True, text=True, check=False)
    assert "KeyError" in done.stderr


def trial_service(folder: Path) -> None:
    command = HostKeys(ssh="board", python=sys.executable).command("edgebench.fleet.sweep", "9")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", command[-1]], **pipes) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b'{"is":"hello"')


def verb(folder: Path) -> None:
    for name in ("edgebench", "runpy"):
        (folder / f"{name}.py").unlink()
    command = [sys.executable, "-m", "edgebench", "boards"]
    subprocess.run(command, capture_output=True, check=True)


@pytest.mark.process
@pytest.mark.promise("No process imports code from the current folder.")
@pytest.mark.parametrize("start", [helper, preparation, page, worker, trial_service, verb])
def test_nothing_is_imported_from_the_current_folder(
    start: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, log = tmp_path / "folder", tmp_path / "imported"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(PLANT.format(log=str(log)))
    monkeypatch.chdir(folder)
    start(folder)
    assert not log.exists(), log.read_text()
