"""``[tool.edgebench]`` of a project's ``pyproject.toml``: what verbs and marked tests take."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from edgebench.cli import cli
from edgebench.cli.options import apply_project_defaults
from edgebench.defaults import project_defaults
from edgebench.errors import UsageError
from edgebench.pytest_plugin.protocol import marked_limits

TABLE = '[tool.edgebench]\nresults = "measured"\nmemory = "300M"\nswap = "2G"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with such a table, in which edgebench is called."""
    (tmp_path / "pyproject.toml").write_text(TABLE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def taken(*words: str) -> dict[str, object]:
    """The settings of a verb that is called so; it doesn't run."""
    with click.Context(cli) as context:
        verb = cli.get_command(context, words[0])
        assert verb
        context.invoked_subcommand = words[0]
        apply_project_defaults(context)
        return verb.make_context(words[0], list(words[1:]), parent=context).params


def test_a_verb_takes_them(project: Path, capsys: pytest.CaptureFixture[str]):
    """Where nothing else was typed; limits are told, the folder shows itself."""
    own = taken("layers", "lenet")
    assert (own["memory"], own["swap"], own["results"]) == (("300M",), "2G", Path("measured"))
    assert capsys.readouterr().err.splitlines() == [
        "pyproject.toml says, where nothing else is given: memory 300M, swap 2G"
    ]
    assert taken("layers", "lenet", "--memory", "1G")["memory"] == ("1G",)
    capsys.readouterr()
    assert taken("run", "quickstart")["results"] == taken("show")["results"] == Path("measured")
    assert taken("predict", "lenet")["memory"] == ()
    assert capsys.readouterr().err == ""


def test_a_marked_test_takes_them(project: Path):
    """What its marker doesn't say."""
    defaults = project_defaults(project)
    asked = marked_limits(pytest.mark.edgebench().mark, defaults).asked.setting
    assert (asked.memory_bytes, asked.swap_bytes) == (300 << 20, 2 << 30)
    own = pytest.mark.edgebench("1G", swap="none").mark
    asked = marked_limits(own, defaults).asked.setting
    assert (asked.memory_bytes, asked.swap_kind) == (1 << 30, "none")


@pytest.mark.parametrize("text", [None, "", "[tool]\n", "[tool.other]\nedgebench = 1\n"])
def test_most_projects_have_none(tmp_path: Path, text: str | None):
    """No file, or one without the table."""
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert project_defaults(tmp_path) == {}


@pytest.mark.parametrize(
    ("line", "key", "remedy"),
    [
        ('memroy = "300M"', ".memroy", "did you mean 'memory'?"),
        ("memory = 300", ".memory", 'write it as memory = "300M"'),
        ('memory = "lots"', ".memory", '"300M"'),
        ('swap = "nones"', ".swap", "none"),
        ('storage = "fast"', ".storage", "edgebench boards"),
        ('results = "/etc"', ".results", "--results takes any other"),
        ('results = "../x"', ".results", "--results takes any other"),
    ],
)
def test_a_wrong_key_is_named(project: Path, line: str, key: str, remedy: str):
    """File, key and what to type instead, in one message."""
    (project / "pyproject.toml").write_text(f"[tool.edgebench]\n{line}\n")
    with pytest.raises(UsageError) as error:
        project_defaults(project)
    assert error.value.where == f"{project}/pyproject.toml, key tool.edgebench{key}"
    assert remedy in str(error.value.remedy)


@pytest.mark.parametrize("text", ["[tool.edgebench\n", "[tool]\nedgebench = 3\n"])
def test_what_is_no_table_is_refused(project: Path, text: str):
    """So is a file that is no TOML."""
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        project_defaults(project)
    assert error.value.remedy
