"""The verbs that write, as they are tried in the stranger's folder, and those that only read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from edgebench import cli
from tests.trust.stranger import STRANGER

SCENARIO = """
schema = 1
name = "made"
repeats = 1
timeout = "20s"
[workload]
kind = "command"
command = ["/bin/true"]
"""
_TESTS = Path(__file__).parents[1]


def verb(*words: str) -> Callable[[], None]:
    """The program with these words."""

    def body() -> None:
        sys.argv = ["edgebench", *words]
        cli.main()

    return body


def under_sudo(*words: str) -> Callable[[], None]:
    """The program with these words, as sudo starts it for the stranger."""

    def body() -> None:
        os.environ |= {"SUDO_UID": str(STRANGER), "SUDO_GID": str(STRANGER)}
        verb(*words)()

    return body


def calibrate() -> None:
    """The verb, without its two minutes of scans."""
    from edgebench.report.figures import calibration as figure
    from edgebench.run import calibration, calibration_points

    sys.path[:0] = [str(_TESTS), str(_TESTS / "slowdown")]
    from verb_making import calibration as made

    figure._draw_cost = lambda *about: None

    def run(self: Any, path: Path) -> None:
        calibration_points.scan_file(Path("cache/scan").absolute(), 1 << 16)

    calibration._Blocks.run = run  # type: ignore[method-assign]
    calibration._Blocks.result = lambda self, device: made(device)  # type: ignore[method-assign]
    under_sudo("calibrate", "--device", "fresh")()


def page() -> None:
    """A sweep that the page starts, in a folder of root's own."""
    from edgebench.serve import page_sweep

    class Started:
        pid = 1

    page_sweep.subprocess.Popen = lambda *words, **about: Started()  # type: ignore[misc,assignment]
    with TemporaryDirectory() as own:
        page_sweep.PageSweep(Path("results"), Path(own, "page")).start("made", SCENARIO)


def data() -> None:
    """A data set fetched, by a stand-in for torchvision that writes as it does."""
    from edgebench.workloads.training import data_sources

    def maker(root: str, train: bool, download: bool) -> None:
        raw = Path(root) / "MNIST" / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        (raw / "t10k-labels-idx1-ubyte").write_bytes(b"fetched")

    data_sources._vision_maker = lambda name: maker  # type: ignore[assignment]
    data_sources.download_vision("mnist", Path("sets"))


def weights() -> None:
    """A network's weights made as root in a cache of the stranger's."""
    from edgebench.layers.examination import examine
    from edgebench.layers.weights import prepare_weights

    prepare_weights(examine("lenet", {}), Path("cache").absolute(), 0)


#: What is written by each, of the verbs and of what only some of their ways write.
WRITERS: dict[str, Callable[[], None]] = {
    "fit": verb("fit", "results"),
    "plot": verb("plot", "results"),
    "report": verb("report", "results", "--markdown"),
    "layers": verb("layers", "--from", "results"),
    "predict": verb(
        "predict", "--results", "results", "--memory", "80M", "--figure", "--device", "board"
    ),
    "export": verb("export", "results", "-o", "trials.csv"),
    "measure": under_sudo("measure", "--samples", "kept.npz", "--", "/bin/true"),
    "run": under_sudo("run", "s.toml", "--device", "fresh", "--results", "results"),
    "resume": under_sudo("run", "s.toml", "--device", "fresh", "--results", "results"),
    "calibrate": calibrate,
    "init": verb("init", "lenet", "--out", "new.toml"),
    "data": data,
    "weights": weights,
}
#: Verbs that write nothing in the stranger's folder.
READERS: dict[str, Callable[[], None]] = {
    "serve": page,
    "show": verb("show", "results"),
    "compare": verb("compare", "results", "results"),
    "check": verb("run", "--dry-run", "s.toml"),
    "study": verb("show", "--study", "results"),
    "reconcile": verb("reconcile", "results"),
    "doctor": verb("doctor"),
    "boards": verb("boards"),
}
#: Their trials are a sweep's, as ``run``'s are.
SWEEPS = ("advise", "fleet", "minimum")
