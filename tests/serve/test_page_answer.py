"""The page as it opens, in a real browser: the answer, its what-if, and who can use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from browsing import Page
from made_sweep import Shape, make
from serving import Served, serving, wait_for

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
