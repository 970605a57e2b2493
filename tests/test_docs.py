"""The docs against the program: what is documented exists, and what exists is documented."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from terminal import Terminal

import edgebench
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


def params_of(command: click.Command) -> list[click.Parameter]:
    """The parameters of a command, and of all its own commands."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return [*command.params, *(param for one in inner for param in params_of(one))]


def flags_of(verb: str) -> set[str]:
    """All long flags of a verb, with `--help`."""
    options = [one for one in params_of(command_of(verb)) if isinstance(one, click.Option)]
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
    """docs/verbs/ has a page for the verb, and the index links to it."""
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
    for param in params_of(command):
        if isinstance(param, click.Option):
            assert param.help, f"{verb} {param.opts} has no help"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_commands_exist(page: Path):
    """What a page tells to type names a verb, flags, scripts and scenarios that are there."""
    for words in console_lines(page):
        programs = [Path(word).name for word in words]
        if programs[0] in ("edgebench", "sudo", "systemd-run"):
            check_edgebench(words[programs.index("edgebench") + 1 :])
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


def test_the_glossary_has_the_packages_words():
    """Each word of the package's docstring has an entry in the glossary."""
    assert edgebench.__doc__
    words = re.findall(r"^([a-z]+)$", edgebench.__doc__, re.MULTILINE)
    entries = re.findall(r"^### (.+)$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert len(words) > 10
    assert set(words) <= set(entries)


def test_the_site_links_a_words_first_use(tmp_path: Path):
    """On the built site the first use of a word, and no other, leads to its entry."""
    (tmp_path / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text())
    shutil.copytree(ROOT / "docs" / "_ext", tmp_path / "_ext")
    (tmp_path / "glossary.md").write_text("# Glossary\n\n## Words\n\n### limit\nThe most memory.\n")
    (tmp_path / "index.md").write_text(
        "# A limit\n\n`limit` is code. Limits bite; a limit kills; [a limit](glossary.md).\n\n"
        "```{toctree}\nglossary\n```\n"
    )
    out = tmp_path / "site"
    words = [sys.executable, "-m", "sphinx", "-q", "-W", str(tmp_path), str(out)]
    subprocess.run(words, check=True, capture_output=True)
    html = (out / "index.html").read_text()
    assert re.findall(r'<a[^>]*title="limit"[^>]*>([^<]+)<', html) == ["Limits"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    """Every relative link and picture of a page is a file of the project."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path):
    """A file of the package, the tests or the docs that a page names is there."""
    if page.name.startswith("0051"):  # replaced: it speaks of what was
        return
    named = re.findall(
        r"`((?:edgebench|tests|docs|benchmarks|scripts)/[\w./-]*)`", page.read_text()
    )
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_readmes_first_answer_was_printed():
    """The command and the sentence on README's first screen are those of the recording below it."""
    text = (ROOT / "README.md").read_text()
    command, shown = re.findall(r"\$ (edgebench minimum [^\n]+)\n(.+?)```", text, re.DOTALL)[0]
    recording = (ROOT / "docs" / "figures" / "minimum.svg").read_text()
    recorded = re.findall(r"<text[^>]*>(.*?)</text>", recording, re.DOTALL)
    lines = [" ".join(re.sub(r"<[^>]+>", " ", line).split()) for line in recorded]
    assert f"$ {command}" in lines
    for line in shown.splitlines():
        assert line.strip() in lines


@pytest.mark.slow
def test_the_readmes_answer_is_real(tmp_path: Path):
    """What README shows of `edgebench report` is what a terminal shows of the kept quick start."""
    text = (ROOT / "README.md").read_text()
    ((sweep, shown),) = re.findall(r"\$ edgebench report (results/\S+)\n(.+?)```", text, re.DOTALL)
    terminal = Terminal(["report", str(ROOT / sweep), "-o", str(tmp_path / "r.html")], 80)
    assert terminal.close() == 0, terminal.text
    printed = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).replace("\r\n", "\n")
    assert printed.startswith(shown)


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
