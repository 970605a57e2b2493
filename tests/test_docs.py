"""The docs against the program: what is documented exists, and what exists is documented."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from edgebench.cli import VERBS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
PAGES += [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "results/README.md")]
#: What would tie the project to one machine or one registry; written so that this file is clean.
FORBIDDEN = [
    "/wo" + "rk/",
    "/ro" + "ot/",
    "/home/" + "[a-z]",
    r"py" + r"pi\.org",
    r"python" + r"hosted\.org",
    r"download\." + r"py" + r"torch\.org",
    r"deb\." + r"debian\.org",
    r"(archive|ports)\." + r"ubuntu\.com",
]


def command_of(verb: str) -> click.Command:
    """A verb's click command."""
    command = getattr(importlib.import_module(f"edgebench.cli.{verb}"), verb)
    assert isinstance(command, click.Command)
    return command


def flags_of(verb: str) -> set[str]:
    """All long flags of a verb, with `--help`."""
    options = [param for param in command_of(verb).params if isinstance(param, click.Option)]
    return {name for option in options for name in (*option.opts, *option.secondary_opts)} | {
        "--help"
    }


def console_lines(page: Path) -> list[list[str]]:
    """The words of each `$ …` line in a page's console blocks."""
    lines = re.findall(r"^\$ (.+?)(?:\s+#.*)?$", page.read_text(), re.MULTILINE)
    return [line.split() for line in lines]


def tracked_files() -> list[Path]:
    """Every file that belongs to the project and is text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = {".md", ".py", ".toml", ".txt", ".yaml", ".json", ""}
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and path.suffix in kinds]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_page(verb: str):
    """docs/verbs/ has a page for the verb, and the index leads to it."""
    assert (ROOT / "docs" / "verbs" / f"{verb}.md").is_file()
    assert f"verbs/{verb}.md" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_is_on_its_verbs_page(verb: str):
    """A flag that the page doesn't name can't be found; one it names must exist."""
    text = (ROOT / "docs" / "verbs" / f"{verb}.md").read_text()
    tabled = set(re.findall(r"^\| `(--[a-z-]+)", text, re.MULTILINE))
    long = {flag for flag in flags_of(verb) if flag.startswith("--")}
    assert not {flag for flag in long if f"`{flag}" not in text}
    assert tabled <= long


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_flag_explains_itself(verb: str):
    """Each verb has a docstring and each of its flags a help text."""
    command = command_of(verb)
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{verb} {param.opts} has no help"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_commands_exist(page: Path):
    """What a page tells to type names a verb, flags, scripts and scenarios that are there."""
    for words in console_lines(page):
        if words[0] in ("edgebench", "sudo", "systemd-run"):
            check_edgebench(words[words.index("edgebench") + 1 :])
        for word in words:
            if word.startswith("scripts/"):
                assert (ROOT / word).is_file(), word


def check_edgebench(words: list[str]) -> None:
    """Hold one shown command against the program."""
    if words[0].startswith("-"):
        return
    assert words[0] in VERBS, words
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    flags = {word for word in own if word.startswith("--")}
    assert flags <= flags_of(words[0]), words
    for word in own:
        if word.startswith("scenarios/"):
            assert (ROOT / word).is_file(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    """Every relative link and picture of a page is a file of the project."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_shown_scenario_is_valid(tmp_path: Path):
    """The scenario that docs/verbs/check.md shows passes `edgebench check`'s own reader."""
    from edgebench.scenario.scenario import load_scenario

    text = (ROOT / "docs" / "verbs" / "check.md").read_text()
    (shown,) = re.findall(r"```toml\n(.+?)```", text, re.DOTALL)
    file = tmp_path / "shown.toml"
    file.write_text(shown)
    assert load_scenario(file).name == "my-board"


def test_nothing_ties_the_project_to_one_machine():
    """No file names a path of the machine it was written on, or a registry's host."""
    pattern = re.compile("|".join(FORBIDDEN))
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked_files()
        if (match := pattern.search(path.read_text(errors="replace")))
    }
    assert not found


def test_each_dependency_is_pinned():
    """Whatever pyproject.toml asks for stands in constraints.txt with an exact version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[\[<>=;~! ]", line)[0].lower().replace("_", "-") for line in wanted}
    pins = (ROOT / "constraints.txt").read_text()
    pinned = {line.split("==")[0] for line in pins.splitlines() if "==" in line}
    assert names - {"edgebench"} <= pinned
