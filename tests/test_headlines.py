"""Every measured number of README and docs is what the files in this repository say."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def headlines() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("headlines")
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture
def copied(headlines: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(headlines, "ROOT", tmp_path)
    return Path(shutil.copy(ROOT / "README.md", tmp_path))


def looked_at(headlines: ModuleType, page: str, *, write: bool = False) -> list[str]:
    makers = headlines.claims_by_page().get(page, [])
    return list(headlines.look(page, makers, write, not write))


@pytest.mark.process
@pytest.mark.promise(
    "Each measured number of README and docs is computed from files of this repository; a "
    "number without such a file fails the test."
)
def test_every_number_is_what_the_files_say():
    words = [sys.executable, "benchmarks/headlines.py", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.promise(
    "Each measured number of README and docs is computed from files of this repository; a "
    "number without such a file fails the test."
)
def test_a_number_without_a_claim_is_found(headlines: ModuleType, copied: Path):
    copied.write_text(
        copied.read_text()
        + "\nA round takes 7.3 ms.\n\n| a | b |\n| --- | --- |\n| x | 41 % |\n"
        + "\n`x = 5`, on Python 3.12.\n\n```\n99 ms\n```\n"
    )
    faults = looked_at(headlines, "README.md")
    assert [fault for fault in faults if "holds 7.3:" in fault]
    assert [fault for fault in faults if "holds 41:" in fault]
    assert len(faults) == 2
