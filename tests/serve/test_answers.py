"""What the page opens on: the newest sweep's answer, made once and without large libraries."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from made_sweep import Shape, make
from serving import Served, serving

from edgebench.serve.app import STATIC, HelperProcess
from edgebench.serve.helper_process import sweep_answer


@pytest.mark.process
def test_the_newest_sweep_is_answered_in_the_reports_tables(with_sweep: Served):
    found = with_sweep.get("/api/answer").data
    assert found["name"] == found["sweeps"][0]
    assert [one["brief"] for one in found["workloads"]] == ["alexnet", "lenet"]
    first = found["workloads"][0]
    assert first["tiles"]["needs"] == "200 MiB"
    assert first["table"]["columns"][:2] == ["limit", "ok"]
    assert first["table"]["rows"][0][0] == "none"
    limits = [point["limit_bytes"] for point in first["points"]]
    assert limits[0] is None
    assert limits[1:] == sorted(limits[1:], reverse=True)
    low, median, high = first["points"][-1]["slowdowns"]["total"]
    assert 1 < low <= median <= high


@pytest.mark.process
def test_it_needs_no_large_library(tmp_path: Path):
    path = make(tmp_path, Shape(repeats=1, with_files=False))
    code = (
        "import sys, pathlib; from edgebench.serve.helper_process import sweep_answer;"
        "sweep_answer(pathlib.Path(sys.argv[1]));"
        "print(sorted({'numpy', 'pandas', 'scipy', 'torch', 'pydantic'} & set(sys.modules)))"
    )
    words = [sys.executable, "-c", code, str(path)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.process
def test_a_newer_sweep_that_cannot_be_read_hides_no_older_one(tmp_path: Path):
    whole = make(tmp_path, Shape(repeats=1, with_files=False))
    newer = whole.with_name("20990101T000000Z-newer-000000")
    newer.mkdir()
    (newer / "trials.jsonl").write_text(json.dumps({"schema": 99}) + "\n")
    (newer / "resolved.json").write_text('{"schema": 99}')
    with serving(tmp_path) as served:
        found = served.get("/api/answer").data
        assert found["name"] == f"{whole.parent.name}/{whole.name}"
        assert len(found["sweeps"]) == 2
        asked = served.get(f"/api/answer?sweep={quote(found['sweeps'][0])}")
        assert asked.status == 422
        assert "schema 99" in asked.data["error"]["what"]


def test_an_answer_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = make(tmp_path, Shape(repeats=1, with_files=False))
    asked: list[str] = []

    async def counted(self: HelperProcess, about: str, **details: Any) -> bytes:
        asked.append(about)
        made = sweep_answer(Path(details["sweep"])) if about == "answer" else {}
        return json.dumps(made).encode()

    monkeypatch.setattr(HelperProcess, "ask", counted)
    with serving(tmp_path) as served:
        before = served.get("/api/answer").data
        assert served.get("/api/answer").data == before
        assert asked.count("answer") == 1
        lines = (path / "trials.jsonl").read_text().splitlines(keepends=True)
        (path / "trials.jsonl").write_text("".join(lines[:-1]))
        assert served.get("/api/answer").data["done"] == before["done"] - 1
        assert asked.count("answer") == 2


@pytest.mark.process
def test_every_module_of_the_page_is_asked_for_at_once(served: Served):
    """Modules that import each other would else arrive one after the other, and the paint late."""
    page = served.get("/").body.decode()
    asked = set(re.findall(r'(?:modulepreload" href|script src)="js/([a-z_]+\.js)"', page))
    assert asked == {path.name for path in (STATIC / "js").glob("*.js")}
