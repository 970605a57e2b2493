"""Reports of real-looking, hostile, torn and empty sweeps, as files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_sweep import Shape, make

from edgebench import load
from edgebench.cli.report import report
from edgebench.report.builder import (
    LARGEST_SVG,
    Picture,
    Report,
    as_html,
    as_markdown,
    escaped,
    make_report,
    picture_address,
)

HOSTILE = "<script>alert(1)</script>|`x`*b*[l](http://e) $\\nosuch{$\x1b[31m"
SMALL = Shape(networks={"lenet": 3}, limits=(None, 100, 50), repeats=2, rounds=1)
VOID = {"meta", "img", "br", "link", "hr", "input"}


class Page(HTMLParser):
    """The tags and the words of a page; fails on tags that don't match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def tell(*words: object) -> Result:
    return CliRunner().invoke(report, [str(word) for word in words])


@pytest.mark.process
def test_a_report_has_tables_and_figures_and_stands_alone(tmp_path: Path):
    folder = make(tmp_path, Shape({"alexnet": 3}, rounds=1, killed_below=60))
    result = tell(folder, "--markdown")
    assert result.exit_code == 0, result.output
    text, markdown = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    page = Page(text)
    assert len(text) < 5_000_000
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "form"}
    addresses = [a[k] for _, a in page.tags for k in ("src", "href") if k in a]
    assert all(str(address).startswith(("data:image/", "#")) for address in addresses)
    ids = {a["id"] for _, a in page.tags if "id" in a}
    assert {str(a["href"])[1:] for tag, a in page.tags if tag == "a"} <= ids
    words = " ".join(" ".join(page.words).split())
    for said in (words, markdown):
        assert "alexnet · needs 200 MiB · give" in said
    assert "Limits limit ok start slower peak none 3/3" in words
    assert "50 MiB 0/3 50 MiB killed" in words
    shown = [a["alt"] for tag, a in page.tags if tag == "img"]
    assert any("Slowdown of alexnet" in str(alt) for alt in shown)
    assert "| limit | ok | start |" in markdown
    figures = re.findall(r"\]\((figures/[^)]+)\)", markdown)
    assert figures
    assert all((folder / figure).is_file() for figure in figures)


def edit_records(folder: Path, edit: Callable[[dict[str, Any]], None], most: int = 99) -> None:
    trials = folder / "trials.jsonl"
    records = [json.loads(line) for line in trials.read_text().splitlines()[:most]]
    for record in records:
        edit(record)
    trials.write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "complete.json").unlink()


@pytest.mark.process
def test_hostile_names_stay_words(tmp_path: Path):
    shape = replace(SMALL, networks={HOSTILE: 3}, schedules=(HOSTILE,), killed_below=60)
    folder = make(tmp_path, shape)
    edit_records(
        folder,
        lambda record: record.update(
            reason=HOSTILE, doubts=[{"kind": HOSTILE, "names": [HOSTILE]}]
        ),
    )
    (folder / "scenario.toml").write_text(f"```\n{HOSTILE}\n````\n")
    told = make_report(load(folder))
    html, markdown = as_html(told), as_markdown(told, "figures")
    page = Page(html)
    assert "script" not in {tag for tag, _ in page.tags}
    assert "<script>alert(1)</script>" in "".join(page.words)
    outside, fenced, _ = re.split(r"^`{5}(?:toml)?$", markdown, flags=re.MULTILINE)
    assert "```\n<script>" in fenced
    assert "<script" not in re.sub(r"\\<", "", outside)
    assert "\x1b" not in markdown + html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mobilenet_v2", "mobilenet\\_v2"),
        ("3.8 s", "3.8 s"),
        ("12. of a list", "12\\. of a list"),
        ("- item", "\\- item"),
        ("a|b\nc", "a\\|b c"),
        ("<b>&amp;", "\\<b\\>\\&amp;"),
        ("\\", "\\\\"),
    ],
)
def test_markdown_is_escaped(text: str, expected: str):
    """Each character that Markdown would obey, and no other, gets a backslash."""
    assert escaped(text) == expected


@pytest.mark.process
@pytest.mark.parametrize("keep", [0, 1])
def test_a_sweep_with_hardly_a_trial_is_told(tmp_path: Path, keep: int):
    folder = make(tmp_path, SMALL)
    edit_records(folder, lambda record: None, keep)
    result = tell(folder)
    assert result.exit_code == 0, result.output
    words = " ".join(Page((folder / "report.html").read_text()).words)
    assert f"unfinished, {keep} of" in words


@pytest.mark.process
def test_a_damaged_sweep_is_told_with_its_damage(tmp_path: Path):
    folder = make(tmp_path, SMALL)
    with (folder / "trials.jsonl").open("a") as file:
        file.write('{"trial": "0010", "poi')
    (folder / "environment.json").write_text("{")
    for broken in [*folder.glob("samples/*"), *folder.glob("events/*")]:
        broken.write_bytes(b"no such thing")
    result = tell(folder)
    assert result.exit_code == 0, result.output
    words = " ".join(Page((folder / "report.html").read_text()).words)
    assert "trials.jsonl: the last line is torn" in words
    assert "environment.json is damaged" in words


def test_large_figures_are_embedded_as_pixels():
    small, large = (Picture("a", "a", b"<svg/>".ljust(LARGEST_SVG + n), b"png") for n in (0, 1))
    assert picture_address(small).startswith("data:image/svg+xml;base64,")
    assert picture_address(large) == "data:image/png;base64,cG5n"


def test_a_scenario_can_hold_fences():
    told = Report("t", [], None, [], [], [], [], "x = '''\n````\n", "f")
    assert "`````toml\nx = '''\n````\n`````" in as_markdown(told, "figures")
