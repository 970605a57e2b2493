"""What the dashboard's benchmarks share: a server, who watches it, and trials to be watched."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from edgebench.cache import cache_folder
from edgebench.records import LimitSetting
from edgebench.results.folder import ResultsFolder
from edgebench.results.sweep_reader import read_sweep
from edgebench.run.session import Session, open_session
from edgebench.run.trial import TrialFiles, run_trial
from edgebench.run.trial_record import TrialRequest
from edgebench.spans import finished_spans
from edgebench.workloads.preparation import prepare_networks

NETWORK = "resnet18"
SETTINGS: dict[str, Any] = {
    "kind": "inference",
    "networks": [NETWORK],
    "schedule": "bulk",
    "loader": "copy",
    "batch": 1,
    "image": None,
    "warm": 1,
    "threads": None,
    "workers": 2,
    "page_cache": "warm",
    "seed": 0,
}
MIB = 1 << 20


@contextlib.contextmanager
def server(root: Path) -> Iterator[tuple[psutil.Process, int]]:
    """A server over the results, and its port."""
    words = [sys.executable, "-m", "edgebench", "serve", str(root), "--port", "0", "--json"]
    with subprocess.Popen([*words, "--no-token"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield psutil.Process(process.pid), json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()


@contextlib.contextmanager
def stream(port: int) -> Iterator[http.client.HTTPResponse]:
    """The live stream, with the first event read."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/api/live")
        answer = connection.getresponse()
        answer.readline()
        yield answer
    finally:
        connection.close()


@contextlib.contextmanager
def reader(port: int) -> Iterator[list[psutil.Process]]:
    """A reader of the stream that draws nothing, as for a browser on another machine."""
    code = (
        "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]));"
        "c.request('GET', '/api/live'); r = c.getresponse()\nwhile r.readline(): pass"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", code, str(port)]) as process:
        try:
            yield [psutil.Process(process.pid)]
        finally:
            process.kill()


@contextlib.contextmanager
def chromium(port: int, view: str = "live") -> Iterator[Any]:
    """Chromium with the page open, headless; its driver."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    service = webdriver.ChromeService(executable_path="/usr/bin/chromedriver")
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_window_size(1280, 1000)
        driver.get(f"http://127.0.0.1:{port}/#{view}")
        yield driver
    finally:
        driver.quit()


@contextlib.contextmanager
def browser(port: int) -> Iterator[list[psutil.Process]]:
    """The processes of a Chromium on this machine that shows the live view."""
    with chromium(port) as driver:
        yield psutil.Process(driver.service.process.pid).children(recursive=True)


class Bench:
    """Trials in a results folder that a server watches, as a sweep makes them."""

    def __init__(self, session: Session, root: Path) -> None:
        self.session = session
        self.root = root
        cache = cache_folder(session.setup.identity)
        made = prepare_networks(
            [NETWORK],
            cache=cache,
            seed=0,
            checkpoints={},
            batch=1,
            image=None,
            identity=session.setup.identity,
        )["networks"]
        self.weights = {NETWORK: made[NETWORK]["folder"]}
        about = ("bench", "cost", 'name = "cost"\n', {"points": [], "plan": []}, {})
        self.folder = ResultsFolder.create(root, *about)

    def trial(self, name: str, rounds: int) -> list[tuple[int, int]]:
        """Make one; when each of its rounds began and ended, CLOCK_MONOTONIC, ns."""
        files = TrialFiles(
            self.folder.samples_path(name),
            self.folder.events_path(name),
            self.folder.log_path(name),
            self.session.folder,
            live=self.folder.live_path,
        )
        settings = {**SETTINGS, "rounds": rounds}
        request = TrialRequest(name, "p1", 0, 0, settings, LimitSetting(), 600, self.weights)
        record = run_trial(self.session.setup, request, files)
        assert record.outcome == "ok", record.reason
        self.folder.append(record)
        spans = finished_spans(read_sweep(self.folder.path).events(name))
        return [(span.start_ns, span.end_ns) for span in spans if span.phase == "round"]

    def rounds_in(self, seconds: float) -> int:
        """How many rounds take so long, by a short trial."""
        took = [end - start for start, end in self.trial("warm", 12)[2:]]
        return math.ceil(seconds * 1e9 / statistics.median(took))


@contextlib.contextmanager
def bench() -> Iterator[Bench]:
    """A bench in a folder that goes afterwards."""
    with tempfile.TemporaryDirectory() as scratch, open_session() as session:
        made = Bench(session, Path(scratch) / "results")
        try:
            yield made
        finally:
            made.folder.close()
