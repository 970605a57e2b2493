"""The page in a real browser: Debian's Chromium, driven through chromedriver."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_sweep import Shape, make
from markdown_it import MarkdownIt
from serving import TOKEN, Served, serving, wait_for

from edgebench.cli import cli


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


_UNFOLD = "for (const one of document.querySelectorAll('#form details')) one.open = true"


class Page:
    """What a person does on the page."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(self, view: str = "live") -> None:
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}/#token={TOKEN}/{view}")

    def find(self, css: str, patience_s: float = 240.0) -> Any:
        return self._told(lambda: self._shown(css), patience_s)

    def press(self, css: str, which: int = 0) -> None:
        def pressed() -> bool:
            if found := self._shown(css, which):
                found.click()
            return bool(found)

        self._told(pressed)

    def words(self, css: str) -> str:
        return str(self._told(lambda: (found := self._shown(css)) and found.text))

    def attribute(self, css: str, name: str) -> str:
        found = self._told(lambda: (found := self._shown(css)) and found.get_attribute(name))
        return str(found)

    def _shown(self, css: str, which: int = 0) -> Any:
        return next((e for e in self.all(css)[which:] if e.is_displayed()), None)

    def _told(self, question: Callable[[], Any], patience_s: float = 240.0) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException

        def look() -> Any:
            with contextlib.suppress(StaleElementReferenceException):
                return question()
            return None

        return wait_for(look, patience_s)

    def all(self, css: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", css)
        return found

    def text(self, css: str) -> str:
        return str(
            self.driver.execute_script(f"return document.querySelector({css!r}).textContent")
        )

    def fill_in(self, key: str, value: str) -> None:
        self.driver.execute_script(_UNFOLD)
        field = self.find(f"[id='field-{key}']")
        field.clear()
        field.send_keys(value)

    def choose(self, key: str, *names: str) -> None:
        field = self.find(f"[id='field-{key}']")
        field.clear()
        # Backspace in an empty field removes what was chosen last.
        field.send_keys(*["\ue003"] * 8)
        for name in names:
            field.send_keys(name)
            self.find(f"[id='field-{key}-list'] [data-value='{name}'].active")
            field.send_keys("\ue007")

    def faults(self) -> list[str]:
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        return [words for words in said if self.address in words]


pytestmark = pytest.mark.browser

#: What no reader should meet without words: a point's name, a sweep's folder.
JARGON = re.compile(r"\bp\d{3}\b|\b\d{8}T\d{6}Z")
VIEWS = ("answer", "live", "new", "history")
#: Faults of these kinds keep somebody from using the page.
GRAVE = ("serious", "critical")
_AXE = "axe.run(document, arguments[0]).then(arguments[arguments.length - 1])"
#: What another theme may change.
_COLOURS = {"runOnly": ["color-contrast"]}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("results")
    make(root, Shape(repeats=2, networks={"alexnet": 8, "lenet": 4}, killed_below=60))
    with serving(root) as server:
        yield server


def test_it_opens_on_the_answer(browser: Any, answered: Served):
    page = Page(browser, answered.address)
    page.open("")
    page.find("#hero-tiles dd")
    assert "200 MiB" in page.text("#hero-tiles")
    assert "none" in page.text("#questions")
    assert page.find("#curve canvas")
    assert "killed at 50 MiB" in page.attribute("#curve [role='img']", "aria-label")
    wait_for(lambda: "line: predicted" in page.text("#curve"))
    assert page.faults() == []


def test_the_slider_tells_of_measured_and_predicted_limits(browser: Any, answered: Served):
    page = Page(browser, answered.address)
    page.open("answer")
    wait_for(lambda: "line: predicted" in page.text("#curve"))
    slider = page.find("#limit")
    slider.send_keys("\ue011")
    told = set()
    for _ in range(int(slider.get_attribute("max")) + 1):
        told.add(page.text("#limit-words").partition(": ")[2].split(",")[0])
        slider.send_keys("\ue014")
    assert {"measured", "predicted"} <= told
    assert "of what it needs" in slider.get_attribute("aria-valuetext")


def test_no_sweep_at_all(browser: Any, tmp_path: Path):
    with serving(tmp_path / "results") as served:
        page = Page(browser, served.address)
        page.open("")
        page.find("#answer-empty .card")
        assert len(page.all("#answer-empty pre")) == 3
        assert all(one.text.startswith("edgebench ") for one in page.all("#answer-empty pre"))
        assert _grave(page, {}) == []
        assert page.faults() == []


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_grave(browser: Any, answered: Served, view: str):
    page = Page(browser, answered.address)
    for theme, options in (("light", {}), ("dark", _COLOURS)):
        page.open(view)
        page.driver.execute_script(f"localStorage.setItem('theme', '{theme}')")
        page.open(view)
        ready = {"answer": "#curve canvas", "live": "#system-figures dd", "new": "button.main"}
        page.find(ready.get(view, "#sweeps input"))
        if view == "history":
            page.press("#sweeps input")
            page.press("#trials input")
            page.press("#compare")
            page.find("#comparison td")
        elif view == "new":
            page.press("[id='field-workload.network']")
            page.find("[id='field-workload.network-list']")
        assert _grave(page, options) == []
    assert JARGON.findall(page.words("body")) == []


def _grave(page: Page, options: dict[str, Any]) -> list[tuple[str, list[str]]]:
    page.driver.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text())
    found = page.driver.execute_async_script(_AXE, options)["violations"]
    return [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found
        if one["impact"] in GRAVE
    ]
