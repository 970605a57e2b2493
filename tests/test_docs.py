"""The docs against the program: what is documented exists, and what exists is documented."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from edgebench.answers.trials import WarningKind
from edgebench.cli.verbs import VERBS, load_verb

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
PAGES += [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "results/README.md")]
#: More words between full stops, colons and semicolons are read twice.
LONGEST = 32
#: Parts of sentences that may be longer: how they begin.
LONGER = ("Torres, Barrios and Denneulin",)
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


def flags_of(verb: str) -> set[str]:
    options = [one for one in load_verb(verb).params if isinstance(one, click.Option)]
    names = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    return {name for name in names if name.startswith("--")} | {"--help"}


def console_lines(page: Path) -> list[list[str]]:
    lines = re.findall(r"^\$ (.+?)(?:\s+#.*)?$", page.read_text(), re.MULTILINE)
    return [line.split() for line in lines]


def tracked_files() -> list[Path]:
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


def verb_faults(verb: str) -> Iterator[str]:
    """What is missing on a verb's page or in its help, or stands there and doesn't exist."""
    page = ROOT / "docs" / "verbs" / f"{verb}.md"
    text = page.read_text() if page.is_file() else ""
    if f"verbs/{verb}.md" not in (ROOT / "docs" / "index.md").read_text():
        yield "docs/index.md has no link to its page"
    if not load_verb(verb).help:
        yield "has no docstring"
    for param in load_verb(verb).params:
        if isinstance(param, click.Option) and not param.help:
            yield f"{param.opts} has no help"
    # scripts/reference.py writes the table; tests/results/test_results_docs.py checks it.
    if f"<!-- flags: {verb} -->" not in text:
        yield "has no table of its flags"


def page_faults(page: Path) -> Iterator[str]:
    text = page.read_text()
    for words in console_lines(page):
        programs = [Path(word).name for word in words]
        if programs[0] in ("edgebench", "sudo", "systemd-run"):
            yield from command_faults(words[programs.index("edgebench") + 1 :])
        yield from (word for word in words if word.startswith("scripts/") and gone(word))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not (page.parent / target).exists():
            yield target
    named = r"`((?:edgebench|tests|docs|benchmarks|scripts)/[\w./-]*)`"
    yield from filter(gone, re.findall(named, text))


def gone(name: str) -> bool:
    return not (ROOT / name).exists()


def command_faults(words: list[str]) -> Iterator[str]:
    if words[0].startswith("-"):
        return
    if words[0] not in VERBS:
        yield f"no verb {words[0]}"
        return
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    flags = {word for word in own if word.startswith("--")}
    yield from flags - flags_of(words[0])
    yield from (word for word in own if word.startswith("scenarios/") and gone(word))


def test_every_verb_and_flag_is_explained():
    assert [f"{verb}: {fault}" for verb in VERBS for fault in verb_faults(verb)] == []


def test_what_pages_name_exists():
    faults = [f"{page.relative_to(ROOT)}: {fault}" for page in PAGES for fault in page_faults(page)]
    assert faults == []


@pytest.mark.process
def test_nothing_ties_the_project_to_one_machine():
    pattern = re.compile("|".join(FORBIDDEN))
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked_files()
        if (match := pattern.search(path.read_text(errors="replace")))
    }
    assert not found


def test_each_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[\[<>=;~! ]", line)[0].lower().replace("_", "-") for line in wanted}
    pins = (ROOT / "constraints.txt").read_text()
    pinned = {line.split("==")[0] for line in pins.splitlines() if "==" in line}
    assert names - {"edgebench"} <= pinned


def sentence_parts(text: str) -> Iterator[str]:
    """What stands between full stops, colons and semicolons; no tables, code or addresses."""
    for left_out in (r"^```.*?^```$", r"<!--.*?-->", r"^(?:\||#|!\[)[^\n]*"):
        text = re.sub(left_out, "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`", text))
    for block in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )", text):
        yield from re.split(r"[.:;!?·]\W*\s+", " ".join(block.split()))


def test_pages_and_messages_are_read_once():
    """No page, and no warning of the program's, has a sentence or clause that is too long."""
    texts = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
    texts |= {kind.name: kind.value for kind in WarningKind}
    assert not [
        f"{name}: {part}"
        for name, text in texts.items()
        for part in sentence_parts(text)
        if len(part.split()) > LONGEST and not part.startswith(LONGER)
    ]
