"""The page in a real browser: Debian's Chromium, driven through chromedriver."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import Page
from click.testing import CliRunner
from made_sweep import Shape, make
from markdown_it import MarkdownIt
from serving import TOKEN, serving, wait_for

from edgebench.cli import cli

pytestmark = pytest.mark.browser


def mebibytes(text: str) -> float:
    """The number of ``61.3 MiB``; 0 for anything else."""
    found = re.match(r"([0-9.]+) MiB", text)
    return float(found[1]) if found else 0.0


@pytest.mark.own_cgroup
@pytest.mark.timeout(1200)
def test_fill_in_start_watch_stop_and_compare(browser: Any, tmp_path: Path):
    with serving(tmp_path / "results") as served:
        page = Page(browser, served.address)
        page.open("new")
        page.choose("workload.network", "lenet")
        page.fill_in("limits.memory", "max")
        page.fill_in("scenario.repeats", "0")
        page.press("button.main")
        page.find("[id='field-scenario.repeats'][aria-invalid='true']")
        page.fill_in("scenario.repeats", "40")
        page.fill_in("scenario.name", "by-hand")
        page.press("#check")
        wait_for(lambda: "40 trials" in page.text("#form-status"))
        page.press("button.main")
        wait_for(lambda: "is running" in page.text("#started"))
        usage = "#trial-figures [data-name='usage'] dd"
        wait_for(lambda: page.all(usage) and mebibytes(page.text(usage)) > 60)
        wait_for(lambda: re.search(r"\b([2-9]|[1-3]\d) of 40 trials", page.text("#sweep-words")))
        page.open()
        page.press("nav a[href='#new']")
        page.press("button.main")
        wait_for(lambda: "running already: by-hand" in page.text("#form-status"))
        page.press("nav a[href='#live']")
        page.press("#stop")
        wait_for(lambda: "was stopped" in page.text("#started"))
        assert "kept" in wait_for(lambda: _if_has(page.text("#sweep-words"), "stopped after"))
        page.press("nav a[href='#history']")
        page.press("#sweeps input")
        page.find("#trials input")
        for box in page.all("#trials input")[:2]:
            box.click()
        page.press("#compare")
        wait_for(lambda: "2 trials drawn from" in page.text("#status"))
        assert len(page.all("#comparison-charts canvas")) == 2
        assert page.all("#comparison tr.differs")
        page.driver.execute_script("document.getElementById('comparison-card').scrollIntoView()")
        # The refused start.
        assert [one for one in page.faults() if "/api/start" not in one] == []


def _if_has(text: str, words: str) -> str | None:
    return text if words in text else None


#: Names that a file may hold: each sets ``window.taken`` where it is run.
HOSTILE = [
    "<script>window.taken=1</script>",
    '"><img/src=x/onerror=window.taken=1>',
    "'-->]]><svg/onload=window.taken=1>",
    "javascript:window.taken=1",
    "[a](javascript:window.taken=1)",
    "=cmd|' /C calc'!A0",
]
#: Elements that no output has of its own, wherever such a name became markup.
_MARKUP = "[onerror], [onload], a[href^='javascript'], script:not([src]), img[src='x']"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile")
    folder = make(
        root, Shape(repeats=2, networks=dict.fromkeys(HOSTILE, 2), limits=(None, 100, 60))
    )
    names = itertools.cycle(json.dumps(name)[1:-1] for name in HOSTILE)
    for name in ("networks.json", "environment.json", "resolved.json"):
        text = (folder / name).read_text()
        for word in ("features.0.conv", "features.1.conv", "jetson-nano", "Conv2d", "made"):
            text = text.replace(f'"{word}"', f'"{next(names)}"')
        (folder / name).write_text(text)
    for file in (folder / "events").iterdir():
        text = gzip.decompress(file.read_bytes()).decode()
        text = text.replace("features.0.conv", next(names)).replace("features.1.conv", next(names))
        file.write_bytes(gzip.compress(text.encode()))
    return folder


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet would compute the cell."""
    return bool(re.match(r"[=+@\t\r-]", cell)) and not re.fullmatch(
        r"[-+]?[\d.]+(e[-+]?\d+)?", cell
    )


@pytest.mark.promise("No name in a result runs a script or a formula in any output.")
@pytest.mark.timeout(600)
def test_no_name_runs_in_any_output(browser: Any, hostile: Path, tmp_path: Path):
    made = [["report", "--markdown", "-o", f"{tmp_path}/report.html"], ["plot"]]
    made += [["export", "--format", "markdown", "-o", f"{tmp_path}/points.md"]]
    frames = ("trials", "phases", "layers", "memory", "networks")
    made += [["export", "--frame", name, "-o", f"{tmp_path}/{name}.csv"] for name in frames]
    for verb, *words in made:
        done = CliRunner().invoke(cli, [verb, str(hostile), *words], standalone_mode=False)
        assert done.exception is None, verb
    render = MarkdownIt("commonmark", {"html": True}).enable("table").render
    for file in tmp_path.rglob("*.md"):
        file.with_suffix(".md.html").write_text(render(file.read_text()))
    found = [*tmp_path.rglob("*"), *(hostile / "figures").iterdir()]
    opened = [file for file in found if file.suffix in (".html", ".svg")]
    assert len(opened) > 8
    for file in opened:
        browser.get(file.as_uri())
        assert not browser.execute_script("return window.taken"), file
        assert not browser.find_elements("css selector", _MARKUP), file
    tables = [file.read_text() for file in tmp_path.glob("*.csv")]
    with serving(hostile.parents[1]) as server:
        page = Page(browser, server.address)
        page.open("answer")
        page.find("#answer h2")
        page.open("history")
        page.press("#sweeps input")
        wait_for(lambda: "taken=1" in page.text("#trials"))
        page.press("#trials input")
        page.press("#compare")
        page.find("#comparison tbody")
        where = {"behavior": "allow", "downloadPath": str(tmp_path / "page")}
        browser.execute_cdp_cmd("Page.setDownloadBehavior", where)
        page.press("#csv")
        wait_for((tmp_path / "page" / "trials.csv").exists)
        tables.append((tmp_path / "page" / "trials.csv").read_text())
        for view in ("answer", "live", "history"):
            browser.execute_script(f"location.hash = '{view}'")
            assert not browser.execute_script("return window.taken")
            assert not browser.find_elements("css selector", _MARKUP)
    cells = [cell for text in tables for row in csv.reader(io.StringIO(text)) for cell in row]
    assert any("calc" in cell for cell in cells)
    assert not [cell for cell in cells if is_formula(cell)]


def test_the_token_lets_a_browser_in_once(browser: Any, tmp_path: Path):
    with serving(tmp_path) as served:
        page = Page(browser, served.address)
        browser.get(served.address)
        assert "Open the address that edgebench serve printed" in page.words("#no-token")
        page.open("new")
        page.find("#new h2")
        assert browser.current_url == f"{served.address}/#new"
        browser.get(f"{served.address}/")
        wait_for(lambda: page.text("#status") == "Connected.")
        browser.execute_script("sessionStorage.setItem('token', 'old')")
        served.live.close()
        assert "After a restart the server has a new token" in page.words("#no-token")
        browser.get(f"{served.address}/#token={TOKEN}")
        wait_for(lambda: page.text("#status") == "Connected.")
        page.find("#answer h2")
        assert page.faults()
