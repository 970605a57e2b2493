"""Work B's whole use by somebody who only ever uses the page: hyper-parameters in, loss out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browsing import Page
from serving import serving, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.own_cgroup, pytest.mark.long]


@pytest.mark.timeout(1200)
def test_train_watch_and_compare_with_an_earlier_training(browser: Any, tmp_path: Path):
    """The loss is seen while it trains, also after a reload; then two trainings lie together."""
    with serving(tmp_path / "results") as served:
        page = Page(browser, served.address)
        page.open("new")
        page.press("[id='field-workload.kind'] option[value='training']")
        page.choose("workload.network", "mlp")
        page.fill_in("workload.learning_rate", "0.1, 0.01")
        page.fill_in("workload.steps", "3000")
        page.fill_in("workload.threads", "1")
        page.fill_in("limits.memory", "max")
        page.fill_in("scenario.repeats", "1")
        page.shoot("training-form")
        page.press("button.main")
        page.find("#trial-metrics canvas")
        page.open()
        page.find("#trial-metrics canvas")
        assert "mlp" in page.text("#trial-words")
        page.shoot("training-live")
        wait_for(lambda: "complete" in page.text("#sweep-words"), 900)
        page.press("nav a[href='#history']")
        page.press("#sweeps input")
        page.press("#trials button[data-column='learning_rate']")
        page.find("#trials input")
        for box in page.all("#trials input"):
            box.click()
        page.press("#compare")
        wait_for(lambda: "2 trials drawn from" in page.text("#status"))
        titles = [title.text for title in page.all("#comparison-charts figcaption")]
        assert "loss" in titles
        said = page.all("#comparison-charts [role='img']")[titles.index("loss")]
        ends = re.findall(r"([0-9.e-]+) at the end", said.get_attribute("aria-label"))
        assert len(ends) == 2
        page.driver.execute_script("document.getElementById('comparison-card').scrollIntoView()")
        page.shoot("training-compare")
        assert page.faults() == []
