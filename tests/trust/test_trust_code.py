"""What the source may never do: run data as code, jump with a clock, write or read anywhere."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.source_modules import dotted_name

pytestmark = pytest.mark.xdist_group("source")
PACKAGE = Path(__file__).parents[2] / "edgebench"
_UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
_UNSAFE_CALLS = {
    *("eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "yaml.load"),
    "pandas.read_pickle",
}
#: Calls that unpickle unless this keyword has this value.
_MUST_SAY = {"torch.load": ("weights_only", True), "np.load": ("allow_pickle", False)}
#: The time of day; intervals are the monotonic clock's.
_JUMPING = {"time.time", "time.time_ns", "time.gmtime", "time.localtime"}
#: Where a file's own time is compared with another, or placed on the monotonic line.
_MAY_READ_THE_WALL = ["measures/strategies/__init__.py", "run/sweep/sweep.py"]
#: Only it opens for writing, makes, renames, owns or removes.
_THE_ONE = "safe_files.py"
_MODULES = {
    "os": {
        *("mkdir", "makedirs", "rename", "renames", "replace", "remove", "unlink", "rmdir"),
        *(
            "removedirs",
            "chown",
            "lchown",
            "fchown",
            "chmod",
            "lchmod",
            "fchmod",
            "link",
            "symlink",
        ),
        *("mknod", "mkfifo", "truncate", "utime", "setxattr", "removexattr", "chdir", "umask"),
    },
    "shutil": {
        *("rmtree", "move", "copy", "copy2", "copyfile", "copytree", "copymode", "copystat"),
        *("chown", "make_archive", "unpack_archive"),
    },
    "tempfile": {
        *("mkdtemp", "mkstemp", "mktemp", "TemporaryFile", "NamedTemporaryFile"),
        *("TemporaryDirectory", "SpooledTemporaryFile"),
    },
}
#: Methods that change what their path names, or write to the path they are given.
_METHODS = {
    *("write_text", "write_bytes", "mkdir", "unlink", "rmdir", "chmod", "lchmod"),
    *("symlink_to", "hardlink_to", "link_to", "extractall", "extract", "tofile", "to_excel"),
    *("to_hdf", "to_feather", "to_pickle", "savez", "savez_compressed", "savetxt", "save_file"),
    *("urlretrieve", "savefig", "to_parquet", "dump_stats"),
}
_WRITING_FLAG = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)")
_MODE = re.compile(r"[rbt]*[wxa+][wxabt+]*")
_KERNEL = "a file of the kernel's, where no user can put anything"
_MEMORY = "into memory"
_WORKER = "in the worker, with the workload's own rights, into the folder made for it"
#: Which call where, and why it may.
ALLOWED = {
    ("pytest_plugin/child.py", "open"): "the null device, for what pytest would print",
    ("cgroups/leftovers.py", "write_text"): _KERNEL,
    ("cgroups/v2.py", "mkdir"): _KERNEL,
    ("cgroups/parent.py", "mkdir"): _KERNEL,
    ("cgroups/leftovers.py", "rmdir"): _KERNEL,
    ("cgroups/files.py", "write_text"): _KERNEL,
    ("cgroups/interface.py", "rmdir"): _KERNEL,
    ("cgroups/interface.py", "write_text"): _KERNEL,
    ("cgroups/process_files.py", "write_text"): _KERNEL,
    ("cgroups/join.py", "open"): _KERNEL,
    ("cgroups/join.py", "chdir"): "the workload's folder, as its user",
    ("caller_process.py", "chdir"): "the program's folder, as its user",
    ("cgroups/swap.py", "write_text"): _KERNEL,
    ("layers/stream.py", "write_text"): _KERNEL,
    ("cgroups/v2.py", "open"): _KERNEL,
    ("cgroups/v2.py", "write_text"): _KERNEL,
    ("run/trial/launch.py", "open"): _KERNEL,
    ("measures/strategies/process.py", "open"): _KERNEL,
    ("cli/__init__.py", "open"): "the null device",
    ("report/figures/__init__.py", "chdir"): "to / and back, while a library is imported",
    ("report/figures/style.py", "savefig"): _MEMORY,
    ("cli/show.py", "to_parquet"): _MEMORY,
    ("cli/predict.py", "to_json"): "plain data of an answer",
    ("cgroups/sampler_process.py", "ZipFile"): "into an open file",
    ("workloads/training/data_sources.py", "TemporaryDirectory"): "a new name and folder, 0700",
    ("measures/strategies/engines.py", "write_text"): _WORKER,
}
#: Packages that read what anybody may have made.
_READERS = (
    *("analysis/", "answers/", "boards/", "cli/", "report/", "results/", "scenario/", "serve/"),
    "slowdown/",
)
_READING = {"open", "read_text", "read_bytes", "load", "loadtxt", "fromfile", "read_csv"}
#: How many calls of which file may open something, and why.
_MAY_OPEN = {
    "cli/__init__.py": (2, "the null device"),
    "report/figures/__init__.py": (1, "the current folder, to come back to it"),
    "report/builder.py": (1, "edgebench's own templates"),
    "results/live_file.py": (1, "a file of the kernel's"),
    "serve/helper_process.py": (1, "its standard input"),
    "serve/live.py": (2, "a private folder of the server's user"),
    "serve/app.py": (2, "a private folder of the server's user"),
}
#: A call of that name that opens no file by its path.
_OTHERS = ("archive.open", "gzip.open", "np.load", "ResultsFolder.open", "load", "read_text")


@functools.cache
def sources() -> dict[str, tuple[ast.Call | ast.Import | ast.ImportFrom, ...]]:
    """Each file's calls and imports."""
    kinds = ast.Call, ast.Import, ast.ImportFrom
    return {
        str(path.relative_to(PACKAGE)): tuple(
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def name_of(call: ast.Call) -> str:
    return dotted_name(call.func) or ast.unparse(call.func)


@pytest.mark.promise("No eval, no shell; nothing is unpickled.")
def test_data_is_never_run() -> None:
    for file, nodes in sources().items():
        for node in nodes:
            place = f"{file}:{node.lineno}"
            if not isinstance(node, ast.Call):
                names = [alias.name for alias in node.names]
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
                assert not _UNSAFE_MODULES & {name.split(".")[0] for name in names}, place
            elif ast.unparse(node) != "eval('0')":
                name = name_of(node)
                words = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert name not in _UNSAFE_CALLS, place
                assert words.get("shell", "False") == "False", place
                key, value = _MUST_SAY.get(name, ("", None))
                assert words.get(key) == (str(value) if key else None), place


@pytest.mark.promise(
    "A change of the system clock has no effect: intervals use the monotonic clock, and a "
    "sweep is resumed by its fingerprint, not its date."
)
def test_intervals_are_of_a_clock_that_can_not_jump() -> None:
    """The time of day names things for people; nothing is measured or timed out with it."""
    reading = [
        file
        for file, nodes in sources().items()
        for node in nodes
        if isinstance(node, ast.Call) and name_of(node) in _JUMPING
    ]
    assert reading == _MAY_READ_THE_WALL


def _writes(module: str, name: str, call: ast.Call) -> bool:
    if name in _MODULES.get(module or "tempfile", ()):
        return True
    if module and name in _METHODS:
        return True
    words = [ast.unparse(word) for word in (*call.args, *(k.value for k in call.keywords))]
    if name == "open" and module == "os":
        # Flags that are not written out may be any.
        return any(map(_WRITING_FLAG.search, words)) or "os.O_" not in words[1]
    if name in ("open", "fdopen", "ZipFile", "GzipFile", "memmap") and module != "os":
        return any(map(_MODE.fullmatch, (word.strip("'\"") for word in words if "'" in word)))
    if name == "touch" and module:
        # A path's takes no place in memory.
        return not call.args and module != "self._area"
    if name in ("rename", "replace", "save") and module:
        # pathlib's; text's takes two, a frame's takes names.
        return len(call.args) == 1 and not call.keywords and "'" not in words[0]
    return name in ("to_csv", "to_json") and bool(call.args)


@pytest.mark.promise("Only one module writes files.")
def test_only_one_module_writes() -> None:
    """What is allowed elsewhere is there, and nothing more."""
    found = set()
    for file, nodes in sources().items():
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                assert node.module not in ("os", "shutil"), f"{file}:{node.lineno}"
            if isinstance(node, ast.Call):
                module, _, name = ast.unparse(node.func).rpartition(".")
                if _writes(module, name, node) and file != _THE_ONE:
                    found.add((file, name))
    assert found == set(ALLOWED)


def test_readers_open_files_in_one_way() -> None:
    calls = Counter(
        file
        for file, nodes in sources().items()
        if file.startswith(_READERS)
        for name in (ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call))
        if name.rpartition(".")[2] in _READING and name not in _OTHERS
    )
    assert calls == {file: count for file, (count, _) in _MAY_OPEN.items()}
