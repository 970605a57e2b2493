"""The wheel, as its users get it: built once, installed outside the checkout, used in a folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from light import ROOT, copy_source, install_lightly

from edgebench.cli.verbs import VERBS

pytestmark = pytest.mark.process
_GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]


def commit_all(folder: Path) -> str:
    """A repository of the folder's files with one commit; its name."""
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"]):
        subprocess.run([*_GIT, *words], cwd=folder, check=True, capture_output=True)
    words = ["git", "rev-parse", "HEAD"]
    return subprocess.run(
        words, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def build(source: Path, folder: Path) -> Path:
    """The wheel of that source."""
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, str(source)], check=True)
    (wheel,) = folder.glob("edgebench-*.whl")
    return wheel


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A wheel of this checkout's files, tagged 9.8.7; and its commit."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_source(folder / "source")
    (source / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    commit = commit_all(source)
    subprocess.run(["git", "tag", "9.8.7"], cwd=source, check=True)
    return build(source, folder), commit


@pytest.fixture(scope="session")
def base(made: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base install of it; its Python."""
    return install_lightly(tmp_path_factory.mktemp("base"), (), made[0])


def answer(python: Path, folder: Path, *words: str, code: int = 0) -> str:
    """What a call of it prints, in that folder, which must end with this exit code."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    env["PATH"] = f"{python.parent}:{env['PATH']}"
    done = subprocess.run(
        [str(python.parent / "edgebench"), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_its_version_is_the_tags(base: Path, tmp_path: Path):
    assert answer(base, tmp_path, "--version") == "edgebench, version 9.8.7\n"


def test_its_manual_page_is_where_man_looks(base: Path):
    page = (base.parents[1] / "share" / "man" / "man1" / "edgebench.1").read_text()
    assert '"edgebench 9.8.7"' in page
    assert set(re.findall(r"^\.TP\n\.B ([a-z]+)$", page, re.M)) == set(VERBS)


def test_a_source_without_git_has_a_version(tmp_path: Path):
    words = [sys.executable, "-m", "hatchling", "metadata", "version"]
    source = copy_source(tmp_path / "source")
    done = subprocess.run(words, cwd=source, check=True, capture_output=True, text=True)
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.promise(
    "What is installed needs no checkout: its scenarios, pages and commands are there."
)
def test_it_runs_what_it_ships(base: Path, tmp_path: Path):
    told = json.loads(
        answer(base, tmp_path, "run", "quickstart", "--dry-run", "--json").split("\n")[0]
    )
    assert told["points"]
    assert "conv" in answer(base, tmp_path, "run", "lowpower/conv", "--dry-run")


@pytest.mark.promise(
    "What is installed needs no checkout: its scenarios, pages and commands are there."
)
def test_the_pages_that_it_names_are_there(base: Path, tmp_path: Path):
    answer(base, tmp_path, "init", "resnet18")
    code = "from edgebench.cli.output import print_message; print_message('see docs/boards.md')"
    words = [str(base), "-I", "-c", code]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    pages = re.findall(r"\S+\.md", (tmp_path / "resnet18.toml").read_text() + done.stderr)
    assert len(pages) == 2
    assert [one for one in pages if not Path(one).is_file()] == []
    answer(base, tmp_path, "run", "resnet18.toml", "--dry-run")


@pytest.mark.promise(
    "What is installed needs no checkout: its scenarios, pages and commands are there."
)
@pytest.mark.exclusive
@pytest.mark.own_cgroup
def test_it_measures_a_program(base: Path, made: tuple[Path, str], tmp_path: Path):
    other = tmp_path / "theirs"
    other.mkdir()
    (other / "file").write_text("one")
    assert commit_all(other) != made[1]
    assert "limits enforced" in answer(base, other, "doctor")
    assert "needs" in answer(base, other, "minimum", "--confirm", "0", "--", "true")
    (environment,) = other.glob("results/*/*/environment.json")
    kept = json.loads(environment.read_text())
    assert kept["edgebench"] == "9.8.7"
    assert kept["git"] == {"commit": made[1], "changed": False}
