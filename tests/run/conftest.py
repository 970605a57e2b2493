"""A machine made of plain files, for boards that are not at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PlainMachine = Callable[[dict[str, str]], Path]


@pytest.fixture
def plain_machine(tmp_path: Path) -> PlainMachine:
    """Writes the given files below a folder and returns it; call again to change some."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write
