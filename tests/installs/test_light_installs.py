"""Every verb in the base install and in each extra alone: it works, or says what to install."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from light import EXTRAS, ROOT, install_lightly
from made_sweep import Shape, make

from edgebench import installation
from edgebench.cli.verbs import VERBS

sys.path.append(str(ROOT / "tests" / "analysis"))

_SCENARIO = 'schema = 1\nname = "tiny"\nrepeats = 1\n[limits]\nmemory = ["max"]\n[workload]\n'
SCENARIOS = {
    "command": 'kind = "command"\ncommand = ["true"]\n',
    "inference": 'kind = "inference"\nnetwork = "lenet"\n',
    "digits": 'kind = "training"\nnetwork = "mlp"\ndata = "digits"\nsteps = 2\n',
}


@dataclass(frozen=True)
class Call:
    """A verb's words, in which the keys of ``places`` stand for folders, and what it needs.

    ``costly``: it takes many trials or fits; other tests prove that it works where all is there.
    """

    words: str
    needs: frozenset[str]
    codes: tuple[int, ...] = (0,)
    costly: bool = False

    @property
    def verb(self) -> str:
        return self.words.split()[0]


def call(words: str, *needs: str, **more: Any) -> Call:
    return Call(words, frozenset(needs), **more)


CALLS = [
    call("doctor", codes=(0, 5)),
    # 2: an earlier installation's file is there.
    call("init resnet18 --out OUT/resnet18.toml", codes=(0, 2)),
    call("boards"),
    call("run --dry-run SCENARIOS/command.toml"),
    call("run --dry-run SCENARIOS/inference.toml"),
    call("run SCENARIOS/command.toml --results OUT"),
    call("run SCENARIOS/inference.toml --results OUT", "torch"),
    call("run SCENARIOS/digits.toml --results OUT", "torch"),
    call("measure -- true"),
    call("calibrate --results OUT --swap none", "plot", "torch", costly=True),
    call(
        "layers lenet --memory 200M --repeats 1 --results OUT",
        "plot",
        "torch",
        costly=True,
    ),
    call("layers --from SWEEP", "plot"),
    call("export SWEEP"),
    call("export SWEEP --format markdown"),
    call("show SWEEP"),
    call("plot SWEEP", "plot"),
    call("show --study STUDY", "plot"),
    call("data"),
    call("data synthetic", "plot"),
    call("data digits", "plot"),
    call("data cifar10 --folder OUT", "torch", codes=(1,)),
    call("reconcile SWEEP", "plot"),
    call("fit SWEEP", "plot"),
    call("predict --results SWEEP --memory 100M", "plot"),
    call("advise lenet --memory 1G --results OUT", "torch", costly=True),
    call("advise --memory 200M --results OUT -- true", costly=True),
    call("minimum lenet --results OUT", "torch", costly=True),
    call("minimum --confirm 0 --results OUT -- true"),
    call("report SWEEP", "report"),
    call("compare SWEEP SWEEP"),
    call("export SWEEP --frame phases", "plot"),
    call("export SWEEP --format json", "plot"),
    call("export SWEEP -o OUT/trials.parquet", "parquet"),
    call("serve SWEEP --port 0 --json", "serve"),
    # No inventory is there.
    call("fleet quickstart --fleet OUT/fleet.toml", codes=(1,)),
]
#: What brings the same by another way: torch needs numpy and Jinja2, memray needs Jinja2.
OTHERWISE = {
    "data synthetic": [{"torch"}],
    "data digits": [{"torch"}],
    "report SWEEP": [{"plot", "torch"}, {"plot", "heap"}],
}
#: Extras that a page names for more than the verb's least.
OF_USE = {"minimum": {"plot"}, "predict": {"torch"}}

Installer = Callable[..., Path]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installer:

    @functools.cache
    def of(*chosen: str) -> Path:
        return install_lightly(tmp_path_factory.mktemp("install"), chosen)

    return of


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from study_results import partial_records, write_sweep

    root = tmp_path_factory.mktemp("places")
    scenarios = root / "scenarios"
    scenarios.mkdir()
    for name, workload in SCENARIOS.items():
        (scenarios / f"{name}.toml").write_text(_SCENARIO + workload)
    study = write_sweep(root / "study", partial_records(), {})
    made = make(root / "results", Shape(networks={"alexnet": 4}, repeats=2))
    (root / "out").mkdir()
    return {"SCENARIOS": scenarios, "STUDY": study, "SWEEP": made, "OUT": root / "out"}


def has(needed: Call, chosen: tuple[str, ...]) -> bool:
    """Whether the installation has all that the call needs."""
    have = {*chosen, *(["plot"] if {"report", "parquet"} & {*chosen} else [])}
    return any(ways <= have for ways in (needed.needs, *OTHERWISE.get(needed.words, ())))


def answers(
    python: Path, calls: Sequence[Call], places: dict[str, Path]
) -> dict[str, tuple[int, str]]:
    """Words → the exit code in that installation and what it said on stderr.

    All calls are made in one interpreter, which imports pandas or torch once.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with subprocess.Popen(
        [str(python), str(ROOT / "tests" / "installs" / "called.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**env, "MPLBACKEND": "agg"},
        cwd=places["OUT"],
    ) as process:
        told, _ = process.communicate(json.dumps([words_of(one, places) for one in calls]))
    lines = [json.loads(line) for line in told.splitlines()]
    assert len(lines) == len(calls), f"it ended in {calls[len(lines)].words!r}"
    return {one.words: (line["code"], line["said"]) for one, line in zip(calls, lines, strict=True)}


def words_of(one: Call, places: dict[str, Path]) -> list[str]:
    names = "|".join(places)
    return [re.sub(names, lambda m: str(places[m[0]]), word) for word in one.words.split()]


def served(python: Path, one: Call, places: dict[str, Path]) -> tuple[int, str]:
    """The same of a server, which is stopped once it says where it listens."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with subprocess.Popen(
        [str(python), "-m", "edgebench", *words_of(one, places)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        cwd=places["OUT"],
    ) as process:
        assert process.stdout is not None
        if told := process.stdout.readline():
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=250)
            assert json.loads(told)["port"]
            return 0, said
        _, said = process.communicate(timeout=250)
        return process.returncode, said


def judge_all(
    calls: Sequence[Call], chosen: tuple[str, ...], python: Path, places: dict[str, Path]
) -> None:
    found = answers(python, [one for one in calls if one.verb != "serve"], places)
    for one in calls:
        code, said = found[one.words] if one.words in found else served(python, one, places)
        judge(one, chosen, code, said, python)


def judge(one: Call, chosen: tuple[str, ...], code: int, said: str, python: Path) -> None:
    """It worked where all it needs is there; elsewhere it names exactly what is lacking."""
    assert "Traceback" not in said
    if has(one, chosen):
        assert code in one.codes, said
        assert "is not installed" not in said.partition("edgebench: ")[2]
        return
    assert code == 1, said
    named = re.findall(r"^  remedy: (\S+) -m pip install (?:-e )?'\S+\[([\w,]+)\]'$", said, re.M)
    assert len(named) == 1, said
    assert named[0][0] in ("python3", str(python))
    asked = tuple(named[0][1].split(","))
    # One step is enough, and nothing is installed for nothing.
    assert has(one, (*chosen, *asked))
    assert not any(has(one, (*chosen, *asked[:i], *asked[i + 1 :])) for i in range(len(asked)))


def telling(chosen: tuple[str, ...]) -> list[Call]:
    """The calls that need an extra: those that lack one here, and those that work by this one.

    What works without it is tried in the base install.
    """
    tried = [one for one in CALLS if one.needs]
    works = [one for one in tried if one.needs == {*chosen} and not one.costly]
    return [one for one in tried if not has(one, chosen)] + works


@pytest.mark.promise(
    "In the base install and with each single extra every verb works, or names the extra to "
    "install, and installing that one is enough."
)
# Where root can have swap, the doctor tries it for a moment.
@pytest.mark.exclusive
@pytest.mark.own_cgroup
@pytest.mark.timeout(900)
def test_in_the_base_install(installed: Installer, places: dict[str, Path]):
    judge_all(CALLS, (), installed(), places)


@pytest.mark.promise(
    "In the base install and with each single extra every verb works, or names the extra to "
    "install, and installing that one is enough."
)
@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", EXTRAS)
def test_in_each_extra(extra: str, installed: Installer, places: dict[str, Path]):
    judge_all(telling((extra,)), (extra,), installed(extra), places)


@pytest.mark.process
def test_help_needs_nothing_more(installed: Installer, places: dict[str, Path]):
    calls = [call(f"{verb} --help".strip()) for verb in ("", *VERBS)]
    assert set(answers(installed(), calls, places).values()) == {(0, "")}


def test_every_verb_is_tried():
    assert {one.verb for one in CALLS} == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_its_page_says_what_it_needs(verb: str):
    text = (ROOT / "docs" / "verbs" / f"{verb}.md").read_text()
    (needs,) = re.findall(r"^Needs: (.*(?:\n.+)*)", text, re.M)
    calls = [one for one in CALLS if one.verb == verb]
    named = set(re.findall(r"edgebench\[(\w+)\]", needs))
    assert named - OF_USE.get(verb, set()) == set().union(*(c.needs for c in calls))
    assert ("base install" in needs) == any(not c.needs for c in calls)


def imported() -> Iterator[str]:
    """Every module of others' that edgebench imports anywhere."""
    for path in (ROOT / "edgebench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


@pytest.mark.promise("A failed import that no extra provides is not reported as a missing extra.")
@pytest.mark.parametrize(
    # Python 3.10 has no tomllib, and imports tomli in its place.
    "module",
    sorted({*imported()} - {*sys.stdlib_module_names, "edgebench", "tomllib"}),
)
def test_every_import_is_of_an_extra(module: str):
    assert installation.extras_with(module)


@pytest.mark.promise("A failed import that no extra provides is not reported as a missing extra.")
def test_a_bug_is_not_taken_for_a_missing_extra():
    for name in ("edgebench.nowhere", "nobody_has_this", "pandas.nowhere", None):
        assert installation.missing_library_error(ModuleNotFoundError(name=name)) is None
