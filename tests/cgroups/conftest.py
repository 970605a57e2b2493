"""A real parent cgroup and cgroups in it; skips where none can be created."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tool_fakes import kernel as kernel
from tool_fakes import tools as tools

from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup, find_parent
from edgebench.errors import CgroupError

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def ownership(state: Path) -> Iterator[Ownership]:
    with Ownership(state) as ownership:
        yield ownership


@pytest.fixture
def parent(ownership: Ownership) -> ParentCgroup:
    try:
        return find_parent(ownership)
    except CgroupError as error:
        pytest.skip(f"no cgroup can be created: {error.what}")


@pytest.fixture
def cgroup(parent: ParentCgroup) -> Iterator[Cgroup]:
    made = parent.create(f"{os.getpid()}-test")
    yield made
    made.remove()


@pytest.fixture
def run(cgroup: Cgroup) -> Run:
    def run_command(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
        words = join_command(cgroup, command, options.get("identity"), options.get("cores"))
        return subprocess.run(
            words, capture_output=True, text=True, check=False, env=options.get("env")
        )

    return run_command


@pytest.fixture
def python(run: Run) -> Run:
    def run_python(code: str, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        return run(sys.executable, "-I", "-S", "-c", code, *words, **options)

    return run_python
