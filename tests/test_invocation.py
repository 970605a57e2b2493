"""What is printed to be typed works where edgebench isn't on PATH: uvx, pipx run, a full path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_sweep import Shape, make

from edgebench import installation
from edgebench.cli.output import as_typed

#: uvx is `uv tool uvx`, which starts the program with its own environment first on PATH.
UV = """
import os, subprocess, sys
folder = {folder!r}
found = {{**os.environ, "UV": folder + "/uv", "PATH": folder + ":" + os.environ["PATH"]}}
sys.exit(subprocess.call([folder + "/edgebench", *sys.argv[5:]], env=found))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "edgebench"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nfrom edgebench.__main__ import main\nmain()\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def called(script: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", [str(script), "plot", "results"])
    for name in ("UV", "UV_RUN_RECURSION_DEPTH"):
        monkeypatch.delenv(name, raising=False)
    for cached in (installation.program, installation.uvx_words):
        monkeypatch.setattr(installation, cached.__name__, cached.__wrapped__)
    monkeypatch.setattr("edgebench.cli.output.program", installation.program)
    return script


@pytest.mark.process
def test_after_uvx_the_next_command_is_uvx(script: Path, tmp_path: Path):
    (tmp_path / "tool").write_text(UV.format(folder=str(script.parent)))
    sweep = make(tmp_path / "results", Shape(repeats=1))
    words = ["uv", "tool", "uvx", "--from", "my wheel.whl", "edgebench", "show", str(sweep)]
    done = subprocess.run(
        words, executable=sys.executable, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("next: "))
    assert "uvx --from 'my wheel.whl' edgebench report results/" in line


def test_what_uvx_measures_is_the_callers(called: Path, monkeypatch: pytest.MonkeyPatch):
    """Its environment is off PATH again, so that python3 is the one that the caller means."""
    given = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{called.parent}:{given}")
    installation.leave_tool_path()
    assert os.environ["PATH"] == f"{called.parent}:{given}"
    monkeypatch.setattr(installation, "uvx_words", lambda: ("uvx", "edgebench"))
    installation.leave_tool_path()
    assert os.environ["PATH"] == given


def test_an_extra_is_added_by_what_installed(
    called: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    about = tmp_path / "edgebench-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: edgebench\nVersion: 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert installation.install_command("plot").endswith(" -m pip install 'edgebench[plot]'")
    for url, how, words in (
        ("file:///a%20clone", '"dir_info": {"editable": true}', "-e '/a clone[plot]'"),
        ("file:///x/edgebench-1.whl", '"archive_info": {}', "'/x/edgebench-1.whl[plot]'"),
        ("https://h/r", '"vcs_info": {"vcs": "git"}', "'edgebench[plot] @ git+https://h/r'"),
    ):
        (about / "direct_url.json").write_text(f'{{"url": "{url}", {how}}}')
        assert installation.install_command("plot").endswith(f" -m pip install {words}")
    (about / "direct_url.json").unlink()
    (about / "INSTALLER").write_text("uv\n")
    told = f"uv pip install --python {sys.executable} 'edgebench[plot]'"
    assert installation.install_command("plot") == told
    monkeypatch.setattr(installation, "uvx_words", lambda: ("uvx", "--from", "x", "edgebench"))
    told = "uvx --from x --with 'edgebench[plot]' edgebench plot results"
    assert installation.install_command("plot") == told
    # It is a call already.
    assert as_typed(f"  remedy: {told}") == f"  remedy: {told}"


def test_a_path_that_was_typed_is_typed_again(called: Path, monkeypatch: pytest.MonkeyPatch):
    text = 'edgebench runs; type edgebench run x, or sudo "$(command -v edgebench)" …'
    typed = f"edgebench runs; type {called} run x, or sudo {called} plot results"
    assert as_typed(text) == typed
    monkeypatch.setenv("PATH", f"{called.parent}:{os.environ['PATH']}")
    assert as_typed(text) == text.replace("…", "plot results")


def test_a_remedy_repeats_the_call_and_root_needs_no_sudo(
    called: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "argv", [str(called), "minimum", "--", "sh", "-c", "a b"])
    text = "under sudo (or else):\n    sudo edgebench …\n    echo 1 | sudo tee f && sudo sync"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    again = f"{called} minimum -- sh -c 'a b'"
    assert as_typed(text) == text.replace("edgebench …", again)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    bare = f"under sudo (or else):\n    {again}\n    echo 1 | tee f && sync"
    assert as_typed(text) == bare
