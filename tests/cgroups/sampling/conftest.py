"""A real cgroup to sample, and a made-up one of plain files for what this kernel doesn't have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.interface import Cgroup, HotFiles
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent

MadeUp = Callable[..., HotFiles]


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Cgroup]:
    """A fresh cgroup below our own."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with Ownership(state) as ownership:
        made = find_parent(ownership).create(f"{os.getpid()}-sampling")
        try:
            yield made
        finally:
            made.remove()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the sampler's raw files go."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def made_up(tmp_path: Path) -> MadeUp:
    """Write files as a kernel would show them; the hot files with those that were written."""

    def write(usage_name: str, files: dict[str, str], **fields: object) -> HotFiles:
        place = tmp_path / "cri:made-up"
        place.mkdir()
        for name, text in files.items():
            (place / name).write_text(text)
        paths = {
            key: place / value if isinstance(value, str) else value for key, value in fields.items()
        }
        return HotFiles(usage=place / usage_name, **paths)  # type: ignore[arg-type]

    return write
