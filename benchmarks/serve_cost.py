"""What the dashboard costs: its memory, its answer to many connects, its speed, and the workload.

``python serve_cost.py [PAIRS [CONNECTS [MINUTES]]]``. Alternating pairs of trials with a browser
that watches and without; a server's memory over that many connects and minutes; the first paint in
Chromium, and how old a sample is when the page draws it. Chromium runs on the same machine, where
it takes part of the cores; a reader of the stream alone stands for a browser elsewhere.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import report
from overhead import interval

from edgebench.folder import ResultsFolder
from edgebench.preparing import cache_folder, prepare_networks
from edgebench.recording import TrialRequest
from edgebench.records import LimitSetting
from edgebench.trial import TrialFiles, run_trial
from edgebench.workshop import Workshop, open_workshop

NETWORK = "resnet18"
SETTINGS: dict[str, Any] = {
    "kind": "inference",
    "networks": [NETWORK],
    "schedule": "bulk",
    "loader": "copy",
    "batch": 1,
    "image": None,
    "rounds": 30,
    "warm": 4,
    "threads": None,
    "workers": 2,
    "page_cache": "warm",
    "seed": 0,
}
MIB = 1 << 20
#: Connects after which the server's memory is taken as its own.
WARM = 500


@contextlib.contextmanager
def server(root: Path) -> Iterator[tuple[psutil.Process, int]]:
    """A server over the results, and its port."""
    words = [sys.executable, "-m", "edgebench", "serve", str(root), "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
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
def reader(port: int) -> Iterator[None]:
    """A reader of the stream that draws nothing: a browser on another machine."""
    code = (
        "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]));"
        "c.request('GET', '/api/live'); r = c.getresponse()\nwhile r.readline(): pass"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(port)]) as process:
        try:
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def chromium(port: int) -> Iterator[Any]:
    """Chromium with the page open, headless; its driver."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    service = webdriver.ChromeService(executable_path="/usr/bin/chromedriver")
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.get(f"http://127.0.0.1:{port}/")
        yield driver
    finally:
        driver.quit()


class Bench:
    """Trials in a results folder that a server watches, as a sweep makes them."""

    def __init__(self, workshop: Workshop, root: Path) -> None:
        self.workshop = workshop
        cache = cache_folder(workshop.apparatus.identity)
        made = prepare_networks(
            [NETWORK],
            cache=cache,
            seed=0,
            checkpoints={},
            batch=1,
            image=None,
            identity=workshop.apparatus.identity,
        )["networks"]
        self.weights = {NETWORK: made[NETWORK]["folder"]}
        about = ("bench", "cost", 'name = "cost"\n', {"points": [], "plan": []}, {})
        self.folder = ResultsFolder.create(root, *about)

    def round_s(self, name: str, settings: dict[str, Any] = SETTINGS) -> float:
        """Median seconds of a trial's warm rounds: the first is left out."""
        files = TrialFiles(
            self.folder.samples_path(name),
            self.folder.events_path(name),
            self.folder.log_path(name),
            self.workshop.folder,
            live=self.folder.live_path,
        )
        request = TrialRequest(name, "p1", 0, 0, settings, LimitSetting(), 300, self.weights)
        record = run_trial(self.workshop.apparatus, request, files)
        assert record.outcome == "ok", record.reason
        walls = [p.wall_s for p in record.phases if p.phase == "round" and p.round > 0]
        return statistics.median(walls)


def pairs_with(bench: Bench, port: int, watching: Any, pairs: int) -> list[float]:
    """Workload time with somebody watching ÷ without, in pairs, the order drawn at random."""
    rng = random.Random(7)
    ratios = []
    for number in range(pairs):
        took = {}
        for with_one in rng.sample([True, False], 2):
            with watching(port) if with_one else contextlib.nullcontext():
                # A page that has just been opened still starts.
                time.sleep(3)
                took[with_one] = bench.round_s(f"{number:04d}")
        ratios.append(took[True] / took[False])
        print(f"pair {number + 1} of {pairs}: {ratios[-1]:.4f}", file=sys.stderr)
    return ratios


def connects(process: psutil.Process, port: int, count: int) -> dict[str, float]:
    """The server's memory, MiB, after the first connects and after so many."""
    for number in range(count):
        with stream(port):
            pass
        if number == WARM:
            early = process.memory_info().rss / MIB
    return {"early_mib": early, "late_mib": process.memory_info().rss / MIB, "connects": count}


def reconnecting(process: psutil.Process, port: int, minutes: float) -> float:
    """The largest memory of the server, MiB, while clients come and go so long."""
    ends, largest = time.monotonic() + minutes * 60, 0.0
    while time.monotonic() < ends:
        with stream(port), stream(port):
            time.sleep(1)
        largest = max(largest, process.memory_info().rss / MIB)
    return largest


def page_times(bench: Bench, port: int) -> dict[str, float]:
    """First paint, and the age of the newest sample when the page has drawn it; seconds."""
    with chromium(port) as driver:
        paints = []
        for _ in range(10):
            driver.get("about:blank")
            driver.get(f"http://127.0.0.1:{port}/")
            time.sleep(2)
            script = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
            paints.append(driver.execute_script(script) / 1000)
        trial = threading.Thread(target=bench.round_s, args=("page",))
        trial.start()
        ages = []
        while trial.is_alive():
            age = driver.execute_script("return Number(document.body.dataset.sampleAge)")
            ages += [age] if age else []
            time.sleep(0.2)
        trial.join()
    ordered = sorted(ages)
    return {
        "first_paint_s": statistics.median(paints),
        "age_median_s": statistics.median(ordered),
        "age_p95_s": ordered[int(0.95 * (len(ordered) - 1))],
    }


def main(pairs: int, count: int, minutes: float) -> None:
    """Measure all of it and write it down."""
    rows: list[list[str]] = []
    data: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch, open_workshop() as workshop:
        root = Path(scratch) / "results"
        bench = Bench(workshop, root)
        bench.round_s("warm", {**SETTINGS, "rounds": 3})
        with server(root) as (process, port):
            for name, who in (("the stream is read", reader), ("Chromium here", chromium)):
                ratios = pairs_with(bench, port, who, pairs)
                low, high = interval(ratios)
                data[name] = ratios
                words = f"{statistics.median(ratios):.4f} (95 % interval {low:.4f} to {high:.4f})"
                rows.append([f"workload's time, watched ÷ not: {name}", words, "≤ 1.01"])
            data["page"] = seen = page_times(bench, port)
            rows.append(["first paint", f"{seen['first_paint_s']:.2f} s", "≤ 1 s"])
            age = f"{seen['age_median_s']:.2f} s, 95 % within {seen['age_p95_s']:.2f} s"
            rows.append(["age of the newest sample that is drawn", age, "≤ 1 s"])
        with server(root) as (process, port):
            data["connects"] = grown = connects(process, port, count)
            words = f"{grown['early_mib']:.1f} → {grown['late_mib']:.1f} MiB"
            rows.append([f"server's memory, {WARM} → {count} connects", words, "no growth"])
            data["largest_mib"] = reconnecting(process, port, minutes)
            name = f"server's memory, {minutes:g} min of clients that come and go"
            rows.append([name, f"{data['largest_mib']:.1f} MiB at most", "≤ 45 MB"])
        bench.folder.close()
    says = f"{NETWORK} in {pairs} alternating pairs of trials; a browser that watches, or none."
    report.write("serve_cost", says, ("what", "measured", "aim"), rows, data)


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:]] + [20, 10_000, 60][len(sys.argv) - 1 :]
    main(int(given[0]), int(given[1]), given[2])
