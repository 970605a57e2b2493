"""`export --format markdown` and `--format badge`: what a README shows of a sweep."""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

QUICKSTART = Path("results/vm-2core-24g/20261121T103950Z-quickstart-0491e2")


def export(*words: str) -> subprocess.CompletedProcess[str]:
    """The verb, as typed."""
    command = [sys.executable, "-m", "edgebench", "export", str(QUICKSTART), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_a_card_has_a_sentence_and_a_table_for_each_workload():
    """Three networks at five limits: every row has the columns of its head; the need is in both."""
    text = export("--format", "markdown").stdout
    assert text.count("| memory limit |") == 3
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 3 * (2 + 5)
    assert {line.count("|") for line in rows} == {7}
    assert text.startswith("alexnet needs 462.7 MiB")
    assert "| none | 3 of 3 | 462.7 MiB |" in text
    assert "mobilenet\\_v2" in text


@pytest.mark.process
def test_a_badge_is_of_one_workload(tmp_path: Path):
    """Of several one must be named; the file's suffix chooses the format; it is well-formed."""
    refused = export("--format", "badge")
    assert refused.returncode == 2
    assert "--workload alexnet or resnet18 or mobilenet_v2" in refused.stderr
    file = tmp_path / "badge.svg"
    assert export("--workload", "alexnet", "-o", str(file)).returncode == 0
    root = ElementTree.fromstring(file.read_text())
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["memory", "runs in 463 MiB; takes 26× as long in 185 MiB"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--format", "badge", "--frame", "trials"], "badge has no frames"),
        (["--format", "csv", "--workload", "alexnet"], "csv is of all workloads"),
        (["--format", "markdown", "--workload", "vgg"], "no workload 'vgg'"),
    ],
)
def test_what_does_not_go_together_is_said(words: list[str], says: str):
    """Flags of another format, and a workload that the sweep has not."""
    done = export(*words)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_reckoned_widths_are_those_of_the_font(tmp_path: Path):
    """The text fits its half of the badge in a browser, with a margin on both sides."""
    from selenium import webdriver

    file = tmp_path / "badge.svg"
    export("--workload", "alexnet", "-o", str(file))
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox"):
        options.add_argument(word)
    with webdriver.Chrome(options=options) as browser:
        browser.get(file.as_uri())
        boxes = browser.execute_script(
            "return [...document.querySelectorAll('text, g rect')].map(e => e.getBBox())"
            ".map(b => [b.x, b.x + b.width])"
        )
    (left, right), texts = boxes[-4:-2] if len(boxes) > 4 else boxes[:2], boxes[-2:]
    for (start, end), (first, last) in zip((left, right), texts, strict=True):
        assert start + 3 < first < last < end - 3
