"""The rules that keep the project a house (docs: ARCHITECTURE.md), held by tests."""

from __future__ import annotations

import ast
import graphlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from source_modules import SourceModule, dotted_name, read_modules, unused_names

import edgebench
from edgebench.cli.minimum import advise, minimum
from edgebench.run.search.minimum import search_of
from edgebench.scenario.flags import NETWORK_KEYS, PLACE_KEYS

#: One group of all that reads each module: the largest, which xdist begins with.
pytestmark = pytest.mark.xdist_group("source")
ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "edgebench"
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("torch", "pandas", "seaborn", "scipy", "numpy", "matplotlib")
#: What verbs' modules load only once the verb runs.
HEAVY_IN_VERBS = (*HEAVY, "pydantic", "rich", "psutil", "cgroupspy")
#: Run by path under `python -I -S`, before or outside anything of ours: standard library only.
STAND_ALONE = ("cgroups/join.py", "cgroups/sampler.py")
#: Names that several modules may define, since they are called in the same way: programs;
#: backends that train a network. `edgebench.load` is that of results/, `measure` and `minimum` are
#: functions as well as verbs.
INTERFACES = {
    "main",
    "build",
    "import_runtime",
    "load",
    "measure",
    "minimum",
    "REMEDIES",
}
#: A longer module holds more than one notion.
MOST_LINES = 600


def loaded_by(code: str) -> set[str]:
    code += "\nimport json, sys; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def starts_unisolated(row: ast.List | ast.Tuple) -> bool:
    """Whether these words start Python with `-m` or `-c`, but without `-I`."""
    words = [dotted_name(one) or getattr(one, "value", None) for one in row.elts]
    after = words[words.index("sys.executable") + 1 :] if "sys.executable" in words else []
    return ("-m" in after or "-c" in after) and after[0] != "-I"


@pytest.mark.process
def test_imports_keep_to_the_contracts():
    code = (
        "from importlinter.cli import lint_imports as run; exit(run(no_cache=True, no_logo=True))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
def test_the_picture_of_the_packages_is_drawn_from_the_imports():
    command = [sys.executable, "scripts/architecture.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    [
        "import edgebench",
        # As `edgebench VERB --help` does.
        "from edgebench.cli.verbs import VERBS, load_verb\nfor verb in VERBS: load_verb(verb)",
        "import sys; sys.argv = ['edgebench', '--help']\nfrom edgebench.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass",
    ],
    ids=["package", "verbs", "help"],
)
def test_what_is_heavy_is_loaded_only_where_it_is_used(code: str):
    assert not loaded_by(code) & set(HEAVY_IN_VERBS)


@pytest.mark.process
@pytest.mark.parametrize("name", STAND_ALONE)
def test_stand_alone_scripts_use_the_standard_library_only(name: str):
    """What starts inside or beside the cgroup loads alone, without the package or site-packages."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='loaded')\n"
    code += "print(*{name.split('.')[0] for name in sys.modules})"
    command = [sys.executable, "-I", "-S", "-c", code, str(PACKAGE / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= set(sys.stdlib_module_names) | {"__main__"}


@pytest.fixture(scope="module")
def modules() -> list[SourceModule]:
    return read_modules(PACKAGE)


def test_only_the_command_line_prints_and_exits(modules: list[SourceModule]):
    """Below cli/ nothing prints or ends the process, but programs that run on their own."""
    forbidden = {"print", "sys.exit", "exit", "quit", "os._exit"}
    for module in modules:
        calls = {dotted_name(node.func) for node in module.nodes(ast.Call)}
        guards = (ast.unparse(node.test) for node in module.tree.body if isinstance(node, ast.If))
        if not module.path.is_relative_to(PACKAGE / "cli") and "__name__" not in "".join(guards):
            assert not calls & forbidden, module.name


def test_names_that_others_choose_stop_no_reader():
    """A file of the kernel may name a process, mount or file of anybody: no strict UTF-8 there."""
    packages = ("cgroups", "measures", "pytest_plugin", "run", "swap_areas")
    readers = [path for path in MODULES if name_of(path).startswith(packages)]
    assert len(readers) > 40
    assert not [name_of(path) for path in readers if ".read_text()" in path.read_text()]


def test_folders_of_others_are_walked_without_recursion():
    """os.walk is recursive before Python 3.12; what rglob walks is edgebench's own."""
    walkers = {name_of(path) for path in MODULES if "os.walk(" in path.read_text()}
    assert walkers == {"safe_files.py"}


def test_no_program_of_ours_imports_from_the_current_folder(modules: list[SourceModule]):
    """Python runs a module or a text (`-m`, `-c`) in isolation, or as processes.py starts it."""
    found = [
        module.name
        for module in modules
        if any(map(starts_unisolated, module.nodes(ast.List, ast.Tuple)))
    ]
    assert found == ["edgebench.processes"]


def test_modules_stay_readable():
    lines = {name_of(path): path.read_text().count("\n") for path in MODULES}
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_imports_form_no_circle():
    """Of no length, not even within functions; what only a type checker imports does not count."""
    graph = grimp.build_graph("edgebench", exclude_type_checking_imports=True, cache_dir=None)
    uses = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(uses).prepare()


def test_every_name_is_used(modules: list[SourceModule]):
    unused = unused_names(modules)
    assert not [n for n in unused if n.rpartition(".")[2] not in INTERFACES]


def test_a_search_takes_the_same_keys_everywhere():
    """The verb's options and Python's arguments; Python emulates no board."""
    keys = {*search_of("lenet", {}).asked, *search_of(("true",), {}).asked}
    keys -= {"network", "command", "stdin"}
    python = {*inspect.signature(edgebench.minimum).parameters} - {"workload", "network", "results"}
    of_sweeps = {"network", "results", "device", "fresh", "verbose", "as_json"}
    assert python == keys - {"board"}
    assert {option.name for option in minimum.params} - of_sweeps == keys
    assert {option.name for option in advise.params} >= {*NETWORK_KEYS, *PLACE_KEYS}
