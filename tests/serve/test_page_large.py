"""Large results in a real browser: the page goes on answering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import Page
from made_sweep import Shape, make
from sampled import write_samples
from serving import serving, wait_for

pytestmark = pytest.mark.browser

#: How many bytes of trials the page was sent.
SENT = """
return performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/trial?'))
  .reduce((sum, e) => sum + e.decodedBodySize, 0)
"""


def test_of_a_hundred_thousand_samples_little_is_sent(browser: Any, tmp_path: Path):
    """The server thins them out, and the page draws what it got."""
    sweep = make(tmp_path, Shape(repeats=1))
    write_samples(sweep / "samples" / "0001.npz", 100_000)
    with serving(tmp_path) as served:
        page = Page(browser, served.address)
        page.open("history")
        page.press("#sweeps input")
        page.press("#trials input")
        page.press("#compare")
        wait_for(lambda: "1 trial drawn from 100,000 samples" in page.text("#status"))
        assert 0 < page.driver.execute_script(SENT) < 200_000
        page.shoot("large")
        assert page.faults() == []


def test_a_trial_that_vanished_is_said(browser: Any, tmp_path: Path):
    """A sweep that was moved away while somebody looked at it: words, and the page goes on."""
    sweep = make(tmp_path, Shape(repeats=1))
    with serving(tmp_path) as served:
        page = Page(browser, served.address)
        page.open("history")
        page.press("#sweeps input")
        page.press("#trials input")
        sweep.rename(tmp_path / "elsewhere")
        page.press("#compare")
        wait_for(lambda: "no such sweep here" in page.text("#status"))
        page.press("nav a[href='#live']")
        page.find("#system-figures dd")
