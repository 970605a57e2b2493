"""What the dashboard's tests need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_sweep import Shape, make
from serving import Served, serving


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "results") as server:
        yield server


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("empty")) as server:
        yield server


@pytest.fixture(scope="session")
def with_sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("results")
    make(root, Shape(repeats=2, networks={"alexnet": 8, "lenet": 4}))
    with serving(root) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        pytest.skip("needs a browser (apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=programs[1])
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_window_size(1280, 1100)
    try:
        yield driver
    finally:
        driver.quit()
